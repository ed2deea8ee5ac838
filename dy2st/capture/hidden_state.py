"""Objects in C whose state nobody can follow, read or changed by captured code: arrays, hashes, compressors, context variables.

What is done to one that was there before is done at capture. So the program is right for the call that it was captured in, and
where a tensor decides whether it is done at all, it is refused.
"""

from __future__ import annotations

import array
import contextvars
import types
from typing import Any

import numpy as np

from dy2st import errors
from dy2st.capture.session import Session

_CHANGING = frozenset(
    ("append", "extend", "insert", "pop", "remove", "clear", "reverse", "fromlist", "frombytes", "byteswap", "fill", "sort", "put",
     "partition", "resize", "itemset", "__setitem__", "__delitem__", "__iadd__", "__imul__", "set", "reset")
)  # fmt: skip
"""The methods that change an object which can be read without a change."""
_BUFFERS: tuple[type, ...] = (bytearray, array.array, np.ndarray)
_STEPPING = frozenset(
    ("_hashlib", "_md5", "_sha1", "_sha2", "_sha256", "_sha512", "_sha3", "_blake2", "zlib", "_bz2", "_lzma", "_csv", "_sre")
)
"""Modules in C with classes of which each method may change the object, or gives what another one has changed."""
_READING = frozenset(("digest", "hexdigest", "copy"))
"""Those of their methods that change nothing."""
_METHODS = (types.BuiltinMethodType, types.MethodWrapperType)


def called(session: Session, function: Any, args: tuple[Any, ...]) -> None:
    """A method in C is about to be called.

    Raises:
        CaptureError: it may change an object from outside, and a tensor decides whether it is called.
    """
    if not isinstance(function, _METHODS):
        return
    owner = function.__self__
    has_readers = isinstance(owner, (*_BUFFERS, contextvars.ContextVar))
    if not has_readers and type(owner).__module__ not in _STEPPING and type(owner).__name__ != "SRE_Scanner":
        return
    if function.__name__ in _CHANGING if has_readers else function.__name__ not in _READING:
        changed(session, owner)
    elif not isinstance(owner, _BUFFERS):
        _once(session, owner)


def changed(session: Session, value: Any) -> None:
    """An object is about to be changed in a way that is not noted.

    Raises:
        CaptureError: it was there before, and a tensor decides whether it is changed.
    """
    source = session.tracker.source_of(value)
    if source is not None and not session.at_root:
        raise errors.CaptureError(
            f"a tensor decides whether '{source.name}' is used, a {type(value).__name__} from outside that may change by that",
            session.here(),
            fix="use it before or after the branch or loop, or keep what it holds in a list, dict or tensor",
        )
    _once(session, value)


def set_item(session: Session, target: Any) -> None:
    """An item of something is about to be written or deleted."""
    if isinstance(target, _BUFFERS):
        changed(session, target)


def _once(session: Session, value: Any) -> None:
    source = session.tracker.source_of(value)
    if source is not None:
        session.tracker.guards.never(source)
