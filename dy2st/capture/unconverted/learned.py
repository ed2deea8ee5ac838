"""What is known of islands, the functions that a program calls as Python: declared by the user, or learned from a call in eager.

What a function gives is kept by what it got: dtypes and ranks of tensors, classes of numbers, flags and strings as they were.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.capture.values.kinds import is_spread
from dy2st.errors import SignatureError
from dy2st.input_spec import InputSpec
from dy2st_runtime.primitives import island_kinds, islands

ACTS_FOR_USER = False

MARK = "__dy2st_not_to_static__"
"""The attribute of functions that are called as they are written: ``True``, or what the user has said."""
ANY: Any = type("Any", (), {"__repr__": lambda self: "?"})()
"""Stands in a signature for a flag or string that only the program knows."""
LEARNED: Any = type("Learned", (), {"__repr__": lambda self: "<learned>"})()
"""What a function gives is not declared."""

_BY_VALUE = (bool, str, type(None))
GENERATORS = 0x20 | 0x80 | 0x200
"""``CO_GENERATOR``, ``CO_COROUTINE`` and ``CO_ASYNC_GENERATOR``."""

Key = tuple[str, int, str, int]
Signature = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class _Record:
    signature: Signature
    known: islands.Known


_records: dict[Key, list[_Record]] = {}
_lock = threading.Lock()


def key_of(code: types.CodeType) -> Key:
    """Return what tells the code of a function: the nested functions of each call have one."""
    return code.co_filename, code.co_firstlineno, code.co_name, hash(code)


def register(code: types.CodeType) -> None:
    """Note that what a function gives is worth learning."""
    _records.setdefault(key_of(code), [])


def mark_of(function: Any) -> island_kinds.Mark | None:
    """Return what the user has said of a function, if it is marked."""
    mark = getattr(function, MARK, None)
    return mark if isinstance(mark, island_kinds.Mark) else None


def find(code: types.CodeType, signature: Signature) -> islands.Known | None:
    """Return what is known of what a function gives for arguments like these."""
    records = _records.get(key_of(code), ())
    return next((record.known for record in records if _fits(signature, record.signature)), None)


def note(code: types.CodeType, signature: Signature, value: Any) -> None:
    """Note that a function has given a value."""
    with _lock:
        known = find(code, signature)
        if known is None:
            known = islands.Known()
            _records.setdefault(key_of(code), []).append(_Record(signature, known))
        known.add(value)


def _fits(wanted: Any, known: Any) -> bool:
    if wanted is ANY:
        return True
    if isinstance(wanted, dict):
        return isinstance(known, dict) and wanted.keys() == known.keys() and all(_fits(wanted[key], known[key]) for key in wanted)
    if isinstance(wanted, tuple):
        return isinstance(known, tuple) and len(wanted) == len(known) and all(map(_fits, wanted, known))
    return type(wanted) is type(known) and bool(wanted == known)


def signature_of_call(
    function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], shown: Callable[[Any], Any]
) -> Signature:
    """Return the signature of a call with abstract values among its arguments.

    Args:
        function: what is called.
        args, kwargs: the arguments.
        shown: gives the part of a signature for a value that only the program knows; ``None`` for any other.
    """
    try:
        bound = inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    except TypeError:
        return {}  # the call itself raises what it has to
    bound.apply_defaults()
    return {name: signature_of(value, shown) for name, value in bound.arguments.items()} | _modes()


def signature_of(value: Any, shown: Callable[[Any], Any] = lambda value: None) -> Any:
    """Return what of an argument decides the kind of the result, most often."""
    if (known := shown(value)) is not None:
        return known
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunction():
            return ("tensor", value.dtype, value.dim(), str(value.device), value.requires_grad)
    if isinstance(value, _BY_VALUE):
        return (type(value).__name__, value)
    if isinstance(value, (int, float)):
        return type(value).__name__
    if isinstance(value, tuple):
        return ("tuple", *(signature_of(item, shown) for item in tuple.__iter__(value)))
    if isinstance(value, dict):
        return {str(key): signature_of(item, shown) for key, item in dict.items(value)}
    if isinstance(value, torch.nn.Module) and any(map(is_spread, value.parameters())):
        return ("module", id(value))  # each has a plan of its own
    return "list" if isinstance(value, list) else "object"


def _modes() -> Signature:
    return {"gradients are on": torch.is_grad_enabled()}


# -- what the user says ----------------------------------------------------------------------------------------------------


def declared(returns: Any) -> island_kinds.Kind:
    """Return the kind of what a function is declared to give.

    Raises:
        SignatureError: it is no declaration.
    """
    if isinstance(returns, InputSpec):
        return island_kinds.TensorKind(returns.dtype, returns.shape, None)
    if returns in (bool, int, float) and isinstance(returns, type):
        return island_kinds.NumberKind(returns)
    if returns is str:
        return island_kinds.TextKind()
    if returns is None or returns is type(None):
        return island_kinds.ConstantKind(None)
    parts = island_kinds.parts_of(returns)
    if parts is None or isinstance(returns, type):
        raise SignatureError(
            f"returns is an InputSpec, int, float, bool, str or None, or these in tuples, lists and dicts, not {returns!r}"
        )
    return island_kinds.NestKind(type(returns), parts[0], tuple(map(declared, parts[1])))


# -- what calls show -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def learning(is_captured: Callable[[], bool]) -> Iterator[None]:
    """Inside, note what the functions that are worth it give, in this thread.

    Args:
        is_captured: tells whether the code that runs does so on abstract values.
    """
    before: Any = sys.getprofile()
    in_c = before is not None and not callable(before)
    if in_c:
        before.disable()  # a profiler written in C, which cannot be called from here
    waiting: dict[types.FrameType, Signature] = {}

    def look(frame: types.FrameType, event: Any, value: Any) -> None:
        if before is not None and not in_c:
            before(frame, event, value)
        if event == "call":
            if key_of(frame.f_code) in _records and not frame.f_code.co_flags & GENERATORS and not is_captured():
                waiting[frame] = _of_frame(frame)
        elif event == "return" and frame in waiting:
            signature = waiting.pop(frame)
            if _returns(frame):
                note(frame.f_code, signature, value)

    sys.setprofile(look)
    try:
        yield
    finally:
        sys.setprofile(None if in_c else before)
        if in_c:
            before.enable()


def _returns(frame: types.FrameType) -> bool:
    """Tell whether a frame ends since its function returns: an exception ends it at another instruction."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("RETURN")


def _of_frame(frame: types.FrameType) -> Signature:
    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return {name: signature_of(values.get(name)) for name in code.co_varnames[:count]} | _modes()


def marked(function: Any, mark: island_kinds.Mark) -> Any:
    """Mark a function of the user's."""
    setattr(function, MARK, mark)
    if isinstance(function, types.FunctionType):
        register(function.__code__)
    return function
