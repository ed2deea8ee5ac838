"""Methods that Python calls for an operator or a statement are captured as those that are called by name."""

from __future__ import annotations

import copy
import dataclasses
import functools
import gc
import operator
import threading

import pytest
import torch

import dy2st
from tests.oracle import agree, same

SCALE = [2]


class Base:
    """Reads a number from an attribute, a global, or a closure."""

    def __init__(self, read):
        self.read = read


class Arithmetic(Base):
    def __add__(self, x):
        return x * self.read()

    def __rmul__(self, x):
        return x * self.read()

    def __isub__(self, x):
        return x * self.read()

    def __neg__(self):
        return self.read()

    def __matmul__(self, x):
        return x * self.read()

    def __pow__(self, x):
        return x * self.read()

    def __divmod__(self, x):
        return x * self.read(), 1

    def __radd__(self, x):
        return x * self.read()

    def __abs__(self):
        return self.read()

    def __round__(self, digits=None):
        return self.read()


class Conversions(Base):
    def __bool__(self):
        return self.read() == 2

    def __float__(self):
        return float(self.read())

    def __int__(self):
        return self.read()

    def __index__(self):
        return self.read()

    def __str__(self):
        return "a" * self.read()

    def __repr__(self):
        return "b" * self.read()

    def __format__(self, spec):
        return "c" * self.read()

    def __hash__(self):
        return self.read()


class Comparisons(Base):
    def __eq__(self, other):
        return other == self.read()

    def __ne__(self, other):
        return other != self.read()

    def __lt__(self, other):
        return self.read() < other

    def __ge__(self, other):
        return self.read() >= other


class Container(Base):
    def __len__(self):
        return self.read() - 2

    def __getitem__(self, key):
        return key * self.read()

    def __setitem__(self, key, value):
        self.kept = value * self.read()

    def __delitem__(self, key):
        self.kept = self.read()

    def __contains__(self, value):
        return value == self.read()

    def __iter__(self):
        yield self.read()

    def __reversed__(self):
        return iter([self.read()])

    def __call__(self, x):
        return x * self.read()

    def __enter__(self):
        return self.read()

    def __exit__(self, *error):
        return False


class Attributes(Base):
    @property
    def computed(self):
        return self.read()

    @computed.setter
    def computed(self, value):
        self.kept = value * self.read()

    def __getattr__(self, name):
        if name == "made":
            return self.read()
        raise AttributeError(name)

    @functools.cached_property
    def cached(self):
        return 1


class Table(dict):
    def __init__(self, read):
        self.read = read

    def __missing__(self, key):
        return self.read()


class Objects(Base):
    """What Python asks an object when it is made, copied or searched for."""

    def __eq__(self, other):
        return other == self.read()

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value if name == "read" else value * self.read())

    def __delattr__(self, name):
        object.__setattr__(self, "gone", self.read())

    def __copy__(self):
        return self.read()

    def __deepcopy__(self, memo):
        return self.read()

    def kept(self):
        self.number = 3
        return self.number

    def dropped(self):
        del self.number
        return self.gone

    def fields(self):
        read = self.read

        @dataclasses.dataclass
        class Fields:
            number: int = dataclasses.field(default_factory=lambda: read())
            other: int = 1

            def __post_init__(self):
                self.other = read() + 1

        made, given = Fields(), Fields(other=7, number=3)
        return made.number * 100 + made.other * 10 + given.number + given.other


def with_item(c, x):
    c[0] = 5
    return x * c.kept


def without_item(c, x):
    del c[0]
    return x * c.kept


def managed(c, x):
    with c as number:
        return x * number


def written(c, x):
    c.computed = 3
    return x * c.kept


def subtracted(c, x):
    c -= x
    return c


