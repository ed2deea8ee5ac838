"""Special methods that are called by name: ``xs.__len__()`` does what ``len(xs)`` does."""

from __future__ import annotations

import collections
import operator
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.branching import optional
from dy2st.capture.environment.users_code import is_users_function
from dy2st.capture.session.session import Session
from dy2st.capture.values import storage

_CONTAINERS = (list, dict, set, collections.deque)
_OF_ANY: dict[str, Callable[..., Any]] = {
    "__len__": len, "__contains__": operator.contains, "__iter__": iter, "__reversed__": reversed, "__getitem__": operator.getitem,
    "__setitem__": operator.setitem, "__delitem__": operator.delitem, "__mul__": operator.mul, "__imul__": operator.imul,
}  # fmt: skip
"""Of one container, with what says the same in a statement."""
_OF_TWO: dict[str, Callable[..., Any]] = {
    f"__{name}__": getattr(operator, f"__{name}__")
    for name in ("eq", "ne", "lt", "le", "gt", "ge", "add", "iadd", "sub", "isub", "xor", "ixor", "or", "ior", "and", "iand")
}
"""Of two containers of one kind: of another, the method gives ``NotImplemented``."""
READING = frozenset(
    ("__len__", "__contains__", "__iter__", "__reversed__", "__eq__", "__ne__", "__or__", "__ror__", "__repr__", "__str__")
)
"""Those that ask for what is in a dict, each for itself."""
_ANSWERING: dict[Any, tuple[str, ...]] = {
    len: ("__len__",), bool: ("__bool__", "__len__"), reversed: ("__reversed__",), repr: ("__repr__",),
    str: ("__str__", "__repr__"), format: ("__format__", "__str__", "__repr__"),
    print: ("__str__", "__repr__"), hash: ("__hash__",),
}  # fmt: skip
_OF_TENSORS: dict[str, Callable[..., Any]] = {"__bool__": bool, "__int__": int, "__float__": float, "__index__": operator.index}


def statement(owner: Any, name: str, args: tuple[Any, ...]) -> Callable[..., Any] | None:
    """Return the function that does what a special method does; ``None`` where the class has a method of the user's."""
    if isinstance(owner, torch.Tensor):
        return _OF_TENSORS.get(name)
    base = next((kind for kind in _CONTAINERS if isinstance(owner, kind)), None)
    if base is None or is_users_function(storage.of_class(type(owner), name)):
        return None
    return _OF_ANY.get(name) or (_OF_TWO.get(name) if len(args) == 1 and isinstance(args[0], base) else None)


def answering(function: Any) -> tuple[str, ...]:
    """Return the methods with which a container of the user's answers a builtin function."""
    return _ANSWERING.get(function, ("__iter__",)) if isinstance(function, collections.abc.Hashable) else ()


def check(session: Session, owner: Any, name: str) -> None:
    """Check a special method that is called as it is.

    Raises:
        CaptureError: Python's object is not what the program has.
    """
    if name not in {*_OF_ANY, *_OF_TWO}:
        return
    if optional.is_unsure(session, owner):
        raise errors.CaptureError(
            f"{type(owner).__name__}.{name}() is called by its name where a tensor decides what is in the container",
            session.here(),
            fix="keep the container in an attribute of the object, in the place of a class that is one",
        )
