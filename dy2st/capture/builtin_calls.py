"""Builtins and library functions that mean something for values known only at run time."""

from __future__ import annotations

import functools
import math
import operator
import random
import time
import types
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch.utils import checkpoint

from dy2st import errors
from dy2st.capture import access, choices, iteration, lists, text
from dy2st.capture.branch import capture_if_exp
from dy2st.capture.iterables import RuntimeIterable
from dy2st.capture.recorder import fresh_number
from dy2st.capture.session import Session
from dy2st.capture.truth import truth
from dy2st.capture.values import SYMBOLIC_NUMBERS, Choice, is_symbolic, number_kind
from dy2st_runtime import control, scalars

_Handler = Callable[..., Any]
_HANDLERS: dict[Any, _Handler] = {}


def handler_of(function: Any) -> _Handler | None:
    """The handler of a builtin or library function; ``None`` for any other."""
    try:
        return _HANDLERS.get(_original(function))
    except TypeError:
        return None


def _original(function: Any) -> Any:
    """A function as it was before torch wrapped it, which it does to some when its compiler is imported."""
    wrapped = getattr(function, "__wrapped__", None)
    return wrapped if getattr(function, "__module__", None) == "torch.random" and wrapped is not None else function


def handles(*functions: Any) -> Callable[[_Handler], _Handler]:
    """Register the handler of some functions."""

    def register(handler: _Handler) -> _Handler:
        for function in functions:
            _HANDLERS[_original(function)] = handler
        return handler

    return register


# -- numbers ---------------------------------------------------------------------------------------------------------------


@handles(int)
def _int(session: Session, value: Any = 0, *rest: Any) -> Any:
    if not is_symbolic(value):
        return int(value, *rest)
    value = session.to_number(value)
    if isinstance(value, torch.SymInt):
        return value
    return session.number(scalars.to_int, (value,), "int")


@handles(float)
def _float(session: Session, value: Any = 0.0) -> Any:
    if not is_symbolic(value):
        return float(value)
    value = session.to_number(value)
    return value if isinstance(value, torch.SymFloat) else session.number(scalars.to_float, (value,), "float")


@handles(bool)
def _bool(session: Session, value: Any = False) -> Any:
    return truth(session, value)


@handles(len)
def _len(session: Session, value: Any) -> Any:
    known = session.runtime_list(value)
    if known is not None:
        return lists.length(session, known)
    if isinstance(value, torch.Tensor):
        if value.dim() == 0:
            raise TypeError("len() of a 0-d tensor")
        return value.shape[0]
    if isinstance(value, RuntimeIterable):
        return value.length()
    own = getattr(type(value), "__len__", None)
    if not isinstance(own, types.FunctionType):
        return len(value)
    access.of_class(session, value, "__len__")
    return session.call(own, value)


def _arithmetic(function: Any, target: Any) -> _Handler:
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(a, SYMBOLIC_NUMBERS) for a in args) or any(isinstance(a, torch.Tensor) for a in args):
            return function(*args, **kwargs)
        return target(session, *args, **kwargs)

    return handle


def _round(session: Session, value: Any, digits: Any = None) -> Any:
    if number_kind(value) != "float":
        return value if digits is None else session.number(round, (value, digits), "int")
    return session.number(round, (value,) if digits is None else (value, digits), "int" if digits is None else "float")


def _divmod(session: Session, a: Any, b: Any) -> Any:
    return a // b, a % b


_HANDLERS[abs] = _arithmetic(abs, lambda session, value: session.number(operator.abs, (value,), number_kind(value)))
_HANDLERS[round] = _arithmetic(round, _round)
_HANDLERS[divmod] = _arithmetic(divmod, _divmod)
_HANDLERS[pow] = _arithmetic(pow, lambda session, a, b, *m: pow(a, b, *m))


def _math(name: str) -> _Handler:
    function = getattr(math, name)
    kind = {"floor": "int", "ceil": "int", "trunc": "int", "isnan": "bool", "isinf": "bool", "isfinite": "bool"}.get(name, "float")

    def handle(session: Session, *args: Any) -> Any:
        if not any(map(is_symbolic, args)):
            return function(*args)
        return session.number(function, [session.to_number(a) for a in args], kind)

    return handle


