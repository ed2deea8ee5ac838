"""Lists of the program whose items are strings, None, dicts, objects and lists."""

from __future__ import annotations

import dataclasses
import typing

import pytest
import torch

import dy2st
import dy2st_runtime
from tests.oracle import agree

X = torch.tensor([1.0, 3.0, 2.0], dtype=torch.float64, requires_grad=True)
NS = [(torch.tensor(n), X) for n in (2, 0, 1, 5)]


@dataclasses.dataclass
class Step:
    h: torch.Tensor
    k: int = 0
    log: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class State:
    h: torch.Tensor


class Pair(typing.NamedTuple):
    h: torch.Tensor
    k: int


def items_of_several_structures(n, x):
    outs = []
    for k in range(n):
        if k % 2:
            outs.append({"a": x})
        else:
            outs.append({"b": x * 2, "c": {"k": k, "none": None if k else x}})
    total = x
    for item in outs:
        total = total + item["a"] if "a" in item else total * item["c"]["k"]
    return outs, total


def tensors_of_several_ranks(n, x):
    outs = []
    for k in range(n):
        outs.append(x if k % 2 else x.sum())
    total = x
    for item in outs:
        total = total + item
    return outs, total, sum(outs)


def filtered(n, x):
    outs = [x]
    for k in range(n):
        outs.append(None if k % 2 else x * k)
    return torch.stack([h for h in outs if h is not None])


def widened_through_an_item(n, x):
    rows = []
    for k in range(n):
        rows.append([x * k])
    for row in rows:
        row.append(None)
    total = x
    for row in rows:
        for h in row:
            if h is not None:
                total = total + h
    return rows, total


def widened_after_it_was_put_in(n, x):
    inner = []
    rows = [inner]
    for k in range(n):
        inner.append(None if k % 2 else x)
    total = x
    for row in rows:
        for h in row:
            if h is not None:
                total = total + h
    return rows, total


def work_list(n, x):
    todo, done = [{"x": x, "depth": 0}], []
    while todo:
        item = todo.pop()
        done.append(item["x"])
        if item["depth"] < n:
            todo.append({"x": item["x"] * 2, "depth": item["depth"] + 1})
            todo.append({"x": item["x"] + 1, "depth": item["depth"] + 2})
    return done


def branches_that_put_in(n, x):
    outs = [x]
    if n > 1:
        outs.append(None)
    else:
        outs += ["text", x]
    first = outs[-1]
    outs.append(Step(x, n))
    return first, outs, outs[1:]


def best_of(n, x):
    outs = [{"h": x, "score": 0.0}]
    for k in range(n):
        outs.append({"h": x * k, "score": k * 1.5 if k != 3 else 100.0})
    best = max(outs, key=lambda item: item["score"])
    outs.sort(key=lambda item: -item["score"])
    return best["h"], outs[0]["score"], {"score": 1.5} in [{"score": item["score"]} for item in outs]


def printed(n, x):
    outs = []
    for k in range(n):
        outs.append({"k": k, "none": None, "pair": (k, "text")})
    print(outs, f"{outs!r:>40}")
    return len(outs)


def functions(n, x):
    outs = []
    for k in range(n):
        outs.append(torch.tanh if k % 2 else torch.relu)
    for function in outs:
        x = function(x)
    return x


def dict_that_two_names_hold(n, x):
    outs, last = [], {"h": x}
    for k in range(n):
        made = {"h": last["h"] * 2}
        outs.append(made)
        last = made
    return outs, last["h"]


@pytest.mark.parametrize(
    "program",
    [
        items_of_several_structures, tensors_of_several_ranks, filtered, widened_through_an_item, widened_after_it_was_put_in,
        work_list, branches_that_put_in, best_of, printed, functions, dict_that_two_names_hold,
    ],
)  # fmt: skip
def test_growing_lists_hold_items_of_many_kinds(program):
    agree(program, NS)


