"""The call operator: user functions are converted when they are called, builtins with a tensor meaning go through a table.

Everything else (torch, numpy, C functions, functions without source) is called as it is; tensor operations inside are recorded all
the same, since recording does not depend on who calls.
"""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
import inspect
import io
import itertools
import logging
import operator
import random
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from dy2st import errors
from dy2st.capture.attributes import access, attribute_tables, special_methods
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.attributes.class_attributes import of_class
from dy2st.capture.branching import keys, keywords, lookup, optional
from dy2st.capture.branching.branch import capture_if_exp
from dy2st.capture.calls import managers, modules, opaque, unseen_writes, variables
from dy2st.capture.collections import deques, ordering, sets, tables
from dy2st.capture.collections.tables import FAMILY
from dy2st.capture.containers import lists, ranges
from dy2st.capture.diagnostics.translation import quiet_torch
from dy2st.capture.diagnostics.user_frames import starts_function
from dy2st.capture.environment import standard_library
from dy2st.capture.environment.sources import behind
from dy2st.capture.environment.users_code import as_written, has_own, is_in_skipped_package, is_part_of_library, is_skipped
from dy2st.capture.library import (
    FAST_PATHS,
    LOG_METHODS,
    CachedFunction,
    call_getter,
    call_method_caller,
    check_surroundings,
    handler_of,
    log,
    surroundings_method,
    takes_unions,
)
from dy2st.capture.looping import iteration, iterators, spreading
from dy2st.capture.looping.generators import UserGenerator
from dy2st.capture.objects import cells, construction, hidden_state
from dy2st.capture.operators import comparisons, number_operators
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current
from dy2st.capture.texts import text, wording
from dy2st.capture.texts.marks import TEXTS
from dy2st.capture.torch_functions.mode_stack import own_mode_stack
from dy2st.capture.values import storage
from dy2st.capture.values.symbolic import (
    SYMBOLIC_NUMBERS,
    AbstractDeque,
    AbstractObject,
    AbstractSet,
    AbstractTuple,
    TaggedUnion,
    contents,
    options_of,
    with_option,
)
from dy2st.capture.writes.places import ContentsPlace, ItemPlace

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

_MAX_DEPTH = 200
_MAX_NESTING = 32
_READING_METHODS = frozenset(
    ("get", "keys", "values", "items", "copy", "index", "count", "union", "intersection", "difference", "symmetric_difference",
     "issubset", "issuperset", "isdisjoint")
)  # fmt: skip
"""The methods of dicts, sets and deques that leave them as they are."""


_READING_WRAPPERS = frozenset(
    f"__{name}__" for name in (
        "contains", "len", "iter", "reversed", "eq", "ne", "lt", "le", "gt", "ge", "add", "mul", "rmul", "or", "ror", "and", "sub",
        "xor", "getattribute", "repr", "str", "hash", "sizeof", "format", "bool")
)  # fmt: skip
_SETTLING = (len, list, tuple, set, frozenset, sorted, iter, enumerate, bool)
"""What needs to know the keys of a dict, and has no handler or one that does not need it."""
_WITHOUT_ORDER: tuple[Any, ...] = (
    len,
    bool,
    sorted,
    set,
    frozenset,
    getattr,
    setattr,
    hasattr,
    isinstance,
    type,
    id,
    sum,
    any,
    all,
)
"""What asks a dict for something else than the order of its keys."""
_ASKING: tuple[Any, ...] = (list, tuple, iter, enumerate, reversed, zip, map, filter, str, repr, print, min, max, next)
"""What goes through the keys of a dict in their order."""
_PASSING_ON: tuple[Any, ...] = (enumerate, zip, reversed, map, filter)
"""What gives the items of what it gets as they are, so that one of them may be one of several."""
_STEPPING = frozenset(("join", "extend"))
"""Methods that go through what they get."""
_KEEPING = frozenset(("append", "appendleft", "insert", "setdefault", "get", "pop", "add", "update"))
"""Methods of containers that keep a dict as it is, or know its order themselves."""
_OF_ORDER = frozenset(("keys", "values", "items", "copy"))
_TEXT_METHODS = frozenset(("__repr__", "__str__", "__format__"))
_IN_PYTHON = (types.FunctionType, types.MethodType)
_OF_OBJECTS: tuple[Any, ...] = (
    getattr, setattr, hasattr, delattr, isinstance, type, vars, operator.is_, operator.is_not, operator.setitem, operator.getitem,
    operator.delitem, functools.reduce, next, torch.utils.checkpoint.checkpoint,
    *(getattr(kind, name) for kind in (object, type, torch.nn.Module) for name in ("__setattr__", "__delattr__")),
    object.__getattribute__, type.__getattribute__, super, id, callable, min, max, itertools.repeat,
    operator.iadd, operator.iand, operator.iconcat, operator.imul, operator.ior, operator.isub, operator.ixor,
)  # fmt: skip
"""What asks for the object, or passes it on; of those that look into it, the statements know how."""


