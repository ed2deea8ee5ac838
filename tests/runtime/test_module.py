import copy
import dataclasses

import pytest
import torch
from torch import nn

from dy2st_runtime import (
    Effect,
    InputSlot,
    LoadedModule,
    Parameter,
    SaveError,
    SignatureError,
    StateSlot,
    load,
    save_programs,
)
from dy2st_runtime.archive.state import collect
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, TupleOf
from tests.runtime.build import Make, Net, aten, mode_program, net_program, net_state, program, tensor_input

BATCHES = [torch.randn(n, 4, generator=torch.Generator().manual_seed(n)) for n in (1, 2, 5, 9)]


@pytest.fixture
def net():
    return Net()


@pytest.fixture
def loaded(net, tmp_path):
    return save(net, tmp_path / "net.dy2st")


def save(net, path, modes=(True, False)):
    programs = [net_program(mode) for mode in modes]
    save_programs(path, programs, [net_state(net, made) for made in programs], net)
    return load(path)


def check_same(net, loaded, x, **kwargs):
    (out, stacked), (found, found_stacked) = net(x, **kwargs), loaded(x, **kwargs)
    assert list(found) == ["y", "n"] and found["n"] == out["n"]
    assert torch.equal(found["y"], out["y"]) and torch.equal(found_stacked, stacked)
    assert torch.equal(loaded.h, net.h) and loaded.calls == net.calls
    return out["y"], found["y"]


def test_runs_as_eager_in_both_modes(net, loaded):
    for mode in (True, False, True):
        net.train(mode)
        loaded.train(mode)
        for x in BATCHES[1:]:
            for limit in ({}, {"limit": 3.0}, {"limit": 40.0}):
                check_same(net, loaded, x, **limit)
    for name, buffer in net.named_buffers():
        assert torch.equal(buffer, loaded.get_buffer(name)), name


def test_a_loaded_module_trains_as_eager_does(net, loaded):
    optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in (net, loaded)]
    for x in BATCHES[1:] * 3:
        for model, optimizer in zip((net, loaded), optimizers, strict=True):
            optimizer.zero_grad()
            out, stacked = model(x)
            (out["y"].square().mean() + stacked.sum()).backward()
            optimizer.step()
        for (name, parameter), (same, other) in zip(net.named_parameters(), loaded.named_parameters(), strict=True):
            assert name == same and torch.equal(parameter, other)
            assert (parameter.grad is None) == (other.grad is None)
            assert parameter.grad is None or torch.equal(parameter.grad, other.grad)


def test_parameters_and_buffers_keep_names_and_order(net, loaded):
    assert list(loaded.state_dict()) == list(net.state_dict())
    for members in ("named_parameters", "named_buffers"):
        expected, found = list(getattr(net, members)()), list(getattr(loaded, members)())
        assert [name for name, _ in found] == [name for name, _ in expected]
        assert [value.requires_grad for _, value in found] == [value.requires_grad for _, value in expected]
    assert loaded.second.weight is loaded.first.weight
    assert loaded.again is loaded.norm


def test_state_dict_both_ways(net, loaded):
    other = Net()
    other.load_state_dict(loaded.state_dict())
    other.eval(), net.eval(), loaded.eval()
    check_same(other, loaded, BATCHES[2])
    fresh = Net().eval()
    loaded.load_state_dict(fresh.state_dict())
    fresh.h, fresh.calls = other.h, other.calls
    check_same(fresh, loaded, BATCHES[2])


def test_starts_in_the_mode_of_the_first_program(net, tmp_path):
    assert save(net, tmp_path / "a").training
    assert not save(net, tmp_path / "b", (False, True)).training
    assert not save(net, tmp_path / "c", (False,)).first.training


def test_one_program_serves_both_modes(net, tmp_path):
    loaded = save(net, tmp_path / "net.dy2st", (False,))
    with pytest.warns(UserWarning, match="saved for eval mode only"):
        loaded.train()
    net.eval()
    check_same(net, loaded, BATCHES[1])
    assert str(loaded.program) == str(net_program(False))


def test_deep_copy_is_independent(net, loaded):
    copied = copy.deepcopy(loaded)
    assert copied.second.weight is copied.first.weight and copied.again is copied.norm
    assert copied.programs == loaded.programs
    with torch.no_grad():
        loaded.first.weight.zero_()
    loaded(BATCHES[1])
    check_same(net, copied, BATCHES[1])


def test_saves_again_to_the_same_bytes(loaded, tmp_path):
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "net.dy2st").read_bytes()


def test_saves_what_it_is_now(net, loaded, tmp_path):
    for model in (net, loaded):
        model(BATCHES[1])
    loaded.save(tmp_path / "again")
    check_same(net, load(tmp_path / "again"), BATCHES[2])
    loaded.h = None
    with pytest.raises(SaveError, match="h was a tensor when it was captured"):
        loaded.save(tmp_path / "again")


def test_a_module_cast_to_double_runs_and_saves(net, loaded, tmp_path):
    net.double(), loaded.double()
    check_same(net, loaded, BATCHES[2].double())
    with pytest.raises(SignatureError, match=r"x must be a tensor f32\[n, 4\], but is a tensor f16"):
        loaded(BATCHES[2].half())
    loaded.save(tmp_path / "double")
    check_same(net, load(tmp_path / "double"), BATCHES[2].double())


