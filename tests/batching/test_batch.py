"""Functions for one example, run for many at once."""

from __future__ import annotations

import asyncio
import copy
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import torch
from torch import nn

import dy2st
import dy2st_runtime

torch.manual_seed(0)


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def heun(y, tol):
    t, h, steps = torch.zeros(()), torch.full((), 0.1), 0
    while t < 1:
        k1 = -3 * y
        k2 = -3 * (y + h * k1)
        error = (h * (k2 - k1) / 2).abs().max()
        if error < tol:
            y, t, steps = y + h * (k1 + k2) / 2, t + h, steps + 1
        h = torch.minimum(0.9 * h * (tol / error.clamp(min=1e-9)).sqrt().clamp(0.2, 5.0), 1 - t + 1e-6)
    return y, steps


def decode(tokens, table, most):
    out = []
    while tokens.shape[0] < most:
        following = table[tokens].mean(0).argmax(-1)
        out.append(following)
        if following == 0:
            break
        tokens = torch.cat([tokens, following[None]])
    return tokens, out


def fails(x):
    if x > 3:
        raise ValueError("too large")
    return {"half": x / 2, "digits": int(x * 10)}


def test_branches_and_loops_of_each_example():
    assert dy2st.batch(collatz)(torch.tensor([1, 6, 27, 7])).tolist() == [0, 8, 111, 16]


def test_an_adaptive_solver_with_its_own_step_size_for_each_example():
    ys, tol = torch.randn(17, 3), torch.rand(17) * 1e-3 + 1e-4
    values, steps = dy2st.batch(heun)(ys, tol)
    for position, (y, limit) in enumerate(zip(ys, tol)):
        alone = heun(y, limit)
        assert torch.allclose(values[position], alone[0], atol=1e-6)
        assert steps[position] == alone[1]


def test_tensors_and_lists_that_grow_differently_come_as_lists():
    table, prompts = torch.randn(10, 10), torch.randint(10, (9, 2))
    tokens, out = dy2st.batch(decode, in_dims=(0, None, None))(prompts, table, 8)
    for position, prompt in enumerate(prompts):
        alone = decode(prompt, table, 8)
        assert torch.equal(tokens[position], alone[0])
        assert [int(v) for v in out[position]] == [int(v) for v in alone[1]]


def test_dimensions_of_arguments_and_results():
    def scaled(x, options):
        return (x * options["by"], x.sum()) if x.sum() > 0 else (x, -x.sum())

    x, by = torch.randn(3, 5), torch.randn(5)
    whole, total = dy2st.batch(scaled, in_dims=(1, {"by": 0}), out_dims=(-1, 0))(x, {"by": by})
    assert whole.shape == (3, 5)
    for at in range(5):
        one, two = scaled(x[:, at], {"by": by[at]})
        assert torch.equal(whole[:, at], one)
        assert torch.allclose(total[at], two)
    assert dy2st.batch(lambda x, *, y: x + y)(torch.arange(3), y=torch.arange(3)).tolist() == [0, 2, 4]
    assert dy2st.batch(lambda x: 7, out_dims=None)(torch.arange(3)) == 7


@pytest.mark.parametrize(
    ("function", "in_dims", "args", "words"),
    [
        (collatz, 0, (torch.ones(3), torch.ones(2)), "different numbers of examples: 3 in argument 0, 2 in argument 1"),
        (collatz, 0, (1,), "no argument has a dimension for the examples"),
        (collatz, (0, 0), (torch.ones(3),), "in_dims is for 2 arguments, and 1 are given"),
        (collatz, 2, (torch.ones(3),), "in_dims is 2 for argument 0, a tensor of 1 dimensions"),
        (collatz, 0, (torch.ones(0),), "has no examples"),
        (lambda x: _shared.append(x), 0, (torch.ones(3),), "changes what is in _shared, which the examples share"),
        (lambda x: torch.autograd.grad(x * x, x), 0, (torch.ones(3, requires_grad=True),), "runs the backward pass"),
        (lambda x: torch.manual_seed(0) and x, 0, (torch.ones(3),), "state of PyTorch's generator"),
    ],
)
def test_what_is_no_batch(function, in_dims, args, words):
    with pytest.raises(dy2st.BatchError, match=words):
        dy2st.batch(function, in_dims)(*args)