for _name in (key.removeprefix("math.") for key in scalars.TARGETS if key.startswith("math.")):
    _HANDLERS[getattr(math, _name)] = _math(_name)


def _extreme(function: Any, target: Any, before: Any) -> _Handler:
    """``min`` and ``max``: of numbers one operation, of tensors the comparisons that Python makes."""

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        values = _items(session, args[0]) if len(args) == 1 else list(args)
        key = kwargs.get("key")
        if values is None or not (any(map(is_symbolic, values)) or (key is not None and values)):
            return function(*args, **kwargs)
        if not values:
            return function(*args, **kwargs)
        if key is None and all(isinstance(v, (int, float, torch.SymInt, torch.SymFloat)) for v in values):
            kind = "float" if any(number_kind(v) == "float" for v in values) else "int"
            return session.number(target, values, kind)
        best = values[0]
        for value in values[1:]:
            score = value if key is None else session.call(key, value)
            top = best if key is None else session.call(key, best)
            best = _choose(session, before(score, top), value, best)
        return best

    return handle


def _choose(session: Session, test: Any, if_true: Any, if_false: Any) -> Any:
    if is_symbolic(test):
        return capture_if_exp(test, lambda: if_true, lambda: if_false)
    return if_true if test else if_false


def _items(session: Session, value: Any) -> list[Any] | None:
    if isinstance(value, torch.Tensor):
        if value.dim() and not isinstance(value.shape[0], int):
            raise errors.CaptureError(
                "this takes the items of a tensor whose length is known only at run time", session.here(),
                fix="use the tensor method: x.amax(), x.amin(), x.sum(), x.any(), x.all()",
            )  # fmt: skip
        return list(value.unbind(0))
    if session.runtime_list(value) is not None:
        raise errors.CaptureError(
            "this takes the items of a list that changes length inside a captured block", session.here(),
            fix="use torch.stack(items) and a tensor method, or a for loop",
        )  # fmt: skip
    return list(value) if isinstance(value, (list, tuple, set, dict)) else None


_HANDLERS[min] = _extreme(min, scalars.minimum, operator.lt)
_HANDLERS[max] = _extreme(max, scalars.maximum, operator.gt)


@handles(sum)
def _sum(session: Session, values: Any, start: Any = 0) -> Any:
    runtime = iteration.as_runtime(values)
    if runtime is None:
        return sum(iteration.iterated(values), start)
    total = start

    def add(item: Any) -> None:
        nonlocal total
        total = total + item

    iteration.capture_for(runtime, add, ("total",), None)
    return total


@handles(any)
def _any(session: Session, values: Any) -> Any:
    return _fold(session, values, any, lambda value, rest: capture_if_exp(value, lambda: True, rest), True)


@handles(all)
def _all(session: Session, values: Any) -> Any:
    return _fold(session, values, all, lambda value, rest: capture_if_exp(value, rest, lambda: False), False)


def _fold_at_runtime(session: Session, items: Any, decided: bool) -> Any:
    """``any`` and ``all`` of as many items as there are at run time."""
    result: Any = not decided

    def look(item: Any) -> None:
        nonlocal result
        found = truth(session, item)
        result = session.number(scalars.logical_or if decided else scalars.logical_and, (result, found), "bool")

    iteration.capture_for(items, look, ("result",), None)
    return result


def _fold(session: Session, values: Any, plain: Any, capture: Any, decided: bool) -> Any:
    runtime = iteration.as_runtime(values)
    if runtime is not None:
        return _fold_at_runtime(session, runtime, decided)
    items = _items(session, values)
    items = list(values) if items is None else items

    def rest(position: int) -> Any:
        for index in range(position, len(items)):
            value = truth(session, items[index])
            if is_symbolic(value):
                return capture(value, functools.partial(rest, index + 1))
            if bool(value) is decided:
                return decided
        return not decided

    return rest(0)


# -- iteration ---------------------------------------------------------------------------------------------------------------


@handles(range)
def _range(session: Session, *args: Any) -> Any:
    return iteration.range_(*args) if any(map(is_symbolic, args)) else range(*args)


@handles(enumerate)
def _enumerate(session: Session, iterable: Any, start: Any = 0) -> Any:
    return iteration.enumerate_(iterable, start)


@handles(zip)
def _zip(session: Session, *iterables: Any, **kwargs: Any) -> Any:
    return iteration.zip_(*iterables, **kwargs)


