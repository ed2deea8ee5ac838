import pytest
import torch
from torch import nn

from dy2st_runtime import LoadError, SaveError, StateSlot
from dy2st_runtime.archive.state import StateValue, check_slots, collect, from_json, module_state, to_json
from dy2st_runtime.ir.document import Json, dump, parse
from tests.runtime.build import Make, Net, net_program, net_state, program


def again(state):
    table, stored = to_json(state)
    found = from_json(parse(dump(table), "s"), {name: tensor.clone() for name, tensor in stored.items()})
    assert [(e.name, e.kind, e.persistent) for e in found] == [(e.name, e.kind, e.persistent) for e in state]
    return {entry.name: entry.value for entry in found}


def entries(kind="attribute", **values):
    return tuple(StateValue(name, kind, value) for name, value in values.items())


def same_memory(a, b):
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def test_module_state_has_the_order_of_the_state_dict():
    net = Net()
    names = [e.name for e in module_state(net) if e.kind != "module" and e.persistent]
    assert names == [name for name in net.state_dict() if not name.startswith("again.")]
    assert [(e.name, e.value) for e in module_state(net) if e.kind == "module"] == [("again", "norm")]


def test_values_and_kinds_come_back():
    frozen = nn.Parameter(torch.ones(2), requires_grad=False)
    state = (
        StateValue("a.w", "parameter", nn.Parameter(torch.randn(2, 3))),
        StateValue("a.f", "parameter", frozen),
        StateValue("b", "buffer", torch.tensor(3), persistent=False),
        StateValue("n", "number", 2.0),
        StateValue("c", "constant", torch.randn(2, requires_grad=True)),
    )
    found = again(state)
    assert type(found["a.w"]) is nn.Parameter and found["a.w"].requires_grad and not found["a.f"].requires_grad
    assert type(found["b"]) is torch.Tensor and found["c"].requires_grad and found["c"].is_leaf
    assert found["n"] == 2.0 and type(found["n"]) is float
    for entry in state[:3]:
        assert torch.equal(found[entry.name], entry.value)


def test_one_object_comes_back_as_one():
    weight = nn.Parameter(torch.randn(3))
    found = again(entries("parameter", a=weight, b=weight))
    assert found["a"] is found["b"]
    assert len(to_json(entries(a=weight, b=weight))[1]) == 1


def test_views_come_back_sharing_memory():
    base = torch.arange(12.0).reshape(3, 4)
    found = again(entries(row=base[1], base=base, flipped=base.t()))
    for name, expected in {"row": base[1], "base": base, "flipped": base.t()}.items():
        assert torch.equal(found[name], expected) and found[name].stride() == expected.stride()
    found["row"].fill_(-1)
    assert found["base"][1].eq(-1).all() and found["flipped"][:, 1].eq(-1).all()


def test_parameters_that_are_views():
    flat = torch.randn(6)
    state = entries("parameter", a=nn.Parameter(flat[:4].view(2, 2)), b=nn.Parameter(flat[3:]))
    found = again(state)
    with torch.no_grad():
        found["b"].zero_()
    assert found["a"][1, 1] == 0 and found["a"].is_leaf


def test_parts_that_do_not_overlap_are_independent():
    flat = torch.randn(6)
    found = again(entries(a=flat[:3], b=flat[3:]))
    assert not same_memory(found["a"], found["b"])


@pytest.mark.parametrize(
    "value",
    [
        torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),
        torch.randn(3, 4).t(),
        torch.randn(3, 1).expand(3, 4),
        torch.randn(4, 6)[:, ::2],
        torch.randn(4, dtype=torch.complex64).conj(),
        torch.zeros(0, 3),
        torch.tensor(2.5),
        torch.zeros(3, dtype=torch.bool),
        torch.randn(3).to(torch.bfloat16),
        torch.randn(3).to(torch.float8_e4m3fn),
        torch.arange(3).to(torch.uint16),
    ],
    ids=lambda value: f"{value.dtype}-{tuple(value.shape)}",
)
def test_layouts_and_dtypes_come_back_as_they_were(value):
    found = again(entries(a=value))["a"]
    assert found.dtype == value.dtype and found.shape == value.shape
    assert torch.equal(
        found.resolve_conj().contiguous().flatten().view(torch.uint8) if value.numel() > 1 else found,
        value.resolve_conj().contiguous().flatten().view(torch.uint8) if value.numel() > 1 else value,
    )
    if value.is_contiguous() or value._is_view() is False:
        assert found.stride() == value.stride()


def test_a_result_of_autograd_is_saved_as_its_value():
    found = again(entries(h=torch.randn(3, requires_grad=True) * 2))
    assert not found["h"].requires_grad


class Own(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.eye(3).to_sparse(), "a is a torch.sparse_coo tensor"),
        (torch.empty(3, device="meta"), "a is a meta tensor"),
        (torch.zeros(2, dtype=torch.complex128), "a is a complex128 tensor"),
        (torch.ones(2).as_subclass(Own), "a is a Own"),
        (None, "a was a tensor when it was captured and is a NoneType now"),
    ],
)
def test_tensors_that_no_file_can_hold(value, message):
    with pytest.raises(SaveError, match=message):
        to_json(entries(a=value))


