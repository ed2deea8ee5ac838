"""Functions whose value differs from call to call: they are called when the program runs, or refused."""

from __future__ import annotations

import collections
import operator
import random
import time
from typing import Any

import numpy

from dy2st import errors
from dy2st.capture.branching.assertions import check
from dy2st.capture.containers.ranges import RuntimeRange
from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import Handler, handler_of, handles, refuses
from dy2st.capture.recording import failing
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.types.value_types import NumberType
from dy2st.capture.values.abstract_objects import AbstractTuple, contents
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st_runtime.primitives import control

_DRAWS: dict[Any, str] = {
    random.random: "float", random.uniform: "float", random.gauss: "float", random.normalvariate: "float",
    random.expovariate: "float", random.betavariate: "float", random.triangular: "float", random.randint: "int",
    random.gammavariate: "float", random.lognormvariate: "float", random.paretovariate: "float", random.vonmisesvariate: "float",
    random.weibullvariate: "float",
    random.randrange: "int", random.getrandbits: "int", time.time: "float", time.perf_counter: "float",
    time.monotonic: "float", time.process_time: "float", time.thread_time: "float", time.time_ns: "int",
    time.perf_counter_ns: "int", time.monotonic_ns: "int", time.process_time_ns: "int", time.thread_time_ns: "int",
}  # fmt: skip
"""Functions whose value differs from call to call, and the type of their result."""


def _draw(function: Any, kind: str) -> Handler:
    """Call when the program runs, and not once at capture."""

    return lambda session, *args, **kwargs: drawn(session, function, kind, args, kwargs)


def drawn(session: Session, function: Any, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the number that a function gives when the program runs."""
    if any(map(is_symbolic, (*args, *kwargs.values()))):
        what = f"{function.__module__}.{function.__name__}"
        failing.refuse_if_named(session, ValueError(), what, "test the numbers with an if statement")
    number = fresh_number(session.shapes, kind)
    session.builder.call(control.call_, (function, args, kwargs), {}, number)
    return number


for _function, _kind in _DRAWS.items():
    handles(_function)(_draw(_function, _kind))


_OF_NUMPY: dict[str, tuple[str, int]] = {
    "random": ("float", 0), "random_sample": ("float", 0), "rand": ("float", 0), "randn": ("float", 0), "uniform": ("float", 2),
    "normal": ("float", 2), "standard_normal": ("float", 0), "exponential": ("float", 1), "standard_exponential": ("float", 0),
    "beta": ("float", 2), "gamma": ("float", 2), "laplace": ("float", 2), "lognormal": ("float", 2), "triangular": ("float", 3),
    "randint": ("int", 2), "poisson": ("int", 1), "binomial": ("int", 2), "geometric": ("int", 1),
}  # fmt: skip
"""Functions of NumPy that give one number where it is not said how many: its type, and how many arguments do not say that."""


def _draw_of_numpy(function: Any, kind: str, most: int) -> Handler:
    def draw(session: Session, *args: Any, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name != "size" or value is not None}
        given = (*args, *kwargs.values())
        one = len(args) <= most and kwargs.keys().isdisjoint(("size", "dtype"))
        if not one or not all(isinstance(value, (int, float, *SYMBOLIC_NUMBERS)) for value in given):
            raise errors.CaptureError(_told(function), session.here(), fix=_FIX)
        return drawn(session, function, kind, args, kwargs)

    return draw


def _told(function: Any) -> str:
    return f"{function.__name__}() gives another value at each call, and would be called only once, at capture"


_FIX = "use torch's random functions, or random.random(), or pass the value as an argument"

for _name, _signature in _OF_NUMPY.items():
    handles(getattr(numpy.random, _name))(_draw_of_numpy(getattr(numpy.random, _name), *_signature))


def _seeds(function: Any) -> None:
    """Register a function that begins the random numbers anew: it is called when the program runs."""

    @handles(function)
    def handle(session: Session, *args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        if not given or not all(isinstance(value, (int, float, str, *SYMBOLIC_NUMBERS)) for value in given):
            raise errors.CaptureError(f"{function.__name__}() without a number or text", session.here(), fix="give it a number")
        session.builder.call(control.call_, (function, args, kwargs), {}, None)


_seeds(random.seed)
_seeds(numpy.random.seed)


def _sampled(length: int, k: int) -> list[int]:
    return random.sample(range(length), k)


def _shuffled(length: int) -> list[int]:
    order = list(range(length))
    random.shuffle(order)
    return order


def _chosen(length: int, weights: Any, cum_weights: Any, k: int) -> list[int]:
    return random.choices(range(length), weights, cum_weights=cum_weights, k=k)


def _one_of(length: int) -> int:
    return random.choice(range(length))


_TOO_MANY = "Sample larger than population or is negative"
_MANY = 256
"""Of more positions the program has a list, whose length it alone knows."""


def _length(session: Session, function: Any, items: Any) -> Any:
    """Return how many items there are, on which alone it depends what positions a function draws.

    Raises:
        CaptureError: the items are in nothing that has positions.
    """
    if not isinstance(contents(items), (list, tuple, AbstractTuple, range, RuntimeRange, collections.deque)):
        raise errors.CaptureError(_told(function), session.here(), fix=_FIX)
    return session.call(len, items)


def _positions(session: Session, draw: Any, args: tuple[Any, ...], count: Any) -> Any:
    """Return the ``count`` positions that are drawn when the program runs."""
    result = session.lists.new(NumberType("int"), alone=True)
    session.builder.call(control.call_, (draw, args, {}), {}, result)
    if type(count) is not int or count > _MANY:
        return result.items
    return [session.call(operator.getitem, result.items, position) for position in range(count)]


@handles(random.sample)
def _sample(session: Session, population: Any, k: Any, **counts: Any) -> Any:
    if counts:
        raise errors.CaptureError(_told(random.sample), session.here(), fix="leave out counts=, and repeat the items")
    length = _length(session, random.sample, population)
    check(session, k >= 0, ValueError, _TOO_MANY)
    check(session, k <= length, ValueError, _TOO_MANY)
    return session.call(written_out.picked, population, _positions(session, _sampled, (length, k), k))


@handles(random.choices)
def _choices(session: Session, population: Any, weights: Any = None, *, cum_weights: Any = None, k: Any = 1) -> Any:
    length = _length(session, random.choices, population)
    return session.call(written_out.picked, population, _positions(session, _chosen, (length, weights, cum_weights, k), k))


@handles(random.shuffle)
def _shuffle(session: Session, x: Any) -> None:
    length = _length(session, random.shuffle, x)
    session.call(written_out.rearranged, x, _positions(session, _shuffled, (length,), length))


@handles(random.choice)
def _choice(session: Session, seq: Any) -> Any:
    length = _length(session, random.choice, seq)
    check(session, length > 0, IndexError, "Cannot choose from an empty sequence")
    return session.call(operator.getitem, seq, drawn(session, _one_of, "int", (length,), {}))


for _module in (random, numpy.random):
    for _name in _module.__all__:
        _function = getattr(_module, _name)
        if callable(_function) and not isinstance(_function, type) and handler_of(_function) is None:
            refuses(_function, message=_told(_function), fix=_FIX)
