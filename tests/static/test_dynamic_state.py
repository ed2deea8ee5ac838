"""State that differs from call to call: an input of the program where the code allows it, a constant where it does not."""

from __future__ import annotations

import collections
import dataclasses
import enum
import itertools
import json
import logging
import re
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dy2st import to_static
from dy2st.errors import CaptureError
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0, 0.5])


class Op(enum.IntEnum):
    A = 0
    B = 1
    C = 2
    D = 3


class Net(nn.Module):
    """Counts its calls, and uses the count in some way."""

    def __init__(self, use: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.use = use
        self.n, self.total = 0, 0.0
        self.table: dict[Any, Any] = {}
        self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(6))
        self.act0 = self.act1 = self.act2 = self.act3 = torch.neg

    def forward(self, x: Any) -> Any:
        y = self.use(self, x)
        self.n += 1
        self.total += 0.5
        return y


def follow(static: Any, eager: Any, calls: int, *args: Any) -> None:
    for k in range(calls):
        same(eager(*args), static(*args), f"call {k}")


USES: dict[str, Callable[[Any, Any], Any]] = {
    "a module of a ModuleList": lambda m, x: m.blocks[m.n](x),
    "the name of an attribute": lambda m, x: getattr(m, f"act{m.n}")(x),
    "a member of an Enum": lambda m, x: x * Op(m.n).value,
    "the probability of dropout": lambda m, x: F.dropout(x, min(m.n * 0.1, 0.5), training=False),
    "a step": lambda m, x: x.repeat(27720).hsplit(m.n + 1)[0],
    "the length of a text": lambda m, x: x * len(f"{m.n * 37}"),
    "json": lambda m, x: (x, json.dumps({"n": m.n, "total": m.total})),
    "a new key": lambda m, x: (m.table.setdefault(divmod(m.n, 2)[1], x), len(m.table)),
    "a hash": lambda m, x: x * (hash(m.n) % 7) + hash(m.total) % 5,
    "its bits": lambda m, x: x * m.n.bit_length() + bin(m.n).count("1"),
    "how far to look": lambda m, x: (x, list(itertools.islice("abcdef", m.n))),
    "how many to choose": lambda m, x: (x, list(itertools.combinations(range(4), m.n))),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_counter_that_has_to_be_known(use: Any) -> None:
    eager, static = Net(use), to_static(Net(use))
    static.load_state_dict(eager.state_dict())
    follow(static, eager, 4, X)
    assert (static.n, static.total) == (eager.n, eager.total)


def test_what_has_to_stay_constant_is_not_tried_again(caplog: Any) -> None:
    static, eager = to_static(Net(USES["a step"])), Net(USES["a step"])
    with caplog.at_level(logging.INFO, logger="dy2st.capture"):
        follow(static, eager, 5, X)
    refused = [record for record in caplog.records if "cannot be captured" in record.getMessage()]
    assert len(refused) == 2  # both numbers, and the one again that has to be known


def test_what_need_not_be_known_becomes_an_input_all_the_same() -> None:
    def use(m: Any, x: Any) -> Any:
        return x * m.total + len(json.dumps(m.n))

    static = to_static(Net(use))
    for _ in range(3):
        static(X)
    assert [set(captured.dynamic_state) for captured in static.forward.program_cache][0] == {"self.total"}


def test_sizes_that_have_to_be_known() -> None:
    def make() -> Any:
        kept = types.SimpleNamespace(rows=torch.zeros(1, 2))

        def grow(x: Any) -> Any:
            kept.rows = torch.cat([kept.rows, x[None]])
            return kept.rows, json.dumps(list(kept.rows.shape))

        return grow

    follow(to_static(make()), make(), 4, X[:2])


def test_an_error_of_the_code_is_that_of_the_constant() -> None:
    def use(m: Any, x: Any) -> Any:
        return m.blocks[m.n + 5](x)

    static = to_static(Net(use))
    static(X)
    with pytest.raises(IndexError, match="index 6 is out of range"):
        static(X)


def test_an_iterator_is_not_read_again() -> None:
    def make() -> Any:
        items = iter([torch.ones(4) * k for k in range(10)])
        kept = types.SimpleNamespace(n=0)

        def f(x: Any) -> Any:
            kept.n += 1
            return next(items) + x.repeat(27720).hsplit(kept.n)[0][:4]

        return f

    eager, static = make(), to_static(make())
    same(eager(X), static(X))
    with pytest.raises(CaptureError, match="it decides how many results there are"):
        static(X)


# -- where state is kept ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Record:
    n: int = 0
    rows: list[int] = dataclasses.field(default_factory=lambda: [0, 0])


Pair = collections.namedtuple("Pair", "n step")


def in_dict(e: Any, x: Any) -> Any:
    e["n"] += 1
    return x * e["n"] if x.sum() > 0 else -x


def in_nested(e: Any, x: Any) -> Any:
    e["s"][0] += 1
    e["f"] *= 2
    return x * e["s"][0] + e["f"]


def in_dataclass(e: Any, x: Any) -> Any:
    e.n += 1
    e.rows[1] += 2
    return x * e.n + e.rows[1], e


def in_list(e: Any, x: Any) -> Any:
    e[0], e[1] = e[1] + 1, e[0]
    return x * e[0]


def in_tuple_of_attribute(e: Any, x: Any) -> Any:
    e.pair = (e.pair[0] + 1, e.pair[1])
    return x * e.pair[0], e.pair


def in_named_tuple(e: Any, x: Any) -> Any:
    e.pair = e.pair._replace(n=e.pair.n + e.pair.step)
    return x * e.pair.n


def in_nested_tuple(e: Any, x: Any) -> Any:
    e["t"] = ((e["t"][0][0] + 1, "a"), e["t"][1])
    return x * e["t"][0][0], e["t"]


def in_ring(e: Any, x: Any) -> Any:
    e["b"][e["i"]] = x.sum().item()
    e["i"] = (e["i"] + 1) % 4
    return x + sum(e["b"])


def in_ring_of_attribute(e: Any, x: Any) -> Any:
    e.b[e.i] = x.sum().item()
    e.i = (e.i + 1) % len(e.b)
    return x + sum(e.b)


def in_deque(e: Any, x: Any) -> Any:
    e.window.append(x.sum().item())
    return x * max(e.window)


def in_object_of_dict(e: Any, x: Any) -> Any:
    e["o"].n += 1
    return x * e["o"].n


def set_back(e: Any, x: Any) -> Any:
    if x.sum() > 1:
        e["n"] += 1
    else:
        e["n"] = 0
    return x * e["n"], e


def counts(e: Any, x: Any) -> Any:
    for k in range(e["n"]):
        x = x + k
    e["n"] += 1
    return x if e["n"] % 3 else -x


KEPT: dict[str, tuple[Any, Callable[[], Any], int]] = {
    "dict": (in_dict, lambda: {"n": 0}, 2),
    "nested": (in_nested, lambda: {"s": [0, 5], "f": 1.0}, 2),
    "dataclass": (in_dataclass, Record, 2),
    "list": (in_list, lambda: [0, 3], 2),
    "tuple": (in_tuple_of_attribute, lambda: types.SimpleNamespace(pair=(0, 1)), 2),
    "named tuple": (in_named_tuple, lambda: types.SimpleNamespace(pair=Pair(0, 2)), 2),
    "nested tuple": (in_nested_tuple, lambda: {"t": ((0, "b"), 1.5)}, 2),
    "ring": (in_ring, lambda: {"b": [0.0] * 4, "i": 0}, 3),
    "ring of an attribute": (in_ring_of_attribute, lambda: types.SimpleNamespace(b=[0.0] * 4, i=0), 3),
    "long ring": (in_ring_of_attribute, lambda: types.SimpleNamespace(b=[0.0] * 40, i=0), 3),
    "deque": (in_deque, lambda: types.SimpleNamespace(window=collections.deque([0.0] * 3, maxlen=3)), 4),
    "object of a dict": (in_object_of_dict, lambda: {"o": types.SimpleNamespace(n=0)}, 2),
    "set back": (set_back, lambda: {"n": 0}, 2),
    "counts": (counts, lambda: {"n": 0}, 2),
}


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize("case", KEPT.values(), ids=KEPT)
def test_where_numbers_are_kept(case: Any, backend: str) -> None:
    function, make, programs = case
    static, one, other = to_static(function, backend=backend), make(), make()
    for k in range(10):
        x = X * (k % 4 - 1)
        a, b = function(one, x), static(other, x)
        same(a, b, f"call {k}")
        same(_plain(one), _plain(other), f"state after call {k}")
        assert not isinstance(a, tuple) or (a[1] is one) is (b[1] is other)
    assert len(static.program_cache) <= programs


def _plain(value: Any) -> Any:
    """Objects as dicts, which compare by what they hold."""
    if isinstance(value, types.SimpleNamespace):
        return {name: _plain(part) for name, part in vars(value).items()}
    if isinstance(value, collections.deque):
        return list(value)
    return {key: _plain(part) for key, part in value.items()} if isinstance(value, dict) else value


def test_arguments_that_have_to_be_known() -> None:
    def f(e: Any, x: Any, step: int = 1) -> Any:
        e["n"] += step
        e["m"] += 1
        return x.repeat(27720).hsplit(e["n"])[0] * e["m"]

    static, one, other = to_static(f), {"n": 0, "m": 0}, {"n": 0, "m": 0}
    for _ in range(6):
        same(f(one, X), static(other, X))
    assert one == other
    numbers = [[slot.name for slot in captured.program.inputs if slot.number] for captured in static.program_cache]
    assert numbers.count(["arguments[0][0]['m']"]) == len(numbers) - 1  # all but the first


def test_one_container_given_twice() -> None:
    def f(e: Any, g: Any, x: Any) -> Any:
        e["n"] += 1
        g["n"] += 10
        return x * e["n"]

    static, one, other = to_static(f), {"n": 0}, {"n": 0}
    for _ in range(4):
        same(f(one, one, X), static(other, other, X))
        assert one == other
    apart = ({"n": 0}, {"n": 5})
    same(f({"n": 0}, {"n": 5}, X), static(*apart, X))
    assert apart == ({"n": 1}, {"n": 15})


def test_a_number_that_becomes_another_kind() -> None:
    def f(e: Any, x: Any) -> Any:
        e["n"] = e["n"] + (1 if e["n"] != 2 else 0.5)
        return x * e["n"]

    static, one, other = to_static(f), {"n": 0}, {"n": 0}
    for _ in range(6):
        same(f(one, X), static(other, X))
        assert repr(one) == repr(other)


GROWING: dict[str, tuple[Any, Callable[[], Any], str]] = {
    "dict": (lambda e, x: e.update({len(e): x}) or x, dict, "'e'"),
    "step": (lambda e, x: e.update(n=e["n"] + 1) or x.repeat(27720).hsplit(e["n"])[0], lambda: {"n": 0}, "\"e['n']\""),
}


@pytest.mark.parametrize("case", GROWING.values(), ids=GROWING)
def test_a_warning_names_what_makes_a_program_of_each_call(case: Any) -> None:
    function, make, name = case
    static, state = to_static(function), make()

    def calls() -> None:
        for _ in range(10):
            static(state, X)

    with pytest.warns(UserWarning, match=f"anew at each change of {re.escape(name)}"):
        calls()
