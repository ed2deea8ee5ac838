"""What two worlds of a program with state show: objects, results, exceptions and printed text, and where they differ."""

from __future__ import annotations

import contextlib
import operator
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import torch

import dy2st
from dy2st.capture.values.signals import Signal
from tests.devices import seed
from tests.fuzz.oracle import Kind, Verdict, _trace, _unload, load, quiet, refused, without_grad_fn
from tests.fuzz.stateful.picture import Numbers, Picture
from tests.fuzz.stateful.program import Call, Program

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call."""

Same = Callable[[str, str], bool]
"""Compares two texts."""

_NAMES = re.compile(r"fuzz_\d+_\d+")
"""The names of the modules of the worlds."""
_HIDDEN = ("program", "STEP")


class World:
    """One module with the objects of a program, and what was seen of it.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        seed(0)
        self.module = load(program.source)
        self.space = self.module.__dict__
        self.numbers = Numbers()
        self.target = self.space["program"]
        self.function: types.FunctionType = _function(self.target)
        assert isinstance(self.function, types.FunctionType)

    def change(self, call: Call) -> str:
        """Do what happens before a call; the words of an exception if it fails."""
        seed(1)
        try:
            for line in call.before:
                exec(line, self.space)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return ""

    def arguments(self, call: Call) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """New arguments for a call, and those with a name."""
        return eval(f"(lambda *args, **kwargs: (args, kwargs))({call.arguments})", self.space)  # type: ignore[no-any-return]

    def picture(self, given: Given, more: dict[str, Any], values: bool = True, fresh: bool = False) -> list[str]:
        """All that can be reached."""
        seen = Picture(Numbers() if fresh else self.numbers, self.module.__name__, values)
        for name, value in sorted(more.items()):
            seen.add(name, value)
        for key, value in [*enumerate(given[0]), *given[1].items()]:
            seen.add(f"argument {key}", value)
        self._add_state(seen)
        return [line.replace(self.module.__name__, "module") for line in seen.lines]

    def _add_state(self, seen: Picture) -> None:
        for name, value in self.space.items():
            if not name.startswith("_") and name not in _HIDDEN and not isinstance(value, types.ModuleType):
                seen.add(name, value)
        for name, cell in zip(self.function.__code__.co_freevars, self.function.__closure__ or ()):
            with contextlib.suppress(ValueError):
                seen.add(f"variable {name}", cell.cell_contents)
        if "default" in self.space:
            seen.add("defaults of default", self.space["default"].__defaults__)
        seen.add("defaults", self.function.__defaults__)
        if isinstance(self.space["program"], torch.nn.Module):
            seen.add("module", self.space["program"])

    def close(self) -> None:
        """Forget the source."""
        _unload(self.module)


def _function(target: Any) -> types.FunctionType:
    if isinstance(target, torch.nn.Module):
        return type(target).forward
    return getattr(target, "__func__", target)


def outcome(target: Any, arguments: Given, call: Call) -> tuple[Any, BaseException | None, str]:
    """The result of a call, its exception, and what it prints."""
    seed(0)
    mode = eval(call.mode) if call.mode else contextlib.nullcontext()
    with quiet() as printed, mode:
        try:
            result = target(*arguments[0], **arguments[1])
            return result, None, without_grad_fn(printed.getvalue())
        except (Exception, Signal) as error:
            return None, error, without_grad_fn(printed.getvalue())


def told(error: dy2st.Dy2stError, position: int, world: World) -> Verdict:
    """What to say of an error of ours."""
    if isinstance(error, getattr(dy2st, "LeakError", ())):
        kind = re.search(r"is (a [\w ]+)", str(error))
        return Verdict(Kind.WRONG, f"left behind: {kind[1] if kind else ''}", str(error), calls=position)
    verdict = refused(error, position)
    if (
        verdict.kind is Kind.REFUSED
        and str(world.module.__file__) not in str(error)
        and not isinstance(error, (dy2st.SaveError, dy2st.SignatureError))
    ):
        return Verdict(Kind.CRASH, f"no line of the user's: {verdict.reason}", str(error), calls=position)
    return verdict


def compared(expected: Any, found: Any, where: str, world: World, same: Same = operator.eq) -> Verdict | None:
    """What differs in two outcomes, of eager and of what is static, but for what they reach."""
    wanted, error = expected[1], found[1]
    if error is None and wanted is None:
        alike = same(expected[2], found[2])
        return None if alike else Verdict(Kind.WRONG, "printed text", f"{where}: {expected[2]} and {found[2]}")
    if error is None:
        return Verdict(Kind.WRONG, f"no {type(wanted).__name__}", f"{where}: eager raises {wanted!r}, static gives {found[0]!r}")
    if _name_of(error) == _name_of(wanted):
        if _own_words(wanted) and not same(*(_NAMES.sub("module", str(raised)) for raised in (wanted, error))):
            return Verdict(Kind.WRONG, "message of the exception", f"{where}: {wanted!r}, not {error!r}")
        return None
    ours = str(world.module.__file__) in _trace(error)
    kind = Kind.WRONG if ours and not isinstance(error, Signal) else Kind.CRASH
    words = re.sub(r"0x\w+|\d+", "0", str(error))[:70]
    return Verdict(kind, f"{type(error).__name__}: {words}", f"{where}: eager raises {wanted!r}\n{_trace(error)}")


def _name_of(error: BaseException) -> tuple[str, str]:
    """Return the class of an exception: one of the user's is another one in each world."""
    kind = type(error)
    return _NAMES.sub("module", kind.__module__), kind.__qualname__


def _own_words(error: BaseException) -> bool:
    return not isinstance(error, RuntimeError) and "tensor" not in str(error).lower()


def different(pictures: Sequence[Callable[[], list[str]]], where: str, same: Same = operator.eq) -> Verdict | None:
    """What differs in two pictures, of eager and of what is static."""
    try:
        one, two = (picture() for picture in pictures)
    except Exception as error:
        return Verdict(Kind.WRONG, f"a value that cannot be looked at: {type(error).__name__}", f"{where}: {error}")
    for a, b in zip([*one, "the end"], [*two, "the end"]):
        if not same(_modulo(a), _modulo(b)):
            return Verdict(Kind.WRONG, _kind_of_difference(a, b), f"{where}\neager:  {a}\nstatic: {b}")
    return None


def _modulo(line: str) -> str:
    """A line without what need not be the same: the order of attributes."""
    head, separator, names = line.partition(": attributes ")
    return head + separator + str(sorted(eval(names))) if separator else line


def _kind_of_difference(a: str, b: str) -> str:
    if a.partition(":")[0] != b.partition(":")[0]:
        return "other things are there"
    root = re.sub(r"\W.*", "", a)
    root = "result" if root == "result" else "state"
    strip = lambda text: re.sub(r"#\d+", "#", text)  # noqa: E731
    if strip(a) == strip(b):
        return f"{root}: identity"
    if "keys" in a and "keys" in b:
        return f"{root}: keys"
    if "attributes" in a and "attributes" in b:
        return f"{root}: attributes"
    for word in ("leaf", "requires grad"):
        if (word in a) != (word in b):
            return f"{root}: {word}"
    return f"{root}: value"