def test_strings_known_at_run_time_only():
    def compared(n, x):
        digit, names = f"{int(n)}", []
        for k in range(n):
            names.append(f"a{k}")
        found = "a1" in names, names == ["a0", "a1"], names.count("a0"), names[-1] == "a1" if names else None
        return digit == "2", digit != "2", digit == 2, digit in ("1", "2"), x if digit else None, found

    agree(compared, NS)


def test_strings_grow_and_are_one_of_many():
    def grown(n, x):
        log, dots, letter = "", "", "abcdefghijklmnop"[int(n) + 4]
        for k in range(n):
            log = log + f"{k}={x.sum() * k:.1f};"
            dots += "."
        return log, dots, letter, letter == "i"

    agree(grown, NS)


def changed_after(n, x):
    outs = []
    for _ in range(n):
        made = {"h": x}
        outs.append(made)
        made["h"] = x * 2
    return outs


def changed_where_a_branch_may_have_it(n, x):
    outs = []
    for k in range(n):
        made = {"h": x * k}
        outs.append(made)
        other = made if k > 2 else {"h": x}
        other["h"] = x * 5
    return outs


def changed_in_the_next_iteration(n, x):
    outs, made = [], State(x)
    for _ in range(n):
        made.h = made.h + 1
        made = State(made.h * 2)
        outs.append(made)
    return outs


@pytest.mark.parametrize("program", [changed_after, changed_where_a_branch_may_have_it, changed_in_the_next_iteration])
def test_an_item_is_changed(program):
    agree(program, NS)


def test_one_dict_is_put_in_at_each_iteration():
    def repeated(n, x):
        outs, made = [], {"h": x}
        for _ in range(n):
            outs.append(made)
        return outs

    agree(repeated, NS)


def test_identity_of_items():
    def asked(n, x):
        outs = [{"h": x}]
        for k in range(n):
            outs.append({"h": x * k})
        return outs[0] is outs[-1]

    agree(asked, NS)


def test_identity_of_items_that_never_change():
    def asked(n, x):
        outs = [Frozen(x)]
        for k in range(n):
            outs.append(Frozen(x * k))
        return outs[0] is outs[-1]

    agree(asked, NS)


def test_identity_of_empty_items_is_refused():
    class Empty:
        pass

    def asked(n, x):
        outs = [Empty()]
        for _ in range(n):
            outs.append(Empty())
        return outs[0] is outs[-1]

    with pytest.raises(dy2st.CaptureError, match="whether two names hold the same Empty"):
        dy2st.to_static(asked)(*NS[0])


@dataclasses.dataclass(frozen=True)
class Frozen:
    h: torch.Tensor


@pytest.mark.parametrize("make", [lambda h: {"h": h}, Frozen])
def test_an_item_next_to_its_list(make):
    def left(n, x):
        outs = [make(x)]
        for k in range(n):
            outs.append(make(x * k))
        return outs[-1], outs

    agree(left, NS)


class Item:
    def __init__(self, h):
        self.h = h


kept: list[Item] = []
newest = None


def test_what_is_written_before_an_index_that_may_fail():
    def program(x):
        global newest
        item = Item(x)
        if x.sum() > 0:
            kept.append(item)
            newest = item
        return newest is kept[-1]

    static = dy2st.to_static(program)
    with pytest.raises(IndexError, match="list index out of range"):
        static(-X.abs())
    assert kept == []
    assert static(X.abs()) is True
    assert newest is kept[0]
    assert static(-X.abs()) is True
    assert len(kept) == 1


def put_in_after_a_branch_that_may_have(n, x):
    outs, item = [], {"h": x}
    if n > 0:
        item = {"h": x * 2}
        outs.append(item)
    if n > 1:
        outs.append(item)
    return outs


def put_in_by_two_branches_in_a_tuple(n, x):
    outs, item = [], {"h": x}
    if n > 0:
        new = {"h": x * 2}
        outs.append((new, item))
        item = new
    if n > 1:
        outs.append((n, item))
    return outs


