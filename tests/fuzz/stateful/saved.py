"""Eager against a program that is saved and loaded, with the same arguments.

A loaded program has the state that there was when it was saved, for itself: what happens to the saved module afterwards is nothing to
it. So the arguments of the calls come from copies of the two worlds, and what happens between calls happens to these copies. After each
call the result, what is printed, the arguments, and all state that the loaded module has by name are compared with the same of eager,
with which of them are one object.

What is not compared, and why:

- Calls with arguments of another signature than the first call's: the loaded program refuses them.
- Calls that require gradients, or run in another mode, of programs that ask about such things: saving warns that they have one answer.
- Further keyword arguments: an ``input_spec`` does not name them.
- What comes after an exception: what a saved program writes outside, it writes at its end.
- The classes of results, which are others of the same name, and state that a loaded module keeps under no name.
"""

from __future__ import annotations

import copy
import os
import tempfile
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

import dy2st
from dy2st.capture.values.signals import Signal
from tests.fuzz.oracle import Kind, Verdict, _trace, quiet
from tests.fuzz.stateful.comparison import Given, World, compared, different, outcome, told
from tests.fuzz.stateful.picture import Numbers, Picture
from tests.fuzz.stateful.program import Call, Program

_OF_CLASSES = ("Box", "Kept", "Net", "program", "far")
"""Words of changes that are not of arguments alone."""


class Caller:
    """What calls a program: a copy of the objects of a world.

    Args:
        world: the world, as it is when the program is saved.
    """

    def __init__(self, world: World) -> None:
        data = {name: value for name, value in world.space.items() if _is_data(name, value)}
        self.space = {**world.space, **copy.deepcopy(data)}
        self.numbers = Numbers()
        self.module = world.module.__name__

    def arguments(self, call: Call) -> Given:
        """New arguments for a call, without those that have a name."""
        return eval(f"(lambda *args, **kwargs: (args, {{}}))({call.arguments})", self.space)  # type: ignore[no-any-return]

    def change(self, call: Call) -> str:
        """Do what happens before a call, as far as it is about arguments; the words of an exception if it fails."""
        torch.manual_seed(1)
        try:
            for line in call.before:
                if not any(word in line for word in _OF_CLASSES):
                    exec(line, self.space)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def picture(self, result: Any, given: Given, state: Sequence[tuple[str, Any]]) -> list[str]:
        """All that can be reached."""
        seen = Picture(self.numbers, self.module, classes=False)
        for name, value in state:
            seen.add(name, value)
        for key, value in [*enumerate(given[0]), *given[1].items()]:
            seen.add(f"argument {key}", value)
        seen.add("result", result)
        return [line.replace(self.module, "module") for line in seen.lines]


def _is_data(name: str, value: Any) -> bool:
    return not name.startswith("__") and name != "program" and not isinstance(value, (types.ModuleType, type, types.FunctionType))


def judge(program: Program, eager: World, static: World) -> Verdict:
    """Compare a program with itself after saving and loading."""
    caller = Caller(static)  # the copy may run methods of the user's
    before = static.picture(((), {}), {})
    made = _loaded(program, static, caller)
    if isinstance(made, Verdict):
        return made
    if static.picture(((), {}), {}) != before:
        return Verdict(Kind.WRONG, "saving changes the world")
    loaded, asks = made
    callers = Caller(eager), Caller(static)
    judged = 0
    for position, call in enumerate(program.calls):
        where = f"call {position} with {call.arguments}"
        if callers[0].change(call) != callers[1].change(call):
            return Verdict(Kind.WRONG, "a change between calls fails", where, calls=position)
        given, other = callers[0].arguments(call), callers[1].arguments(call)
        if asks and (call.mode or "requires_grad" in call.arguments):
            continue
        found = outcome(loaded, other, call)
        if isinstance(found[1], dy2st.SignatureError):
            continue
        if isinstance(found[1], dy2st.Dy2stError):
            return told(found[1], position, static)
        expected = outcome(eager.target, given, call)
        verdict = compared(expected, found, where, static)
        if verdict is not None:
            return verdict
        if expected[1] is not None:
            break
        pictures = [
            (lambda: callers[0].picture(expected[0], given, list(_named(loaded, _root(eager))))),  # noqa: B023
            (lambda: callers[1].picture(found[0], other, list(_named(loaded, loaded)))),  # noqa: B023
        ]
        if (verdict := different(pictures, where)) is not None:
            return verdict
        judged += 1
    return Verdict(Kind.SAME, calls=judged)


def _loaded(program: Program, world: World, caller: Caller) -> Verdict | tuple[Any, bool]:
    """The loaded program, and whether it has one answer to what differs from call to call."""
    call = program.calls[0]
    try:
        arguments = caller.arguments(call)
    except Exception as error:
        return Verdict(Kind.INVALID, str(error))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        path = os.path.join(folder, "program.dy2st")
        try:
            with quiet():
                given = [a.detach() if isinstance(a, torch.Tensor) else a for a in arguments[0]]
                dy2st.save(dy2st.to_static(world.target), path, given)
                loaded = dy2st.load(path)
        except dy2st.Dy2stError as error:
            return told(error, 0, world)
        except (Exception, Signal) as error:
            expected = outcome(world.target, arguments, call)[1]
            if type(error) is type(expected):
                return Verdict(Kind.SAME, "cannot be saved")
            return Verdict(Kind.CRASH, f"saving: {type(error).__name__}: {str(error)[:60]}", _trace(error))
    return loaded, any("this asks" in str(warning.message) for warning in warned)


def _root(world: World) -> Any:
    """The object that a program is bound to."""
    target = world.target
    return target if isinstance(target, torch.nn.Module) else getattr(target, "__self__", None)


def _named(loaded: torch.nn.Module, root: Any) -> Iterator[tuple[str, Any]]:
    """What a loaded module has by name, in a module or object."""
    for prefix, module in loaded.named_modules():
        names = [*module._parameters, *module._buffers, *(name for name in vars(module) if not name.startswith("_"))]
        owner = root
        for step in filter(None, prefix.split(".")):
            owner = getattr(owner, step)
        for name in sorted(names):
            if name != "training":
                yield f"self.{prefix}.{name}".replace("..", "."), getattr(owner, name)
