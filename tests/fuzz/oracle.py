"""Eager against static, for one random program.

One program is captured with the first call and serves the others. Everything that a user can see is compared: results with their Python
types and with which of them are one object or share memory, gradients, arguments and state afterwards, the random state, printed text,
and exceptions with their message and the line of the program that they name. What a call leaves is compared after an exception, too.

What is not compared, and why:

- The line of a ``NameError``: a bare name as a statement is no read in a program.
- The line, and what a call leaves, when torch refuses to change a tensor in place for where it lies in memory or what it is a view
  of, where that is seen only when the program runs: then it goes past ``finally`` clauses.
- The class of a user's dataclass or exception that a loaded program makes: it has one of the same name and fields.
- State after an exception of a saved program, and all that comes later: what it writes outside, it writes at its end.
- The message of an exception in a program with ``finally``: a program puts it together after the clause, which may have
  changed a tensor in it in place.
- Which lists and dicts of the result are one object: two names of one list, returned together from a loop that may return
  something else as well, come out as two lists (``tests.oracle`` compares it in the other tests).
- Python attributes of a saved module: only its tensors are saved.
- More than one program for a signature, where state that is older than the call may come to be of another kind by a call: a
  tensor default of a helper that begins to require gradients, a number of a module that turns out to change.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import io
import itertools
import linecache
import os
import random
import re
import signal
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import dy2st
from dy2st.capture.values.signals import Signal
from tests.devices import DEVICE, is_about_devices, moved, random_state, seed
from tests.fuzz import classes
from tests.fuzz.grammar import Program
from tests.oracle import same

_REFUSED_IN_PLACE = ("refer to a single memory location", "is a view and is being modified inplace")
"""What torch says of a tensor that it does not change in place."""
_LIMIT = 120
"""Seconds for one program."""

Call = tuple[float, tuple[float, ...], int]
"""The values of ``x``, ``v`` and ``n``."""


class Kind(enum.Enum):
    """What became of a program."""

    SAME = "same"
    REFUSED = "refused"
    WRONG = "wrong answer"
    CRASH = "crash"
    TIME_OUT = "time-out"
    INVALID = "not Python"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The outcome of one comparison.

    Attributes:
        kind: what became of the program.
        reason: why it was refused, or what differs.
        detail: the whole message.
        covered: how many lines of the program the calls run, of how many.
        calls: how many calls were compared.
    """

    kind: Kind
    reason: str = ""
    detail: str = ""
    covered: tuple[int, int] = (0, 0)
    calls: int = 0

    @property
    def bad(self) -> bool:
        """Whether it is a mistake of ours."""
        return self.kind in (Kind.WRONG, Kind.CRASH, Kind.TIME_OUT)


@dataclasses.dataclass
class _Seen:
    """What one call did."""

    result: Any
    error: BaseException | None
    line: int | None
    values: dict[str, Any]


class OutOfTimeError(BaseException):
    """A program took too long."""


_numbers = itertools.count()


def load(source: str) -> types.ModuleType:
    """A module of its own with a program in it, whose source Python finds."""
    name = f"fuzz_{os.getpid()}_{next(_numbers)}"
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = types.ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def target_of(program: Program, module: types.ModuleType) -> Any:
    return moved(module.Net()) if program.module else module.program


def _unload(module: types.ModuleType) -> None:
    linecache.cache.pop(str(module.__file__), None)
    sys.modules.pop(module.__name__, None)


def calls_of(program: Program) -> tuple[list[Call], tuple[int, int]]:
    """Calls that run as many lines of a program as can be found, and how many of how many these are."""
    chosen = random.Random(program.source)
    values = [
        (chosen.choice([-1.5, 0.0, 0.75, 2.0, 3.5]), tuple(chosen.choice([-2.0, 0.5, 1.0, 3.0, 0.0]) for _ in range(3)), chosen.randint(-1, 6))
        for _ in range(24)
    ]  # fmt: skip
    module = load(program.source)
    kept, covered = [], set()
    for call in values:
        before = len(covered)
        target = target_of(program, module)
        with quiet(), _lines_of(str(module.__file__), covered):
            with contextlib.suppress(Exception):
                target(*_arguments(program, call)[0])
        if len(covered) > before or len(kept) < 3:
            kept.append(call)
    _unload(module)
    return kept[:8], (len(covered), len(_executable(module, program)))