_UNPACKED = (spreading.Spread, keywords.Keywords)
"""What stands for several arguments of a call."""


def call(function: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call anything from converted code."""
    session = current()
    if session is None:
        return function(*args, **kwargs)
    if isinstance(function, TaggedUnion):
        return session.over(function, lambda option: call(option, *args, **kwargs))
    function = behind(function)
    original = _original(function)
    if original is not None:
        return _call_original(session, function, original, args, kwargs)
    otherwise = _otherwise(session, function, args, kwargs)
    if otherwise is not None:
        return otherwise()
    handler = handler_of(function)
    table = _looked_into(session, function, handler, args)
    if table is not None:
        in_order = all(function is not known for known in _WITHOUT_ORDER)
        again = lambda one: call(function, *_replaced(args, table, one), **kwargs)  # noqa: E731
        return optional.case_split(session, table, again, ordered=in_order)
    if handler is not None:
        union = None if takes_unions(handler) else _union_among(function, args, kwargs)
        return handler(session, *args, **kwargs) if union is None else _over_argument(session, union, function, args, kwargs)
    for kind, call_kind in _KINDS.items():
        if isinstance(function, kind):
            return call_kind(session, function, args, kwargs)
    return _call_object(session, function, args, kwargs)


def _otherwise(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Another way to make a call, where only the program knows what is spread or shown in its arguments; else ``None``."""
    if any(type(value) in _UNPACKED for value in (*args, *kwargs.values())):
        return lambda: _call_unpacked(session, function, args, kwargs)
    if optional.has_optional(kwargs):
        return lambda: optional.case_split(session, kwargs, lambda given: call(function, *args, **given))
    shown = _with_views(session, function, args)
    return None if shown is None else lambda: call(*shown, **kwargs)


def _with_views(session: Session, function: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """A function and its arguments with views of dicts as they are now; ``None`` where nothing is to be changed."""
    if type(function) is types.FunctionType:
        return None
    given = [optional.now(session, value) for value in args]
    owner = getattr(function, "__self__", None) if isinstance(function, types.BuiltinMethodType) else None
    shown = optional.now(session, owner)
    if shown is owner and all(new is old for new, old in zip(given, args)):
        return None
    return (function if shown is owner else attr(shown, function.__name__), *given)


def _look_into_classes(session: Session, function: Any, args: tuple[Any, ...]) -> None:
    """What a function that is not the user's may read from dicts of classes is guarded."""
    if not isinstance(function, _IN_PYTHON) and all(function is not known for known in _WITHOUT_ORDER):
        attribute_tables.look_into(session, args)


def _call_unpacked(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call with ``*items`` or ``**mapping`` of which only the program knows what it gives."""
    key = keywords.first(kwargs)
    if key is not None:
        return keywords.call(session, function, args, kwargs, key)
    return spreading.call(session, function, args, kwargs, is_users=handler_of(function) is None)


def _looked_into(session: Session, function: Any, handler: Any, args: tuple[Any, ...]) -> Any:
    """The dict or set among some arguments of which a function needs the keys, or their order, that only the program knows."""
    if session.places.class_tables:
        _look_into_classes(session, function, args)
    table = next((value for value in args if isinstance(value, AbstractSet) or optional.has_optional(value)), None)
    if table is not None and _looks_into(function, handler, table):
        return table
    return _asked_for_order(session, function, args)


def _asked_for_order(session: Session, function: Any, args: tuple[Any, ...]) -> Any:
    """The dict among some arguments of which a function asks the order of the keys, if that is not the one of the object."""
    written = function.__func__ if isinstance(function, types.MethodType) else function
    if isinstance(function, types.MethodType) and isinstance(function.__self__, torch.nn.Module) and written.__name__ in _OF_TABLES:
        _check_tables(session, function.__self__)
    if type(written) is types.FunctionType or any(function is known for known in _WITHOUT_ORDER):
        return None
    tables = [value for value in args if session.blocks.key_orders.asks(value) is not None]
    if not tables:
        return None
    if any(function is known for known in _ASKING) or getattr(function, "__name__", None) in _STEPPING:
        return tables[0]
    if getattr(function, "__name__", None) not in _KEEPING and function not in FAMILY:
        session.blocks.key_orders.check(tables[0], session.here())
    return None


_OF_TABLES = frozenset(
    f"{named}{what}" for named in ("", "named_") for what in ("children", "modules", "parameters", "buffers")
) | {"state_dict"}
"""The methods of modules that go through the tables of all that are in one."""


def _check_tables(session: Session, module: torch.nn.Module) -> None:
    """The order in which modules have their parameters, buffers and modules is asked by a method that takes one order."""
    for table in (table for part in module.modules() for table in storage.tables(part)):
        session.blocks.key_orders.check_order(session.blocks.key_orders.of(table), session.here(), lambda order: order is not None)


def _looks_into(function: Any, handler: Any, table: Any) -> bool:
    """Whether a function needs to know what is in a dict or set."""
    if any(has_own(table, name) for name in special_methods.answering(function)):
        return False  # the user's method looks into it
    if handler is not None:
        return optional.has_optional(table) and function not in _OF_OBJECTS
    return function in _SETTLING or getattr(function, "__name__", None) in _STEPPING


def _call_original(session: Session, function: Any, original: Any, args: Any, kwargs: Any) -> Any:
    if standard_library.takes_a_list(function) and args and isinstance(args[0], TaggedUnion):
        return session.over(args[0], lambda option: call(function, option, *args[1:], **kwargs))
    refused = standard_library.refusal(function, args)
    if refused is not None:
        raise raised(TypeError(refused))
    return call(original, *args, **kwargs)


def _original(function: Any) -> Any:
    """What a static, compiled or C function was made from: the program is one of the function as it is written in Python."""
    if hasattr(type(function), "__dy2st_original__"):
        return function.__dy2st_original__
    if isinstance(function, types.FunctionType):
        return function.__dict__.get("_torchdynamo_orig_callable")
    if type(function) is types.BuiltinFunctionType:
        return standard_library.in_python(function)
    if isinstance(function, torch.jit.ScriptFunction):
        return getattr(function, "_torchdynamo_inline", None)
    if isinstance(function, torch.nn.Module) and type(function).__module__ == "torch._dynamo.eval_frame":
        return function._orig_mod
    return None


def _replaced(args: tuple[Any, ...], old: Any, new: Any) -> tuple[Any, ...]:
    return tuple(new if value is old else value for value in args)


def _call_alias(session: Session, alias: Any, args: Any, kwargs: Any) -> Any:
    """``typing.Counter[str]()``: what the class makes remembers the alias, if it can."""
    if type(alias) is not types.GenericAlias and not getattr(alias, "_inst", True):
        return alias(*args, **kwargs)  # raises what eager raises
    made = call(alias.__origin__, *args, **kwargs)
    for option in options_of(made):
        if storage.table_of(option) is not None:
            call(setattr, option, "__orig_class__", alias)
    return made


def _call_partial(session: Session, function: functools.partial[Any], args: Any, kwargs: Any) -> Any:
    return call(function.func, *function.args, *args, **{**function.keywords, **kwargs})


def _call_module(session: Session, function: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    return modules.call_module(session, function, call, args, kwargs)


def _call_builtin_method(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """A method written in C: of tensors, strings and containers."""
    statement = special_methods.statement(method.__self__, method.__name__, args)
    if statement is not None:
        return call(statement, method.__self__, *args, **kwargs)
    if method.__name__ in ("__contains__", "__getitem__", "__reversed__") and isinstance(method.__self__, _CONTAINERS):
        return _call_special(session, method, args, kwargs)
    return _call_ordinary_method(session, method, args, kwargs)


def _call_ordinary_method(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    owner = method.__self__
    if isinstance(owner, torch.Tensor):
        handler = handler_of(getattr(torch.Tensor, method.__name__, None))
        return _call_plain(session, method, args, kwargs) if handler is None else handler(session, owner, *args, **kwargs)
    if isinstance(owner, torch.Generator) or (
        isinstance(owner, (io.IOBase, random.Random)) and id(owner) not in session.allocations.created
    ):
        return surroundings_method(session, owner, method, args, kwargs)
    if isinstance(owner, str) and method.__name__ in _STRING_METHODS:
        return _STRING_METHODS[method.__name__](session, owner, *args, **kwargs)
    if isinstance(owner, tuple) and method.__name__ in ("index", "count") and keys.any_open((*owner, *args)):
        return ordering.search(session, owner, method.__name__, *args)
    if isinstance(owner, (set, frozenset)) and any(isinstance(value, AbstractSet) for value in args):
        return _with_sets(session, owner, method, args)
    if isinstance(owner, type) and issubclass(owner, dict) and method.__name__ == "fromkeys":
        return tables.from_keys(session, owner, *args, **kwargs)
    if len(args) == 1 and not kwargs and method.__name__ in ranges.METHODS and ranges.is_asked_at_runtime(owner, *args):
        return ranges.METHODS[method.__name__](session, owner, args[0])
    if isinstance(owner, (list, dict, set, collections.deque, types.MappingProxyType)):
        return _call_container(session, owner, method, args, kwargs)
    if isinstance(owner, BaseException) and method.__name__ == "add_note":
        return call(getattr(BaseException, method.__name__), owner, *args, **kwargs)
    made = _call_plain(session, method, args, kwargs)
    return construction.registered(session, made) if method.__name__ == "__new__" and isinstance(owner, type) else made


def _connected(session: Session, separator: str, items: Any) -> Any:
    return text.connected(separator, iteration.collected(items))


_STRING_METHODS: dict[str, Callable[..., Any]] = {
    "format": lambda session, template, *args, **kwargs: text.formatted(session, template, args, kwargs),
    "format_map": lambda session, template, mapping: text.formatted(session, template, (), mapping),
    "join": _connected,
}
"""What strings do with values that they get."""


def _call_wrapper(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """A special method of a class written in C, bound to an object: it does what the statement does that calls it."""
    unbound, owner = getattr(method.__objclass__, method.__name__), method.__self__
    if isinstance(owner, type) and method.__name__ == "__call__":
        return construction.made_by_type(session, owner, args, kwargs, _call_plain)
    handler = handler_of(unbound)
    if handler is not None:
        return handler(session, owner, *args, **kwargs)
    if not isinstance(owner, _CONTAINERS):
        return _call_plain(session, method, args, kwargs)
    statement = special_methods.statement(owner, method.__name__, args)
    return _call_special(session, method, args, kwargs) if statement is None else call(statement, owner, *args, **kwargs)


_CONTAINERS = (list, dict, set, collections.deque)


def _call_special(session: Session, method: Any, args: Any, kwargs: Any) -> Any:
    """A special method that a container has from Python, past the one of the user's class."""
    owner = method.__self__
    if method.__name__ in special_methods.READING and optional.has_optional(owner):
        return optional.case_split(session, owner, lambda known: call(getattr(known, method.__name__), *args), ordered=True)
    step = access.OF_CONTAINERS.get(method.__name__)
    if step is not None and not kwargs:
        return step(session, owner, *args)
    if session.lists.of(owner) is not None:
        return _call_of_list(session, owner, method.__name__, args)
    special_methods.check(session, owner, method.__name__)
    if method.__name__ not in _READING_WRAPPERS:
        session.places.write(ContentsPlace(owner))
    return _call_plain(session, method, args, kwargs)


def _call_of_list(session: Session, owner: Any, name: str, args: Any) -> Any:
    """A special method of ``list``, past the one that a class of the user's has, of a list of the program."""
    known = lists.required(session, owner)
    match name:
        case "__delitem__":
            return lists.del_item(session, known, *args)
        case "__eq__":
            return comparisons.equal_lists(session, owner, *args) if isinstance(args[0], list) else NotImplemented
        case "__contains__":
            return ordering.is_in(session, owner, *args)
        case "__add__":
            return lists.concat(session, owner, *args)
    raise errors.CaptureError(
        f"list.{name}() is called of a list that changes length inside a captured block",
        session.here(),
        fix="use indexing, len, a for loop, or the methods append, extend, insert and pop",
    )


def _call_unbound(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """``dict.get(d, key)``: a method of a class written in C, with the object as the first argument."""
    owner = args[0] if args else None
    if not isinstance(owner, function.__objclass__) or isinstance(owner, torch.Tensor):
        return _call_plain(session, function, args, kwargs)
    method = getattr(owner, function.__name__) if isinstance(owner, AbstractObject) else function.__get__(owner)
    return call(method, *args[1:], **kwargs)


def _call_object(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Anything else with a ``__call__``."""
    if isinstance(function, CachedFunction):
        return call(function.__wrapped__, *args, **kwargs)
    own_call = type(function).__call__
    if isinstance(own_call, types.FunctionType) and not is_skipped(own_call):
        of_class(session, function, "__call__")
        return call(types.MethodType(own_call, function), *args, **kwargs)
    return _call_plain(session, function, args, kwargs)


def _call_method(session: Session, method: types.MethodType, args: Any, kwargs: Any) -> Any:
    if isinstance(method.__self__, AbstractTuple):
        return method(*args, **kwargs)
    if isinstance(method.__self__, type) and issubclass(method.__self__, torch.autograd.Function) and method.__name__ == "apply":
        return modules.call_autograd_function(session, method.__self__, args, kwargs)
    if isinstance(method.__self__, collections.Counter) and method.__func__ in tables.COUNTING:
        return tables.update(session, method.__self__, *args, subtracts=method.__name__ == "subtract", **kwargs)
    if isinstance(method.__self__, random.Random) and id(method.__self__) not in session.allocations.created:
        return surroundings_method(session, method.__self__, method, args, kwargs)
    if isinstance(method.__self__, logging.Logger) and method.__name__ in LOG_METHODS:
        return log(session, method, *args, **kwargs)
    if isinstance(method.__self__, contextlib.ExitStack) and method.__name__ in managers.STACK_METHODS:
        return managers.STACK_METHODS[method.__name__](session, method.__self__, *args, **kwargs)
    if isinstance(method.__func__, types.FunctionType) and handler_of(method.__func__) is None:
        return _call_function(session, method.__func__, (method.__self__, *args), kwargs, of_class=True)
    return call(method.__func__, method.__self__, *args, **kwargs)


def _call_function(session: Session, function: types.FunctionType, args: Any, kwargs: Any, of_class: bool = False) -> Any:
    function = as_written(function)
    if opaque.is_opaque(function):
        opaque.look(session, function, args, kwargs)
        return _call_plain(session, function, args, kwargs)
    if is_skipped(function):
        session.blocks.key_orders.asks_within((args, kwargs))
        return _call_plain(session, function, args, kwargs)
    converted = session.operators.convert(function)
    if converted is None:
        return _call_plain(session, function, args, kwargs)
    return enter(session, function, converted, args, kwargs, of_class or session.tracker.source_of(function) is not None)


@starts_function
def enter(session: Session, function: types.FunctionType, converted: Any, args: Any, kwargs: Any, outside: bool = True) -> Any:
    """Run the converted form of a function: what it reads from its globals and closure is guarded, what it writes noted.

    Args:
        outside: whether the function existed before the capture, and so did what its closure holds.
    """
    if not is_part_of_library(function):
        session.position.user_files.add(function.__code__.co_filename)
    variables.track(session, function, converted, outside)
    if session.frames.depth >= _MAX_DEPTH or session.blocks.nesting >= _MAX_NESTING:
        raise errors.CaptureError(
            f"{function.__qualname__} calls itself {session.frames.depth} times; a depth that tensors decide cannot be captured",
            session.here(),
            fix="write the recursion as a while loop, or mark the function with @dy2st.not_to_static",
        )
    bound = converted.bind(function, session.operators.namespace)
    bound.__defaults__, bound.__kwdefaults__ = map(session.tracker.with_arguments, (bound.__defaults__, bound.__kwdefaults__))
    written_globals = [ItemPlace(function.__globals__, name) for name in converted.written_globals]
    if bound.__code__.co_flags & inspect.CO_GENERATOR:
        return UserGenerator(session, function, bound, written_globals, (args, kwargs))
    with session.frames.entered(bound, written_globals):
        return bound(*args, **kwargs)


def _construct(session: Session, kind: type, args: Any, kwargs: Any) -> Any:
    if issubclass(kind, enum.Enum) and keys.any_open(args):
        return keys.over(session, args, lambda known: _member(session, kind, known, kwargs))
    union = next((value for value in args if isinstance(value, TaggedUnion)), None)
    if union is not None and (kind in FAMILY or kind in (collections.deque, set, frozenset)):
        return _over_argument(session, union, kind, args, kwargs)
    if kind is collections.deque:
        return deques.made(*args, **kwargs)
    if kind in (set, frozenset) and args:
        return sets.collected(session, kind, *args)
    table = tables.made(session, kind, args, kwargs)
    if table is not None:
        return construction.registered(session, table)
    made = construction.construct(session, kind, args, kwargs, _call_plain)
    return sets.owned(session, made) if kind is set else made


def _member(session: Session, kind: type[enum.Enum], args: tuple[Any, ...], kwargs: Any) -> Any:
    """The member of an enumeration with a value; of a value that may be any number or text, one of all members."""
    value = args[0] if len(args) == 1 and not kwargs else None
    own = "_missing_" in {name for base in kind.__mro__ if base is not enum.Enum for name in vars(base)}
    if not lookup.is_runtime(value):
        return _call_plain(session, kind, args, kwargs)
    if own:
        raise errors.DataDependentError(
            f"{kind.__qualname__}() gets a value that is known only at run time, and makes members of others than its own",
            session.here(),
            fix="choose among the members with if statements, or with a dict of them",
        )

    def missing() -> NoReturn:
        raise raised(session.call(ValueError, text.fstring((value, "r", ""), f" is not a valid {kind.__qualname__}")))

    return lookup.first([*kind], lambda member: lookup.equal(session, value, member.value), lambda member: member, missing)


def _call_container(session: Session, owner: Any, function: Any, args: Any, kwargs: Any) -> Any:
    if isinstance(owner, list) or cells.holds(owner):
        method = ordering.method if isinstance(owner, list) else _call_of_cells
        return method(session, owner, function.__name__, args, kwargs)
    of_attributes = _method_of_attributes(session, owner, function.__name__)
    if of_attributes is not None:
        return of_attributes(session, owner, function.__name__, args, kwargs)
    if isinstance(owner, dict) and function.__name__ in _OF_ORDER and session.blocks.key_orders.asks(owner) is not None:
        return _with_order(session, owner, function)
    if tables.is_keyed(owner, function.__name__, args) or (function.__name__ == "setdefault" and optional.has_optional(owner)):
        return tables.method(session, owner, function, args, kwargs)
    if isinstance(owner, collections.OrderedDict) and function.__name__ == "move_to_end":
        return tables.move_to_end(session, owner, *args, **kwargs)
    if isinstance(owner, dict) and function.__name__ == "update":
        return tables.update(session, owner, *args, **kwargs)
    if isinstance(owner, (set, collections.deque)) and keys.has_union(args):
        return keys.over_unions(session, args, lambda known: _call_container(session, owner, function, known, kwargs))
    _check_counted(session, owner, function.__name__, args)
    if isinstance(owner, dict) and function.__name__ in (optional.METHODS if optional.has_optional(owner) else optional.TAKING):
        return optional.method(session, owner, function.__name__, args, kwargs)
    if function.__name__ not in _READING_METHODS:
        session.places.write(ContentsPlace(owner))
    return _given_by_container(session, owner, function, function(*args, **kwargs))


def _given_by_container(session: Session, owner: Any, function: Any, result: Any) -> Any:
    """What a method of a container has given: a copy is made now, and a view is remembered."""
    return construction.registered(session, result) if function.__name__ == "copy" else session.places.views.added(owner, result)


def _call_of_cells(session: Session, owner: Any, name: str, args: Any, kwargs: Any) -> Any:
    """A method of a dict that is in a list of the program, and is changed there."""
    if name == "update":
        for key, item in dict(*args, **kwargs).items():
            access.set_item(owner, key, item)
        return None
    if name not in _READING_METHODS:
        raise errors.CaptureError(
            f"dict.{name}() changes the keys of a dict that is in a list of a length that a tensor decides",
            session.here(),
            fix="give it all its keys where it is made, and set their values",
        )
    return getattr(cells.as_read(session, owner), name)(*args, **kwargs)


def _method_of_attributes(session: Session, owner: Any, name: str) -> Callable[..., Any] | None:
    """What a method of a container does that is the dict of a class, or changes the attributes of an object."""
    if id(owner) in session.places.class_tables:
        return attribute_tables.call_of_class
    return attribute_tables.call if id(owner) in session.places.tables and name not in _READING_METHODS else None


def _check_counted(session: Session, owner: Any, name: str, args: tuple[Any, ...]) -> None:
    """A deque whose method compares or counts with numbers that only the program knows, as what stands for it does.

    Raises:
        NeedsAbstract: it is one from outside.
    """
    if isinstance(owner, collections.deque) and name not in _KEEPING and keys.any_open((*args, *owner)):
        session.outside.check_changed(owner)


def _with_order(session: Session, table: Any, method: Any) -> Any:
    """A method of a dict that gives its keys in their order, which is not that of the Python object."""
    name = method.__name__
    if name == "copy":
        return optional.copied(session, table)
    return optional.of_each_way(session, table, name)


def _with_sets(session: Session, owner: Any, method: Any, args: tuple[Any, ...]) -> Any:
    """A method of a set that gets a set of which the members may be known only at run time."""
    table = next(value for value in args if isinstance(value, AbstractSet))
    return optional.case_split(session, table, lambda one: _call_builtin_method(session, method, _replaced(args, table, one), {}))


def _call_plain(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Call as it is; lists of the program cannot go where nobody knows them."""
    union = _union_among(function, args, kwargs)
    if union is not None:
        return _over_argument(session, union, function, args, kwargs)
    if getattr(function, "__name__", None) in _TEXT_METHODS and not kwargs:
        return wording.of_method(session, function, args)
    check_surroundings(session, function, args, kwargs)
    hidden_state.called(session, function, args)
    if not session.blocks.at_root:
        iterators.check_own(session, function, *args, *kwargs.values())
    for value in (*args, *kwargs.values()):
        if isinstance(value, spreading.Rest):
            raise spreading.refused(session, function)
        if session.lists.of(contents(value)) is not None and not isinstance(value, AbstractDeque):
            kind = "list" if isinstance(value, list) else "tuple"
            raise errors.CaptureError(
                f"{getattr(function, '__qualname__', function)}() gets a {kind} that changes length inside a captured block",
                session.here(),
                fix="pass torch.stack(items) or torch.cat(items), or loop over the list in converted code",
            )
    flag = next((value for value in (*args, *kwargs.values()) if isinstance(value, torch.SymBool)), None)
    with hidden_state.watched(session, (*args, *kwargs.values())):
        result = (
            _given_numbers(session, function, args, kwargs)
            if flag is None
            else _call_with_flag(session, flag, function, args, kwargs)
        )
    if isinstance(result, (list, tuple, dict)):
        session.ownership.own_all(result)
    hidden_state.made(session, result)
    return result


def _watched(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Call as it is; what it writes to objects is noted, of libraries that are known to write to tensors only, to modules."""
    if isinstance(getattr(function, "__self__", None), torch.Tensor):
        return function(*args, **kwargs)
    if is_in_skipped_package(function):
        return unseen_writes.called_with_modules(session, function, args, kwargs)
    return unseen_writes.called(session, function, args, kwargs)


def _given_numbers(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """The same; that a library does not take a number which is known only at run time is no error of the user's code.

    Raises:
        DataDependentError: it does not.
    """
    try:
        return _watched(session, function, args, kwargs)
    except (TypeError, ValueError, OverflowError) as error:
        given = (*args, *kwargs.values(), getattr(function, "__self__", None))
        if is_in_skipped_package(function) or not _are_numbers(given):
            raise
        raise errors.DataDependentError(
            f"{_name(function)}() gets a number that is known only at run time, and needs to know it",
            session.here(),
            seen=f"{type(error).__name__}: {error}",
            fix="write a loop or if statements in its place, or pass the number as a Python argument",
        ) from None


def _are_numbers(values: Iterable[Any]) -> bool:
    """Whether there are numbers of the program among some values, and no tensors, which have errors of their own."""
    return any(isinstance(value, SYMBOLIC_NUMBERS) for value in values) and not any(
        isinstance(value, torch.Tensor) for value in values
    )


def _name(function: Any) -> str:
    """What a function or class is called; the call of a class comes as one of ``type``."""
    made = function.args[0] if isinstance(function, functools.partial) and function.args else function
    return getattr(made, "__qualname__", None) or type(made).__qualname__


def _call_with_flag(session: Session, flag: torch.SymBool, function: Any, args: Any, kwargs: Any) -> Any:
    """Call with a bool of the program; where the function needs to know which it is, in a branch for each."""
    attempt = session.blocks.begin_attempt([])
    try:
        result = _watched(session, function, args, kwargs)
    except BaseException as error:
        session.blocks.roll_back(attempt)
        if not isinstance(error, GuardOnDataDependentSymNode) and not (isinstance(error, TypeError) and "SymBool" in str(error)):
            raise
    else:
        session.blocks.commit(attempt)
        return result

    def once(known: bool) -> Any:
        named = {name: known if value is flag else value for name, value in kwargs.items()}
        return call(function, *_replaced(args, flag, known), **named)

    return capture_if_exp(flag, lambda: once(True), lambda: once(False))


def _union_among(function: Any, args: Any, kwargs: Any) -> TaggedUnion | None:
    passes_on = any(function is known for known in _PASSING_ON)
    for value in (*args, *kwargs.values()):
        parts = storage.plain(value) if isinstance(value, (list, tuple)) and not passes_on else (value,)
        for part in parts:
            if isinstance(part, TaggedUnion):
                return part
    return None


def _over_argument(session: Session, union: TaggedUnion, function: Any, args: Any, kwargs: Any) -> Any:
    """Call once for each option of an argument."""

    def once(option: Any) -> Any:
        given, named = (with_option(part, union, option) for part in (args, kwargs))
        return call(function, *given, **named)

    return session.over(union, once)


@contextlib.contextmanager
def torch_patched() -> Iterator[None]:
    """What has to be different in torch itself while a capture runs.

    Modules called by code that is not converted (``nn.Sequential``) are called like any other, and operations on symbolic
    floats are recorded. Other threads see no difference.
    """
    calls, modes, numbers = modules.CALLS.applied(), managers.INFERENCE_MODE.applied(), number_operators.OPERATORS.applied()
    with calls, modes, numbers, FAST_PATHS.applied(), TEXTS.applied(), own_mode_stack(), quiet_torch():
        yield


_KINDS: dict[type, Callable[[Session, Any, Any, Any], Any]] = {
    functools.partial: _call_partial,
    types.GenericAlias: _call_alias,
    typing._BaseGenericAlias: _call_alias,  # type: ignore[attr-defined]
    torch.nn.Module: _call_module,
    types.MethodType: _call_method,
    types.FunctionType: _call_function,
    type: _construct,
    types.BuiltinMethodType: _call_builtin_method,
    types.MethodWrapperType: _call_wrapper,
    types.WrapperDescriptorType: _call_unbound,
    types.MethodDescriptorType: _call_unbound,
    operator.itemgetter: call_getter,
    operator.attrgetter: call_getter,
    operator.methodcaller: call_method_caller,
}
"""How each kind of callable is called."""
