"""Specifications: one program for all sizes that are declared dynamic, 0 and 1 included."""

from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dy2st import InputSpec, to_static
from dy2st.errors import SignatureError
from tests.oracle import agree, same

SIZES = (4, 2, 1, 0, 7)
ANY = InputSpec([None, 3])


def batches(*shape: int, grad: bool = True, sizes: Any = SIZES) -> list[Any]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(n, *shape, generator=generator).requires_grad_(grad) for n in sizes]


def test_specifications_with_the_same_fields_are_equal() -> None:
    spec = InputSpec([None, -1, 3], "int64", "ids")
    assert spec.shape == (None, None, 3) and spec.dtype is torch.int64 and spec.name == "ids"
    assert spec == InputSpec((None, None, 3), torch.int64, "ids") and hash(spec) == hash(
        InputSpec((None, -1, 3), torch.int64, "ids")
    )
    assert spec.dynamic_dims == {0, 1}
    assert repr(InputSpec([None, 8], name="x")) == "InputSpec(shape=(None, 8), dtype=torch.float32, name='x')"
    assert InputSpec([]).shape == () and InputSpec(torch.Size([2, 3])).shape == (2, 3)
    assert InputSpec.from_tensor(torch.ones(2, 3).long(), "y") == InputSpec([2, 3], torch.int64, "y")
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.shape = ()


# What people do with a batch of unknown size; each is one program for all sizes.
LINEAR, CONV, NORM = nn.Linear(3, 5), nn.Conv1d(1, 2, 2), nn.BatchNorm1d(3).eval()
LSTM, ATTENTION, EMBED = nn.LSTM(3, 4, batch_first=True), nn.MultiheadAttention(4, 2, batch_first=True), nn.Embedding(10, 3)
BATCH_OPERATIONS = {
    "linear": lambda x: LINEAR(x),
    "view": lambda x: x.view(x.shape[0], -1),
    "view of a size and a number": lambda x: x.view(x.size(0) * 3),
    "view -1 first": lambda x: x.view(-1, 3, 1),
    "reshape": lambda x: x.reshape(x.shape[0], 1, 3).reshape(-1),
    "flatten": lambda x: x[:, None].flatten(1),
    "size": lambda x: x * x.size()[0] + x.size(1),
    "numel": lambda x: x * x.numel(),
    "shape arithmetic": lambda x: x / (x.shape[0] + 1) * (x.shape[0] // 2) ** 2,
    "len": lambda x: x * len(x),
    "matmul": lambda x: x @ x.t(),
    "einsum": lambda x: torch.einsum("bi,bj->bij", x, x),
    "bmm": lambda x: torch.bmm(x[:, None], x[:, :, None]),
    "softmax": lambda x: x.softmax(0) + x.softmax(-1),
    "conv": lambda x: CONV(x[:, None]),
    "norm": lambda x: NORM(x),
    "layer norm": lambda x: F.layer_norm(x, (3,)),
    "pool": lambda x: F.adaptive_avg_pool1d(x[:, None], 2),
    "attention": lambda x: F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None]),
    "cat": lambda x: torch.cat([x, x[:1], x]),
    "stack": lambda x: torch.stack([x, x * 2], 1),
    "mask": lambda x: x[x > 0],
    "row mask": lambda x: x[x.sum(1) > 0] * 2,
    "where": lambda x: torch.where(x > 0, x, -x),
    "nonzero": lambda x: (x > 0).nonzero(),
    "topk": lambda x: x.topk(2, dim=1).values,
    "sort": lambda x: x.sort(0).values,
    "gather": lambda x: x.gather(1, torch.zeros(x.shape[0], 1, dtype=torch.long)),
    "arange": lambda x: x + torch.arange(x.shape[0])[:, None],
    "new tensors": lambda x: x + x.new_zeros(x.shape) + torch.ones(x.shape[0], 3) + torch.zeros_like(x),
    "expand": lambda x: torch.ones(1, 3).expand(x.shape[0], 3) * x,
    "repeat": lambda x: x.repeat(2, 1),
    "index": lambda x: x[:, 1] + x[..., 0],
    "slice": lambda x: x[1:],
    "half": lambda x: x[: x.shape[0] // 2],
    "flip": lambda x: x.flip(0).roll(1, 0),
    "mean": lambda x: x.mean() + x.sum(0).sum(),
    "cumsum": lambda x: x.cumsum(0),
    "transpose": lambda x: x.t().contiguous(),
    "pad": lambda x: F.pad(x, (0, 0, 1, 2)),
    "one hot": lambda x: F.one_hot(x.argmax(1), 3),
    "embedding": lambda x: EMBED(x.argmax(1)),
    "chunk": lambda x: x.unbind(1),
    "split": lambda x: x.split([1, 2], dim=1),
    "in place": lambda x: x.clone().mul_(2).add_(1),
    "dropout": lambda x: F.dropout(x, 0.5),
    "loss": lambda x: F.cross_entropy(x, torch.zeros(x.shape[0], dtype=torch.long), reduction="sum"),
    "shape in the result": lambda x: (x.shape, x.shape[0], x.size(1), x.ndim, x.dtype),
    "batched outer": lambda x: (x[:, :, None] * x[:, None]).sum((1, 2)),
}  # fmt: skip
EMPTY_FAILS = {"arg", "one hot", "embedding"}