USES = [
    (Arithmetic, lambda c, x: c + x),
    (Arithmetic, lambda c, x: 3 * c * x),
    (Arithmetic, subtracted),
    (Arithmetic, lambda c, x: x * -c),
    (Arithmetic, lambda c, x: c @ x),
    (Arithmetic, lambda c, x: c**x),
    (Arithmetic, lambda c, x: divmod(c, x)[0]),
    (Arithmetic, lambda c, x: x + c),
    (Arithmetic, lambda c, x: x * abs(c)),
    (Arithmetic, lambda c, x: x * round(c)),
    (Arithmetic, lambda c, x: operator.add(c, x)),
    (Arithmetic, lambda c, x: functools.reduce(operator.add, [c, x, x])),
    (Conversions, lambda c, x: x if c else -x),
    (Conversions, lambda c, x: x if not c else -x),
    (Conversions, lambda c, x: x * bool(c)),
    (Conversions, lambda c, x: (c and x) if (c or 0) else x),
    (Conversions, lambda c, x: x * float(c)),
    (Conversions, lambda c, x: x * int(c)),
    (Conversions, lambda c, x: x * [1, 2, 3, 4, 5, 6][c]),
    (Conversions, lambda c, x: x * len(str(c))),
    (Conversions, lambda c, x: x * len(f"{c}")),
    (Conversions, lambda c, x: x * len(f"{c!r}")),
    (Conversions, lambda c, x: x * hash(c)),
    (Comparisons, lambda c, x: x if c == 2 else -x),
    (Comparisons, lambda c, x: x if c != 2 else -x),
    (Comparisons, lambda c, x: x if c < 3 else -x),
    (Comparisons, lambda c, x: x if c >= 3 else -x),
    (Container, lambda c, x: x * len(c)),
    (Container, lambda c, x: x if c else -x),
    (Container, lambda c, x: x * c[3]),
    (Container, with_item),
    (Container, without_item),
    (Container, lambda c, x: x if 2 in c else -x),
    (Container, lambda c, x: x * sum(c)),
    (Container, lambda c, x: x * next(reversed(c))),
    (Container, lambda c, x: c(x)),
    (Container, managed),
    (Attributes, lambda c, x: x * c.computed),
    (Attributes, written),
    (Attributes, lambda c, x: x * c.made),
    (Attributes, lambda c, x: x * c.cached),
    (Objects, lambda c, x: x * c.kept()),
    (Objects, lambda c, x: x * c.dropped()),
    (Objects, lambda c, x: x * copy.copy(c) * copy.deepcopy(c)),
    (Objects, lambda c, x: x * ([c, 3, c].count(2) + 1)),
    (Objects, lambda c, x: x * ([c, 2].index(2) + 1)),
    (Objects, lambda c, x: x if 2 in [c, 7] else -x),
    (Objects, lambda c, x: x * c.fields()),
    (Table, lambda c, x: x * c["some"]),
]


def reader(how):
    """Reads a number that changes, and how to change it."""
    if how == "global":
        return (lambda: SCALE[0]), functools.partial(SCALE.__setitem__, 0)
    kept = [2]
    return (lambda: kept[0]), functools.partial(kept.__setitem__, 0)


