"""The archives that are attacked, with what they answer.

| name | what |
|---|---|
| ``small`` | one operation, no weights |
| ``loops`` | nested control flow, tied weights, state that a call changes, two modes |
| ``weights`` | more than a megabyte of weights, which are used where they lie in the file |
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import torch
from torch import nn

import dy2st_runtime
from dy2st_runtime import StateSlot, save_programs
from dy2st_runtime.ir.structure import Leaf
from tests.runtime.build import Make, Net, net_program, net_state, program, simple, tensor_input

NAMES = ("small", "loops", "weights")
MAX_STEPS = 1000
BACKEND = "python"
"""The executor that runs the archives."""


def write(folder: Path) -> dict[str, bytes]:
    """Save the three; their bytes by name."""
    torch.manual_seed(0)
    save_programs(folder / "small", [simple()], [[]])
    net = Net()
    programs = [net_program(mode) for mode in (False, True)]
    save_programs(folder / "loops", programs, [net_state(net, made) for made in programs], net)
    save_weights(folder / "weights", 0.0)
    return {name: (folder / name).read_bytes() for name in NAMES}


def save_weights(path: Path, value: float, size: int = 512) -> None:
    """A linear layer with one number everywhere."""
    layer = nn.Linear(size, size, bias=False)
    nn.init.constant_(layer.weight, value)
    make = Make()
    x, weight = make.inputs("x", "weight")
    linear = program(
        make.output(make.call(torch.ops.aten.linear.default, x, weight)),
        (tensor_input("x", "n", size),),
        (StateSlot("weight", "parameter", torch.float32, (size, size), True),),
        result=Leaf(0),
    )
    save_programs(path, [linear], [[layer.weight]], layer)


def answers(path: Path) -> list[Any]:
    """What an archive says: the answers to two calls, and the state after them.

    Raises:
        Exception: whatever loading or running it raises.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dy2st_runtime.load(path, max_steps=MAX_STEPS, backend=BACKEND)
        width = next((size for size in model.program.inputs[0].shape[-1:] if size in (4, 512, 1024)), 4)
        x = torch.linspace(-1, 1, 3 * int(width)).reshape(3, int(width))
        found = [model.modes, str(model.program)]
        for call in range(2):
            found.append(model(x + call))
        return [*found, list(model.state_dict().items()), model.__dict__.get("calls")]


def same(a: Any, b: Any) -> bool:
    """Whether two answers are equal bit for bit."""
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, (list, tuple)) and type(a) is type(b):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    return type(a) is type(b) and a == b
