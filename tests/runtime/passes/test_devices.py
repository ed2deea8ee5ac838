import pytest
import torch

from dy2st_runtime import InputSlot, verify
from dy2st_runtime.passes.devices import captured_device, move_to_device
from dy2st_runtime.primitives import control
from tests.runtime.build import Make, aten, program


def made_on(device):
    inner = Make()
    inner.call(aten.zeros.default, [2], device=torch.device(device))
    make = Make()
    x = make.input("x")
    make.call(aten.full.default, [2], 1.0, device=torch.device(device), pin_memory=False)
    make.call(aten.ones.default, [2], device=torch.device("xpu:1"))
    make.call(torch.amp.autocast_mode._enter_autocast, torch.device(device).type, torch.bfloat16, True, True)
    make.call(control.if_, True, inner.output(), Make().output(), ())
    return program(make.output(x), (InputSlot("x", torch.float32, (2,), device), InputSlot("n", number="int"))[:1])


@pytest.mark.parametrize(("old", "new"), [("cuda:0", "cpu"), ("cpu", "cuda:1"), ("cuda", "meta")])
def test_every_block_is_moved(old, new):
    made = made_on(old)
    before = str(made)
    moved = move_to_device(made, torch.device(new))
    verify(moved)
    assert captured_device(moved) == torch.device(new)
    assert str(moved) == str(made_on(new))
    assert str(made) == before


@pytest.mark.parametrize(("old", "new"), [("cpu", "cpu"), ("cuda", "cuda:0")])
def test_a_program_already_on_the_device_is_given_back(old, new):
    made = made_on(old)
    assert move_to_device(made, torch.device(new)) is made


def test_without_tensor_inputs_it_is_the_cpu():
    assert captured_device(program(Make().output())) == torch.device("cpu")