@pytest.fixture
def no_collection():
    """Guards look at closures of a class that the function makes, which are gone once Python has collected the class."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection")
@pytest.mark.parametrize("how", ["global", "closure"])
@pytest.mark.parametrize(("kind", "use"), USES)
def test_what_an_operator_reads_is_guarded(kind, use, how):
    read, change = reader(how)

    def run(c):
        return lambda x: use(c, x)

    static, x = dy2st.to_static(run(kind(read))), torch.arange(1.0, 4.0)
    for number in (2, 3, 2, 5):
        change(number)
        for _ in range(2):
            same(run(kind(read))(x), static(x))
    assert len(static.program_cache) <= 4  # an attribute that is new makes one more


@dataclasses.dataclass(order=True)
class Inner:
    number: int


@dataclasses.dataclass(order=True)
class Settings:
    number: int
    inner: Inner | None = None


class Plain:
    def __init__(self):
        self.number, self.items = 2, [Inner(2)]


SETTINGS, PLAIN = Settings(2, Inner(2)), Plain()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x if SETTINGS == Settings(2, Inner(2)) else -x,
        lambda x: x if SETTINGS != Settings(2, Inner(2)) else -x,
        lambda x: x if SETTINGS < Settings(3, Inner(0)) else -x,
        lambda x: x if SETTINGS in [Settings(2, Inner(2))] else -x,
        lambda x: x * max(SETTINGS, Settings(3, Inner(0))).number,
        lambda x: x * sorted([Settings(4, Inner(0)), SETTINGS])[0].number,
        lambda x: x * len(repr(SETTINGS)),
        lambda x: x * len(f"{SETTINGS}"),
        lambda x: x * dataclasses.astuple(SETTINGS)[1][0],
        lambda x: x * dataclasses.asdict(SETTINGS)["inner"]["number"],
        lambda x: x * dataclasses.replace(SETTINGS, inner=None).number,
        lambda x: x * copy.copy(PLAIN).number,
        lambda x: x * copy.deepcopy(PLAIN).items[0].number,
        lambda x: x * vars(PLAIN)["number"],
        lambda x: x * PLAIN.__dict__["items"][0].number,
        lambda x: x * operator.attrgetter("number")(PLAIN),
    ],
)
def test_what_a_library_reads_of_an_object_is_guarded(function):
    def run(x):
        return function(x)

    static, x = dy2st.to_static(run), torch.ones(2)
    for number in (2, 3, 2, 1234):
        SETTINGS.number = SETTINGS.inner.number = PLAIN.number = PLAIN.items[0].number = number
        for _ in range(2):
            same(function(x), static(x))
    assert len(static.program_cache) <= 3


class Vector:
    """Operators in which tensors decide."""

    def __init__(self, values):
        self.values = values

    def __add__(self, other):
        if self.values.sum() > 0:
            return Vector(self.values + other.values)
        return Vector(self.values - other.values)

    def __mul__(self, number):
        if not isinstance(number, (int, float)):
            return NotImplemented
        total = self.values
        while total.abs().max() < number:
            total = total * 2
        return Vector(total)

    __rmul__ = __mul__

    def __bool__(self):
        return bool((self.values > 0).all())

    def __float__(self):
        return float(self.values.sum())


def added(x):
    return (Vector(x) + Vector(x * x) + Vector(x + 1)).values


def multiplied(x):
    return (3 * Vector(x) * 2.5).values


def judged(x):
    return x * 2 if Vector(x) else x - 1


def summed(x):
    total = Vector(x * 0)
    for _ in range(3):
        total += Vector(x)
    return total.values


@pytest.mark.parametrize("function", [added, multiplied, judged, summed])
def test_tensors_decide_in_an_operator(function):
    calls = [torch.tensor(values) for values in ([1.0, 2.0], [-1.0, -3.0], [0.5, -0.1], [9.0, 9.0])]
    agree(function, calls)
    agree(function, [value.requires_grad_() for value in calls])


def test_numbers_that_objects_make_of_tensors():
    agree(lambda x: (float(Vector(x)), x * float(Vector(x))), [torch.tensor(values) for values in ([1.0, 2.0], [-1.0, -3.0])])


class Doubled(Vector):
    """Calls the operator of its base."""

    def __add__(self, other):
        return Vector(super().__add__(other).values * 2)


def test_an_operator_that_calls_that_of_its_base():
    def function(x):
        return (Doubled(x) + Vector(x)).values

    def held(x):
        return (VECTOR + Vector(x)).values

    agree(function, [torch.tensor(values) for values in ([1.0, 2.0], [-1.0, -3.0])])
    agree(held, [torch.tensor(values) for values in ([1.0, 2.0], [-1.0, -3.0])])


VECTOR = Doubled(torch.ones(2))


def test_operands_that_are_not_taken():
    def function(x):
        return Vector(x) * x

    agree(function, [torch.ones(2)], programs=None)


def test_another_operator_is_another_program(monkeypatch):
    def function(x):
        return (Vector(x) + Vector(x)).values

    static, x = dy2st.to_static(function), torch.ones(2)
    for _ in range(3):
        same(function(x), static(x))
    monkeypatch.setattr(Vector, "__add__", lambda self, other: Vector(self.values * 5))
    for _ in range(3):
        same(function(x), static(x))
    assert len(static.program_cache) == 2
    monkeypatch.undo()
    same(function(x), static(x))


def test_classes_are_as_before_after_a_capture_that_fails_too():
    before = dict(vars(Vector))

    def function(x):
        return [Vector(x), Vector(x) + Vector(x)][1].missing

    with pytest.raises(AttributeError):
        dy2st.to_static(function)(torch.ones(2))
    assert dict(vars(Vector)) == before
    assert (Vector(torch.ones(2)) + Vector(torch.ones(2))).values.sum() == 4


def test_other_threads_see_nothing():
    started, stop, wrong = threading.Event(), threading.Event(), []

    def elsewhere():
        while not stop.is_set():
            if (Vector(torch.ones(2)) + Vector(torch.ones(2))).values.tolist() != [2.0, 2.0]:
                wrong.append(1)
            started.set()

    thread = threading.Thread(target=elsewhere)
    thread.start()
    started.wait()
    for size in range(1, 6):
        agree(added, [torch.ones(size), -torch.ones(size)])
    stop.set()
    thread.join()
    assert not wrong
