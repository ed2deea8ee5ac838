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
import logging
import operator
import random
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import torch

from dy2st import errors
from dy2st.capture.arrays import functions as arrays
from dy2st.capture.attributes.attributes import attr
from dy2st.capture.attributes.class_attributes import of_class
from dy2st.capture.branching import keys, keywords, lookup, optional
from dy2st.capture.branching.unions import narrowed
from dy2st.capture.calls import autograd_functions, cached_functions, managers, modules, tensor_classes
from dy2st.capture.calls.builtin_methods import call_builtin_method, call_wrapper
from dy2st.capture.collections import deques, made_tables, sets, tables
from dy2st.capture.collections.tables import FAMILY
from dy2st.capture.diagnostics.translation import quiet_torch
from dy2st.capture.diagnostics.user_frames import starts_function
from dy2st.capture.environment import defaults, standard_library
from dy2st.capture.environment.sources import behind, wrapped_by
from dy2st.capture.environment.users_code import as_written, is_part_of_library, is_skipped
from dy2st.capture.iterables.generators import UserGenerator
from dy2st.capture.iterables.watching import stepped
from dy2st.capture.library import (
    FAST_PATHS,
    LOG_METHODS,
    SETTINGS,
    CachedFunction,
    at_once,
    call_getter,
    call_method_caller,
    handler_of,
    log,
    progress_bars,
    surroundings_method,
    takes_unions,
)
from dy2st.capture.looping import spreading
from dy2st.capture.objects import construction
from dy2st.capture.operators import number_operators
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session, current
from dy2st.capture.texts import text
from dy2st.capture.texts.marks import TEXTS
from dy2st.capture.torch_functions.broadcasting import BROADCASTING
from dy2st.capture.torch_functions.mode_stack import own_mode_stack
from dy2st.capture.torch_functions.names import as_torch_names
from dy2st.capture.unconverted import dimensions, islands, opaque, variables, with_callbacks
from dy2st.capture.unconverted.islands import blamed
from dy2st.capture.unconverted.looked_into import WITHOUT_ORDER, goes_through, looked_into
from dy2st.capture.unconverted.plain import call_plain, over_argument, replaced, union_among
from dy2st.capture.unconverted.without_source import with_converted_callees
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject, AbstractTuple
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS, TaggedUnion, options_of
from dy2st.capture.writes.places import ItemPlace

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

tensor_classes.register()
_MAX_DEPTH = 200
_MAX_NESTING = 32


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
    table = looked_into(session, function, handler, args)
    if table is not None:
        return _of_each_way(session, table, function, lambda one: call(function, *replaced(args, table, one), **kwargs))
    if handler is not None:
        args, kwargs = as_torch_names(function, args, kwargs)
        union = None if takes_unions(handler) else union_among(function, args, kwargs)
        if union is not None:
            return over_argument(session, union, function, args, kwargs)
        return dimensions.given(session, function, args, kwargs, lambda: handler(session, *args, **kwargs))
    for kind, call_kind in _KINDS.items():
        if isinstance(function, kind):
            return call_kind(session, function, args, kwargs)
    return _call_object(session, function, args, kwargs)


def _of_each_way(session: Session, table: Any, function: Any, again: Callable[[Any], Any]) -> Any:
    """Return a call of a function with a dict or set of which only the program knows what is in it, or in which order."""
    if function is len and optional.is_counted(table):
        return optional.length(session, table)
    if goes_through(function) and optional.is_wide(session, table):
        return again(optional.view(table, "keys"))
    in_order = all(function is not known for known in WITHOUT_ORDER)
    return optional.case_split(session, table, again, ordered=in_order)


def _otherwise(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any] | None:
    """Return another way to make a call, where only the program knows what is spread or shown in its arguments; else ``None``."""
    if any(type(value) in _UNPACKED for value in (*args, *kwargs.values())):
        return lambda: _call_unpacked(session, function, args, kwargs)
    if optional.has_optional(kwargs):
        return lambda: optional.case_split(session, kwargs, lambda given: call(function, *args, **given))
    with_arrays = arrays.otherwise(session, function, args, kwargs)
    if with_arrays is not None:
        return with_arrays
    shown = _with_views(session, function, args)
    return None if shown is None else lambda: call(*shown, **kwargs)


