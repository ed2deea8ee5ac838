"""Programs written by hand, beside the eager code that they stand for."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx, nn

from dy2st_runtime import Block, Effect, InputSlot, Location, Parameter, Program, StateSlot
from dy2st_runtime.ir.flattening import flatten
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, TupleOf
from dy2st_runtime.primitives import control, scalars

aten = torch.ops.aten
NO_KWARGS = DictOf((), ())


class Make:
    """Builds one block; every operation gets a line of its own."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.line = 0

    def input(self, name: str, kind: str = "") -> fx.Node:
        node = self.graph.placeholder(name)
        if kind:
            node.meta["type"] = kind
        return node

    def inputs(self, *names: str) -> list[fx.Node]:
        return [self.input(name) for name in names]

    def call(self, target: Any, *args: Any, kind: str = "", **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        self.line += 1
        node.meta["location"] = Location("/home/user/net.py", self.line, "forward")
        if kind:
            node.meta["type"] = kind
        return node

    def take(self, node: fx.Node, index: int) -> fx.Node:
        return self.call(operator.getitem, node, index)

    def output(self, *values: Any) -> Block:
        self.graph.output(tuple(values))
        return Block(self.graph)


def program(
    block: Block,
    inputs: tuple[InputSlot, ...] = (),
    states: tuple[StateSlot, ...] = (),
    *,
    result: Any = None,
    effects: tuple[Effect, ...] = (),
    training: bool = False,
    parameters: tuple[Parameter, ...] = (),
    name: str = "forward",
) -> Program:
    """A program that takes its inputs by position and gives back all outputs as a tuple, unless told otherwise."""
    leaves = tuple(Leaf(index) for index in range(len(inputs)))
    outputs = TupleOf(tuple(Leaf(index) for index in range(len(block.outputs))))
    return Program(
        name=name,
        block=block,
        inputs=inputs,
        in_structure=TupleOf((TupleOf(leaves), NO_KWARGS)),
        states=states,
        out_structure=outputs if result is None else result,
        effects=effects,
        origin=Location("/home/user/net.py", 7, name),
        training=training,
        parameters=parameters,
    )


def tensor_input(name: str = "x", *shape: int | str, dtype: torch.dtype = torch.float32) -> InputSlot:
    return InputSlot(name, dtype, shape or ("n", 4))


def simple(*body: Any) -> Program:
    """``x + 1``."""
    make = Make()
    x = make.input("x", "f32[n, 4]")
    return program(make.output(make.call(aten.add.Tensor, x, 1, kind="f32[n, 4]")), (tensor_input(),), result=Leaf(0))


class Net(nn.Module):
    """Tied weights, a shared submodule, buffers of both kinds, a frozen parameter, plain state, nested control flow."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.act = nn.ReLU()
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.again = self.norm
        self.spare = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))
        self.spare[0].weight.requires_grad_(False)
        self.register_buffer("scale", torch.full((4,), 1.5), persistent=False)
        self.h = torch.zeros(4)
        self.calls = 0

    def forward(self, x: torch.Tensor, limit: float = 10.0) -> Any:
        y = self.norm(self.first(x))
        i = 0
        outs = []
        while y.norm() < limit:
            y = y * self.scale + self.h
            if y.sum() > 0:
                y = y + i
            else:
                y = self.second(y).abs()
            outs.append(y)
            i += 1
        assert i >= 0, "impossible"
        self.h = y.detach().mean(0)
        self.calls = self.calls + 1
        return {"y": y, "n": i}, torch.stack([y, *outs])


STATES = (
    StateSlot("first.weight", "parameter", torch.float32, (4, 4), True),
    StateSlot("first.bias", "parameter", torch.float32, (4,), True),
    StateSlot("norm.weight", "parameter", torch.float32, (4,), True),
    StateSlot("norm.bias", "parameter", torch.float32, (4,), True),
    StateSlot("norm.running_mean", "buffer", torch.float32, (4,)),
    StateSlot("norm.running_var", "buffer", torch.float32, (4,)),
    StateSlot("norm.num_batches_tracked", "buffer", torch.int64, ()),
    StateSlot("scale", "buffer", torch.float32, (4,), persistent=False),
    StateSlot("second.bias", "parameter", torch.float32, (4,), True),
    StateSlot("h", "attribute", torch.float32, (4,)),
    StateSlot("calls", "number"),
)
LIMIT = Parameter("limit", default=Const(10.0))


def net_program(training: bool) -> Program:
    """What a capture of ``Net.forward`` gives, with ``limit`` as a number that may differ from call to call."""
    make = Make()
    x, limit = make.input("x", "f32[n, 4]"), make.input("limit", "float")
    weight, bias, gain, shift, mean, var, count, scale, bias2, h, calls = make.inputs(
        *(slot.name.replace(".", "_") for slot in STATES)
    )
    y = make.call(aten.linear.default, x, weight, bias, kind="f32[n, 4]")
    if training:
        make.call(aten.add_.Tensor, count, 1)
    y = make.call(aten.batch_norm.default, y, gain, shift, mean, var, training, 0.1, 1e-5, True, kind="f32[n, 4]")
    outs = make.call(control.list_, [])
    norm = make.call(aten.linalg_vector_norm.default, y)
    pred = make.call(aten.lt.Scalar, norm, limit, kind="bool[]")
    loop = make.call(control.while_, pred, _loop_body(), (y, 0), (scale, h, weight, bias2, outs, limit), kind="(f32[n, 4], int)")
    y, i = make.take(loop, 0), make.take(loop, 1)
    make.call(control.assert_, make.call(operator.ge, i, 0), AssertionError, "impossible")
    new_h = make.call(aten.mean.dim, make.call(aten.detach.default, y), [0])
    all_outs = make.call(control.list_concat, make.call(control.list_, [y]), outs)
    stacked = make.call(aten.stack.default, all_outs)
    block = make.output(y, i, stacked, new_h, make.call(operator.add, calls, 1))
    return program(
        block,
        (tensor_input(), InputSlot("limit", number="float")),
        STATES,
        result=TupleOf((DictOf(("y", "n"), (Leaf(0), Leaf(1))), Leaf(2))),
        effects=(Effect("self.h", "set", Leaf(3)), Effect("self.calls", "set", Leaf(4))),
        training=training,
        parameters=(Parameter("x"), LIMIT),
        name="Net.forward",
    )


def _loop_body() -> Block:
    body = Make()
    y, i = body.input("y", "f32[n, 4]"), body.input("i", "int")
    scale, h, weight, bias2, outs, limit = body.inputs("scale", "h", "weight", "bias2", "outs", "limit")
    y = body.call(aten.add.Tensor, body.call(aten.mul.Tensor, y, scale), h)
    positive = body.call(aten.gt.Scalar, body.call(aten.sum.default, y), 0, kind="bool[]")
    branch = body.call(control.if_, positive, _then(), _orelse(), (y, i, weight, bias2))
    y = body.take(branch, 0)
    body.call(control.list_append, outs, y)
    again = body.call(aten.lt.Scalar, body.call(aten.linalg_vector_norm.default, y), limit)
    return body.output(again, y, body.call(operator.add, i, 1, kind="int"))


def _then() -> Block:
    make = Make()
    y, i, _, _ = make.inputs("y", "i", "weight", "bias2")
    return make.output(make.call(aten.add.Tensor, y, i))


def _orelse() -> Block:
    make = Make()
    y, _, weight, bias2 = make.inputs("y", "i", "weight", "bias2")
    return make.output(make.call(aten.abs.default, make.call(aten.linear.default, y, weight, bias2)))


def net_state(net: Net, made: Program) -> list[Any]:
    """The live values of a program's state slots."""
    values = []
    for slot in made.states:
        owner, _, name = slot.name.rpartition(".")
        values.append(getattr(net.get_submodule(owner), name))
    return values


def every_constant() -> Program:
    """Nodes with every kind of argument; it is not meant to run."""
    make = Make()
    x = make.input("x", "f32[n, 4]")
    for value in (
        float("inf"), -float("inf"), float("nan"), -0.0, 0.1, 1e300, 2**70, -3, True, None, 1 + 2j,
        complex(0, float("inf")),
        "text\n\u00e9\ud800", torch.float8_e4m3fn, torch.device("cuda", 1), torch.strided, torch.channels_last,
        (1, (2.0, [x])), [x, None], slice(None, x, 2), (), [], (1,), (True, 1, 1.0),
    ):  # fmt: skip
        make.call(control.list_, [value])
    make.call(aten.zeros.default, [2, 3], dtype=torch.float16, device=torch.device("cpu"), pin_memory=False)
    make.call(control.print_, ("x = ", (x, "r", ".2f")), "\n")
    make.call(control.raise_, OwnError, "wrong", x)
    return program(make.output(x, 1, None, (x, 2.5)), (tensor_input(),))


class OwnError(LookupError):
    """An exception class that the loading process does not have."""


def mode_program() -> Program:
    """``with torch.no_grad(), torch.autocast("cpu", torch.bfloat16): x @ x``."""
    make = Make()
    x = make.input("x", "f32[4, 4]")
    make.call(torch._C._set_grad_enabled, False)
    mode = make.call(torch.amp.autocast_mode._enter_autocast, "cpu", torch.bfloat16, True, True)
    y = make.call(aten.matmul.default, x, x)
    make.call(torch.amp.autocast_mode._exit_autocast, mode)
    make.call(torch._C._set_grad_enabled, True)
    scale = make.call(scalars.to_float, 2)
    return program(make.output(make.call(aten.mul.Tensor, y, scale)), (tensor_input("x", 4, 4),), result=Leaf(0))


def structured(value: Any) -> Any:
    """The structure of a value whose leaves are tensors."""
    return flatten(value, lambda item: isinstance(item, torch.Tensor))[1]
