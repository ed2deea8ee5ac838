"""Eager on each example alone against one call of a batched function, for one random program.

The calls of the program are the examples. Compared are the result and the exception of each, the state of each where the program is a
module, what it leaves in its arguments, and gradients: where products and sums of several examples are done at once, up to rounding.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

import dy2st
from tests.fuzz import oracle
from tests.fuzz.grammar import Program
from tests.fuzz.oracle import Kind, Verdict


def judge(program: Program) -> Verdict:
    """Compare a program on several examples with itself on each of them."""
    try:
        with oracle.limited():
            calls, covered = oracle.calls_of(program)
            verdict = _judge(program, calls)
    except oracle.OutOfTimeError:
        return Verdict(Kind.TIME_OUT, "time-out")
    return dataclasses.replace(verdict, covered=covered)


def _judge(program: Program, calls: Sequence[oracle.Call]) -> Verdict:
    module = oracle.load(program.source)
    dtype = torch.float32 if program.single else torch.float64
    columns = [torch.tensor([call[at] for call in calls], dtype=dtype if at < 2 else None) for at in range(3)]
    target = oracle.target_of(program, module)
    before = {name: copy.deepcopy(value) for name, value in _state(target).items()}
    batched = dy2st.batch(target, errors="return")
    leaves = [column.clone().requires_grad_(program.grad) for column in columns[:2]]
    try:
        with oracle.quiet():
            arguments = (*(leaf * 1 for leaf in leaves), columns[2].clone())
            results = batched(*arguments)
    except dy2st.Dy2stError as error:
        return oracle.refused(error, 0)
    except Exception as error:
        if "A view was created in no_grad mode" in str(error):
            return Verdict(Kind.SAME, "a tensor that autograd lets nobody read")
        first = _alone(program, [column[0] for column in columns])
        if isinstance(first.error, Exception) and type(first.error) is type(error):
            return Verdict(Kind.SAME, "raises at capture")
        return Verdict(Kind.CRASH, f"batched: {type(error).__name__}", repr(error))
    for position in range(len(calls)):
        expected = _alone(program, [column[position] for column in columns])
        where = f"example {position} of {len(calls)} with {calls[position]}"
        if expected.draws:
            return Verdict(Kind.SAME, "draws")
        if oracle.is_refused_in_place(expected.error) or "modified inplace" in str(expected.error):
            continue  # for where it lies in memory, which is another place in a batch
        found = results[position]
        if isinstance(found, dy2st.Dy2stError):
            return oracle.refused(found, position)
        verdict = _differ(expected, found, where)
        if verdict is None and expected.error is None:
            after = [argument[position] for argument in arguments]
            verdict = _compared(after, expected.arguments, f"{where}: arguments afterwards")
            if verdict is None and isinstance(target, torch.nn.Module):
                held = {name: value[position] for name, value in batched.state.items()}
                verdict = _compared(
                    {name: held.get(name, before[name]) for name in expected.state}, expected.state, f"{where}: state"
                )
        if verdict is not None:
            return verdict
    return Verdict(Kind.SAME, calls=len(calls))


@dataclasses.dataclass
class _Seen:
    result: Any
    error: BaseException | None
    arguments: list[Any]
    state: dict[str, Any]
    draws: bool


def _state(target: Any) -> dict[str, Any]:
    if not isinstance(target, torch.nn.Module):
        return {}
    return {"t": target.t, "c": target.c} if hasattr(target, "c") else {}


def _alone(program: Program, row: Sequence[torch.Tensor]) -> _Seen:
    target = oracle.target_of(program, oracle.load(program.source))  # tensors that are defaults are its own
    arguments = [value.clone().requires_grad_(program.grad and value.is_floating_point()) * 1 for value in row]
    random, result, error = torch.get_rng_state(), None, None
    with oracle.quiet(), contextlib.ExitStack():
        try:
            result = target(*arguments)
        except Exception as raised:
            error = raised
    return _Seen(result, error, arguments, _state(target), not torch.equal(random, torch.get_rng_state()))


def _differ(expected: _Seen, found: Any, where: str) -> Verdict | None:
    if expected.error is not None or isinstance(found, BaseException):
        if type(expected.error) is not type(found):
            wanted = expected.result if expected.error is None else expected.error
            return Verdict(Kind.WRONG, "batched: exception", f"{where}: eager gives {wanted!r}, batched {found!r}")
        return None
    return _compared(found, expected.result, f"{where}: result")


def _compared(found: Any, expected: Any, where: str) -> Verdict | None:
    one, two = tree_flatten(found)[0], tree_flatten(expected)[0]
    if len(one) != len(two):
        return Verdict(Kind.WRONG, "batched: structure", f"{where}: eager {expected}, batched {found}")
    for a, b in zip(one, two):
        if isinstance(a, torch.Tensor) and isinstance(b, (bool, int, float)):
            a = a.item()
            if type(a) is not type(b):
                return Verdict(Kind.WRONG, "batched: kind", f"{where}: eager {b!r}, batched {a!r}")
        if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
            is_same = a.dtype == b.dtype and a.shape == b.shape and torch.allclose(a, b, rtol=1e-6, equal_nan=True)
        elif isinstance(a, float) and isinstance(b, float):
            is_same = a == b or a != a or abs(a - b) <= 1e-6 * abs(b)
        else:
            is_same = _is_plain_same(a, b)
        if not is_same:
            return Verdict(Kind.WRONG, "batched: " + where.rpartition(": ")[2], f"{where}: eager {b!r}, batched {a!r}")
    return None


def _is_plain_same(a: Any, b: Any) -> bool:
    if hasattr(b, "__dict__") and type(a).__name__ == type(b).__name__ and not isinstance(b, type):
        return _compared(vars(a), vars(b), "") is None
    return type(a) is type(b) and (a == b or callable(a) or not isinstance(a, (bool, int, str)))