@handles(reversed)
def _reversed(session: Session, iterable: Any) -> Any:
    return iteration.reversed_(iterable)


@handles(list)
def _list(session: Session, values: Any = ()) -> Any:
    known = session.runtime_list(values)
    if known is not None:
        return lists.copy(session, known)
    made = list(iteration.iterated(values))
    session.own_list(made)
    return made


@handles(tuple)
def _tuple(session: Session, values: Any = ()) -> Any:
    if session.runtime_list(values) is not None:
        raise errors.CaptureError(
            "a tuple of a length that is known only at run time", session.here(), fix="keep the list, or torch.stack it"
        )
    return tuple(iteration.iterated(values))


@handles(map)
def _map(session: Session, function: Any, *iterables: Any) -> Any:
    return [session.call(function, *items) for items in zip(*(iteration.iterated(i) for i in iterables))].__iter__()


@handles(filter)
def _filter(session: Session, function: Any, values: Any) -> Any:
    kept = []
    for value in iteration.iterated(values):
        keep = truth(session, value if function is None else session.call(function, value))
        if is_symbolic(keep):
            raise errors.CaptureError(
                "filter() with a condition that a tensor decides", session.here(), fix="use a boolean mask: x[mask]"
            )
        if keep:
            kept.append(value)
    return iter(kept)


@handles(sorted)
def _sorted(session: Session, values: Any, *, key: Any = None, reverse: bool = False) -> Any:
    items = list(iteration.iterated(values))
    keys = [item if key is None else session.call(key, item) for item in items]
    if any(map(is_symbolic, keys)):
        raise errors.CaptureError("sorted() by values known only at run time", session.here(), fix="use torch.sort")
    made = [items[i] for i in sorted(range(len(items)), key=keys.__getitem__, reverse=reverse)]
    session.own_list(made)
    return made


# -- objects ---------------------------------------------------------------------------------------------------------------


@handles(isinstance)
def _isinstance(session: Session, value: Any, kinds: Any) -> Any:
    if isinstance(value, Choice):
        return choices.is_option(value, lambda option: bool(_isinstance(session, option, kinds)))
    if isinstance(value, SYMBOLIC_NUMBERS):
        example = {"bool": True, "int": 1, "float": 1.0}[number_kind(value)]
        return isinstance(example, kinds) or isinstance(value, kinds)
    if isinstance(value, text.Text):
        return isinstance("", kinds)
    return isinstance(value, kinds)


@handles(type)
def _type(session: Session, *args: Any) -> Any:
    if len(args) == 1 and isinstance(args[0], SYMBOLIC_NUMBERS):
        return {"bool": bool, "int": int, "float": float}[number_kind(args[0])]
    return type(*args)


@handles(getattr)
def _getattr(session: Session, value: Any, name: str, *default: Any) -> Any:
    try:
        return access.attr(value, name)
    except AttributeError:
        if not default:
            raise
        return default[0]


@handles(hasattr)
def _hasattr(session: Session, value: Any, name: str) -> bool:
    return access.has_attr(value, name)


@handles(vars)
def _vars(session: Session, value: Any) -> Any:
    return access.attr(value, "__dict__")


@handles(torch.is_grad_enabled)
def _is_grad_enabled(session: Session) -> bool:
    session.asked.setdefault("whether gradients are enabled", session.locate())
    return torch.is_grad_enabled()


@handles(torch.is_autocast_enabled)
def _is_autocast_enabled(session: Session, *device: str) -> bool:
    session.asked.setdefault("whether autocast is enabled", session.locate())
    return torch.is_autocast_enabled(*device)


@handles(setattr)
def _setattr(session: Session, target: Any, name: str, value: Any) -> None:
    access.set_attr(target, name, value)


@handles(delattr)
def _delattr(session: Session, target: Any, name: str) -> None:
    access.del_attr(target, name)


@handles(print)
def _print(
    session: Session, *values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False
) -> None:
    if file is not None:
        session.builder.call(control.call_, (print, tuple(values), {"sep": sep, "end": end, "file": file, "flush": flush}))
        return
    parts = text.joined(session, values, " " if sep is None else sep)
    session.builder.call(control.print_, (parts, "\n" if end is None else end))