_shared: list[Any] = []


def test_what_batch_is_not_made_of():
    with pytest.raises(dy2st.BatchError, match="takes a function or a module"):
        dy2st.batch(3)  # type: ignore[arg-type]
    with pytest.raises(dy2st.BatchError, match="errors must be"):
        dy2st.batch(collatz, errors="ignore")
    with pytest.raises(dy2st.BatchError, match="lanes must be"):
        dy2st.batch(collatz, lanes=0)


def test_only_the_examples_fail_that_raise():
    x = torch.tensor([1.0, 5.0, 2.0, 7.0, float("nan")])
    with pytest.raises(dy2st.ExampleErrors, match="3 of 5 examples raise: 1, 3, 4") as caught:
        dy2st.batch(fails)(x)
    error = caught.value
    assert {number: type(one) for number, one in error.by_example.items()} == {1: ValueError, 3: ValueError, 4: ValueError}
    assert error.results[2] == {"half": torch.tensor(1.0), "digits": 20}
    assert error.results[1] is None
    assert len(error.exceptions) == 3
    if sys.version_info >= (3, 11):
        assert isinstance(error, ExceptionGroup)  # noqa: F821  # of newer Pythons
        assert error.split(ValueError)[1] is None
    results = dy2st.batch(fails, errors="return")(x)
    assert [type(result) for result in results] == [dict, ValueError, dict, ValueError, ValueError]


def test_an_example_that_raises_in_a_loop_leaves_the_others_in_it():
    def f(x):
        steps = 0
        while x < 10:
            x, steps = x * 2, steps + 1
            if x == 6:
                raise KeyError("six")
        return steps

    results = dy2st.batch(f, errors="return")(torch.tensor([1.0, 3.0, 5.0, 20.0]))
    assert [repr(result) for result in results] == ["4", "KeyError('six')", "1", "0"]


def test_operators_that_fail_for_an_example_fail_for_it_alone():
    def f(x, n):
        return torch.linalg.cholesky(x) if n > 0 else x

    x = torch.stack([torch.eye(2), -torch.eye(2), -torch.eye(2)])
    results = dy2st.batch(f, errors="return")(x, torch.tensor([1, 1, 0]))
    assert isinstance(results[1], torch.linalg.LinAlgError)
    assert torch.equal(results[2], -torch.eye(2))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.cell = nn.LSTMCell(3, 4)
        self.register_buffer("seen", torch.zeros(3))
        self.memory = None
        self.calls = 0

    def forward(self, x):
        if self.memory is None:
            self.memory = (torch.zeros(4), torch.zeros(4))
        self.seen += x
        if x.sum() > 0:
            h, c = self.cell(self.layer(x)[None], tuple(part[None] for part in self.memory))
            self.memory = (h[0], c[0])
        self.calls += 1
        return self.memory[0].sum() + self.calls


def test_state_belongs_to_each_example():
    model, xs = Counting(), [torch.randn(5, 3) for _ in range(3)]
    fresh, batched = copy.deepcopy(model), dy2st.batch(model)
    found = [batched(x) for x in xs]
    for position in range(5):
        alone = copy.deepcopy(fresh)
        expected = [alone(x[position]) for x in xs]
        assert all(torch.allclose(one[position], two, atol=1e-6) for one, two in zip(found, expected))
        assert torch.allclose(batched.state["seen"][position], alone.seen)
        assert torch.allclose(batched.state["memory"][0][position], alone.memory[0], atol=1e-6)
    assert model.calls == 0
    assert model.memory is None
    assert not model.seen.any()
    with pytest.raises(dy2st.BatchError, match="state of 5 examples is kept, and the call is for 2"):
        batched(xs[0][:2])
    batched.reset()
    assert torch.equal(batched(xs[0]), found[0])


def test_gradients_are_the_sums_of_those_of_single_calls():
    weight = torch.randn(3, requires_grad=True)

    def f(x):
        while x.norm() < 3:
            x = x * weight.abs().sum() + 1
        return x.sum()

    x = torch.rand(6, 3, requires_grad=True)
    found = torch.autograd.grad(dy2st.batch(f)(x).sum(), (weight, x))
    expected = torch.autograd.grad(sum(f(row) for row in x), (weight, x))
    assert all(torch.allclose(one, two) for one, two in zip(found, expected))