def test_shared_memory_with_two_dtypes():
    base = torch.randn(4)
    with pytest.raises(SaveError, match="a and b share memory but have different dtypes"):
        to_json(entries(a=base, b=base.view(torch.int32)))


def test_collect_takes_the_whole_module_and_the_rest_of_the_slots():
    net = Net()
    programs = (net_program(True), net_program(False))
    found, state = collect(programs, [net_state(net, made) for made in programs], net)
    assert [made.states for made in found] == [made.states for made in programs]
    assert [e.name for e in state] == [e.name for e in module_state(net)] + ["h", "calls"]
    check_slots(found, state)


def constant_program(name="c", kind="constant"):
    make = Make()
    return program(make.output(make.input("c")), states=(StateSlot(name, kind, torch.float32, (2,)),))


def test_constants_of_one_name_are_told_apart():
    one, two = torch.zeros(2), torch.ones(2)
    made = (constant_program(), constant_program(), constant_program())
    found, state = collect(made, [[one], [two], [one]])
    assert [p.states[0].name for p in found] == ["c", "c_2", "c"]
    assert [(e.name, e.value) for e in state] == [("c", one), ("c_2", two)]


def test_two_values_of_one_name():
    with pytest.raises(SaveError, match="two different values are called h"):
        collect([constant_program("h", "attribute")] * 2, [[torch.zeros(2)], [torch.zeros(2)]])


def test_values_that_do_not_fit_the_slots():
    with pytest.raises(SaveError, match="0 values for 1 state slots"):
        collect([constant_program()], [[]])
    with pytest.raises(SaveError, match="c is a constant, but its value is a float"):
        collect([constant_program()], [[1.0]])


TENSOR = {"name": "a", "kind": "attribute", "tensor": "a", "requires_grad": False}
ALIAS = {"kind": "module"}
PAIR = {"name": "a", "kind": "container", "structure": {"tuple": [{"leaf": 0}, {"const": 1}]}}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ([TENSOR, TENSOR], "a dotted name that is not used before"),
        ([TENSOR | {"name": "a..b"}], "a dotted name"),
        ([TENSOR | {"name": "forward"}], "a name that every module does not already have"),
        ([TENSOR | {"name": "a.training", "kind": "number", "number": 1}], "a name that every module"),
        ([TENSOR | {"tensor": "b"}], "the name of a stored tensor"),
        ([TENSOR | {"shape": [3], "stride": [1], "offset": 2}], "a place inside the stored tensor"),
        ([TENSOR | {"shape": [2], "stride": [1 << 62], "offset": 0}], "a place inside the stored tensor"),
        ([TENSOR | {"shape": [1 << 63], "stride": [0], "offset": 0}], "a place inside the stored tensor"),
        ([TENSOR | {"shape": [1 << 40] * 2, "stride": [0, 0], "offset": 0}], "a place inside the stored tensor"),
        ([TENSOR | {"shape": [1], "stride": [], "offset": 0}], "as many numbers"),
        ([TENSOR | {"shape": [1], "stride": [1], "offset": -1}], "at least 0"),
        ([TENSOR | {"tensor": "i", "requires_grad": True}], "false for this dtype"),
        ([{"name": "a", "kind": "number", "number": {"str": "x"}}], "expected a number"),
        ([{"name": "a", "kind": "attribute", "same_as": "b"}], "the name of a tensor before this one"),
        ([{"name": "a.b", "kind": "module", "same_as": "a"}], "a module outside of the one it is"),
        ([{"name": "a", "kind": "module", "same_as": "a.b"}], "a module outside of the one it is"),
        ([ALIAS | {"name": "x.c", "same_as": "y"}, ALIAS | {"name": "y.d", "same_as": "x"}], "a module outside"),
        ([ALIAS | {"name": "p", "same_as": "o"}, ALIAS | {"name": "p.c", "same_as": "q"}], "a module outside"),
        ([{"name": "p", "kind": "module", "same_as": ""}], "a dotted name"),
        ([TENSOR | {"name": "a[0]"}], r"a\[0\] is an item of nothing"),
        ([PAIR], "a cannot be put together"),
        ([PAIR | {"structure": {"object": [], "fields": [], "name": "A"}}], "a cannot be put together"),
        ([PAIR | {"name": "forward"}], "a name that every module does not already have"),
    ],
)  # fmt: skip
def test_a_broken_table_is_refused(table, message):
    with pytest.raises(LoadError, match=message):
        from_json(Json(table, "s"), {"a": torch.zeros(4), "i": torch.zeros(1, dtype=torch.int64)})


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ((), "the state has no c"),
        (entries(c=torch.zeros(3)), "not the dtype and size"),
        (entries(c=torch.zeros(2, dtype=torch.int32)), "not the dtype and size"),
        (entries(c=torch.zeros(2, 1)), "not the dtype and size"),
        (entries("number", c=1), "not what forward needs"),
    ],
)
def test_state_that_does_not_fit_the_programs(state, message):
    with pytest.raises(LoadError, match=message):
        check_slots([constant_program()], state)
