"""Runs a program for many examples at once: operations are done for all of them together, branches and loops part them."""

from dy2st_runtime.batching.batched import Batched
from dy2st_runtime.batching.of_loaded import batch

__all__ = ["Batched", "batch"]
