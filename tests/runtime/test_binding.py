import collections
import dataclasses
from typing import Any

import pytest
import torch

from dy2st_runtime import InputSlot, Parameter, SignatureError
from dy2st_runtime.call.binding import Binder, parameters_of
from dy2st_runtime.ir.flattening import flatten
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, TupleOf
from tests.runtime.build import Make, program, tensor_input

Pair = collections.namedtuple("Pair", ["left", "right"])
X, Y = torch.ones(3, 4), torch.zeros(3, 4)


@dataclasses.dataclass
class Point:
    x: Any
    y: Any


def binder(slots, args=(), kwargs=None, parameters=()):
    """A binder for arguments in which ``...`` stands for a leaf."""
    made = program(Make().output(), tuple(slots), parameters=tuple(parameters))
    leaves, structure = flatten((tuple(args), kwargs or {}), lambda item: item is ...)
    assert len(leaves) == len(slots)
    return Binder(dataclasses.replace(made, in_structure=structure))


def bind(bound, *args, **kwargs):
    return bound.bind(args, kwargs, tuple)


def same(found, *expected):
    return len(found) == len(expected) and all(a is b for a, b in zip(found, expected, strict=True))


SLOTS = (tensor_input("x"), tensor_input("y"))
PARAMETERS = (Parameter("x"), Parameter("y"), Parameter("scale", default=Const(2)))


def test_by_position_and_by_name():
    bound = binder(SLOTS, (..., ...), parameters=PARAMETERS)
    assert same(bind(bound, X, Y), X, Y)
    assert same(bind(bound, X, y=Y), X, Y)
    assert same(bind(bound, y=Y, x=X), X, Y)


def test_without_parameters_as_the_structure_spells_it():
    bound = binder(SLOTS, (...,), {"y": ...})
    assert same(bind(bound, X, y=Y), X, Y)
    with pytest.raises(SignatureError, match=r"args must be a tuple of 1, but is a tuple of 2"):
        bind(bound, X, Y)


def test_a_default_may_be_given_when_it_is_the_same():
    left_out = binder(SLOTS, (..., ...), parameters=PARAMETERS)
    given = binder(SLOTS, (..., ...), {"scale": 2}, parameters=PARAMETERS)
    for bound in (left_out, given):
        assert same(bind(bound, X, Y), X, Y)
        assert same(bind(bound, X, Y, 2), X, Y)
        assert same(bind(bound, X, Y, scale=2), X, Y)
        with pytest.raises(SignatureError, match=r"scale.*the int 3"):
            bind(bound, X, Y, 3)


def test_star_arguments_must_fit_the_program():
    parameters = (Parameter("xs", "VAR_POSITIONAL"), Parameter("flags", "VAR_KEYWORD"))
    bound = binder(SLOTS, (..., ...), {"mode": "a"}, parameters)
    assert same(bind(bound, X, Y, mode="a"), X, Y)
    with pytest.raises(SignatureError, match="xs must be a tuple of 2, but is a tuple of 1"):
        bind(bound, X, mode="a")
    with pytest.raises(SignatureError, match="flags must be a mapping with the keys 'mode'"):
        bind(bound, X, Y)


def test_nested_arguments_are_bound_and_checked_item_by_item():
    value = {"a": [..., (...,)], "b": Pair(..., None), "c": Point(..., "k")}
    bound = binder([tensor_input(f"x{i}") for i in range(4)], (value,), parameters=[Parameter("batch")])
    given = {"c": Point(X, "k"), "a": [X, (Y,)], "b": (Y, None)}
    assert same(bind(bound, given), X, Y, Y, X)
    with pytest.raises(SignatureError, match=r"batch\['a'\]\[1\]\[0\] must be a tensor f32\[n, 4\], but is None"):
        bind(bound, given | {"a": [X, (None,)]})
    with pytest.raises(SignatureError, match=r"batch\['c'\].y must be 'k', which is a constant of this program"):
        bind(bound, given | {"c": Point(X, "other")})
    with pytest.raises(SignatureError, match=r"batch\['a'\] must be a list of 2, but is a tuple of 2"):
        bind(bound, given | {"a": (X, (Y,))})
    with pytest.raises(SignatureError, match="a mapping with the keys 'a', 'b', 'c', but is a dict with the keys"):
        bind(bound, {"a": 1})
    with pytest.raises(SignatureError, match="an object like Point, with x, y, but is a NoneType|but is None"):
        bind(bound, given | {"c": None})


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"forward\(\) is missing its argument x"),
        ((X,), {}, r"forward\(\) is missing its argument y"),
        ((X, Y, 2, 4), {}, "too many positional arguments"),
        ((X, Y), {"z": 1}, "unexpected keyword argument 'z'"),
        ((X, Y), {"x": X}, "multiple values for argument 'x'"),
        ((X, Y.double()), {}, r"y must be a tensor f32\[n, 4\], but is a tensor f64\[3, 4\]"),
        ((X, Y[0]), {}, r"y must be a tensor f32\[n, 4\], but is a tensor f32\[4\]"),
        ((X, torch.zeros(3, 5)), {}, r"y must be a tensor f32\[n, 4\], but is a tensor f32\[3, 5\]"),
        ((X, torch.zeros(2, 4)), {}, r"y must be .* with n = 3 as in x, but is a tensor f32\[2, 4\]"),
        ((X, 1.5), {}, "y must be .* but is the float 1.5"),
        ((X, [1]), {}, "y must be .* but is a list of 1"),
        ((X, None), {}, "y must be .* but is None"),
    ],
)
def test_what_does_not_fit(args, kwargs, message):
    with pytest.raises(SignatureError, match=message) as caught:
        bind(binder(SLOTS, (..., ...), parameters=PARAMETERS), *args, **kwargs)
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(("number", "fits", "wrong"), [("int", 3, True), ("float", 2.0, 2), ("bool", False, 0)])
def test_a_number_must_have_the_type_of_its_slot(number, fits, wrong):
    bound = binder([InputSlot("k", number=number)], (...,))
    assert bind(bound, fits) == [fits]
    with pytest.raises(SignatureError, match=rf"must be a Python {number}, but is the {type(wrong).__name__} {wrong}"):
        bind(bound, wrong)


@pytest.mark.parametrize(
    "structure",
    [
        Leaf(0),
        TupleOf((Leaf(0),)),
        TupleOf((ListOf(()), DictOf((), ()))),
        TupleOf((TupleOf(()), DictOf((1,), (Leaf(0),)))),
    ],
)
def test_an_input_structure_other_than_args_and_kwargs_is_refused(structure):
    with pytest.raises(TypeError):
        Binder(dataclasses.replace(program(Make().output()), in_structure=structure))


def test_parameters_of_a_function():
    def function(self, x, /, y, *rest, mode="mean", opaque=object(), sizes=(1, [2]), **others):
        pass

    found = parameters_of(function, bound=True)
    assert [(p.name, p.kind) for p in found] == [
        ("x", "POSITIONAL_ONLY"), ("y", "POSITIONAL_OR_KEYWORD"), ("rest", "VAR_POSITIONAL"), ("mode", "KEYWORD_ONLY"),
        ("opaque", "KEYWORD_ONLY"), ("sizes", "KEYWORD_ONLY"), ("others", "VAR_KEYWORD"),
    ]  # fmt: skip
    assert [p.default for p in found[:5]] == [None, None, None, Const("mean"), None]
    bound = binder(SLOTS, (..., ...), {"opaque": None, "mode": "mean", "sizes": (1, [2])}, found)
    assert same(bind(bound, X, y=Y, opaque=None), X, Y)