@pytest.mark.parametrize("name", BATCH_OPERATIONS)
def test_one_program_serves_every_batch_size(name: str) -> None:
    agree(BATCH_OPERATIONS[name], batches(3), spec=[ANY])


def test_one_program_serves_every_batch_and_sequence_length() -> None:
    def f(x: Any) -> Any:
        y, (h, c) = LSTM(x)
        z, weights = ATTENTION(y, y, y)
        return z, h, c, weights

    generator = torch.Generator().manual_seed(0)
    calls = [torch.randn(b, t, 3, generator=generator) for b, t in ((2, 5), (1, 3), (3, 1), (2, 2))]
    agree(f, calls, spec=[InputSpec([None, None, 3])])


def test_causal_masks_and_positions() -> None:
    def f(x: Any) -> Any:
        length = x.shape[1]
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))
        return scores.softmax(-1) @ x + torch.arange(length)[None, :, None]

    calls = [torch.randn(b, t, 3) for b, t in ((2, 5), (1, 3), (3, 1))]
    agree(f, calls, spec=[InputSpec([None, None, 3])])


@pytest.mark.parametrize(
    "decide",
    [
        lambda x: x * 2 if x.shape[0] > 3 else x,
        lambda x: x * 2 if x.shape[0] == 1 else x.sum(0, keepdim=True),
        lambda x: x.mean() if x.shape[0] else torch.zeros(()),
        lambda x: x if x.numel() != 6 else -x,
        lambda x: x * (3 if len(x) % 2 == 0 else 5),
        lambda x: x * max(x.shape[0], 3) + min(x.shape[0], 2),
        lambda x: x if 1 < x.shape[0] <= 4 else x + 1,
        lambda x: x + 1 if x.shape == (2, 3) else x,
        lambda x: x + 1 if not x.shape[0] else x - 1,
        lambda x: x + 1 if x.shape != (2, 3) else x,
        lambda x: x + 1 if (x.shape[0], "a") == (2, "a") else x,
        lambda x: x + 1 if x.shape in [(1, 3), (2, 3)] else x,
        lambda x: x + 1 if x.size(0) in (1, 7) else x,
    ],
)
def test_comparisons_of_a_dynamic_size_are_captured(decide: Any) -> None:
    agree(decide, batches(3, grad=False), spec=[ANY])


def test_loops_over_a_dynamic_size() -> None:
    def f(x: Any) -> Any:
        total = torch.zeros(3)
        for row in x:
            if row.sum() > 0:
                total = total + row
        for i in range(x.shape[0]):
            total = total * 0.5 + x[i]
        k = 0
        while k < x.shape[0]:
            total = total + x[k]
            k += 2
        return total, k

    agree(f, batches(3), spec=[ANY])


def test_two_inputs_of_one_size() -> None:
    def f(x: Any, y: Any) -> Any:
        return x + y, torch.cat([x, y]), x @ y.t()

    calls = [(torch.randn(n, 3), torch.randn(n, 3)) for n in (3, 2, 1, 0)]
    agree(f, calls, spec=[ANY, ANY])
    static = to_static(f, input_spec=[ANY, ANY])
    static(torch.randn(3, 3), torch.randn(3, 3))
    with pytest.raises(RuntimeError):
        static(torch.randn(3, 3), torch.randn(2, 3))


def test_broadcasting_of_dynamic_sizes() -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y

    calls = [(torch.randn(4, 3), torch.randn(4, 3)), (torch.randn(2, 3), torch.randn(2, 3)), (torch.randn(1, 3), torch.randn(1, 3))]
    agree(f, calls, spec=[ANY, ANY])
    static = to_static(f, input_spec=[ANY, ANY])
    static(*calls[0])
    same(static(torch.ones(4, 3), torch.full((1, 3), 2.0)), torch.full((4, 3), 2.0))


def test_without_a_specification_the_third_size_is_any() -> None:
    agree(lambda x: x.sum(0), batches(3), programs=3)


# -- nests, constants, names -----------------------------------------------------------------------------------------------------

Pair = namedtuple("Pair", "a b")


@dataclasses.dataclass
class Config:
    x: Any
    k: float = 2.0


def test_one_program_serves_nested_specifications_of_any_size() -> None:
    def f(pair: Any, table: Any, items: Any) -> Any:
        x = pair[0] * 2 + pair[1].sum(0)
        if x.sum() > 0:
            x = x + table["k"] * table["scale"]
        return {"x": x, "items": [items[0] + 1, items[1]["deep"]]}

    spec = [(ANY, ANY), {"k": ANY, "scale": 2.0}, [InputSpec([]), {"deep": InputSpec([None])}]]

    def call(n: int) -> Any:
        x = torch.randn(n, 3)
        return (x, x + 1), {"k": x * 2, "scale": 2.0}, [torch.tensor(1.0), {"deep": torch.ones(n)}]

    agree(f, [call(n) for n in (3, 1, 2)], spec=spec)


