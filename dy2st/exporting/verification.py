"""Whether a written file does what the program does, and the program what eager Python does: on calls that go many ways."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import time
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from dy2st import config
from dy2st.errors import ExportError
from dy2st.exporting.comparison import Difference, compare, tensors_of
from dy2st.exporting.inputs import generated
from dy2st.exporting.path_coverage import PathRecorder
from dy2st.exporting.targets import Runner
from dy2st.lowering.arguments import as_tensors, bound
from dy2st.lowering.context import brief
from dy2st.lowering.module import kept_name
from dy2st_runtime.archive import archive
from dy2st_runtime.archive.state import State
from dy2st_runtime.call import effects
from dy2st_runtime.ir.paths import parse
from dy2st_runtime.ir.program import Program
from dy2st_runtime.module import LoadedModule

Call = tuple[tuple[Any, ...], dict[str, Any]]

_TRIES = 48
"""How many calls are made up to find ways through the program."""

_ENOUGH = 4
"""How many calls are compared at least, where there are as many."""

_SECONDS = 6.0
"""How long calls are tried out."""

_MOST_STEPS = 5_000
"""How many loop iterations a call may make that is tried out."""


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """See :func:`dy2st.export`."""

    inputs: Sequence[Any] | None = None
    verify: bool = True
    max_growth: int | None = None
    rtol: float | None = None
    atol: float | None = None
    opset: int | None = None
    method: str = archive.FORWARD
    examples: Sequence[Call] = ()


def own(state: State) -> State:
    """Return a copy of values: what one run changes is not seen by another."""
    memo: dict[int, Any] = {}
    return tuple(dataclasses.replace(entry, value=copy.deepcopy(entry.value, memo)) for entry in state)


@dataclasses.dataclass
class Checked:
    """What was compared.

    Attributes:
        calls: how many calls.
        largest: the largest difference of two numbers.
        against: see :attr:`dy2st.ExportReport.compared_with`.
        coverage: the ways that the calls went.
    """

    calls: int = 0
    largest: float = 0.0
    against: str = "nothing"
    coverage: list[str] = dataclasses.field(default_factory=list)


def verified(program: Program, state: State, live: Any, run: Runner, options: ExportOptions) -> Checked:
    """Compare the written file with the program, and with eager where it is there: results, arguments afterwards, and state.

    Raises:
        ExportError: they differ, or no call could be made to compare them.
    """
    recorder = PathRecorder(program)
    calls = _chosen(recorder, state, options)
    reference, eager = LoadedModule([program], own(state), "python").eval(), _eager(live)
    done = Checked(against="eager" if eager is not None else "program", coverage=[str(site) for site in recorder.sites])
    for args, kwargs in (bound(program, *call) for call in calls):
        expected = _results(reference, args, kwargs)
        if eager is not None:
            problem = _like_eager(program, eager, reference, expected, (args, kwargs), options).problem
            if problem is not None:
                raise ExportError(f"{program.name} differs from eager Python: {problem}; {_shown(args, kwargs)}", program.origin)
        try:
            result = _results(lambda *args, **kwargs: run.call(*as_tensors(program, args, kwargs)), args, kwargs)
        except Exception as error:
            raise ExportError(
                f"the exported {program.name} fails where the program does not: {type(error).__name__}: "
                f"{brief(error)}; {_shown(args, kwargs)}",
                program.origin,
            ) from error
        difference = _either(
            compare(result, expected, options.rtol, options.atol),
            _compare_states(_held(program, run), _state(program, reference), options),
        )
        if difference.problem is not None:
            raise ExportError(
                f"the exported {program.name} is not right: {difference.problem}; {_shown(args, kwargs)}; "
                "rtol= and atol= say how far it may be off",
                program.origin,
            )
        done.calls, done.largest = done.calls + 1, max(done.largest, difference.largest)
    return done


def _like_eager(
    program: Program,
    eager: Callable[..., Any],
    reference: LoadedModule,
    expected: Sequence[torch.Tensor],
    call: Call,
    options: ExportOptions,
) -> Difference:
    results = compare(_results(_as_written(eager), *call), expected, options.rtol, options.atol)
    owner = getattr(eager, "__self__", eager)
    if not isinstance(owner, torch.nn.Module):
        return results
    return _either(results, _compare_states(_state(program, owner), _state(program, reference), options))


def _either(first: Difference, second: Difference) -> Difference:
    return Difference(max(first.largest, second.largest), first.problem or second.problem)


def _results(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[torch.Tensor]:
    """Return what a call gives, and then its arguments as they are afterwards."""
    mine, named = _fresh(args), _fresh(kwargs)
    torch.manual_seed(0)
    with torch.no_grad():
        results = tensors_of(function(*mine, **named))
    return [*results, *tensors_of((mine, named))]


def _eager(live: Any) -> Callable[..., Any] | None:
    """Return the original for Python to run, on a copy of its state in evaluation mode; ``None`` where it cannot be copied."""
    function: Callable[..., Any] | None = getattr(live, "__dy2st_original__", live)
    owner = getattr(function, "__self__", function)
    if not isinstance(owner, torch.nn.Module):
        return function
    try:
        mine = copy.deepcopy(owner).eval()
    except Exception:
        return None
    return types.MethodType(function.__func__, mine) if isinstance(function, types.MethodType) else mine


def _as_written(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        before = config.is_enabled()
        config.set_enabled(False)
        try:
            return function(*args, **kwargs)
        finally:
            config.set_enabled(before)

    return call


# -- state -------------------------------------------------------------------------------------------------------------------


def _state(program: Program, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the state of a program as a module has it now; constants belong to no module."""
    results = {}
    for slot in program.states:
        if slot.kind == "constant":
            continue
        path = parse(slot.name, items=slot.kind in ("attribute", "number"))
        owner: Any = module
        for name in path.owner:
            owner = getattr(owner, name)
        (results[slot.name],) = tensors_of(effects.item(getattr(owner, path.name), path.items))
    return results