def test_batches_of_batches():
    def f(x, most):
        steps = 0
        while x.sum() < most:
            x, steps = x * 2 + 1, steps + 1
        return x, steps

    xs, most = torch.rand(3, 4, 2), torch.tensor([1.0, 5.0, 30.0])
    values, steps = dy2st.batch(dy2st.batch(f, in_dims=(0, None)))(xs, most)
    assert values.shape == (3, 4, 2)
    for i in range(3):
        for j in range(4):
            alone = f(xs[i, j], most[i])
            assert torch.equal(values[i, j], alone[0])
            assert steps[i, j] == alone[1]


def rejected(scale):
    tries = 0
    while True:
        u = torch.rand(2)
        tries += 1
        if (u * u).sum() < 1:
            return u * scale + torch.randn(2) * 0, tries


def test_random_numbers_do_not_depend_on_the_examples_beside():
    batched = dy2st.batch(rejected)
    torch.manual_seed(3)
    many, tries = batched(torch.ones(400))
    torch.manual_seed(3)
    few, _ = batched(torch.ones(5))
    assert torch.equal(few, many[:5])
    assert (many.square().sum(-1) < 1).all()
    assert 1.1 < tries.double().mean() < 1.5
    assert many.std(0).min() > 0.2


def test_random_operators_draw_for_each_example():
    def f(p):
        return torch.bernoulli(p), torch.multinomial(p, 1), torch.randperm(5), torch.rand(3).to(p.dtype), torch.randint(2, 9, (4,))

    coins, choice, order, uniform, whole = dy2st.batch(f)(torch.full((500, 3), 0.25))
    assert abs(coins.mean() - 0.25) < 0.05
    assert set(choice.flatten().tolist()) == {0, 1, 2}
    assert torch.equal(order.sort(-1).values, torch.arange(5).expand(500, 5))
    assert len({tuple(row) for row in order.tolist()}) > 50
    assert 0.4 < uniform.mean() < 0.6
    assert (whole.min(), whole.max()) == (2, 8)


def test_dropout_of_each_example():
    model = nn.Sequential(nn.Dropout(0.5)).train()
    out = dy2st.batch(model)(torch.ones(1000, 4))
    assert set(out.unique().tolist()) == {0.0, 2.0}
    assert 0.4 < (out == 0).double().mean() < 0.6
    assert torch.equal(dy2st.batch(model.eval())(torch.ones(3, 4)), torch.ones(3, 4))


@pytest.mark.parametrize("lanes", [1, 3, 64])
def test_a_stream_gives_what_each_example_gives_alone(lanes):
    table = torch.randn(10, 10)
    prompts = [(torch.randint(10, (1 + k % 5,)), table, 6 + k % 3) for k in range(25)]
    found = list(dy2st.batch(decode).stream(prompts, lanes=lanes))
    for (tokens, out), prompt in zip(found, prompts, strict=True):
        alone = decode(*prompt)
        assert torch.equal(tokens, alone[0])
        assert [int(v) for v in out] == [int(v) for v in alone[1]]


def test_a_stream_out_of_order_gives_numbers():
    found = dict(dy2st.batch(collatz).stream([torch.tensor(n) for n in (27, 1, 2, 6)], lanes=2, ordered=False))
    assert found == {0: 111, 1: 0, 2: 1, 3: 8}


def test_lanes_are_filled_as_examples_leave():
    batched = dy2st.batch(collatz, lanes=4)
    assert batched(torch.arange(1, 60)).tolist() == [collatz(n) for n in range(1, 60)]
    loop = next(row for row in batched.report().blocks.values() if row.what == "while")
    assert loop.most == 4
    assert loop.examples / loop.runs > 3.5
    assert "while" in str(batched.report())


def test_examples_that_are_dropped_leave_nothing_behind():
    lanes = dy2st.batch(collatz).lanes()
    for first in range(0, 40, 4):
        assert lanes.admit([(first + k, ((torch.tensor(27),), {})) for k in range(4)]) == []
        assert lanes.step() == []
        lanes.drop([first, first + 2])
        lanes.drop([first + 1, first + 3, 999])
        assert lanes.active == 0
    assert len(lanes._streams._seeds) <= 8
    assert not lanes._names
    assert not lanes._ids
    assert lanes.step() == []


