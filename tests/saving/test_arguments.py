"""Arguments of saved models: Python numbers that may differ from call to call, and arguments by name."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
from dy2st import InputSpec, SaveError, SignatureError, to_static
from tests.oracle import same

X = torch.tensor([1.0, -2.0, 3.0, 4.0])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


def scaled(x, n, factor=2.0, more=False, *, limit=None):
    for _ in range(n):
        x = x * factor
        if more:
            x = x + 1
    if n > 2:
        x = x[: n - 2]
    return x, n * 2, factor + 1, not more


@pytest.mark.parametrize("backend", ["python", None])
def test_numbers_may_differ_from_call_to_call(path, backend):
    dy2st.save(scaled, path, [InputSpec([4]), int, float, bool], example_inputs=(X, 3, 0.5, True))
    loaded = dy2st.load(path, backend=backend)
    assert [slot.number for slot in loaded.program.inputs] == [None, "int", "float", "bool"]
    for args in [(X, 3, 0.5, True), (X, 0, -1.5, False), (X, 5, math.inf, False), (X, -2, 0.0, True), (X, 10, 1.0, False)]:
        same(scaled(*args), loaded(*args))
    loaded.save(path.parent / "again")
    assert (path.parent / "again").read_bytes() == path.read_bytes()
    same(loaded.examples["forward"][0], (X, 3, 0.5, True))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((X, 3.0, 0.5, True), "n must be a Python int, but is the float 3.0"),
        ((X, True, 0.5, True), "n must be a Python int, but is the bool True"),
        ((X, torch.tensor(3), 0.5, True), "n must be a Python int, but is a tensor"),
        ((X, 3, 1, True), "factor must be a Python float, but is the int 1"),
        ((X, 3, 0.5, None), "more must be a Python bool, but is None"),
    ],
)
def test_numbers_of_another_kind(path, args, message):
    dy2st.save(scaled, path, [InputSpec([4]), int, float, bool])
    with pytest.raises(SignatureError, match=message):
        dy2st.load(path)(*args)


class Speaker(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x, n):
        return self.linear(x) * n

    def generate(self, x, steps, options, *, start, scale=1.0):
        outs = [start]
        for _ in range(steps):
            x = self.linear(x) * scale
            outs.append(x)
            if x.sum() > options["limits"][0]:
                break
        return torch.stack(outs)


def test_nested_numbers_and_arguments_by_name(path):
    eager = Speaker()
    specs = {"options": {"limits": (float,)}, "x": InputSpec([2]), "start": InputSpec([2], name="first"), "steps": int}
    dy2st.save(eager, path, methods={"forward": {"n": int, "x": InputSpec([None, 2])}, "generate": specs})
    loaded = dy2st.load(path)
    x, start = torch.ones(2), torch.zeros(2)
    for steps, limit in [(3, 0.5), (0, 0.5), (7, 100.0)]:
        same(
            eager.generate(x, steps, {"limits": (limit,)}, start=start),
            loaded.generate(x, options={"limits": (limit,)}, steps=steps, start=start),
        )
    same(eager(x[None], 4), loaded(x[None], n=4))
    names = [slot.name for slot in loaded.programs_of("generate")[0].inputs]
    assert names == ["x", "steps", "options.limits.0", "first"]
    with pytest.raises(SignatureError, match="missing its argument start"):
        loaded.generate(x, 3, {"limits": (1.0,)})
    loaded.generate(x, 3, {"limits": (1.0,)}, start=start).sum().backward()


def weighted(x, *others, scale=1.0):
    total = x * scale
    for number, other in enumerate(others):
        total = total + other * number
    return total if total.sum() > 0 else x


def test_any_number_of_arguments(path):
    for count in (0, 1, 3):
        dy2st.save(weighted, path, [InputSpec([4])] * (1 + count))
        loaded = dy2st.load(path)
        others = [X * number for number in range(count)]
        same(weighted(X, *others), loaded(X, *others))
        with pytest.raises(SignatureError):
            loaded(X, *others, X)
    with pytest.raises(SignatureError, match="specified"):
        dy2st.to_static(weighted, input_spec=[InputSpec([4])] * 3)(X, X)


def test_names_that_are_no_parameters(path):
    for specs in ({"x": InputSpec([4]), "m": int}, {"self": 1}):
        with pytest.raises(SignatureError, match="which input_spec names"):
            dy2st.save(Speaker(), path, specs)
    with pytest.raises(SignatureError, match="missing a required argument: 'n'"):
        dy2st.save(Speaker(), path, {"x": InputSpec([1, 2])})
    with pytest.raises(SaveError, match="exists only in this process"):
        dy2st.save(scaled, path, [InputSpec([4]), complex])
    assert not path.exists()


def test_numbers_in_this_process():
    static = dy2st.to_static(scaled, input_spec={"x": InputSpec([None]), "n": int, "limit": None})
    for n in (1, 3, 1):
        same(scaled(X, n), static(X, n))
    assert len(static.program_cache) == 2
    assert "n: int" in str(static.program())
    with pytest.raises(SignatureError, match="'n' is specified as"):
        static(X, 1.0)


def test_exported_numbers_are_tensors(tmp_path):
    report = dy2st.export(scaled, tmp_path / "model.pt2", input_spec=[InputSpec([4]), int, float, bool])
    assert report.largest_difference == 0 and report.verified >= 4
    model = torch.export.load(tmp_path / "model.pt2").module()
    found = model(X, torch.tensor(3), torch.tensor(0.5, dtype=torch.float64), torch.tensor(True))
    same(scaled(X, 3, 0.5, True)[0], found[0])


def _first_positive(batch):
    for value in batch.values():
        if value.sum() > 0:
            return value
    return batch["a"] * 0


def _copied(batch):
    return {**batch, "a": batch["a"] + 1}


def _passed_on(batch):
    return [value * n for n, value in enumerate(dict(**batch).values())]


def _given_back(batch):
    return batch if batch["a"].sum() > 0 else {"a": batch["b"], "b": batch["a"]}


def _by_name(batch):
    return batch["a"] * 2 if batch["b"].sum() > 0 else batch["b"]


@pytest.mark.parametrize("function", [_first_positive, _copied, _passed_on, _given_back])
def test_keys_come_in_the_order_that_the_program_goes_through(path, function):
    one, two = torch.ones(1), torch.ones(1) * 2
    dy2st.save(function, path, [{"a": one, "b": two}])
    loaded = dy2st.load(path)
    same(function({"a": two, "b": one}), loaded({"a": two, "b": one}))
    with pytest.raises(SignatureError, match="a mapping with the keys 'a', 'b', in this order"):
        loaded({"b": two, "a": one})


def _by_keyword(x, *, scale, **given):
    for value in given.values():
        x = x * scale + value
    return x


def test_keywords_come_in_the_order_that_the_program_goes_through(path):
    one, two = torch.ones(1), torch.ones(1) * 2
    for method in (_by_keyword, to_static(lambda x, **given: [*given, x])):
        more = {"scale": 3} if method is _by_keyword else {}
        static = to_static(method)
        expected = static(X, a=one, b=two, **more)
        dy2st.save(static, path)
        loaded = dy2st.load(path)
        same(expected, loaded(X, a=one, b=two, **more))
        same(expected, loaded(X, a=one, **more, b=two))
        with pytest.raises(SignatureError, match="in this order"):
            loaded(X, b=two, a=one, **more)


def _leaves(batch):
    return torch.utils._pytree.tree_leaves([batch])


def test_keys_come_in_the_order_that_a_library_goes_through(path):
    one, two = torch.ones(1), torch.ones(1) * 2
    dy2st.save(_leaves, path, [{"a": one, "b": two}])
    loaded = dy2st.load(path)
    same(_leaves({"a": two, "b": one}), loaded({"a": two, "b": one}))
    with pytest.raises(SignatureError, match="in this order"):
        loaded({"b": two, "a": one})


@dataclasses.dataclass
class Pair:
    a: Any
    b: Any


def _reversed(a, b):
    """The same pair, with its attributes in the other order."""
    pair = object.__new__(Pair)
    pair.b, pair.a = b, a
    return pair


def _through_attributes(pair, x):
    for value in vars(pair).values():
        x = x * 2 + value if x.sum() > 0 else x - value
    return x, list(vars(pair))


def _attributes_by_name(pair, x):
    return pair.a - x if pair.b.sum() > 0 else pair.b


def test_attributes_of_a_dataclass_come_in_the_order_that_they_have(path):
    one, two = torch.ones(1), torch.ones(1) * 2
    for function in (_through_attributes, _attributes_by_name):
        static = to_static(function)
        for pair in (Pair(one, two), _reversed(one, two), Pair(two, one), _reversed(two, one)):
            same(static(pair, one), function(pair, one))
        static = to_static(function)
        static(Pair(one, two), one)
        dy2st.save(static, path)
        loaded = dy2st.load(path)
        same(function(Pair(two, one), one), loaded(Pair(two, one), one))
        if function is _attributes_by_name:
            same(function(_reversed(two, one), one), loaded(_reversed(two, one), one))
            continue
        with pytest.raises(SignatureError, match="pair must have the attributes a, b, in this order, but has b, a"):
            loaded(_reversed(two, one), one)


def test_keys_that_are_looked_up_come_in_any_order(path):
    one, two = torch.ones(1), torch.ones(1) * 2
    dy2st.save(_by_name, path, [{"a": one, "b": two}])
    loaded = dy2st.load(path)
    same(_by_name({"b": one, "a": two}), loaded({"b": one, "a": two}))
