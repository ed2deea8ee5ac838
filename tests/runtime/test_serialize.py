import copy
import json

import pytest
import torch

from dy2st_runtime import Effect, LoadError, SaveError, StateSlot, verify
from dy2st_runtime.archive.serialize import check_stamp, from_json, to_json
from dy2st_runtime.ir.document import Json, dump, parse
from dy2st_runtime.ir.operators import resolve
from dy2st_runtime.ir.structure import Const, Leaf
from dy2st_runtime.primitives import control
from tests.runtime.build import Make, aten, every_constant, mode_program, net_program, program, simple, tensor_input


def again(made):
    return from_json(parse(dump(to_json(made)), "p"))


PROGRAMS = {
    "simple": simple(),
    "net": net_program(True),
    "constants": every_constant(),
    "modes": mode_program(),
    "effects": program(
        Make().output(1, 2.5),
        (),
        (StateSlot("c", "constant", torch.bool, ()),)[:0],
        effects=(Effect("self.a.b", "delete", Const(None)), Effect("self.xs", "extend", Leaf(0))),
    ),
}


@pytest.mark.parametrize("made", PROGRAMS.values(), ids=PROGRAMS)
def test_round_trip_prints_the_same(made):
    found = again(made)
    verify(found)
    assert str(found) == str(made)
    assert to_json(found) == to_json(made)
    for name in (
        "name",
        "inputs",
        "in_structure",
        "states",
        "out_structure",
        "effects",
        "origin",
        "training",
        "parameters",
    ):
        assert getattr(found, name) == getattr(made, name)
    for node, same in zip(made.nodes(), found.nodes(), strict=True):
        assert (node.name, node.target, node.meta) == (same.name, same.target, same.meta)


def test_exit_refers_to_enter():
    enter, leave = (node for node in again(PROGRAMS["modes"]).nodes() if "autocast" in str(node.target))
    assert leave.args == (enter,)


def test_depth_of_the_document_does_not_grow_with_the_program():
    block = Make().output(1)
    for _ in range(60):
        make = Make()
        block = make.output(make.take(make.call(control.if_, True, block, Make().output(1), ()), 0))
    document = dump(to_json(program(block)))
    assert max(document[:i].count(b"[") - document[:i].count(b"]") for i in range(0, len(document), 7)) < 12
    assert str(again(program(block))) == str(program(block))


@pytest.mark.parametrize(
    ("target", "args", "message"),
    [
        (control.call_, (print, (), {}), r"net.py:1: the program calls the Python function print, which exists only"),
        (control.call_, (lambda: 0, (), {}), r"net.py:1: the program calls the Python function .*<lambda>"),
        (control.list_, ([object()],), r"net.py:1: a value of type object exists only in this process"),
        (aten.add.Tensor, (torch.ones(1), 1), r"net.py:1: a value of type Tensor exists only in this process"),
        (control.list_, ((item for item in ()),), r"net.py:1: a value of type generator exists only in this process"),
    ],
)
def test_live_objects_name_the_line(target, args, message):
    make = Make()
    make.call(target, *args)
    with pytest.raises(SaveError, match=message):
        to_json(program(make.output()))


def test_a_line_is_named_once_for_nested_blocks():
    inner = Make()
    inner.line = 41
    inner.call(control.list_, [object()])
    make = Make()
    make.call(control.if_, True, inner.output(), Make().output(), ())
    with pytest.raises(SaveError) as caught:
        to_json(program(make.output()))
    assert str(caught.value).count("net.py") == 1 and "net.py:42" in str(caught.value)


def test_live_object_in_the_signature_names_the_function():
    with pytest.raises(SaveError, match=r"forward \(/home/user/net.py:7\): a value of type object"):
        to_json(program(Make().output(), result=Const(object())))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("call_", "expected the name of an operator"),
        ("os.system", "expected the name of an operator"),
        ("aten.add", "expected the name of an operator"),
        ("aten.nothing.default", "calls aten.nothing.default, which torch .* does not have"),
        ("aten.add.Nothing", "does not have"),
        ("aten.__class__.default", "does not have"),
        ("aten.from_file.default", "which an archive may not do"),
        ("aten.save.default", "does not have"),
        ("mylib.nms.default", r"calls mylib.nms.default, which is not an operator of PyTorch.*namespaces=\['mylib'\]"),
        ("c10d.send.default", "not an operator of PyTorch"),
    ],
)
def test_operators_that_are_refused(name, message):
    with pytest.raises(LoadError, match=message):
        resolve(Json(name, "p"))