def test_an_exception_in_a_stream_comes_where_its_result_would():
    batched = dy2st.batch(fails)
    results = batched.stream([torch.tensor(1.0), torch.tensor(9.0)])
    assert next(results)["digits"] == 10
    with pytest.raises(ValueError, match="too large"):
        next(results)
    assert [type(one) for one in dy2st.batch(fails, errors="return").stream([torch.tensor(9.0)])] == [ValueError]


def test_examples_that_arrive_at_any_time():
    async def arriving() -> AsyncIterator[torch.Tensor]:
        for n in (27, 1, 2, 6):
            await asyncio.sleep(0.001)
            yield torch.tensor(n)

    async def collected() -> dict[int, int]:
        return {number: result async for number, result in dy2st.batch(collatz).astream(arriving(), lanes=2)}

    assert asyncio.run(collected()) == {0: 111, 1: 0, 2: 1, 3: 8}


def test_a_saved_model_is_batched_without_its_source(tmp_path):
    class Halving(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("total", torch.zeros(()))

        def forward(self, x):
            steps = 0
            while x.norm() > 1:
                x, steps = self.layer(x).tanh() / 2, steps + 1
            self.total = self.total + steps
            return x, steps

    model = Halving().eval()
    dy2st.save(model, tmp_path / "model.dy2st", [dy2st.InputSpec([3], "float32")])
    loaded = dy2st_runtime.load(tmp_path / "model.dy2st").eval()
    xs = torch.randn(7, 3) * 3
    batched = dy2st_runtime.batch(loaded)
    for _ in range(2):
        values, steps = batched(xs)
    for position, x in enumerate(xs):
        alone = copy.deepcopy(model)
        for _ in range(2):
            value, count = alone(x)
        assert torch.allclose(values[position], value, atol=1e-6)
        assert steps[position] == count
        assert batched.state["total"][position] == alone.total
    assert torch.equal(dy2st.batch(loaded)(xs)[1], steps)
    with pytest.raises(dy2st.BatchError, match="no method 'other'"):
        dy2st_runtime.batch(loaded, method="other")


def test_a_model_that_was_captured_with_another_default_dtype(tmp_path):
    class Made(nn.Module):
        def forward(self, x):
            return torch.full((2,), 1.5) if x > 0 else torch.scalar_tensor(2.5) + torch.zeros(2)

    torch.set_default_dtype(torch.float64)
    try:
        dy2st.save(Made(), tmp_path / "made.dy2st", [dy2st.InputSpec([], "float32")])
    finally:
        torch.set_default_dtype(torch.float32)
    batched = dy2st_runtime.batch(dy2st_runtime.load(tmp_path / "made.dy2st"))
    assert batched(torch.tensor([1.0, -1.0])).dtype is torch.float64
    assert next(batched.stream([torch.tensor(1.0)])).dtype is torch.float64
    assert torch.get_default_dtype() is torch.float32


def test_a_cond_that_guards_a_while_ends():
    """JAX's ``vmap`` of this never ends: both branches run for all, and the loop with them."""

    def f(n):
        total = torch.zeros((), dtype=torch.int64)
        if n > 0:
            while total != n:
                total = total + 1
        return total

    assert dy2st.batch(f)(torch.tensor([3, -1, 5])).tolist() == [3, 0, 5]


DRAWS = {
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5),
    "bernoulli": lambda x: torch.bernoulli(x * 0.5),
    "multinomial": lambda x: torch.multinomial(x, 1),
    "several": lambda x: torch.nn.functional.dropout(x, 0.5) + torch.rand(4),
}


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_what_an_example_draws_does_not_depend_on_the_lanes(draw):
    found = []
    for lanes in (None, 1, 3):
        torch.manual_seed(0)
        found.append(dy2st.batch(draw, lanes=lanes)(torch.ones(4, 4)))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def puts_in(x, d):
    d["y"] = x
    return x


def adds_to(x, w):
    w += x
    return w.sum()


@pytest.mark.parametrize(("function", "shared"), [(puts_in, {}), (adds_to, torch.zeros(3))], ids=["dict", "tensor"])
def test_what_the_examples_share_is_not_written(function, shared):
    with pytest.raises(dy2st.BatchError, match="which the examples share"):
        dy2st.batch(function, in_dims=(0, None))(torch.tensor([1.0, 2.0, 3.0]), shared)
