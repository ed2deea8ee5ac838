"""Where objects keep their attributes: a slot, their own dict, a table of a module; never what their class or a fallback gives.

What a block writes is undone, joined and written again there, past the methods with which a class follows its attributes: these are
the user's code, which runs once, where it is called.
"""

from __future__ import annotations

import collections
import enum
import threading
import types
from typing import Any

import torch

from dy2st.capture.values.symbolic import Undefined, options_of

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()
"""What a place holds when it does not exist."""

_TAKES: dict[str, tuple[type, ...]] = {
    "_parameters": (torch.nn.Parameter,),
    "_buffers": (torch.Tensor, torch.nn.Module),
    "_modules": (torch.nn.Parameter, torch.nn.Module),
}
"""What a module takes, ``None`` aside, under a name that it has in a table."""

_REGISTERED = {"_parameters": torch.nn.Parameter, "_modules": torch.nn.Module, "_buffers": torch.nn.Buffer}
"""What a module registers under any name, in the order in which it asks."""

MODULE_TABLES = tuple(_TAKES)
"""The dicts in which a module keeps what it registers."""


_CONTAINERS = (collections.OrderedDict, dict, list, set, frozenset, collections.deque, tuple)


def base_of(container: Any) -> Any:
    """Return the class of Python's own that a container is of: with its methods, what a subclass has of them is not called."""
    return next((kind for kind in _CONTAINERS if isinstance(container, kind)), type(container))


def is_namespace(table: Any) -> bool:
    """Tell whether a dict has the global variables of a module, of which nobody asks for the order."""
    return type(table) is dict and "__builtins__" in table


_TABLES = (dict, collections.OrderedDict, collections.defaultdict, collections.Counter)


def plain(container: Any) -> Any:
    """Return a container as one of Python's own reads it: itself, or where a class of the user's may read otherwise, a copy."""
    if type(container) in _CONTAINERS or type(container).__module__ in ("builtins", "collections"):
        return container
    if isinstance(container, dict):
        return copy_of(container)
    base = base_of(container)
    return container if base is type(container) else base(base.__iter__(container))


def keys_of(table: Any) -> Any:
    """Return the keys of a dict, in their order, past what a class of the user's says."""
    return base_of(table).keys(table)


def contents_of(container: dict[Any, Any] | list[Any]) -> list[Any]:
    """Return the items of a list, or the values of a dict, past what a class of the user's says."""
    return list(base_of(container).values(container) if isinstance(container, dict) else list.__iter__(container))


def copy_of(table: dict[Any, Any]) -> dict[Any, Any]:
    """Return a dict with the same items.

    Of a class of the user's, which may make its objects in another way, one of Python's own.
    """
    if type(table) in _TABLES:
        return table.copy()
    items = dict(base_of(table).items(table))  # an OrderedDict has an order of its own
    if isinstance(table, collections.defaultdict):
        return collections.defaultdict(table.default_factory, items)
    return next(kind for kind in (collections.Counter, collections.OrderedDict, dict) if isinstance(table, kind))(items)


def of_class(kind: type, name: str) -> Any:
    """Return what a class or a base of it defines under a name, as it stands there."""
    return next((vars(base)[name] for base in kind.__mro__ if name in vars(base)), MISSING)


def is_slot(described: Any) -> bool:
    """Tell whether what a class has under a name is the place for an attribute; the dict of a ``SimpleNamespace`` is none."""
    return isinstance(described, types.MemberDescriptorType) and described.__name__ != "__dict__"


def is_data(described: Any) -> bool:
    """Tell whether what a class defines comes before the objects' own attributes."""
    return hasattr(type(described), "__set__") or hasattr(type(described), "__delete__")


def getter_of(described: Any) -> Any:
    """Return what computes a property; ``None`` for one whose class has a ``__get__`` of its own in Python, which decides."""
    plain = isinstance(described, property) and not isinstance(type(described).__get__, types.FunctionType)
    return described.fget if plain else None


def is_code(described: Any) -> bool:
    """Tell whether what a class defines is a property or descriptor in Python of the user: an object keeps nothing there."""
    methods = (getattr(type(described), part, None) for part in ("__get__", "__set__", "__delete__"))
    asked = (described.fget, described.fset) if isinstance(described, property) else methods
    functions = [method for method in asked if isinstance(method, types.FunctionType)]
    return bool(functions) and not any(function.__module__.startswith(("torch.", "dy2st.")) for function in functions)


def _is_place(described: Any) -> bool:
    """Tell whether what a class defines is where an object keeps an attribute: a slot, or what a class in C has for one."""
    return is_data(described) and hasattr(type(described), "__get__") and not is_code(described)


