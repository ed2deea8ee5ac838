"""Objects in C whose state nobody can follow, read or changed by captured code: arrays, hashes, compressors.

What is done to one that was there before is done at capture. So the program is right for the call that it was captured in, and
where a tensor decides whether it is done at all, it is refused. One that the code makes itself is made at capture, once for all
calls; so it is refused that a tensor decides whether it is changed after that.
"""

from __future__ import annotations

import array
import contextlib
import io
import queue
import random
import types
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from dy2st import errors
from dy2st.capture.session.session import Session
from dy2st.capture.values.abstract_arrays import is_open

_CHANGING = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "reverse", "fromlist", "frombytes", "byteswap", "fill", "sort", "put",
     "partition", "resize", "itemset", "__setitem__", "__delitem__", "__iadd__", "__imul__")
)  # fmt: skip
"""The methods that change an object which can be read without a change."""
_BUFFERS: tuple[type, ...] = (bytearray, array.array, np.ndarray)
_STEPPING = frozenset(
    ("_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2", "zlib", "_bz2", "_lzma", "_csv", "_sre")
)
"""Modules in C with classes of which each method may change the object, or gives what another one has changed."""
_READING = frozenset(("digest", "hexdigest", "copy", "getvalue", "getbuffer", "tell", "getstate", "qsize", "empty", "full"))
"""Those of their methods that change nothing."""
_METHODS = (types.BuiltinMethodType, types.MethodWrapperType, types.MethodType)
_IN_MEMORY = (io.StringIO, io.BytesIO)
_OWN: tuple[type, ...] = (
    *_IN_MEMORY, random.Random, np.random.Generator, np.random.RandomState, queue.Queue, queue.SimpleQueue,
)  # fmt: skip
"""Classes of objects that are followed elsewhere if they were there before."""
_REMAKING = ("__init__", "__setstate__")


def called(session: Session, function: Any, args: tuple[Any, ...]) -> None:
    """Note that a method in C is about to be called.

    Raises:
        CaptureError: it may change an object from outside, and a tensor decides whether it is called.
    """
    for value in args:
        if isinstance(value, _OWN) and getattr(function, "__name__", None) not in _READING:
            _check_own(session, value)
    if not isinstance(function, _METHODS):
        return
    owner = function.__self__
    if isinstance(owner, BaseException) and function.__name__ in _REMAKING:
        _check_own(session, owner)
    if isinstance(owner, _OWN):
        if function.__name__ not in _READING:
            _check_own(session, owner)
        return
    has_readers = isinstance(owner, _BUFFERS)
    if not has_readers and type(owner).__module__ not in _STEPPING and type(owner).__name__ != "SRE_Scanner":
        return
    if function.__name__ in _CHANGING if has_readers else function.__name__ not in _READING:
        changed(session, owner)
    elif not isinstance(owner, _BUFFERS):
        _once(session, owner)


def changed(session: Session, value: Any) -> None:
    """Note that an object is about to be changed in a way that is not noted.

    Raises:
        CaptureError: it was there before, and a tensor decides whether it is changed.
    """
    value = _viewed(session, value)
    _check_input(session, value)
    source = session.tracker.source_of(value)
    if source is None:
        _check_own(session, value)
        _check_shared(session, value)
    elif not session.blocks.at_root:
        raise _refused(session, f"'{source.name}' is used, a {type(value).__name__} from outside that may change by that")
    _once(session, value)


def _check_shared(session: Session, value: Any) -> None:
    """Refuse to change an array that the code has made a tensor of, which has a copy of its contents."""
    if isinstance(value, np.ndarray) and session.tracker.arrays.is_shared(value):
        raise errors.CaptureError(
            "an array that is known is written to after a tensor was made in its memory",
            session.here(),
            fix="write to it first, or make the tensor of a copy: torch.tensor(array)",
        )


def _viewed(session: Session, value: Any) -> Any:
    """Return the array from outside that a value is a view of; any other value as it is."""
    if not isinstance(value, np.ndarray) or session.tracker.source_of(value) is not None:
        return value
    under = session.tracker.arrays.under(value)
    return value if under is None else under[0]