def test_a_replaced_parameter_is_used(net, loaded):
    for model in (net, loaded):
        model.norm.weight = nn.Parameter(torch.full((4,), 2.0))
        nn.utils.parametrize.register_parametrization(model.first, "weight", Halve())
    check_same(net, loaded, BATCHES[2])


class Halve(nn.Module):
    def forward(self, weight):
        return weight / 2


def test_wrong_and_missing_arguments_are_refused(loaded):
    with pytest.raises(SignatureError, match="limit must be a Python float"):
        loaded(BATCHES[0], limit=2)
    with pytest.raises(SignatureError, match=r"Net.forward\(\) is missing its argument x"):
        loaded()


def test_an_error_names_the_users_line(loaded):
    loaded.h = torch.zeros(3)
    with pytest.raises(RuntimeError) as caught:
        loaded(BATCHES[1])
    assert 'File "/home/user/net.py", line 2, in forward' in caught.value.__notes__[0]


def test_print_shows_the_heads_of_the_programs(loaded):
    assert "program Net.forward(x: f32[n, 4], limit: float):" in repr(loaded)


def test_modes_are_switched_and_put_back(tmp_path):
    save_programs(tmp_path / "m", [mode_program()], [[]])
    x = torch.randn(4, 4, requires_grad=True)
    found = load(tmp_path / "m")(x)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        expected = x @ x
    assert found.dtype == torch.bfloat16 and not (found / 2).requires_grad
    assert torch.equal(found, expected * 2)
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def effect_program(*effects):
    make = Make()
    x, xs = make.input("x"), make.input("h")
    return program(
        make.output(make.call(aten.add.Tensor, x, xs)),
        (tensor_input(),),
        (StateSlot("h", "attribute", torch.float32, (4,)),),
        effects=effects,
        result=Leaf(0),
    )


def test_effects_set_and_extend_attributes(tmp_path):
    made = effect_program(
        Effect("self.inner.last", "set", TupleOf((Leaf(0), Const(None)))),
        Effect("self.log", "extend", ListOf((Leaf(0), Const("x")))),
        Effect("h", "set", Leaf(0)),
        Effect("self.program", "set", Const(1)),
    )
    save_programs(tmp_path / "m", [made], [[torch.ones(4)]])
    loaded = load(tmp_path / "m")
    first, second = loaded(BATCHES[1]), loaded(BATCHES[1])
    assert torch.allclose(second, BATCHES[1] * 2 + 1) and loaded.h is second
    assert loaded.inner.last == (second, None)
    assert loaded.log[1::2] == ["x", "x"] and loaded.log[0] is first and loaded.log[2] is second


def test_a_delete_effect_removes_the_attribute(tmp_path):
    save_programs(tmp_path / "m", [effect_program(Effect("self.h", "delete", Const(None)))], [[torch.ones(4)]])
    loaded = load(tmp_path / "m")
    loaded(BATCHES[1])
    assert not hasattr(loaded, "h")
    with pytest.raises(AttributeError, match="'h'"):
        loaded(BATCHES[1])


@pytest.mark.parametrize("target", ["xs", "self.items[-1]", "self.cache[k]", "other.h", "self.", "self"])
def test_effects_that_a_loaded_module_cannot_have(target, tmp_path):
    with pytest.raises(SaveError, match=r"net.py:7: forward changes .*, which is not an attribute of the module"):
        save_programs(tmp_path / "m", [effect_program(Effect(target, "set", Leaf(0)))], [[torch.ones(4)]])
    assert not list(tmp_path.iterdir())


def constant_net(tmp_path):
    """``x + c`` where ``c`` is a tensor of the closure, and ``arange`` on the device of ``x``."""
    make = Make()
    x, _, c = make.inputs("x", "n", "c")
    steps = make.call(aten.arange.default, 4, device=torch.device("cpu"), pin_memory=False)
    total = make.call(aten.add.Tensor, make.call(aten.add.Tensor, x, c), steps)
    made = program(
        make.output(total, None),
        (tensor_input(), InputSlot("n", number="int")),
        (StateSlot("c", "constant", torch.float32, (4,)),),
        parameters=(Parameter("x"), Parameter("n", "KEYWORD_ONLY")),
        result=Leaf(0),
    )
    structure = TupleOf((TupleOf((Leaf(0),)), DictOf(("n",), (Leaf(1),))))
    made = dataclasses.replace(made, in_structure=structure)
    save_programs(tmp_path / "m", [made], [[torch.arange(4.0)]])
    return load(tmp_path / "m")


def test_constants_follow_the_device_and_keep_their_dtype(tmp_path):
    loaded = constant_net(tmp_path)
    assert not list(loaded.state_dict()) and not list(loaded.buffers())
    assert loaded.half()(BATCHES[1], n=1).dtype == torch.float32
    copied = copy.deepcopy(loaded)
    assert loaded.to("meta")(BATCHES[1].to("meta"), n=1).is_meta
    assert torch.equal(copied(BATCHES[1], n=1), BATCHES[1] + 2 * torch.arange(4))


def test_names_that_the_loaded_module_has_itself():
    make = Make()
    names = ("program", "programs", "save", "extra_repr")
    block = make.output(*make.inputs(*names))
    slots = tuple(StateSlot(name, "attribute", torch.float32, ()) for name in names)
    tensors = [torch.tensor(float(i)) for i in range(4)]
    loaded = LoadedModule(*collect([program(block, states=slots)], [tensors]))
    assert loaded() == tuple(tensors)