def table_of(owner: Any) -> dict[str, Any] | None:
    """Return the dict of an object's own attributes; ``None`` if it has none."""
    if isinstance(owner, threading.local):  # there is one for each thread, and another one that nobody sees
        own: dict[str, Any] = threading.local.__getattribute__(owner, "__dict__")
        return own
    try:
        result = object.__getattribute__(owner, "__dict__")
    except AttributeError:
        return None
    except TypeError:
        result = getattr(owner, "__dict__", None)
    return result if isinstance(result, dict) else None


def of_python(value: Any, name: str, default: Any = None) -> Any:
    """Return an attribute that objects of Python's own have; nothing of an object whose class answers for what is missing."""
    kind = type(value)
    answers = of_class(kind, "__getattr__") is not MISSING or isinstance(of_class(kind, "__getattribute__"), types.FunctionType)
    return default if answers else getattr(value, name, default)


def names(owner: Any) -> tuple[tuple[str, ...], ...]:
    """Return the attributes in an object's dict, and in each of the tables of a module, in order."""
    return tuple(tuple(table) for table in tables(owner))


def put_in_order(owner: Any, orders: tuple[tuple[str, ...], ...]) -> None:
    """Have the attributes in an object's dict, and in the tables of a module, in an order; others come last."""
    for table, order in zip(tables(owner), orders):
        wanted = {name: table[name] for name in order if name in table}
        if [*table][: len(wanted)] != [*wanted]:
            kept = wanted | table
            table.clear()
            table.update(kept)


def put_last(owner: Any, order: tuple[str, ...]) -> None:
    """Have some of the attributes in an object's dict, and in the tables of a module, come last, in an order."""
    for table in tables(owner):
        for name in [name for name in order if name in table]:
            table[name] = table.pop(name)


def own(owner: Any, name: str) -> Any:
    """Return the attribute that an object has itself."""
    if isinstance(owner, type):
        return vars(owner).get(name, MISSING)
    described = of_class(type(owner), name)
    if _is_place(described):
        try:
            return type(described).__get__(described, owner, type(owner))
        except AttributeError:
            return MISSING
    return next((table[name] for table in (table_of(owner) or {}, *_tables(owner)) if name in table), MISSING)


def is_hidden(owner: Any, name: str) -> bool:
    """Tell whether a module has an attribute in one of its tables, and its class has another one that is found first."""
    if not isinstance(owner, torch.nn.Module) or name in owner.__dict__:
        return False
    described = of_class(type(owner), name)
    return described is not MISSING and not _is_place(described)


def is_shadowing(owner: Any, name: str) -> bool:
    """Tell whether reading an attribute gives something else where the object does not have it itself."""
    if isinstance(owner, type):
        return hasattr(type(own(owner, name)), "__get__") or any(name in vars(base) for base in owner.__mro__[1:])
    described = of_class(type(owner), name)
    if _is_place(described) or any(name in table for table in _tables(owner)) or table_of(owner) is None:
        return False
    has_fallback = of_class(type(owner), "__getattr__") is not MISSING and not isinstance(owner, torch.nn.Module)
    return described is not MISSING or has_fallback


def kept_in(owner: Any, name: str) -> str:
    """Return the dict in which a module has an attribute.

    Its own, or one of its tables; nothing where it has none, or is no module.
    """
    if not isinstance(owner, torch.nn.Module) or name in owner.__dict__:
        return "__dict__" if isinstance(owner, torch.nn.Module) else ""
    return next((kind for kind in MODULE_TABLES if name in owner.__dict__.get(kind, {})), "")


def is_registered(owner: Any, name: str) -> bool:
    """Tell whether a module has an attribute in one of its tables."""
    return kept_in(owner, name) in MODULE_TABLES


def may_register(value: Any) -> bool:
    """Tell whether a module registers a value, or an option of it, wherever it had something before."""
    return bool(_registering(value))


def is_mixed(value: Any) -> bool:
    """Tell whether each module registers some options of a value, and keeps others, beside ``None``, in its dict."""
    options = [option for option in options_of(value) if option is not None and not isinstance(option, Undefined)]
    return len({_registering(option) for option in options}) > 1


def told_table(owner: Any, name: str) -> str:
    """Return the table in which a module has an attribute, where another one of such a value would be kept elsewhere.

    Else nothing.
    """
    if not isinstance(owner, torch.nn.Module):
        return ""
    if name in owner.__dict__:
        return "__dict__" if _registering(owner.__dict__[name]) else ""
    table = next((kind for kind in MODULE_TABLES if name in owner.__dict__.get(kind, {})), "")
    return "" if table and all(_registering(part) == table for part in options_of(owner.__dict__[table][name])) else table


def is_kept_there(owner: Any, name: str, value: Any, table: str) -> bool:
    """Tell whether a module would keep a value in a table also if nobody told it to."""
    wanted = owner.__dict__ if table == "__dict__" else owner.__dict__[table]
    return _table_for(owner, name, value, "") is wanted


