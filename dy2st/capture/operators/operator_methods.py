"""Operators that the user has written for a class (``__add__``, ``__bool__``, …), called as other methods are.

``a + b`` stays ``a + b`` in converted code, and Python itself calls the method. So while a capture runs, the methods of the classes
that it meets are replaced by ones that call the conversion of the user's method: what it reads is guarded then, and tensors decide
in it as they do anywhere. In threads that do not capture they do what they always did.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

from dy2st.capture.attributes.access import look_into
from dy2st.capture.attributes.class_attributes import of_class
from dy2st.capture.branching import unions
from dy2st.capture.environment.same_contents import PATCH_MARK
from dy2st.capture.environment.standard_library import is_followed
from dy2st.capture.environment.users_code import is_generated, is_heap_type, is_library, is_users_function
from dy2st.capture.session.session import Session, current
from dy2st.capture.texts.marks import answering
from dy2st.capture.values.roles import Role, has

MAKES_TEXTS_FOR_USER = True

_BINARY = ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift", "rshift", "and", "or", "xor"]
_NAMES = frozenset(
    f"__{name}__"
    for name in [
        *_BINARY, *(f"r{name}" for name in _BINARY), *(f"i{name}" for name in _BINARY if name != "divmod"),
        "neg", "pos", "abs", "invert", "lt", "le", "gt", "ge", "eq", "ne", "bool", "int", "float", "complex", "index", "round",
        "trunc", "floor", "ceil", "str", "repr", "format", "reversed", "missing", "delitem", "setattr", "delattr", "post_init",
        "copy", "deepcopy",
    ]
)  # fmt: skip
"""Those that Python calls by itself; what has a function or statement in the rewritten code is called there."""

_RESULTS = {
    "__bool__": bool, "__int__": int, "__float__": float, "__complex__": complex, "__index__": int, "__str__": str,
    "__repr__": str, "__format__": str,
}  # fmt: skip
"""What Python takes from a method, and nothing else."""

_OUR_OWN_USE = frozenset({"__bool__", "__eq__", "__ne__", "__str__", "__repr__", "__format__"})
"""What this library may ask of any object for itself, as for a message."""

_FROZEN = frozenset({"__setattr__", "__delattr__"})
"""Those of dataclasses that cannot be changed; they only raise."""

_lock = threading.Lock()
_replaced: dict[tuple[type, str], list[Any]] = {}
"""By class and name: the user's method, and how many captures need it replaced."""


class OperatorMethods:
    """The classes that one capture has met."""

    def __init__(self) -> None:
        self._kinds: set[type] = set()
        self._own: list[tuple[type, str]] = []

    def follow(self, kind: type) -> None:
        """Let values of this class take part from now on."""
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        for owner in kind.__mro__:
            for name in _NAMES & vars(owner).keys():
                self._replace(owner, name)

    def _replace(self, owner: type, name: str) -> None:
        key = owner, name
        with _lock:
            known = _replaced.get(key)
            if known is None:
                method = vars(owner)[name]
                if not is_users_function(method) and not (is_generated(method) and name not in _FROZEN):
                    return
                with contextlib.suppress(TypeError, AttributeError):  # a class that cannot be changed
                    type.__setattr__(owner, name, _abstract(method, name))
                    _replaced[key] = known = [method, 0]
            if known is not None:
                known[1] += 1
                self._own.append(key)

    def release(self) -> None:
        """Note that the capture has ended."""
        with _lock:
            for key in self._own:
                known = _replaced[key]
                known[1] -= 1
                if not known[1]:
                    type.__setattr__(*key, known[0])
                    del _replaced[key]
            self._own.clear()


@contextlib.contextmanager
def followed(session: Session) -> Iterator[None]:
    """Open a scope in which a session follows the classes that it meets."""
    methods = OperatorMethods()

    def met(kind: type) -> None:
        _guard_class(session, kind)
        methods.follow(kind)

    session.tracker.met = met
    try:
        yield
    finally:
        methods.release()


def _guard_class(session: Session, kind: type) -> None:
    """Note that what Python looks up itself in a class has to stay; the classes that the captured code makes are its own."""
    if session.outside.is_of_call(kind):
        for base in kind.__bases__:
            session.tracker.met(base)
        return
    bases = [base for base in kind.__mro__ if is_heap_type(base) and not is_library(base.__module__)]
    if bases:
        source = session.tracker.table.held(kind, kind.__qualname__)
        session.tracker.guards.same_special_methods(source, kind, bases)
    if type(kind) is not type:
        session.tracker.met(type(kind))


def _abstract(method: types.FunctionType, name: str) -> Callable[..., Any]:
    """Return what stands in a class for a method of the user's."""
    wanted, asked = _RESULTS.get(name), name in _OUR_OWN_USE
    of_library = is_followed(method)

    @functools.wraps(method)
    def called(self: Any, *args: Any) -> Any:
        session = current()
        if session is None or (asked and _is_our_own(sys._getframe(1))) or (of_library and _is_torchs(sys._getframe(1))):
            return method(self, *args)
        of_class(session, self, name)
        if is_generated(method):
            look_into(session, self, *args)
        if is_generated(method) and name == "__repr__":
            return method(self)
        with answering(None):
            result = session.call(types.MethodType(method, self), *args)
        unions.check_answered(session, result, method)
        return result if wanted is None or type(result) is wanted or result is NotImplemented else wanted(result)

    setattr(called, PATCH_MARK, method)
    return called


def _is_torchs(caller: types.FrameType) -> bool:
    """Tell whether torch asks: it keeps its own books in classes of the standard library."""
    return bool(caller.f_globals.get("__name__", "").startswith("torch."))


def _is_our_own(caller: types.FrameType) -> bool:
    name = caller.f_globals.get("__name__", "")
    return name.startswith("dy2st.") and not has(name, Role.CALLS_METHODS)
