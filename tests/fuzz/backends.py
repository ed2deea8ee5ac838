"""Eager against a program on a backend that rounds otherwise, for one random program.

As in :mod:`.oracle`, one program is captured with the first call and serves the others; here these differ in the number of trips, in the
ways that are taken, in sizes where these are symbols, and in how arguments lie in memory and share it. What eager does exactly is
compared exactly; floats may be as far apart as rounding may take them (:mod:`.rounding`), and a call that rounding may send another way is
left out.

What is not compared, and why:

- The names of what makes gradients, in printed text: compiled code has others.
- Gradients that eager refuses to compute since a tensor that they need was changed in place: compiled code may need another one.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import dy2st
from tests.devices import moved
from tests.fuzz.grammar import Program
from tests.fuzz.oracle import (
    Kind,
    OutOfTimeError,
    Verdict,
    _arguments,
    _gradients,
    _identities,
    _line,
    _state,
    _unload,
    calls_of,
    limited,
    load,
    quiet,
    refused,
    target_of,
    without_grad_fn,
)
from tests.fuzz.rounding import Difference, Noise, close, spread, way_of

NAMES = ("inductor", "cpp", "onnxruntime")

_LIMIT = 300
"""Seconds for one program: a compiler takes its time."""

_NOISY_RUNS = 2

Arguments = Callable[[], tuple[tuple[Any, ...], list[Any]]]
"""Makes the arguments of one call, and the tensors whose gradients are wanted."""


@dataclasses.dataclass(frozen=True)
class _Seen:
    """What one call did."""

    values: dict[str, Any]
    error: BaseException | None
    identities: list[tuple[int, int, str]]


def _no_view(value: Any) -> Any:
    """A tensor as compiled code gives it: autograd does not know what it is a view of."""
    if not isinstance(value, torch.Tensor) or not value._is_view():
        return value
    return value.new_empty(0).set_(value.untyped_storage(), value.storage_offset(), value.size(), value.stride())


@contextlib.contextmanager
def uncompiled() -> Iterator[None]:
    """Let PyTorch run the graphs that Inductor would write as C++: many times faster, with all that is around them."""
    from torch._inductor import compile_fx

    def as_it_is(graph: Any, inputs: Sequence[Any], **options: Any) -> Any:
        def run(given: list[Any]) -> Sequence[Any]:
            values = list(given)
            given.clear()
            return [_no_view(value) for value in graph(*values)]

        return run

    before = compile_fx.compile_fx_inner
    compile_fx.compile_fx_inner = as_it_is  # type: ignore[assignment]
    try:
        yield
    finally:
        compile_fx.compile_fx_inner = before


def judge(program: Program, backend: str, *, carries: bool = False) -> Verdict:
    """Compare a program with itself on a backend.

    Args:
        program: a random program.
        backend: its name.
        carries: whether it is one of :mod:`.carries`.
    """
    try:
        _unload(load(program.source))
    except Exception as error:
        return Verdict(Kind.INVALID, str(error))
    try:
        with limited(_LIMIT):
            if carries:
                return _judge(program, backend, *_matrix_calls(program))
            calls, covered = calls_of(program)
            made = [lambda call=call: _arguments(program, call) for call in calls]
            return dataclasses.replace(_judge(program, backend, made, None), covered=covered)
    except OutOfTimeError:
        return Verdict(Kind.TIME_OUT, "time-out")


def _matrix_calls(program: Program) -> tuple[list[Arguments], Any]:
    """Calls of a function of two matrices, a scalar and a number of iterations; and its ``input_spec``."""
    chosen = random.Random(program.source)
    dynamic = chosen.random() < 0.3
    ways = [
        "apart",
        "apart",
        "apart",
        chosen.choice(["apart", "rows", "transposed", "same"]),
        "apart",
        chosen.choice(["same", "rows", "views"]),
    ]
    trips = [chosen.choice([2, 3]), 0, 1, chosen.choice([5, 7, 9]), 2, 3]
    sizes = [2, 2, 2, 2, 2, 2] if not dynamic else [3, 3, 2, 4, 5, 3]
    made = [
        lambda given=(chosen.randrange(10**6), way, number, size): _matrices(*given, grad=program.grad)
        for way, number, size in zip(ways, trips, sizes)
    ]
    size = None if dynamic else 2
    spec = [
        dy2st.InputSpec([size, 3], "float32"),
        dy2st.InputSpec([size, 3], "float32"),
        dy2st.InputSpec([], "float32"),
        dy2st.InputSpec([], "int64"),
    ]
    return made, spec if dynamic else None  # fmt: skip


def _matrices(seed: int, way: str, trips: int, size: int, grad: bool) -> tuple[tuple[Any, ...], list[Any]]:
    numbers = torch.Generator().manual_seed(seed)
    base = moved(torch.randn(2 * size, 3, generator=numbers))
    leaves = [base] if way in ("rows", "views", "same") else [base[:size].clone(), base[size:].clone()]
    if way == "transposed":
        leaves = [leaf.t().contiguous() for leaf in leaves]
    leaves = [leaf.requires_grad_(grad) for leaf in leaves]
    made = [leaf * 1 for leaf in leaves]
    if way == "rows":
        x, y = made[0][:size], made[0][size:]
    elif way == "views":
        x, y = made[0][:size], made[0][1 : size + 1]
    elif way == "same":
        x = y = made[0][:size].clone()
    elif way == "transposed":
        x, y = (each.t() for each in made)
    else:
        x, y = made
    return (x, y, moved(torch.randn((), generator=numbers)), moved(torch.tensor(trips))), leaves


def _judge(program: Program, backend: str, calls: Sequence[Arguments], spec: Any) -> Verdict:
    one, two = load(program.source), load(program.source)
    compared = 0
    held: list[tuple[_Held, _Held]] = []
    try:
        eager = target_of(program, one)
        static = dy2st.to_static(target_of(program, two), backend=backend, input_spec=spec)
        for position, make in enumerate(calls):
            way = _way(program, str(one.__file__), make)
            expected = _observe(eager, program, make)
            found = _observe(static, program, make)
            if isinstance(found.error, dy2st.Dy2stError):
                return refused(found.error, compared)
            if way is None:
                continue
            compared += 1
            verdict = _differs(expected, found, way, (str(one.__file__), str(two.__file__)), f"call {position}")
            if verdict is not None:
                return verdict
            if any(one.changed() != two.changed() for one, two in held):
                return Verdict(Kind.WRONG, "results of an earlier call", f"call {position} changes them")
            held += zip(_changed_results(expected), _changed_results(found))
        return Verdict(Kind.SAME, _took(static, backend), calls=compared)
    finally:
        _unload(one)
        _unload(two)


@dataclasses.dataclass(frozen=True)
class _Held:
    """A result of an earlier call, and what it was then."""

    value: torch.Tensor
    copy: torch.Tensor

    def changed(self) -> bool:
        return not torch.equal(self.value.nan_to_num(), self.copy.nan_to_num())


def _changed_results(seen: _Seen) -> list[_Held]:
    """Change the tensors of a result in place, as a caller may, so that later calls show what else they are."""
    values = [value.detach() for value in tree_leaves(seen.values.get("result")) if isinstance(value, torch.Tensor)]
    for value in values:
        if value.is_floating_point() and not _overlaps(value):
            value.add_(1)
    return [_Held(value, value.clone()) for value in values]


def _overlaps(value: torch.Tensor) -> bool:
    return any(stride == 0 and size > 1 for size, stride in zip(value.size(), value.stride()))


def _took(static: Any, backend: str) -> str:
    """How much of a program the backend took."""
    report = str(getattr(static, "forward", static).report())
    if backend == "inductor":
        return "whole" if "compiled whole, with" in report else "by regions"
    return "taken" if re.search(r"runs in (C\+\+|onnxruntime)", report) else "left to another"


def _way(program: Program, file: str, make: Arguments) -> list[_Seen] | None:
    """What noise makes of a call; ``None`` if it may go another way."""
    seen, lines = [], []
    for seed in range(_NOISY_RUNS + 1):
        module = load(program.source)
        try:
            way: list[int] = []
            with way_of(str(module.__file__), way), Noise(seed) if seed else contextlib.nullcontext():
                seen.append(_observe(target_of(program, module), program, make))
            lines.append(way)
        finally:
            _unload(module)
    if any(way != lines[0] for way in lines) or len({type(each.error) for each in seen}) > 1:
        return None
    try:
        return seen if all(max(spread(each.values, [seen[0].values]), default=0) < 1e-2 for each in seen[1:]) else None
    except Difference:
        return None


def _observe(target: Any, program: Program, make: Arguments) -> _Seen:
    arguments, leaves = make()
    torch.manual_seed(0)
    result, error = None, None
    with quiet() as printed, contextlib.nullcontext() if leaves and program.grad else torch.no_grad():
        try:
            result = target(*arguments)
        except Exception as raised:
            error = raised
    values: dict[str, Any] = {"result": result} if error is None else {}
    if error is None and program.grad:
        try:
            values["gradients"] = _gradients(result, leaves)
        except RuntimeError as raised:  # eager's own: the program wrote to what its backward needs
            values["an error in backward"] = type(raised).__name__
    values |= {"arguments": arguments, "state": _state(target), "printed": without_grad_fn(printed.getvalue())}
    return _Seen(values, error, _identities(result, arguments) if error is None else [])


def _differs(expected: _Seen, found: _Seen, noisy: Sequence[_Seen], files: tuple[str, str], where: str) -> Verdict | None:
    if expected.error is not None or found.error is not None:
        wanted, error = expected.error, found.error
        if type(wanted) is not type(error):  # what it says is the same on all backends, and compared there
            kind = Kind.WRONG if error is None or _line(error, files[1]) is not None else Kind.CRASH
            return Verdict(kind, f"{type(error).__name__} for {type(wanted).__name__}", f"{where}: {wanted!r}, not {error!r}")
        return None
    if "an error in backward" in expected.values and "gradients" in found.values:  # compiled code keeps other tensors for it
        expected.values.pop("an error in backward")
        found.values.pop("gradients")
    if expected.values.keys() != found.values.keys():
        return Verdict(Kind.WRONG, "whether there are gradients", f"{where}: {[*expected.values]}, not {[*found.values]}")
    for what, value in expected.values.items():
        try:
            close(value, found.values[what], spread(noisy[0].values[what], [each.values[what] for each in noisy[1:]]), what)
        except Difference as error:
            return Verdict(Kind.WRONG, what, f"{where}: {error.what}")
    if expected.identities != found.identities:
        return Verdict(Kind.WRONG, "identity", f"{where}: {expected.identities}, not {found.identities}")
    return None