def _held(program: Program, run: Runner) -> dict[str, torch.Tensor]:
    """Return the state of a program as a written file has it, where it has any."""
    held = run.state()
    names = {slot.name: kept_name(program, number) for number, slot in enumerate(program.states)}
    return {name: held[kept] for name, kept in names.items() if kept in held}


def _compare_states(
    results: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor], options: ExportOptions
) -> Difference:
    names = [name for name in expected if name in results]
    return compare(
        [results[name] for name in names],
        [expected[name] for name in names],
        options.rtol,
        options.atol,
        [f"{name} after the call" for name in names],
    )


# -- calls -------------------------------------------------------------------------------------------------------------------


def _chosen(recorder: PathRecorder, state: State, options: ExportOptions) -> list[Call]:
    """Return the calls to compare: those given, or of many made-up ones those that go new ways, and a few more.

    Raises:
        ExportError: the program takes none of them.
    """
    given = None if options.inputs is None else [_as_call(item) for item in options.inputs]
    module = LoadedModule([recorder.program], own(state), "python", _MOST_STEPS).eval()
    chosen: list[Call] = []
    problem: Exception | None = None
    start = time.monotonic()
    for args, kwargs in given or itertools.chain(options.examples, generated(recorder.program, _TRIES)):
        if given is None and time.monotonic() - start > _SECONDS:
            break
        before, seen = recorder.covered(), [set(site.seen) for site in recorder.sites]
        try:
            with torch.no_grad():
                module(*_fresh(args), **_fresh(kwargs))
        except Exception as error:
            problem = problem or error
            for site, old in zip(recorder.sites, seen):
                site.seen = old
            module = LoadedModule([recorder.program], own(state), "python", _MOST_STEPS).eval()
            if given is not None:
                raise ExportError(
                    f"{recorder.program.name} fails with inputs given to verify it: {type(error).__name__}: {error}"
                ) from error
            continue
        if given is not None or len(chosen) < _ENOUGH or recorder.covered() != before:
            chosen.append((args, kwargs))
        else:
            for site, old in zip(recorder.sites, seen):
                site.seen = old
    if not chosen:
        raise ExportError(
            f"{recorder.program.name} takes none of the made-up arguments "
            f"({type(problem).__name__}: {problem}); pass inputs=, a list of calls' arguments, to verify the result with, "
            "or verify=False",
            recorder.program.origin,
        )
    return chosen


def _as_call(item: Any) -> Call:
    if isinstance(item, dict):
        return (), item
    return (tuple(item) if isinstance(item, (tuple, list)) else (item,)), {}


def _fresh(value: Any) -> Any:
    """Return arguments that a call may change."""
    return copy.deepcopy(value)


def _shown(args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    def one(value: Any) -> str:
        if isinstance(value, torch.Tensor) and value.numel() > 8:
            return f"tensor of {list(value.shape)}"
        return " ".join(repr(value).split())

    return "called with " + ", ".join([*map(one, args), *(f"{name}={one(value)}" for name, value in kwargs.items())])
