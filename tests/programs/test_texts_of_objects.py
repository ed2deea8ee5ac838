"""The text of objects that hold values which a tensor decides: in prints, f-strings, ``%``, results, state and exceptions."""

from __future__ import annotations

import collections
import string
import types
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
import torch

import dy2st
from tests import worlds
from tests.oracle import agree
from tests.programs.values import vec
from tests.worlds import World

VALUES = [vec(5), vec(0.5), vec(40)]


@dataclass
class Fields:
    n: Any = 0
    loss: Any = 0.0
    hidden: int = field(default=0, repr=False)


@dataclass
class Calls(Fields):
    def __repr__(self) -> str:
        return "Calls:" + super().__repr__()


class Pair(NamedTuple):
    n: Any
    other: Any


class Meter:
    def __init__(self, n: Any) -> None:
        self.n = n

    def __str__(self) -> str:
        return f"Meter(n={self.n})" if self.n < 4 else "many"

    def __repr__(self) -> str:
        return f"<{self.n}>"

    def __format__(self, specification: str) -> str:
        return f"{specification}:{self.n}"


class TooMany(Exception):
    def __init__(self, n: Any) -> None:
        self.n = n

    def __str__(self) -> str:
        return f"n={self.n}"


def halved(x: Any) -> Any:
    n = 0
    while x.sum() > 1:
        x = x / 2
        n += 1
    return n, x


MADE = {
    "own class": lambda n, x: Meter(n),
    "dataclass": lambda n, x: Fields(n, x.sum().item(), n),
    "nested": lambda n, x: Fields([Fields(n), Meter(n)], {"m": (Meter(n), x)}),
    "super": lambda n, x: Calls(n),
    "namedtuple": lambda n, x: Pair(n, [x, Pair(n, Meter(n))]),
    "namespace": lambda n, x: types.SimpleNamespace(n=n, inner=Fields(x)),
    "ordered dict": lambda n, x: collections.OrderedDict(a=n, b=Fields(n)),
    "default dict": lambda n, x: collections.defaultdict(int, a=n),
    "counter": lambda n, x: collections.Counter(a=2, b=n),
    "deque": lambda n, x: collections.deque([n, Fields(x)], maxlen=3),
    "views": lambda n, x: {"a": n}.items(),
    "proxy": lambda n, x: types.MappingProxyType({"a": Meter(n)}),
    "chain": lambda n, x: collections.ChainMap({"a": n}),
    "size": lambda n, x: Fields(x[x > 1].shape),
    "text": lambda n, x: Fields(f"{n}'", [f"{n}"]),
    "list of the program": lambda n, x: Fields([Pair(i, 1) for i in range(n)]),
    "choice": lambda n, x: Fields(None if n > 2 else x, "a" if n > 2 else "b"),
    "either": lambda n, x: [Meter(n) if n > 2 else Fields(n)],
    "exception": lambda n, x: [ValueError("a", Fields(n)), KeyError(Meter(n)), TooMany(n)],
    "result of torch": lambda n, x: torch.max(x, 0),
}


@pytest.mark.parametrize("kind", MADE)
def test_texts_of_objects_are_those_of_eager(kind):
    make = MADE[kind]

    def f(x):
        n, x = halved(x)
        made = make(n, x)
        print(made, [made], f"{made} {made!s} {made!r} {made!s:>40}", "%s %r %30s" % (made, made, made))
        return str(made), repr([made]), "{} {0[0]!r} {a!s:<30}".replace("{0[0]!r}", "").format(made, a=made), ", ".join([str(made)])

    agree(f, VALUES)


def test_format_of_an_own_class():
    def f(x):
        n, _ = halved(x)
        m = Meter(n)
        return f"{m:>{n}}", format(m, "a"), "{0:x} {0.n} {1[k].n:03d}".format(m, {"k": m}), ascii(m), "{m.n}".format_map({"m": m})

    agree(f, VALUES)


def test_a_str_method_may_write_to_its_object():
    class Log:
        def __init__(self):
            self.n, self.lines = 0, []

        def __str__(self):
            self.lines.append(self.n)
            return f"Log(n={self.n})"

    def f(x):
        log = Log()
        log.n, _ = halved(x)
        log.lines.append(str(log))
        print(log)
        return log.lines

    agree(f, VALUES)