def taken_by_a_branch_and_put_in(n, x):
    outs, more, item = [], [], {"h": x}
    for k in range(n):
        outs.append({"h": x * k})
    if n > 1:
        item = outs[-1]
    if n > 0:
        more.append(item)
    return len(outs), more


@pytest.mark.parametrize(
    "function",
    [
        put_in_after_a_branch_that_may_have,
        put_in_by_two_branches_in_a_tuple,
        taken_by_a_branch_and_put_in,
    ],
)
def test_an_object_that_may_be_in_a_list_already_is_put_in_again(function):
    agree(function, NS)


class Recorder(torch.nn.Module):
    def forward(self, n, x):
        outs, names = [], []
        for k in range(n):
            outs.append({"step": Step(x * k, k), "pair": Pair(x, k)})
            names.append("even" if k % 2 == 0 else None)
        total = x
        for item, name in zip(outs, names):
            total = total + item["step"].h * item["pair"].k
            if name is not None:
                total = total * 2
        return outs, names, total


def test_a_loaded_model_returns_lists_of_dicts_with_objects(tmp_path):
    model = dy2st.to_static(Recorder(), input_spec=[dy2st.InputSpec([], "int64", "n"), dy2st.InputSpec([3], "float64", "x")])
    dy2st.save(model, tmp_path / "m.dy2st")
    loaded = dy2st_runtime.load(tmp_path / "m.dy2st")
    for n, x in NS:
        (outs, names, total), (expected, words, whole) = loaded(n, x.detach()), Recorder()(n, x.detach())
        assert names == words and len(outs) == len(expected) and torch.equal(total, whole)
        for item, other in zip(outs, expected):
            assert list(item) == list(other) and type(item["pair"]).__name__ == "Pair"
            assert torch.equal(item["step"].h, other["step"].h) and item["step"].k == other["step"].k == item["pair"][1]


def test_growing_lists_of_strings_are_joined():
    def joined(n, x):
        names = []
        for k in range(n):
            names.append("even" if k % 2 == 0 else f"odd {k}")
        return ", ".join(names), "-".join(["a"] * n)

    agree(joined, NS)


def test_growing_lists_of_numbers_become_tensors():
    def made(n, x):
        numbers, rows = [k * 2 for k in range(n)], [[0, 1]]
        for k in range(n):
            rows.append([k, k * 2])
        flags = [k % 2 == 0 for k in range(n)]
        floats = torch.tensor([v.item() for v in x[:n]] + [1.0], dtype=x.dtype)
        return torch.tensor(numbers), torch.tensor(numbers, dtype=torch.float64), torch.tensor(rows), torch.as_tensor(flags), floats

    agree(made, NS)


def test_growing_lists_of_numbers_index_tensors():
    def indexed(n, x):
        where = [k for k in range(n) if k < 3]
        y = x * 1
        y[where] = 0.0
        return x[where], y, x.new_tensor(where), torch.stack([x, y])[:, where]

    agree(indexed, NS)


def test_lists_extend_by_ranges_generators_tensors_and_themselves():
    def extended(n, x):
        a, b, c, d = [], [], [x], [x[0]]
        a.extend(range(n))
        b.extend(x * k for k in range(n))
        for _ in range(n):
            c.extend(c)
        d += x[x > 1.5]
        if n > 1:
            d.extend(x[: n - 1])
        return a, b, len(c), sum(d), [*a], [*b, x, *b], [*range(n)]

    agree(extended, [(torch.tensor(n), X) for n in (2, 0, 1, 3)])


def test_spread_in_a_call():
    def called(n, x):
        items = [k * k for k in range(n)]
        print(*items, x.sum() > 0, sep=",")
        print(*items)
        return max(7, 1, *items), min(*items, 5, 3)

    agree(called, NS)


def test_of_other_things_than_numbers():
    def words(n, x):
        return torch.tensor(["a" for _ in range(n)])

    with pytest.raises(dy2st.CaptureError, match="of other things than numbers"):
        dy2st.to_static(words)(*NS[0])
