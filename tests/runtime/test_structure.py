import collections
import dataclasses
from typing import Any

import pytest
import torch

from dy2st_runtime import LoadError, SaveError
from dy2st_runtime.ir.document import Json, dump, parse
from dy2st_runtime.ir.flattening import flatten
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, TaggedUnionOf, TupleOf
from dy2st_runtime.ir.structure_json import from_json, to_json
from dy2st_runtime.ir.unflattening import unflatten

Pair = collections.namedtuple("Pair", ["left", "right"])


@dataclasses.dataclass
class Point:
    x: Any
    y: Any = 0


@dataclasses.dataclass
class Output(dict):
    """A dict and a dataclass at once, as transformers has them."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self):
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)


def again(structure):
    return from_json(parse(dump(to_json(structure)), "s"))


@pytest.mark.parametrize(
    "value",
    [
        1.5, None, (), [], {}, (1.5, [2.5, (3.5,)]), {"a": 1.5, 2: [None, "text"]}, {(1, "k"): 1.5},
        torch.Size([1, 2]),
        collections.OrderedDict(b=1.5, a=2.5), (torch.float32, slice(1, 2), -0.0, 1.5), True, {None: {True: 2.5}},
    ],
    ids=repr,
)  # fmt: skip
def test_plain_structures_come_back_equal(value):
    leaves, structure = flatten(value, lambda item: type(item) is float and item > 0)
    found = again(structure)
    assert found == structure
    assert unflatten(found, leaves) == value and type(unflatten(found, leaves)) is type(value)


def test_a_tag_chooses_the_member_of_a_union():
    structure = ListOf((TaggedUnionOf(Leaf(0), (2, 5), (Leaf(1), Const(None))), Const(None)))
    assert again(structure) == structure
    assert unflatten(structure, [2, "x"]) == ["x", None]
    assert unflatten(structure, [5, "x"]) == [None, None]


def test_named_tuple_comes_back_by_name():
    leaves, structure = flatten(Pair(1.5, None), lambda item: isinstance(item, float))
    found = unflatten(again(structure), leaves)
    assert (type(found).__name__, found._fields, found.left, found.right) == ("Pair", ("left", "right"), 1.5, None)
    assert again(structure) == again(structure)


def test_a_return_type_of_torch_comes_back():
    values = torch.max(torch.ones(2, 3), 0)
    leaves, structure = flatten(values, lambda item: isinstance(item, torch.Tensor))
    found = unflatten(again(structure), leaves)
    assert type(found) is type(values) and found.values is values.values


def test_dataclass_comes_back_by_name():
    leaves, structure = flatten(Point(1.5, 2), lambda item: isinstance(item, float))
    found = unflatten(again(structure), leaves)
    assert (type(found).__name__, found.x, found.y) == ("Point", 1.5, 2)


def test_dict_and_dataclass_at_once():
    leaves, structure = flatten(Output(logits=1.5), lambda item: isinstance(item, float))
    found = unflatten(again(structure), leaves)
    assert (type(found).__name__, found["logits"], found.logits, list(found)) == ("Output", 1.5, 1.5, ["logits"])
    with pytest.raises(AttributeError):
        _ = found.loss


@pytest.mark.parametrize("structure", [Const(object()), DictOf((object(),), (Leaf(0),)), TupleOf((), type("T", (tuple,), {}))])
def test_live_objects_are_refused(structure):
    with pytest.raises(SaveError):
        to_json(structure)


@pytest.mark.parametrize(
    "data",
    [
        1, [], {}, {"leaf": -1}, {"leaf": True}, {"tuple": 1}, {"dict": [[1]]}, {"dict": [[[1], {"leaf": 0}]]},
        {"maybe": {"leaf": 0}},
        {"tuple": [], "name": "a b", "fields": []}, {"tuple": [], "name": "T", "fields": ["a"]},
        {"tuple": [], "name": "class", "fields": []},
        {"tuple": [{"leaf": 0}] * 2, "name": "T", "fields": ["a", "a"]},
        {"object": [], "name": "T", "fields": [1]}, {"const": "x"},
        {"tuple": [], "return_type": "__name__"}, {"tuple": [], "return_type": "nothing"},
        {"object": [{"leaf": 0}], "name": "T", "fields": ["if"]},
        {"tuple": [{"leaf": 0}], "name": "T", "fields": ["_a"]},
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_structure(data):
    with pytest.raises(LoadError, match="^s"):
        from_json(Json(data, "s"))
