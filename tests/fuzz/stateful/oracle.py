"""Eager against static, for one program with state: the same calls on two worlds that are built by the same text.

After every call all that can be reached is compared: the result, the exception, what is printed, the global variables, the variables
of enclosing functions, defaults, arguments, and every object in them, with which places hold one object and which hold one that was
there before. A call in a world that looks as before an earlier call, with arguments that look alike, must need no new program.

What is not compared, and why:

- The order of a module's attributes: a static module has some of its own.
- Messages of torch's own errors, and of errors whose message shows a tensor: they name what the user has not written.
- On backends that round: the last digits of floats.

Saved programs are judged by :mod:`tests.fuzz.stateful.saved`.
"""

from __future__ import annotations

import collections
import operator
from typing import Any

import torch

import dy2st
from tests.fuzz import backends
from tests.fuzz.oracle import Kind, OutOfTimeError, Verdict, limited
from tests.fuzz.rounding import alike
from tests.fuzz.stateful import saved
from tests.fuzz.stateful.comparison import Same, World, compared, different, outcome, told
from tests.fuzz.stateful.program import Program

VARIANTS = ("native", "python", "saved")
_LIMIT = 40
_LIMIT_OF_BACKENDS = 300


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
        with limited(_LIMIT_OF_BACKENDS if variant in backends.NAMES else _LIMIT), torch.random.fork_rng():
            return saved.judge(program, eager, static) if variant == "saved" else _judge(program, eager, static, variant)
    except OutOfTimeError:
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
        _, error, _ = outcome(world.target, arguments, call)
        if isinstance(error, (AttributeError, TypeError, NameError)) or (error is not None and "requires grad" in str(error)):
            failed += 1
    world.close()
    return failed <= len(program.calls) // 3


def _judge(program: Program, eager: World, static: World, variant: str) -> Verdict:
    made = _static(program, static, variant)
    if isinstance(made, Verdict):
        return made
    same = alike if variant in backends.NAMES else operator.eq
    seen: collections.Counter[tuple[str, ...]] = collections.Counter()
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
        expected = outcome(eager.target, given, call)
        found = outcome(made, other, call)
        if isinstance(found[1], dy2st.Dy2stError):
            return told(found[1], position, static)
        verdict = compared(expected, found, where, static, same)
        if verdict is None:
            verdict = _pictures(eager, static, given, other, expected, found, where, same)
        if verdict is not None:
            return verdict
        if variant == "native":
            if seen[before] > 1 and _programs(made) > programs:  # at the second call, which object it is may turn out to differ
                return Verdict(Kind.WRONG, "captured again", where, calls=position)
            seen[before] += 1
    return Verdict(Kind.SAME, calls=len(program.calls))


def _static(program: Program, world: World, variant: str) -> Any:
    """The static function; a verdict where there is none."""
    try:
        made = dy2st.to_static(world.target, backend=variant)
        if not isinstance(world.target, torch.nn.Module):
            world.space["program"] = made
        return made
    except dy2st.Dy2stError as error:
        return told(error, 0, world)


def _programs(made: Any) -> int:
    cache = getattr(getattr(made, "forward", made), "program_cache", None)
    return 0 if cache is None else len(cache)


def _pictures(
    eager: World, static: World, given: Any, other: Any, expected: Any, found: Any, where: str, same: Same
) -> Verdict | None:
    pictures = [lambda: eager.picture(given, {"result": expected[0]}), lambda: static.picture(other, {"result": found[0]})]
    return different(pictures, where, same)
