"""Where objects keep their attributes: a slot, their own dict, a table of a module; never what their class or a fallback gives.

What a block writes is undone, joined and written again there, past the methods with which a class follows its attributes: these are
the user's code, which runs once, where it is called.
"""

from __future__ import annotations

import collections
import types
from typing import Any

import torch

from dy2st.capture.values import CAPTURE_VALUES, Choice

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()
"""What a place holds when it does not exist."""

_MODULE_TABLES = ("_parameters", "_buffers", "_modules")


_CONTAINERS = (collections.OrderedDict, dict, list, set, frozenset, collections.deque, tuple)


def base_of(container: Any) -> Any:
    """The class of Python's own that a container is of: with its methods, what a subclass has of them is not called."""
    return next((kind for kind in _CONTAINERS if isinstance(container, kind)), type(container))


def of_class(kind: type, name: str) -> Any:
    """What a class or a base of it defines under a name, as it stands there."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), MISSING)


def is_data(described: Any) -> bool:
    """Whether what a class defines comes before the objects' own attributes."""
    return hasattr(type(described), "__set__") or hasattr(type(described), "__delete__")


def table_of(owner: Any) -> dict[str, Any] | None:
    """The dict of an object's own attributes; ``None`` if it has none."""
    try:
        found = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    except TypeError:
        found = getattr(owner, "__dict__", None)
    return found if isinstance(found, dict) else None


def of_python(value: Any, name: str, default: Any = None) -> Any:
    """An attribute that objects of Python's own have; nothing of an object whose class answers for what is missing."""
    kind = type(value)
    answers = of_class(kind, "__getattr__") is not MISSING or isinstance(of_class(kind, "__getattribute__"), types.FunctionType)
    return default if answers else getattr(value, name, default)


def names(owner: Any) -> tuple[str, ...]:
    """The attributes in an object's dict, in order."""
    return tuple(table_of(owner) or ())


def put_in_order(owner: Any, order: tuple[str, ...]) -> None:
    """Have the attributes in an object's dict in an order; others come last."""
    table = table_of(owner)
    if table is not None and tuple(table)[: len(order)] != order:
        kept = dict(table)
        table.clear()
        table.update({name: kept.pop(name) for name in order if name in kept}, **kept)


def own(owner: Any, name: str) -> Any:
    """The attribute that an object has itself."""
    if isinstance(owner, type):
        return vars(owner).get(name, MISSING)
    described = of_class(type(owner), name)
    if is_data(described) and hasattr(type(described), "__get__"):
        try:
            return type(described).__get__(described, owner, type(owner))
        except AttributeError:
            return MISSING
    tables = [table_of(owner) or {}, *(_tables(owner) if described is MISSING else ())]  # what a module's class has hides them
    return next((table[name] for table in tables if name in table), MISSING)


def is_shadowing(owner: Any, name: str) -> bool:
    """Whether reading an attribute gives something else where the object does not have it itself."""
    if isinstance(owner, type):
        return hasattr(type(own(owner, name)), "__get__") or any(name in vars(base) for base in owner.__mro__[1:])
    described = of_class(type(owner), name)
    if is_data(described) or any(name in table for table in _tables(owner)) or table_of(owner) is None:
        return False
    has_fallback = of_class(type(owner), "__getattr__") is not MISSING and not isinstance(owner, torch.nn.Module)
    return described is not MISSING or has_fallback


def is_unregistered(owner: Any, name: str) -> bool:
    """Whether a module holds a parameter or another module in its dict, where it is none of its own."""
    return isinstance(owner, torch.nn.Module) and _is_member(owner.__dict__.get(name))


def _is_member(value: Any) -> bool:
    """Whether a module registers a value, or an option of it."""
    given = value.options.values() if isinstance(value, Choice) else (value,)
    return any(isinstance(part, (torch.nn.Parameter, torch.nn.Module)) for part in given)


def keep(owner: Any, name: str, value: Any, in_dict: bool = False) -> None:
    """Write an attribute where the object has it.

    Args:
        owner: the object.
        name: of the attribute.
        value: what it gets.
        in_dict: whether a module keeps in its dict what it would register elsewhere.
    """
    if isinstance(owner, type):
        type.__setattr__(owner, name, value)
    elif isinstance(owner, torch.nn.Module) and not is_data(of_class(type(owner), name)):
        wanted = owner.__dict__ if in_dict else _table_for(owner, name, value)
        for table in (owner.__dict__, *_tables(owner)):
            if table is wanted:
                table[name] = value
            else:
                table.pop(name, None)
    else:
        _kept(owner, name, value)


def drop(owner: Any, name: str) -> None:
    """Delete an attribute that an object may have itself."""
    if own(owner, name) is MISSING:
        return
    if isinstance(owner, type):
        type.__delattr__(owner, name)
    elif any(name in table for table in _tables(owner)):
        for table in _tables(owner):
            table.pop(name, None)
    else:
        _dropped(owner, name)


def _kept(owner: Any, name: str, value: Any) -> None:
    try:
        object.__setattr__(owner, name, value)
    except TypeError:  # a class in C with its own way
        setattr(owner, name, value)


def _dropped(owner: Any, name: str) -> None:
    try:
        object.__delattr__(owner, name)
    except TypeError:
        delattr(owner, name)


def _tables(owner: Any) -> list[dict[str, Any]]:
    return [owner.__dict__.get(kind, {}) for kind in _MODULE_TABLES] if isinstance(owner, torch.nn.Module) else []


def _table_for(module: torch.nn.Module, name: str, value: Any) -> dict[str, Any]:
    """The table that a module keeps a value in."""
    given = list(value.options.values()) if isinstance(value, Choice) else [value]  # a choice goes where its options do
    kinds = {_MODULE_TABLES[0]: torch.nn.Parameter, _MODULE_TABLES[2]: torch.nn.Module}
    for kind, wanted in kinds.items():
        if any(isinstance(part, wanted) for part in given):
            return module.__dict__[kind]  # type: ignore[no-any-return]
    if value is None or isinstance(value, CAPTURE_VALUES):
        return next((table for table in _tables(module) if name in table), module.__dict__)
    buffers: dict[str, Any] = module.__dict__[_MODULE_TABLES[1]]  # what else there is, no module has ever registered
    return buffers if isinstance(value, torch.Tensor) and name in buffers else module.__dict__