def test_raised_and_caught_exceptions_have_the_text_of_eager():
    def f(x):
        n, x = halved(x)
        try:
            if n > 1:
                raise TooMany(n)
        except TooMany as error:
            print("caught", error, [error], f"{error!r}", error.n)
        if n > 3:
            raise TooMany(n)
        return x

    agree(f, VALUES)


def test_string_templates_substitute_numbers_that_a_tensor_decides():
    def f(x):
        n, _ = halved(x)
        return string.Template("$n of $m").substitute(n=n, m=Meter(n)), string.Template("$n $q").safe_substitute({"n": n})

    agree(f, VALUES)


def test_items_that_are_there_on_some_ways():
    def f(x):
        d = {"a": 1}
        if x.sum() > 1:
            d["b"] = Meter(2)
        print(Fields(d), [d], Meter(5), Pair(1, d), types.SimpleNamespace(d=d))
        return str(Fields(d))

    agree(f, VALUES)


def test_a_field_of_an_object_from_outside_is_guarded():
    space = types.SimpleNamespace(n=1)
    f = dy2st.to_static(lambda x: (str(space), "{s.n}".format(s=space), x))
    for space.n in (1, 2):
        assert f(vec(1))[:2] == (f"namespace(n={space.n})", f"{space.n}")


def test_width_that_is_known_only_at_run_time():
    def f(x):
        n, _ = halved(x)
        return "{:>{w}}".format(str(n), w=n + 4), f"{n:>{n + 1}}"

    agree(f, VALUES)


class Attribute(types.SimpleNamespace):
    pass


def unsure(n: Any, x: Any) -> Any:
    made = types.SimpleNamespace()
    if n > 2:
        made.b = 1
    return str(made)


def raised_with_an_object(n: Any, x: Any) -> Any:
    raise ValueError(Fields(n))


def put_together_elsewhere(n: Any, x: Any) -> Any:
    import pprint

    return pprint.pformat([n, Fields(n)])


REFUSED = {
    unsure: "there on some ways only",
    raised_with_an_object: "given an object, a Fields with values that are known only at run time",
    put_together_elsewhere: "code that was not converted makes a text of a value that is known only at run time",
}


@pytest.mark.parametrize("use", REFUSED)
def test_refused_texts_are_reported_with_the_users_file(use):
    static = dy2st.to_static(lambda x: use(*halved(x)))
    with pytest.raises(dy2st.CaptureError, match=REFUSED[use]) as caught:
        static(VALUES[0])
    assert f'File "{__file__}"' in str(caught.value)


class Stock:
    def __init__(self, name: str, left: int) -> None:
        self.name, self.left = name, left

    def __repr__(self) -> str:
        return f"{self.name}x{self.left}"


def sold_while_listed() -> World:
    stock, sold, shelf = Stock("nut", 20), [], {"now": 0}

    def f(n):
        n = n.item()
        taken, pairs, shelves = [], [], []
        for i in range(n):
            taken.append(stock)
            pairs.append((stock, i))
            shelves.append(shelf)
        stock.left -= n
        shelf["now"] = n
        if n > 2:
            sold.append(stock)
        return str(taken), "%8r" % (pairs,), f"{shelves!r:>30}", repr(sold), ascii(taken)

    return World(f, [stock, sold], [lambda f, n=n: f(torch.tensor(n)) for n in (0, 1, 3, 2, 4, 0)])


def renamed_while_listed() -> World:
    record = Fields(1, "a")

    def f(n):
        n = n.item()
        made = [record]
        for i in range(n):
            made.append(Fields(i, record))
        record.loss = record.loss + "b"
        for one in made:
            one.n += 1
        return str(made), f"{made[-1]}", [repr(one) for one in made]

    return World(f, [record], [lambda f, n=n: f(torch.tensor(n)) for n in (0, 1, 3, 2)])


@pytest.mark.parametrize("make", [sold_while_listed, renamed_while_listed])
def test_lists_show_their_objects_as_they_are_by_then(make):
    worlds.agree(make)