def _to_text(function: Any, conversion: str | None) -> _Handler:
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        if args and text.has_runtime_parts(session, args[0]) and not kwargs:
            specification = args[1] if conversion is None and len(args) > 1 else ""
            return text.Text(((args[0], conversion, specification),))
        return function(*args, **kwargs)

    return handle


_HANDLERS[str] = _to_text(str, "s")
_HANDLERS[repr] = _to_text(repr, "r")
_HANDLERS[format] = _to_text(format, None)


# -- torch -----------------------------------------------------------------------------------------------------------------


def _of_list(function: Any, capture: Any) -> _Handler:
    def handle(session: Session, tensors: Any, dim: int = 0, **kwargs: Any) -> Any:
        known = session.runtime_list(tensors)
        if known is None or kwargs.keys() - {"axis"}:
            return function(tensors, dim, **kwargs)
        return capture(session, known, kwargs.get("axis", dim))

    return handle


_HANDLERS[torch.stack] = _of_list(torch.stack, lists.stack)
_HANDLERS[torch.cat] = _of_list(torch.cat, lists.cat)
_HANDLERS[torch.concat] = _of_list(torch.cat, lists.cat)
_HANDLERS[torch.concatenate] = _of_list(torch.cat, lists.cat)


_DRAWS: dict[Any, str] = {
    random.random: "float", random.uniform: "float", random.gauss: "float", random.normalvariate: "float",
    random.expovariate: "float", random.betavariate: "float", random.triangular: "float", random.randint: "int",
    random.randrange: "int", random.getrandbits: "int", time.time: "float", time.perf_counter: "float",
    time.monotonic: "float", time.time_ns: "int", time.perf_counter_ns: "int",
}  # fmt: skip
"""Functions whose value differs from call to call, and the type of their result."""


def _draw(function: Any, kind: str) -> _Handler:
    """Called when the program runs, and not once at capture."""

    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        number = fresh_number(session.shapes, kind)
        session.builder.call(control.call_, (function, args, kwargs), {}, number)
        return number

    return handle


for _function, _kind in _DRAWS.items():
    _HANDLERS[_function] = _draw(_function, _kind)


def _unpredictable(function: Any) -> _Handler:
    def handle(session: Session, *args: Any, **kwargs: Any) -> Any:
        raise errors.CaptureError(
            f"{function.__name__}() gives another value at each call, and would be called only once, at capture",
            session.here(),
            fix="use torch's random functions, or random.random(), or pass the value as an argument",
        )

    return handle


for _module in (random, numpy.random):
    for _name in _module.__all__:
        _function = getattr(_module, _name)
        if callable(_function) and not isinstance(_function, type) and _function not in _HANDLERS:
            _HANDLERS[_function] = _unpredictable(_function)


@handles(torch.Tensor.is_contiguous)
def _is_contiguous(session: Session, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    form = kwargs.get("memory_format", args[0] if args else torch.contiguous_format)
    return session.number(torch.ops.aten.is_contiguous.memory_format, (tensor, form), "bool")


@handles(torch.Tensor.stride)
def _stride(session: Session, tensor: torch.Tensor, dim: int | None = None) -> Any:
    if dim is None:
        return tuple(_stride(session, tensor, position) for position in range(tensor.dim()))
    return session.number(torch.ops.aten.sym_stride.int, (tensor, dim), "int")


@handles(torch.Tensor.storage_offset)
def _storage_offset(session: Session, tensor: torch.Tensor) -> Any:
    return session.number(torch.ops.aten.sym_storage_offset.default, (tensor,), "int")


@handles(torch.manual_seed, torch.seed, torch.set_rng_state)
def _seed(session: Session, *args: Any) -> None:
    raise errors.CaptureError(
        "the random seed cannot be set inside a captured function",
        session.here(),
        fix="call torch.manual_seed before the static function",
    )


TAKES_CHOICES = {_isinstance, _bool, _print, _list, _HANDLERS[str], _HANDLERS[repr]}
"""Handlers that know what to do with a value that is one of several."""


@handles(checkpoint.checkpoint)
def _checkpoint(
    session: Session, function: Any, *args: Any, use_reentrant: Any = None, context_fn: Any = None,
    determinism_check: str = "default",
    debug: bool = False, early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any,
) -> Any:  # fmt: skip
    """Gives the same values and gradients; what it saves in memory it saves in eager only."""
    return session.call(function, *args, **kwargs)