def _executable(module: types.ModuleType, program: Program) -> set[int]:
    code = compile(program.source, str(module.__file__), "exec")
    found: set[int] = set()
    todo = [code]
    while todo:
        code = todo.pop()
        inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
        if code.co_name not in ("<module>", "Box", "Net", "__init__"):
            found |= {line for _, _, line in code.co_lines() if line}
        todo += inner
    return found


@contextlib.contextmanager
def tracing(trace: Callable[[types.FrameType, str, Any], Any]) -> Iterator[None]:
    """Have a function told of what runs, in the place of the one that is told now."""
    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def _lines_of(file: str, found: set[int]) -> contextlib.AbstractContextManager[None]:
    def trace(frame: types.FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file or frame.f_code.co_name == "__init__":
            return None
        found.add(frame.f_lineno)
        return trace

    return tracing(trace)


def _arguments(program: Program, call: Call, grad: bool | None = None) -> tuple[tuple[Any, ...], list[Any]]:
    """The arguments, and the tensors whose gradients are wanted: arguments are no leaves, so that they can be written."""
    dtype = torch.float32 if program.single else torch.float64
    x, v, n = call
    leaves = [torch.tensor(x, dtype=dtype, device=DEVICE), torch.tensor(v, dtype=dtype, device=DEVICE)]
    number = torch.tensor(n, device=DEVICE)
    if not (program.grad if grad is None else grad):
        return (*leaves, number), []
    leaves = [leaf.requires_grad_() for leaf in leaves]
    return (*(leaf * 1 for leaf in leaves), number), leaves


@contextlib.contextmanager
def quiet() -> Iterator[io.StringIO]:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield printed


def _observe(target: Any, program: Program, call: Call, file: str) -> _Seen:
    arguments, leaves = _arguments(program, call)
    seed(0)
    result, error, backward = None, None, None
    with quiet() as printed:
        try:
            result = target(*arguments)
        except (Exception, Signal) as raised:  # no signal of the capture may come out
            error = raised
    state = random_state()
    grads: list[Any] = []
    wanted = [*leaves, *(target.parameters() if isinstance(target, torch.nn.Module) else ())]
    if error is None:
        try:
            grads = _gradients(result, wanted)
        except RuntimeError as raised:
            backward = type(raised)
    values = {
        "gradients": grads, "an error in backward": backward, "arguments afterwards": [_plain(a) for a in arguments],
        "printed text": printed.getvalue(), "random state": state,
        "state": _state(target), "identities": _identities(result, arguments),
    }  # fmt: skip
    return _Seen(result, error, _line(error, file), values)


def _plain(value: torch.Tensor) -> torch.Tensor:
    return value.detach().clone()


def _state(target: Any) -> dict[str, Any]:
    if not isinstance(target, torch.nn.Module):
        return {}
    numbers = {"c": target.c} if hasattr(target, "c") else {}
    return {**{name: value.clone() for name, value in target.state_dict().items()}, **numbers}


def _gradients(result: Any, wanted: Sequence[torch.Tensor]) -> list[Any]:
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if not outputs or not wanted:
        return []
    total = sum(
        (out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype, device=out.device).view_as(out)).sum() for out in outputs
    )
    return list(torch.autograd.grad(total, wanted, allow_unused=True))


def _identities(result: Any, arguments: Sequence[Any]) -> list[tuple[int, int, str]]:
    """Which tensors of the results and arguments are one object or share memory."""
    found = []
    for (i, one), (j, two) in itertools.combinations(enumerate(_objects((result, *arguments))), 2):
        if one is two:
            found.append((i, j, f"one {type(one).__name__}"))
        elif (
            isinstance(one, torch.Tensor)
            and isinstance(two, torch.Tensor)
            and one.untyped_storage().data_ptr() == two.untyped_storage().data_ptr()
        ):
            found.append((i, j, "shared memory"))
    return found