def test_a_namespace_can_be_trusted():
    library = torch.library.Library("dy2st_test", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    make = Make()
    made = program(make.output(make.call(torch.ops.dy2st_test.twice.default, make.input("x"))), (tensor_input(),))
    document = parse(dump(to_json(made)), "p")
    with pytest.raises(LoadError, match=r"namespaces=\['dy2st_test'\]"):
        from_json(document)
    assert str(from_json(document, ["dy2st_test"])) == str(made)


@pytest.mark.parametrize(
    ("stamp", "message"),
    [
        (
            {"format": "dy2st", "version": [2, 0]},
            r"format version 2.0, this version of dy2st_runtime reads 1.x; upgrade",
        ),
        ({"format": "dy2st", "version": [0, 9]}, "save it again"),
        ({"format": "other", "version": [1, 0]}, "expected one of dy2st"),
        ({"format": "dy2st"}, "no field 'version'"),
        ({"format": "dy2st", "version": 1}, "expected an array"),
    ],
)
def test_versions_that_are_refused(stamp, message):
    with pytest.raises(LoadError, match=message):
        check_stamp(Json(stamp, "p"))


def test_newer_minor_version_may_add_fields():
    check_stamp(Json({"format": "dy2st", "version": [1, 7]}, "p"))
    assert str(from_json(Json(to_json(simple()) | {"new": 1}, "p"))) == str(simple())


def _change(document, change):
    changed = copy.deepcopy(document)
    change(changed)
    return Json(changed, "p")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda d: d["blocks"][0]["nodes"][0]["args"].append("later"),
            r"p.blocks\[0\].nodes\[0\].args\[\d\] is \"later\"",
        ),
        (
            lambda d: d["blocks"][0]["nodes"][0]["args"].append({"block": 0}),
            "a block after this one that nothing else uses",
        ),
        (
            lambda d: d["blocks"][0]["nodes"][0]["args"].append({"block": 1}),
            "a block after this one that nothing else uses",
        ),
        (lambda d: d["blocks"].append({"inputs": [], "nodes": [], "outputs": []}), "every other block used once"),
        (lambda d: d["blocks"].clear(), "a root block"),
        (lambda d: d["blocks"][0]["nodes"][1].update(name="x"), "a name that is not used before"),
        (lambda d: d["blocks"][0]["nodes"][1].update(name="a b"), "an identifier"),
        (lambda d: d["blocks"][0]["nodes"][1].update(at=[99, 1]), "a place in one of the sources"),
        (lambda d: d["blocks"][0]["inputs"].pop(), 'breaks a rule|is "'),
        (lambda d: d["states"].pop(), "breaks a rule: .* root inputs"),
        (lambda d: d["inputs"][0].pop("dtype"), "either a dtype or a number"),
        (lambda d: d["states"][0].update(kind="secret"), "expected one of parameter"),
        (lambda d: d["out_structure"].update(tuple=[{"leaf": 99}]), "breaks a rule: .*result leaf 99"),
        (lambda d: d["in_structure"].update(tuple=[]), "expected each input once"),
        (lambda d: d.pop("training"), "p has no field 'training'"),
    ],
)
def test_broken_documents_name_the_place(change, message):
    with pytest.raises(LoadError, match=message):
        from_json(_change(to_json(net_program(True)), change))


def _places(value, path=()):
    yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        yield from _places(inner, (*path, key))


def _put(document, path, value):
    for key in path[:-1]:
        document = document[key]
    document[path[-1]] = value


def test_no_change_of_one_value_gives_anything_but_a_load_error():
    text = json.dumps(to_json(net_program(True)))
    places = list(_places(json.loads(text)))[1:]
    refused = 0
    for number, path in enumerate(places):
        for value in ([None, -1, 10**30], ["if_", {}, True], [[], 1.5, {"tuple": []}])[number % 3]:
            document = json.loads(text)
            _put(document, path, value)
            try:
                from_json(Json(document, "p"))
            except LoadError:
                refused += 1
    assert refused > len(places)
