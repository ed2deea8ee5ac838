"""Who runs a workload: eager PyTorch, the backends of dy2st that there are, and PyTorch's own compilers."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch

import dy2st
from benchmarks.case import Case
from dy2st_runtime import executors


class Refused(Exception):
    """A peer does not take a workload."""


def _eager(case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _dy2st(backend: str, case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    return dy2st.to_static(function, backend=backend)


def _compile(case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function)


def _script(case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it is deprecated
        return torch.jit.script(function)  # type: ignore[no-any-return]


def _hop(case: Case, function: Callable[..., Any]) -> Callable[..., Any]:
    if case.hop is None:
        raise Refused("not written by hand")
    return torch.compile(case.hop, fullgraph=True)


Peer = Callable[[Case, Callable[..., Any]], Callable[..., Any]]


def _all() -> dict[str, Peer]:
    own = {f"dy2st.{name}": functools.partial(_dy2st, name) for name in executors.available()}
    return {"eager": _eager, **own, "torch.compile": _compile, "torch.jit": _script, "hop": _hop}


PEERS = _all()
"""Every peer that is there, by name; each makes its own of a function or module."""