def _objects(value: Any) -> list[Any]:
    """The tensors in a value."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    own = [value] if isinstance(value, torch.Tensor) else []
    return [*own, *(found for part in parts for found in _objects(part))]


def _line(error: BaseException | None, file: str) -> int | None:
    """The line of the program that an exception names: by its traceback, or by its note."""
    if error is None:
        return None
    for note in reversed(getattr(error, "__notes__", ())):
        named = re.findall(rf'File "{re.escape(file)}", line (\d+)', note)
        if named:
            return int(named[-1])
    step, found = error.__traceback__, None
    while step is not None:
        if step.tb_frame.f_code.co_filename == file:
            found = step.tb_lineno
        step = step.tb_next
    return found


def judge(program: Program, *, saved: bool = False) -> Verdict:
    """Compare a program with itself as a static program, or as one that has been saved and loaded."""
    try:
        module = load(program.source)
        target_of(program, module)
    except Exception as error:
        return Verdict(Kind.INVALID, str(error))
    _unload(module)
    try:
        with limited():
            calls, covered = calls_of(program)
            verdict = _judge(program, calls, _loaded if saved else _static)
    except OutOfTimeError:
        return Verdict(Kind.TIME_OUT, "time-out")
    return dataclasses.replace(verdict, covered=covered)


@contextlib.contextmanager
def limited(seconds: int = _LIMIT) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise OutOfTimeError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _static(program: Program, module: types.ModuleType, call: Call) -> Any:
    return dy2st.to_static(target_of(program, module))


def _loaded(program: Program, module: types.ModuleType, call: Call) -> Any:
    target = target_of(program, module)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.dy2st")
        dy2st.save(target, path, list(_arguments(program, call, grad=False)[0]))
        return moved(dy2st.load(path))


def _judge(program: Program, calls: Sequence[Call], make: Callable[..., Any]) -> Verdict:
    one, two = load(program.source), load(program.source)
    files = str(one.__file__), str(two.__file__)
    try:
        eager = target_of(program, one)
        try:
            with quiet():
                static = make(program, two, calls[0])
        except dy2st.Dy2stError as error:
            return refused(error, 0)
        except (Exception, Signal) as error:  # what the program raises itself for any input, or a crash
            expected = _observe(eager, program, calls[0], files[0])
            return _about_raise(expected, error, files, "while it is saved") or Verdict(Kind.SAME, "cannot be saved")
        for position, call in enumerate(calls):
            expected = _observe(eager, program, call, files[0])
            if is_about_devices(expected.error):
                return Verdict(Kind.INVALID, "makes tensors on the CPU")
            found = _observe(static, program, call, files[1])
            if isinstance(found.error, dy2st.Dy2stError):
                return refused(found.error, position)
            if make is _loaded:
                expected.result, found.result = _plain_classes(expected.result), _plain_classes(found.result)
            if expected.error is not None and make is _loaded:
                expected.values.pop("state")  # what it writes outside, it writes at its end
            verdict = _differs(program, expected, found, files, f"call {position} with {call}")
            if verdict is not None:
                return verdict
            if expected.error is not None and (make is _loaded or is_refused_in_place(found.error)):
                break  # from now on its state is another one
        return _recaptured(program, static, len(calls)) or Verdict(Kind.SAME, calls=len(calls))
    finally:
        _unload(one)
        _unload(two)


def _recaptured(program: Program, static: Any, calls: int) -> Verdict | None:
    cache = getattr(getattr(static, "forward", static), "program_cache", None)
    allowed = 1 + program.module + program.grad * program.source.count("def helper")
    if cache is None or len(cache) <= allowed:
        return None
    return Verdict(Kind.WRONG, "several programs", f"{len(cache)} programs for one signature", calls=calls)


def refused(error: BaseException, calls: int) -> Verdict:
    text = str(error)
    if "please report" in text:
        return Verdict(Kind.CRASH, text.splitlines()[0], text, calls=calls)
    seen = re.search(r"^Seen: (.*)$", text, re.MULTILINE)
    reason = f"{type(error).__name__}: {text.splitlines()[0]}" + (f" ({seen[1]})" if seen else "")
    for found, word in ((r"0x[0-9a-f]+", "0"), (r"-?\d+(\.\d+)?", "0"), (r"'[^']*'|\b[a-z]\b(?= )", "_")):
        reason = re.sub(found, word, reason)
    return Verdict(Kind.REFUSED, reason, text, calls=calls)


def _differs(program: Program, expected: _Seen, found: _Seen, files: tuple[str, str], where: str) -> Verdict | None:
    if is_refused_in_place(found.error) and expected.error is not None and "finally:" in program.source:
        return None  # it went past the clause, which may have raised another exception
    if expected.error is not None or found.error is not None:
        verdict = _about_raise(expected, found.error, files, where)
        if verdict is not None and not (verdict.reason == "message of the exception" and "finally:" in program.source):
            return verdict
        if is_refused_in_place(found.error):
            return None
        if expected.line != found.line and not isinstance(expected.error, NameError):  # a bare name as a statement is no read
            return Verdict(Kind.WRONG, "line of the exception", f"{where}: line {expected.line}, not {found.line}")
    pairs = [("result", expected.result, found.result)] if expected.error is None else []
    pairs += [(what, expected.values[what], found.values[what]) for what in expected.values]
    for what, one, two in pairs:
        if what == "state":  # a loaded module has the tensors, but not the Python attributes
            one, two = ({name: values[name] for name in one if name in two} for values in (one, two))
        try:
            same(one, two, what)
        except AssertionError as error:
            return Verdict(Kind.WRONG, what, f"{where}: {error}\neager: {one}\nstatic: {two}")
    return None


def _about_raise(expected: _Seen, error: BaseException | None, files: tuple[str, str], where: str) -> Verdict | None:
    """What to say of an exception that is not the one that eager raises."""
    wanted = expected.error
    if error is None:
        return Verdict(Kind.WRONG, f"no {type(wanted).__name__}", f"{where}: eager raises {wanted!r}")
    if wanted is not None and (type(wanted) is type(error) or _stands_for(type(error), type(wanted))):
        if str(wanted) == str(error):
            return None
        return Verdict(Kind.WRONG, "message of the exception", f"{where}: {wanted!r}, not {error!r}")
    kind = Kind.CRASH if _line(error, files[1]) is None or isinstance(error, Signal) else Kind.WRONG
    return Verdict(kind, f"{type(error).__name__}: {str(error)[:60]}", f"{where}: eager raises {wanted!r}\n{_trace(error)}")


def is_refused_in_place(error: BaseException | None) -> bool:
    return any(words in str(error) for words in _REFUSED_IN_PLACE)


def _stands_for(loaded: type, own: type) -> bool:
    """Whether a class is what a loaded program has for one of the program's own, which it does not import."""
    return own.__module__ == classes.__name__ and loaded.__qualname__ == own.__qualname__


def _plain_classes(value: Any) -> Any:
    """A value with the class's name and the fields in the place of objects whose classes a loaded program has no more."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return type(value).__name__, {f.name: _plain_classes(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if type(value) in (list, tuple):
        return type(value)(_plain_classes(item) for item in value)
    if type(value) is dict:
        return {key: _plain_classes(item) for key, item in value.items()}
    return value


def without_grad_fn(text: str) -> str:
    """Printed text without the names of what makes gradients: programs have others."""
    return re.sub(r"grad_fn=<\w+>", "grad_fn", text)


def _trace(error: BaseException) -> str:
    steps = []
    step = error.__traceback__
    while step is not None:
        steps.append(f"{step.tb_frame.f_code.co_filename}:{step.tb_lineno} {step.tb_frame.f_code.co_name}")
        step = step.tb_next
    return "\n".join([f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ()), *steps[-8:]])