def _with_views(session: Session, function: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return a function and its arguments with views of dicts as they are now; ``None`` where nothing is to be changed."""
    if type(function) is types.FunctionType:
        return None
    given = [optional.now(session, value) for value in args]
    owner = getattr(function, "__self__", None) if isinstance(function, types.BuiltinMethodType) else None
    shown = optional.now(session, owner)
    if shown is owner and all(new is old for new, old in zip(given, args)):
        return None
    return (function if shown is owner else attr(shown, function.__name__), *given)


def _call_unpacked(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a call with ``*items`` or ``**mapping`` of which only the program knows what it gives."""
    key = keywords.first(kwargs)
    if key is not None:
        return keywords.call(session, function, args, kwargs, key)
    return spreading.call(session, function, args, kwargs, is_users=handler_of(function) is None)


def _call_original(session: Session, function: Any, original: Any, args: Any, kwargs: Any) -> Any:
    if standard_library.takes_a_list(function) and args and isinstance(args[0], TaggedUnion):
        return session.over(args[0], lambda option: call(function, option, *args[1:], **kwargs))
    refused = standard_library.refusal(function, args)
    if refused is not None:
        raise raised(TypeError(refused))
    return call(original, *args, **kwargs)


def _original(function: Any) -> Any:
    """Return what a static, compiled or C function was made from: the program is one of the function as it is written in Python."""
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


def _call_alias(session: Session, alias: Any, args: Any, kwargs: Any) -> Any:
    """Return ``typing.Counter[str]()``: what the class makes remembers the alias, if it can."""
    if type(alias) is not types.GenericAlias and not getattr(alias, "_inst", True):
        return alias(*args, **kwargs)  # raises what eager raises
    result = call(alias.__origin__, *args, **kwargs)
    for option in options_of(result):
        if storage.table_of(option) is not None:
            call(setattr, option, "__orig_class__", alias)
    return result


def _call_partial(session: Session, function: functools.partial[Any], args: Any, kwargs: Any) -> Any:
    return call(wrapped_by(function), *function.args, *args, **{**function.keywords, **kwargs})


def _call_module(session: Session, function: torch.nn.Module, args: Any, kwargs: Any) -> Any:
    return modules.call_module(session, function, call, args, kwargs)


def _call_unbound(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Return ``dict.get(d, key)``: a method of a class written in C, with the object as the first argument."""
    owner = args[0] if args else None
    if isinstance(owner, SYMBOLIC_NUMBERS) and issubclass(call(type, owner), function.__objclass__):
        return call(attr(owner, function.__name__), *args[1:], **kwargs)
    if not isinstance(owner, function.__objclass__) or isinstance(owner, torch.Tensor):
        return call_plain(session, function, args, kwargs)
    method = getattr(owner, function.__name__) if isinstance(owner, AbstractObject) else function.__get__(owner)
    return call(method, *args[1:], **kwargs)


def _call_object(session: Session, function: Any, args: Any, kwargs: Any) -> Any:
    """Anything else with a ``__call__``."""
    if isinstance(function, CachedFunction):
        wrapped = function.__wrapped__
        return cached_functions.call_cached(session, function, args, kwargs, lambda: call(wrapped, *args, **kwargs))
    described = storage.of_class(type(function), "__call__")
    if isinstance(described, (property, staticmethod, classmethod)):
        of_class(session, function, "__call__")
        if isinstance(described, property):
            return call(call(described.fget, function), *args, **kwargs)
        return call(described.__get__(function, type(function)), *args, **kwargs)
    own_call = type(function).__call__
    if isinstance(own_call, types.FunctionType) and (not is_skipped(own_call) or opaque.is_opaque(own_call)):
        of_class(session, function, "__call__")
        return call(types.MethodType(own_call, function), *args, **kwargs)
    return call_plain(session, function, args, kwargs)


def _call_method(session: Session, method: types.MethodType, args: Any, kwargs: Any) -> Any:
    if isinstance(method.__self__, AbstractTuple):
        return method(*args, **kwargs)
    if autograd_functions.is_application(method):
        return autograd_functions.call_autograd_function(session, method.__self__, args, kwargs)  # type: ignore[arg-type]
    if isinstance(method.__self__, collections.Counter) and method.__func__ in tables.COUNTING:
        return tables.update(session, method.__self__, *args, subtracts=method.__name__ == "subtract", **kwargs)
    if isinstance(method.__self__, random.Random) and id(method.__self__) not in session.allocations.created:
        return surroundings_method(session, method.__self__, method, args, kwargs)
    if isinstance(method.__self__, logging.Logger) and method.__name__ in LOG_METHODS:
        return log(session, method, *args, **kwargs)
    if isinstance(method.__self__, contextlib.ExitStack):
        managers.check_stack(session, method)
        if method.__name__ in managers.STACK_METHODS:
            return managers.STACK_METHODS[method.__name__](session, method.__self__, *args, **kwargs)
    if isinstance(method.__func__, types.FunctionType) and handler_of(method.__func__) is None:
        older = not _is_of_new_class(session, method)
        return _call_function(session, method.__func__, (method.__self__, *args), kwargs, of_class=older)
    return call(method.__func__, method.__self__, *args, **kwargs)


def _is_of_new_class(session: Session, method: types.MethodType) -> bool:
    """Tell whether a method stands in a class that the captured code has made: each call makes another."""
    kind = method.__self__ if isinstance(method.__self__, type) else type(method.__self__)
    new = (base for base in kind.__mro__ if session.outside.is_of_call(base))
    return any(method.__func__ in _functions_of(held) for base in new for held in vars(base).values())


def _functions_of(held: Any) -> tuple[Any, ...]:
    """Return what a class calls for something that it holds."""
    if isinstance(held, property):
        return held.fget, held.fset, held.fdel
    return (held,) if isinstance(held, types.FunctionType) else ()


def _call_builtin_method(session: Session, method: types.BuiltinMethodType, args: Any, kwargs: Any) -> Any:
    if autograd_functions.is_application(method):  # written in C since torch 2.15
        return autograd_functions.call_autograd_function(session, method.__self__, args, kwargs)  # type: ignore[arg-type]
    return call_builtin_method(session, method, args, kwargs)


def _call_function(session: Session, function: types.FunctionType, args: Any, kwargs: Any, of_class: bool = False) -> Any:
    function = as_written(function)
    if islands.is_island(session, function):
        return islands.call(session, function, args, kwargs)
    if opaque.is_opaque(function):
        if construction.keeps(session, function, args, kwargs):
            return None
        opaque.look(session, function, args, kwargs)
        return call_plain(session, function, args, kwargs)
    if is_skipped(function):
        session.blocks.key_orders.asks_within((args, kwargs))
        plainly = functools.partial(call_plain, session, function, args, kwargs)
        converted = functools.partial(_call_converted, session, function, args, kwargs, of_class)
        if not with_callbacks.applies(session, function, args, kwargs):
            return with_callbacks.where_torch_gives_up(session, function, plainly, converted)
        return with_callbacks.call(session, function, args, kwargs, plainly, converted)
    return _call_converted(session, function, args, kwargs, of_class)


def _call_converted(session: Session, function: types.FunctionType, args: Any, kwargs: Any, of_class: bool) -> Any:
    with blamed(session, function):
        converted = session.operators.convert(function)
    if converted is None:
        return call_plain(session, with_converted_callees(session, function), args, kwargs)
    args = tuple(narrowed(session, value) for value in args)
    kwargs = {name: narrowed(session, value) for name, value in kwargs.items()}
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
    bound = _bound(session, function, converted)
    written_globals = [ItemPlace(function.__globals__, name) for name in converted.written_globals]
    if bound.__code__.co_flags & inspect.CO_GENERATOR:
        giving = functools.partial(_giving, session, function, converted)
        return UserGenerator(session, function, bound, giving, written_globals, (args, kwargs))
    with session.frames.entered(bound, written_globals), blamed(session, function):
        return bound(*args, **kwargs)


def _bound(session: Session, function: types.FunctionType, converted: Any) -> types.FunctionType:
    """Return a converted form with the cells and defaults of a function."""
    bound: types.FunctionType = converted.bind(function, session.operators.namespace)
    bound.__defaults__ = defaults.with_arguments(session.tracker, bound.__defaults__)
    bound.__kwdefaults__ = defaults.with_arguments(session.tracker, bound.__kwdefaults__)
    return bound


def _giving(session: Session, function: types.FunctionType, converted: Any) -> types.FunctionType | None:
    """Return the form of a generator function that gives its items to a loop, if there is one."""
    form = converted.giving(function)
    return None if form is None else _bound(session, function, form)


def _construct(session: Session, kind: type, args: Any, kwargs: Any) -> Any:
    if issubclass(kind, enum.Enum) and keys.any_open(args):
        return keys.over(session, args, lambda known: _member(session, kind, known, kwargs))
    union = next((value for value in args if isinstance(value, TaggedUnion)), None)
    if union is not None and (kind in FAMILY or kind in (collections.deque, set, frozenset)):
        return over_argument(session, union, kind, args, kwargs)
    table = made_tables.constructed(session, kind, args, kwargs)
    if table is not None:
        return table
    if kind is collections.deque:
        return deques.create(*args, **kwargs)
    if kind in (set, frozenset) and args:
        return sets.collected(session, kind, *args)
    if progress_bars.is_bar(kind):
        return progress_bars.create(session, args, kwargs)
    listed = at_once(session, kind, args, kwargs)
    if listed is not None:
        return listed()
    if kind.__module__ == "itertools":
        args = tuple(map(stepped, args))
    table = tables.create(session, kind, args, kwargs)
    if table is not None:
        return construction.registered(session, table)
    result = construction.construct(session, kind, args, kwargs, call_plain)
    return made_tables.followed(session, sets.owned(session, result) if kind is set else result)


def _member(session: Session, kind: type[enum.Enum], args: tuple[Any, ...], kwargs: Any) -> Any:
    """Return the member of an enumeration with a value; of a value that may be any number or text, one of all members."""
    value = args[0] if len(args) == 1 and not kwargs else None
    own = "_missing_" in {name for base in kind.__mro__ if base is not enum.Enum for name in vars(base)}
    if not lookup.is_runtime(value):
        return call_plain(session, kind, args, kwargs)
    if own:
        raise errors.DataDependentError(
            f"{kind.__qualname__}() gets a value that is known only at run time, and makes members of others than its own",
            session.here(),
            fix="choose among the members with if statements, or with a dict of them",
        )

    def missing() -> NoReturn:
        raise raised(session.call(ValueError, text.fstring((value, "r", ""), f" is not a valid {kind.__qualname__}")))

    return lookup.first([*kind], lambda member: lookup.equal(session, value, member.value), lambda member: member, missing)


@contextlib.contextmanager
def torch_patched() -> Iterator[None]:
    """Apply what has to be different in torch itself while a capture runs.

    Modules called by code that is not converted (``nn.Sequential``) are called like any other, and operations on symbolic
    floats are recorded. Other threads see no difference.
    """
    calls, modes, numbers = modules.CALLS.applied(), managers.INFERENCE_MODE.applied(), number_operators.OPERATORS.applied()
    with (
        calls,
        modes,
        numbers,
        FAST_PATHS.applied(),
        TEXTS.applied(),
        SETTINGS.applied(),
        BROADCASTING.applied(),
        arrays.NUMBERS.applied(),
        own_mode_stack(),
        quiet_torch(),
    ):
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
    types.MethodWrapperType: call_wrapper,
    types.WrapperDescriptorType: _call_unbound,
    types.MethodDescriptorType: _call_unbound,
    operator.itemgetter: call_getter,
    operator.attrgetter: call_getter,
    operator.methodcaller: call_method_caller,
}
"""How each kind of callable is called."""