def is_kept_by_option(owner: Any, name: str, value: Any) -> bool:
    """Tell whether a module does not do the same with all options of a tagged union.

    It registers one and keeps another as an attribute like any other, or refuses one under the name.
    """
    options = list(options_of(value))
    if len(options) < 2:
        return False
    if len({registers(owner, name, option) for option in options}) > 1:
        return True
    return any(isinstance(option, torch.nn.Buffer) or is_refused(owner, name, option) for option in options)


def registers(module: torch.nn.Module, name: str, value: Any) -> str:
    """Return the table in which a module registers what it is assigned under a name; nothing for an attribute like any other."""
    for table, kind in _REGISTERED.items():
        if isinstance(value, kind) or name in module.__dict__.get(table, ()):
            return table
    return ""


def is_refused(module: torch.nn.Module, name: str, value: Any) -> bool:
    """Tell whether a module has something registered under a name that a value cannot take the place of."""
    table = registers(module, name, value)
    if value is None or name not in module.__dict__.get(table, ()) or isinstance(value, _TAKES[table]):
        return False
    return table != "_buffers" or not hasattr(type(value), "__torch_function__")


def _registering(value: Any) -> str:
    """Return the table in which each module registers a value, or an option of it; nothing for one that it keeps in its dict."""
    given = list(options_of(value))  # a tagged union goes where its options do
    kinds = {MODULE_TABLES[0]: torch.nn.Parameter, MODULE_TABLES[2]: torch.nn.Module}
    return next((table for table, kind in kinds.items() if any(isinstance(part, kind) for part in given)), "")


def keep(owner: Any, name: str, value: Any, table: str = "") -> None:
    """Write an attribute where the object has it.

    Args:
        owner: the object.
        name: of the attribute.
        value: what it gets.
        table: the dict in which a module keeps it, where what it is does not tell.
    """
    if isinstance(owner, type):
        type.__setattr__(owner, name, value)
    elif isinstance(owner, torch.nn.Module) and not _is_place(of_class(type(owner), name)):
        wanted = _table_for(owner, name, value, table)
        for held in (owner.__dict__, *_tables(owner)):
            if held is wanted:
                held[name] = value
            else:
                held.pop(name, None)
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
    table = table_of(owner)
    if table is not None and is_code(of_class(type(owner), name)):
        table[name] = value
        return
    try:
        object.__setattr__(owner, name, value)
    except TypeError:  # a class in C with its own way
        setattr(owner, name, value)


def _dropped(owner: Any, name: str) -> None:
    table = table_of(owner)
    if table is not None and is_code(of_class(type(owner), name)):
        table.pop(name, None)
        return
    try:
        object.__delattr__(owner, name)
    except TypeError:
        delattr(owner, name)


def tables(owner: Any) -> list[dict[str, Any]]:
    """Return the dict of an object's own attributes, and the tables of a module."""
    own = None if isinstance(owner, type) else table_of(owner)
    return [] if own is None else [own, *_tables(owner)]


def _tables(owner: Any) -> list[dict[str, Any]]:
    return [owner.__dict__.get(kind, {}) for kind in MODULE_TABLES] if isinstance(owner, torch.nn.Module) else []


def _table_for(module: torch.nn.Module, name: str, value: Any, told: str) -> dict[str, Any]:
    """Return the table that a module keeps a value in."""
    if told == "__dict__":
        return module.__dict__
    registering = _registering(value)
    if told and all(part is None or isinstance(part, (torch.Tensor, Undefined)) for part in options_of(value)):
        registering = told  # also a parameter, which may be registered as a buffer
    if registering:
        return module.__dict__[registering]  # type: ignore[no-any-return]
    if all(part is None for part in options_of(value)):
        return next((table for table in _tables(module) if name in table), module.__dict__)
    buffers: dict[str, Any] = module.__dict__[MODULE_TABLES[1]]  # what another table has under the name is of another way
    has_tensor = any(isinstance(part, torch.Tensor) for part in options_of(value))
    return buffers if name in buffers and has_tensor else module.__dict__


def shown_key(key: Any) -> str:
    """Return a key as it is written; the way in which a class of the user's shows its objects is theirs to call, and the contents
    of a tensor are not part of its name.
    """
    if isinstance(key, enum.Enum):
        return f"{type(key).__name__}.{key.name}"
    if type(key) is tuple:
        return f"({', '.join(map(shown_key, key))}{',' * (len(key) == 1)})"
    plain = type(key).__module__ in ("builtins", "torch") and not isinstance(key, (torch.Tensor, frozenset))
    return repr(key) if plain else object.__repr__(key)
