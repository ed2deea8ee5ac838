"""Eager against static, for one program with state: the same calls on two worlds that are built by the same text.

After every call all that can be reached is compared: the result, the exception, what is printed, the global variables, the variables
of enclosing functions, defaults, arguments, and every object in them, with which places hold one object and which hold one that was
there before. A call in a world that looks as before an earlier call, with arguments that look alike, must need no new program.

What is not compared, and why:

- The order of a module's attributes: a static module has some of its own.
- Messages of torch's own errors, and of errors whose message shows a tensor: they name what the user has not written.
- What comes after an exception of a saved program: what it writes outside, it writes at its end.
- On backends that round: the last digits of floats.
"""

from __future__ import annotations

import contextlib
import operator
import os
import re
import tempfile
import types
from collections.abc import Callable
from typing import Any

import torch

import dy2st
from dy2st.capture.regions import Signal
from tests.fuzz import backends
from tests.fuzz.oracle import Kind, Verdict, _limited, _OutOfTimeError, _quiet, _refused, _trace, _unload, load, without_grad_fn
from tests.fuzz.rounding import alike
from tests.fuzz.stateful.picture import Numbers, Picture
from tests.fuzz.stateful.program import Call, Program

Given = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of a call."""

Same = Callable[[str, str], bool]
"""Compares two texts."""

VARIANTS = ("native", "python", "saved")
_LIMIT = 40
_LIMIT_OF_BACKENDS = 300
_HIDDEN = ("program", "STEP")


class World:
    """One module with the objects of a program, and what was seen of it.

    Args:
        program: the program.
    """

    def __init__(self, program: Program) -> None:
        torch.manual_seed(0)
        self.module = load(program.source)
        self.space = self.module.__dict__
        self.numbers = Numbers()
        self.is_seen = True
        """Whether the program has its state here: a loaded one has its own."""
        self.target = self.space["program"]
        self.function: types.FunctionType = _function(self.target)
        assert isinstance(self.function, types.FunctionType)

    def change(self, call: Call) -> str:
        """Do what happens before a call; the words of an exception if it fails."""
        torch.manual_seed(1)
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
        if self.is_seen:
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


def judge(program: Program, variant: str = "native") -> Verdict:
    """Compare a program with itself as a static program.

    Args:
        program: a random program.
        variant: one of :data:`VARIANTS`, or a backend that rounds.
    """
    try:
        eager, static = World(program), World(program)
    except Exception as error:
        return Verdict(Kind.INVALID, str(error))
    try:
        with _limited(_LIMIT_OF_BACKENDS if variant in backends.NAMES else _LIMIT), torch.random.fork_rng():
            return _judge(program, eager, static, variant)
    except _OutOfTimeError:
        return Verdict(Kind.TIME_OUT, "time-out")
    finally:
        eager.close()
        static.close()


def valid(program: Program) -> bool:
    """Whether most of the calls do something in eager."""
    try:
        world = World(program)
    except Exception:
        return False
    failed = 0
    for call in program.calls:
        if world.change(call):
            failed += 1
        try:
            arguments = world.arguments(call)
        except Exception:
            return False
        _, error, _ = _call(world.target, arguments, call)
        if isinstance(error, (AttributeError, TypeError, NameError)) or (error is not None and "requires grad" in str(error)):
            failed += 1
    world.close()
    return failed <= len(program.calls) // 3


def _judge(program: Program, eager: World, static: World, variant: str) -> Verdict:
    made = _static(program, static, variant)
    if isinstance(made, Verdict):
        return made
    same = alike if variant in backends.NAMES else operator.eq
    eager.is_seen = static.is_seen = variant != "saved"
    seen: set[tuple[str, ...]] = set()
    for position, call in enumerate(program.calls):
        where = f"call {position} with {call.arguments}"
        if eager.change(call) != static.change(call):
            return Verdict(Kind.WRONG, "a change between calls fails", where, calls=position)
        try:
            given, other = eager.arguments(call), static.arguments(call)
        except Exception as error:
            return Verdict(Kind.INVALID, str(error))
        if variant == "native":
            before = (call.mode, *static.picture(other, {}, values=False, fresh=True))
        programs = _programs(made)
        expected = _call(eager.target, given, call)
        found = _call(made, other, call)
        if isinstance(found[1], dy2st.Dy2stError):
            return _told(found[1], position, static)
        verdict = _compared(expected, found, where, static, same)
        if verdict is None and not (variant == "saved" and expected[1] is not None):
            verdict = _pictures(eager, static, given, other, expected, found, where, same)
        if verdict is not None:
            return verdict
        if variant == "saved" and expected[1] is not None:
            break
        if variant == "native":
            if before in seen and _programs(made) > programs:
                return Verdict(Kind.WRONG, "captured again", where, calls=position)
            seen.add(before)
    return Verdict(Kind.SAME, calls=len(program.calls))


def _static(program: Program, world: World, variant: str) -> Any:
    """The static function; a verdict where there is none."""
    if variant == "saved":
        return _loaded(program, world)
    try:
        made = dy2st.to_static(world.target, backend=variant)
        if not isinstance(world.target, torch.nn.Module):
            world.space["program"] = made
        return made
    except dy2st.Dy2stError as error:
        return _told(error, 0, world)


def _loaded(program: Program, world: World) -> Any:
    """The program after saving and loading; only functions of tensors, and modules, can be."""
    try:
        arguments = world.arguments(program.calls[0])
    except Exception as error:
        return Verdict(Kind.INVALID, str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.dy2st")
        try:
            with _quiet():
                given = [a.detach() if isinstance(a, torch.Tensor) else a for a in (*arguments[0], *arguments[1].values())]
                dy2st.save(dy2st.to_static(world.target), path, given)
                return dy2st.load(path)
        except dy2st.Dy2stError as error:
            return _told(error, 0, world)
        except (Exception, Signal) as error:
            expected = _call(world.target, arguments, program.calls[0])[1]
            if type(error) is type(expected):
                return Verdict(Kind.SAME, "cannot be saved")
            return Verdict(Kind.CRASH, f"saving: {type(error).__name__}: {str(error)[:60]}", _trace(error))


def _programs(made: Any) -> int:
    cache = getattr(getattr(made, "forward", made), "program_cache", None)
    return 0 if cache is None else len(cache)


def _call(target: Any, arguments: Given, call: Call) -> tuple[Any, BaseException | None, str]:
    torch.manual_seed(0)
    mode = eval(call.mode) if call.mode else contextlib.nullcontext()
    with _quiet() as printed, mode:
        try:
            result = target(*arguments[0], **arguments[1])
            return result, None, without_grad_fn(printed.getvalue())
        except (Exception, Signal) as error:
            return None, error, without_grad_fn(printed.getvalue())


def _told(error: dy2st.Dy2stError, position: int, world: World) -> Verdict:
    """What to say of an error of ours."""
    if isinstance(error, getattr(dy2st, "LeakError", ())):
        kind = re.search(r"is (a [\w ]+)", str(error))
        return Verdict(Kind.WRONG, f"left behind: {kind[1] if kind else ''}", str(error), calls=position)
    verdict = _refused(error, position)
    if (
        verdict.kind is Kind.REFUSED
        and str(world.module.__file__) not in str(error)
        and not isinstance(error, (dy2st.SaveError, dy2st.SignatureError))
    ):
        return Verdict(Kind.CRASH, f"no line of the user's: {verdict.reason}", str(error), calls=position)
    return verdict


def _compared(expected: Any, found: Any, where: str, world: World, same: Same) -> Verdict | None:
    wanted, error = expected[1], found[1]
    if error is None and wanted is None:
        return (
            None if same(expected[2], found[2]) else Verdict(Kind.WRONG, "printed text", f"{where}: {expected[2]} and {found[2]}")
        )
    if error is None:
        return Verdict(Kind.WRONG, f"no {type(wanted).__name__}", f"{where}: eager raises {wanted!r}, static gives {found[0]!r}")
    if type(error) is type(wanted):
        if _own_words(wanted) and not same(str(wanted), str(error)):
            return Verdict(Kind.WRONG, "message of the exception", f"{where}: {wanted!r}, not {error!r}")
        return None
    ours = str(world.module.__file__) in _trace(error)
    kind = Kind.WRONG if ours and not isinstance(error, Signal) else Kind.CRASH
    words = re.sub(r"0x\w+|\d+", "0", str(error))[:70]
    return Verdict(kind, f"{type(error).__name__}: {words}", f"{where}: eager raises {wanted!r}\n{_trace(error)}")


def _own_words(error: BaseException) -> bool:
    return not isinstance(error, RuntimeError) and "tensor" not in str(error).lower()


def _pictures(
    eager: World, static: World, given: Any, other: Any, expected: Any, found: Any, where: str, same: Same
) -> Verdict | None:
    try:
        one = eager.picture(given, {"result": expected[0]})
        two = static.picture(other, {"result": found[0]})
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