def test_other_containers_as_arguments() -> None:
    def f(pair: Any, order: Any, config: Any) -> Any:
        x = pair.a + pair.b + order["z"]
        if x.sum() > 0:
            x = x * config.k
        return Pair(x, config.x), OrderedDict(order, new=x), dataclasses.replace(config, k=3.0)

    def call(sign: float, k: float = 2.0) -> Any:
        x = torch.ones(3) * sign
        return Pair(x, x * 2), OrderedDict(z=x, y=1), Config(x, k)

    agree(f, [call(1), call(-1), call(1)])
    agree(f, [call(1), call(1, 5.0)], programs=2)


def test_fewer_specifications_than_parameters() -> None:
    def f(x: Any, y: Any = None, *, k: float = 2.0) -> Any:
        if y is not None:
            x = x + y
        return x * k

    static = to_static(f, input_spec=[ANY])
    x = torch.ones(2, 3)
    same(static(x), f(x))
    same(static(torch.ones(5, 3)), f(torch.ones(5, 3)))
    same(static(x=x), f(x))
    same(static(x, x, k=3.0), f(x, x, k=3.0))
    same(static(x, k=4.0), f(x, k=4.0))
    assert len(static.program_cache) == 3


def test_a_specification_fits_keyword_arguments() -> None:
    def f(x: Any, y: Any) -> Any:
        return x - y

    static = to_static(f, input_spec=[ANY, ANY])
    a, b = torch.ones(2, 3), torch.zeros(2, 3)
    same(static(y=a, x=b), f(b, a))
    same(static(b, y=a), f(b, a))
    assert len(static.program_cache) == 1


def test_variadic_arguments_of_each_kind_get_their_program() -> None:
    def f(x: Any, *rest: Any, **named: Any) -> Any:
        for value in rest:
            x = x + value
        for name in sorted(named):
            x = x * named[name]
        return x

    x = torch.ones(3)
    static = to_static(f)
    for args, kwargs in (((x,), {}), ((x, x, 2.0), {}), ((x,), {"a": x, "b": 2}), ((x, x), {"a": 2.0})):
        same(static(*args, **kwargs), f(*args, **kwargs))
    assert len(static.program_cache) == 4


def test_names_reach_the_program() -> None:
    static = to_static(lambda x, y: x + y, input_spec=[InputSpec([None, 3], name="images"), InputSpec([3])])
    program = static.program()
    assert [slot.name for slot in program.inputs] == ["x", "y"] or [slot.name for slot in program.inputs] == ["images", "y"]
    assert program.inputs[0].shape[1] == 3 and not isinstance(program.inputs[0].shape[0], int)


def test_a_specification_of_a_method_leaves_out_self() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        @to_static(input_spec=[ANY, 2.0])
        def forward(self, x: Any, k: float = 2.0) -> Any:
            return self.linear(x) * k

    net = Net()
    for x in batches(3):
        same(net(x), net.linear(x) * 2.0)
    assert len(net.forward.program_cache) == 1


def test_the_dynamic_dimension_of_a_scalar_does_not_exist() -> None:
    with pytest.raises(SignatureError, match="shape"):
        to_static(lambda x: x, input_spec=[InputSpec([None])])(torch.tensor(1.0))


def test_python_numbers_are_constants_and_tensors_are_not() -> None:
    def f(x: Any, n: Any) -> Any:
        for _ in range(int(n)):
            x = x * 2
        return x

    x = torch.ones(2)
    static = to_static(f)
    for n in (1, 2, torch.tensor(1), torch.tensor(5), torch.tensor(0)):
        same(f(x, n), static(x, n))
    assert len(static.program_cache) == 3


def test_the_same_tensor_twice_against_two_specifications() -> None:
    static = to_static(lambda x, y: x + y.sum(0), input_spec=[ANY, InputSpec([2, 3])])
    x = torch.ones(2, 3)
    same(static(x, x), x + x.sum(0))
    same(static(torch.ones(5, 3), x), torch.ones(5, 3) + x.sum(0))


@pytest.mark.parametrize("make", [lambda: [torch.ones(1)], lambda: {"a": torch.ones(1)}])
def test_an_argument_that_holds_itself_is_read(make):
    held = make()
    if isinstance(held, list):
        held.append(held)
    else:
        held["self"] = held

    @to_static
    def function(x, held):
        return x + held[next(iter(held)) if isinstance(held, dict) else 0]

    assert function(torch.ones(1), held) == 2
    held[0 if isinstance(held, list) else "a"] = torch.zeros(1)
    assert function(torch.ones(1), held) == 1
    assert len(function.program_cache) == 1
