"""The oracle of the program tests: eager Python.

:func:`agree` captures a function with its first arguments, runs it with all of them, on each executor, and compares everything a user
can see with the function as it is written: results (bit for bit, with their Python types), gradients of inputs and parameters, buffers and other state of
modules, the random state, printed text, and exceptions with their type and message.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import io
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves, tree_map

import dy2st
from dy2st_runtime import executors
from tests.devices import is_about_devices, moved, random_state, seed

_asked = os.environ.get("DY2ST_BACKEND")
EXECUTORS = (_asked,) if _asked else ("native", "python")
"""What runs the programs under test, one after the other."""

_chosen = [EXECUTORS[0]]


@dataclasses.dataclass
class Outcome:
    """What one call did."""

    result: Any
    error: BaseException | None
    grads: list[torch.Tensor | None]
    inputs: list[Any]
    state: dict[str, Any]
    random: torch.Tensor
    printed: str
    objects: list[tuple[str, str]]
    """For each tensor, list and dict of the arguments and the result, the first place where that object stands."""


def agree(
    make: Callable[..., Any],
    calls: Sequence[Any],
    *,
    programs: int | None = 1,
    spec: Sequence[Any] | None = None,
    static: Any = None,
) -> Any:
    """Check that a function or module does the same as a program and as it is written.

    Args:
        make: the function, or an ``nn.Module``.
        calls: the arguments of each call, a tuple (or one argument); the first is captured. All are made once for each executor.
        programs: how many programs must have been captured in the end; ``None`` for any number.
        spec: the ``input_spec``.
        static: the static version, if it exists already.

    Returns:
        The static function or module.
    """
    make = moved(make) if isinstance(make, torch.nn.Module) else make
    eager = copy.deepcopy(make) if isinstance(make, torch.nn.Module) else make
    if static is None:
        static = dy2st.to_static(copy.deepcopy(make) if isinstance(make, torch.nn.Module) else make, input_spec=spec)
    for executor in EXECUTORS:
        with _running(executor):
            for position, args in enumerate(calls):
                expected = observe(eager, args)
                if is_about_devices(expected.error):
                    pytest.skip("makes tensors on the CPU")
                found = observe(static, args)
                _compare(expected, found, f"{executor}, call {position} with {args}")
        if executor == EXECUTORS[0]:
            _check_programs(static.forward if isinstance(static, torch.nn.Module) else static, programs)
    return static


def _check_programs(static: Any, programs: int | None) -> None:
    if programs is not None:
        assert len(static.program_cache) == programs, f"{len(static.program_cache)} programs, expected {programs}"
    for captured in static.program_cache:
        dy2st.verify(captured.program)


@contextlib.contextmanager
def _running(executor: str) -> Iterator[None]:
    """Run programs that ask for no executor with this one, also those that ran with another one before."""
    default, chosen = executors.DEFAULT, _chosen[0]
    executors.BACKENDS["chosen"] = executors.Backend(lambda program: lambda values: executors.runner(program, _chosen[0])(values))
    executors.DEFAULT, _chosen[0] = "chosen", executor
    try:
        yield
    finally:
        executors.DEFAULT, _chosen[0] = default, chosen


def observe(function: Any, call: Any) -> Outcome:
    """Call a function once, with fresh copies of its arguments, and see what it does.

    Args:
        function: a function or an ``nn.Module``, static or not.
        call: its arguments, a tuple (or one argument).

    Returns:
        What it did.
    """
    args = _fresh(call if isinstance(call, tuple) else (call,))
    seed(0)
    leaves = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor)]
    result, error = None, None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*args)
        except (Exception, AssertionError) as raised:
            error = raised
    random = random_state()
    wanted = [leaf for leaf in leaves if leaf.requires_grad and leaf.is_leaf]
    if isinstance(function, torch.nn.Module):
        wanted += [p for p in function.parameters() if p.requires_grad]
    grads = _gradients(result, wanted) if error is None else []
    state = {}
    if isinstance(function, torch.nn.Module):
        state = {name: value.clone() for name, value in function.state_dict().items()}
    return Outcome(result, error, grads, leaves, state, random, printed.getvalue(), _objects((args, result)))


def _objects(values: Any) -> list[tuple[str, str]]:
    first: dict[int, str] = {}
    found: list[tuple[str, str]] = []

    def visit(value: Any, path: str) -> None:
        if isinstance(value, (torch.Tensor, list, dict)):
            found.append((path, first.setdefault(id(value), path)))
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (list, tuple)) else ()
        for key, part in parts:
            visit(part, f"{path}[{key!r}]")

    visit(values, "")
    return found


def _fresh(args: Any) -> Any:
    """Copies of the arguments that keep which of them are one tensor."""
    made: dict[int, torch.Tensor] = {}

    def copied(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) not in made:
            made[id(leaf)] = moved(leaf.detach()).clone().requires_grad_(leaf.requires_grad)
        return made[id(leaf)]

    return tree_map(copied, args)


def _gradients(result: Any, wanted: list[torch.Tensor]) -> list[torch.Tensor | None]:
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not outputs or not wanted:
        return [None] * len(wanted)
    total = sum(
        (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype, device=out.device).view_as(out)).sum() for out in outputs
    )
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def _compare(expected: Outcome, found: Outcome, where: str) -> None:
    if expected.error is not None:
        assert found.error is not None, f"{where}: eager raised {expected.error!r}, the program gave {found.result!r}"
        assert type(found.error) is type(expected.error), f"{where}: {expected.error!r}, but {found.error!r}"
        assert str(found.error) == str(expected.error), f"{where}: {expected.error}, but {found.error}"
    elif found.error is not None:
        raise AssertionError(f"{where}: eager gave {expected.result!r}") from found.error
    else:
        same(expected.result, found.result, where)
    assert expected.objects == found.objects, f"{where}: other objects are the same: {found.objects}, expected {expected.objects}"
    same(expected.grads, found.grads, f"{where}: gradients")
    same(expected.inputs, found.inputs, f"{where}: inputs afterwards")
    same(expected.state, found.state, f"{where}: state")
    assert torch.equal(expected.random, found.random), f"{where}: the random state differs"
    assert expected.printed == found.printed, f"{where}: printed {found.printed!r}, expected {expected.printed!r}"


def same_outcome(a: Outcome, b: Outcome) -> bool:
    """Whether two calls did the same."""
    try:
        _compare(a, b, "")
    except AssertionError:
        return False
    return True


def same(a: Any, b: Any, where: str = "") -> None:
    """Compare two results with everything in them, bit for bit."""
    assert type(a) is type(b), f"{where}: {a!r} and {b!r}"
    if isinstance(a, torch.Tensor):
        assert a.dtype == b.dtype and a.shape == b.shape, f"{where}: {a} and {b}"
        x, y = a.detach(), b.detach()
        assert torch.equal(torch.isnan(x), torch.isnan(y)) and torch.equal(torch.nan_to_num(x), torch.nan_to_num(y)), (
            f"{where}: {a} and {b}"
        )
        assert a.requires_grad == b.requires_grad, f"{where}: requires_grad of {a} and {b}"
    elif isinstance(a, dict):
        assert list(a) == list(b), f"{where}: {a} and {b}"
        for key in a:
            same(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, (list, tuple, collections.deque)):
        assert getattr(a, "maxlen", None) == getattr(b, "maxlen", None), where
        assert len(a) == len(b), f"{where}: {a} and {b}"
        for index, (x, y) in enumerate(zip(a, b)):
            same(x, y, f"{where}[{index}]")
    elif dataclasses.is_dataclass(a) and not isinstance(a, type):
        same(vars(a), vars(b), where)
    elif isinstance(a, float) and a != a:
        assert b != b, f"{where}: {a} and {b}"
    else:
        assert a == b, f"{where}: {a!r} and {b!r}"
