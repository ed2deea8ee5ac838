"""Lists of which a tensor decides an item, given to what keeps them: the object is there afterwards, not a copy of it."""

from __future__ import annotations

import collections
import contextvars
import dataclasses
import functools
import itertools
import operator
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dy2st import to_static
from tests.oracle import EXECUTORS, agree


class Box:
    pass


class Follows:
    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Net(torch.nn.Module):
    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)


class Kind:
    pass


class Slots:
    __slots__ = ("a",)


@dataclasses.dataclass
class Data:
    a: Any


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: Any


Pair = collections.namedtuple("Pair", "a b")
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("VARIABLE", default=None)


def kept_by(make: Callable[[], Any], keep: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def through(items: Any) -> Any:
        owner = make()
        keep(owner, items)
        return owner.a

    return through


def by_statement(owner: Any, items: Any) -> None:
    owner.a = items


def by_variable(items: Any) -> Any:
    token = VARIABLE.set(items)
    held = VARIABLE.get()
    VARIABLE.reset(token)
    return held


def by_token(items: Any) -> Any:
    outer = VARIABLE.set(items)
    VARIABLE.reset(VARIABLE.set(None))
    held = VARIABLE.get()
    VARIABLE.reset(outer)
    return held


def raised(items: Any) -> Any:
    try:
        raise ValueError(items)
    except ValueError as error:
        return error.args[0]


def through_methodcaller(items: Any) -> Any:
    rows: list[Any] = []
    operator.methodcaller("append", items)(rows)
    return rows[0]


def through_deque(items: Any) -> Any:
    rows: collections.deque[Any] = collections.deque()
    rows.appendleft(items)
    rows.append(rows[0])
    return rows[1]


def identity(value: Any) -> Any:
    return value


KEEPING: dict[str, Callable[[Any], Any]] = {
    "setattr": kept_by(Box, lambda owner, items: setattr(owner, "a", items)),
    "object.__setattr__": kept_by(Box, lambda owner, items: object.__setattr__(owner, "a", items)),
    "type.__setattr__": kept_by(lambda: Kind, lambda owner, items: type.__setattr__(owner, "a", items)),
    "a __setattr__ of the class": kept_by(Follows, by_statement),
    "a __setattr__ of a module": kept_by(Net, by_statement),
    "the __set__ of a slot": kept_by(Slots, lambda owner, items: Slots.a.__set__(owner, items)),  # type: ignore[attr-defined]
    "dataclass": lambda items: Data(items).a,
    "keyword of a dataclass": lambda items: Data(a=items).a,
    "dataclasses.replace": lambda items: dataclasses.replace(Data(1), a=items).a,
    "frozen dataclass": lambda items: Frozen(items).a,
    "named tuple": lambda items: Pair(items, 1).a,
    "SimpleNamespace": lambda items: types.SimpleNamespace(a=items).a,
    "partial": lambda items: functools.partial(identity, items)(),
    "keyword of a partial": lambda items: functools.partial(identity, value=items)(),
    "dict": lambda items: dict(a=items)["a"],
    "defaultdict": lambda items: collections.defaultdict(list, a=items)["a"],
    "OrderedDict": lambda items: collections.OrderedDict(a=items)["a"],
    "exception": lambda items: ValueError(items).args[0],
    "raised exception": raised,
    "StopIteration": lambda items: StopIteration(items).value,
    "variable of a context": by_variable,
    "what a variable of a context held before": by_token,
    "methodcaller": through_methodcaller,
    "deque": through_deque,
    "repeat": lambda items: [*itertools.repeat(items, 2)][1],
    "reduce": lambda items: functools.reduce(lambda first, _: first, [1, 2], items),
    "max": lambda items: max(items, [], key=len),
    "next": lambda items: next(iter(()), items),
    "iadd": lambda items: operator.iadd(items, [1]),
    "iconcat": lambda items: operator.iconcat(items, [1]),
    "imul": lambda items: operator.imul(items, 2),
}


@pytest.mark.parametrize("keep", KEEPING.values(), ids=KEEPING.keys())
def test_what_keeps_a_list_holds_the_list(keep: Callable[[Any], Any]) -> None:
    def chosen(x: torch.Tensor, n: torch.Tensor) -> Any:
        items = [x * 2 if n > 0 else None]
        held = keep(items)
        held.append(n)
        return held is items, items, held

    agree(chosen, [(torch.ones(2), torch.tensor(n)) for n in (1, 0, 1)])


@pytest.mark.parametrize("backend", EXECUTORS)
def test_the_list_of_an_object_from_outside_stays_the_list(backend: str) -> None:
    box, follows = Box(), Follows()
    box.rows = follows.rows = rows = [0]  # type: ignore[attr-defined]

    def chosen(x: torch.Tensor, n: torch.Tensor) -> None:
        box.rows += [x if n > 0 else None]  # type: ignore[attr-defined]
        follows.rows = box.rows  # type: ignore[attr-defined]
        follows.rows += [2]

    static, x = to_static(chosen, backend=backend), torch.ones(2)
    for n in (1, 0, 1):
        rows[:] = [0]
        static(x, torch.tensor(n))
        assert box.rows is rows and follows.rows is rows  # type: ignore[attr-defined]
        assert len(rows) == 3 and rows[1] is (x if n else None)
    assert len(static.program_cache) == 1


def test_names_and_values_that_tensors_decide() -> None:
    def chosen(x: torch.Tensor, n: torch.Tensor) -> Any:
        name = "a" if n > 0 else "b"
        box, items = Box(), [name, x]
        setattr(box, name, items)
        return getattr(box, name) is items, hasattr(box, "a"), items

    agree(chosen, [(torch.ones(2), torch.tensor(n)) for n in (1, 0, 1)])
