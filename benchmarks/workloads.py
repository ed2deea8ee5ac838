"""All workloads, in the order of the table."""

from __future__ import annotations

from benchmarks import loops, models, ode, recurrent, steps
from benchmarks.case import WORKLOADS

assert loops and ode and recurrent and models and steps, "importing them registers their workloads"

__all__ = ["WORKLOADS"]