def _check_input(session: Session, value: Any) -> None:
    """Have an array from outside be an input of the program, as long as the capture can begin again."""
    if isinstance(value, np.ndarray) and not session.tracker.guards.once:
        session.outside.check_changed(value)


@contextlib.contextmanager
def check_buffers(session: Session, values: Iterable[Any]) -> Iterator[None]:
    """Check that code that is not converted leaves the buffers that it gets.

    Raises:
        CaptureError: it changes one, and a tensor decides whether it is called.
    """
    given = [part for value in values for part in (value if type(value) in (tuple, list) else (value,))]
    held = [(value, _contents(value)) for value in given if isinstance(value, _BUFFERS)]
    yield
    different = [(value, before) for value, before in held if _contents(value) != before]
    _check_left(session, [(value, before[0]) for value, before in different if isinstance(value, np.ndarray)])
    for value, _ in different:
        changed(session, value)


def _check_left(session: Session, different: list[tuple[np.ndarray[Any, Any], bytes]]) -> None:
    """Check arrays that have been changed; they have what they had, should the capture begin again."""
    now = [value.copy() for value, _ in different]
    for value, before in different:
        value[...] = np.frombuffer(before, value.dtype).reshape(value.shape)
    for value, _ in different:
        _check_input(session, _viewed(session, value))
    for (value, _), contents in zip(different, now):
        value[...] = contents


def _contents(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else (value.tobytes(), getattr(value, "shape", None))


def is_in_memory(session: Session, file: Any) -> bool:
    """Tell whether a file is one that the code has made, which holds its text itself."""
    return isinstance(file, _IN_MEMORY) and session.tracker.source_of(file) is None


def note_created(session: Session, value: Any) -> None:
    """Note that code that is not converted has given an object, which it may have made."""
    if isinstance(value, (*_BUFFERS, *_OWN)) or type(value).__module__ in _STEPPING:
        session.allocations.own(value)


def _check_own(session: Session, value: Any) -> None:
    """Refuse that an object which the code has made is changed in a block that has begun since."""
    allocated = _allocated_at(session, value)
    if (
        not session.blocks.at_root
        and (allocated is None or allocated < session.blocks.region.start)
        and session.tracker.source_of(value) is None
    ):
        raise _refused(session, "an object is changed that was made before", seen=f"a {type(value).__name__}")


def _allocated_at(session: Session, value: Any) -> int | None:
    """Tell when an object was made, or the one that it is a view of."""
    allocated = session.allocations.allocated_at(value)
    base = value.base if isinstance(value, np.ndarray) else None
    return allocated if allocated is not None or base is None else _allocated_at(session, base)


def _refused(session: Session, what: str, seen: str | None = None) -> errors.CaptureError:
    return errors.CaptureError(
        f"a tensor decides whether {what}",
        session.here(),
        seen=seen,
        fix="use it before or after the branch or loop, or keep what it holds in a list, dict or tensor",
    )


def set_item(session: Session, target: Any) -> None:
    """Note that an item of something is about to be written or deleted."""
    if isinstance(target, _BUFFERS):
        changed(session, target)


def _once(session: Session, value: Any) -> None:
    source = session.tracker.source_of(value)
    if source is not None:
        session.tracker.guards.never(source)


def check_array(session: Session, target: np.ndarray[Any, Any], given: Any) -> None:
    """Check a write to an array of NumPy that is known when the program is made.

    Args:
        target: the array.
        given: the key and the value.

    Raises:
        NeedsAbstract: it was there before the call, or what it is a view of.
        CaptureError: only the program knows where or what is written.
    """
    _check_input(session, _viewed(session, target))
    _check_shared(session, target)
    if is_open(given):
        raise errors.CaptureError(
            "an array that is known is written to where tensors decide",
            session.here(),
            fix="write to one that np.zeros() or copy() makes in the static function, or to a tensor",
        )
