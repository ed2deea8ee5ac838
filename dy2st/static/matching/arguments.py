"""The arguments of a call, as the code of a match takes them apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.same_contents import TensorShape
from dy2st.static.calls.call import Call
from dy2st.static.calls.signature import CallSignature
from dy2st.static.matching.code import NotInline, Writer
from dy2st.static.matching.conditions import check_distinct, equal, is_plain, keys_are, tensor
from dy2st_runtime.arrays.calls import in_memory
from dy2st_runtime.executors.python.code import tuple_text
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Shared, Structure, TupleOf

CallShape = tuple[int, tuple[str, ...]]
"""How many positional arguments a call has, and the names of its keyword arguments."""


class _Given:
    """Stands for one argument while a call is bound to parameters without its values."""

    def __init__(self, text: str) -> None:
        self.text = text


class ArgumentCode:
    """Checks the arguments of calls that have the shape of an earlier one.

    Args:
        out: where the code goes.
        signature: of the user's function.
        call: the earlier call.
        call_shape: how its arguments were given.
        bound: whether the function is bound to an object, which comes first.

    Attributes:
        leaves: the local name of each leaf of the arguments.
    """

    def __init__(self, out: Writer, signature: CallSignature, call: Call, call_shape: CallShape, bound: bool) -> None:
        self.out, self.signature, self.call, self.call_shape, self.bound = out, signature, call, call_shape, bound
        self.leaves: dict[int, str] = {}
        self._containers: list[str] = []
        """The names of the lists and dicts among the arguments: each is another object."""
        self._shared: dict[int, str] = {}
        function = signature.function
        self._defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())

    def written(self) -> str:
        """Check the arguments; gives the expression for ``(args, kwargs)`` as bound to the parameters."""
        count, keywords = self.call_shape
        names = [f"g{index}" for index in range(count)]
        if names:
            self.out.line(f"{', '.join(names)}, = args")
        function = self.out.constant(self.signature.function)
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
            current = getattr(self.signature.function, attribute)
            self.out.need(f"{function}.{attribute} is {self.out.constant(current)}")
        by_name = self.signature.function.__kwdefaults__ or {}  # a dict, which may be changed itself
        if by_name:
            self.out.need(f"len({function}.__kwdefaults__) == {len(by_name)}")
        for name, default in by_name.items():
            self.out.need(f"{function}.__kwdefaults__[{name!r}] is {self.out.held(default)}")
        args = [_Given("instance")] * self.bound + [_Given(name) for name in names]
        markers = self.signature.bind(tuple(args), {name: _Given(f"kwargs[{name!r}]") for name in keywords})
        given = (markers.args, markers.kwargs)
        assert isinstance(self.call.structure, TupleOf)
        for structure, value in zip(self.call.structure.items, given):
            self._given(structure, value)
        self._same_tensors()
        check_distinct(self.out, self._containers)
        return self._expression(given)

    def _given(self, structure: Structure, value: Any) -> None:
        """Match a tuple or dict that binding makes of arguments, or an argument."""
        if isinstance(value, _Given):
            self._check(structure, value.text)
        elif isinstance(value, (tuple, dict)) and isinstance(structure, (TupleOf, DictOf)) and not self._is_default(value):
            parts = list(value.values()) if isinstance(value, dict) else value
            for item, part in zip(structure.items, parts, strict=True):
                self._given(item, part)
        elif isinstance(structure, Const) or (type(value) in CONSTANTS and not isinstance(structure, Leaf)):
            return  # a default that nobody can change, which is the same object as long as the defaults are
        else:
            self._check(structure, self.out.constant(value))

    def _is_default(self, value: Any) -> bool:
        """Tell whether a value is a default of a parameter: a dict, or what is in a tuple, may be changed by anyone."""
        return any(value is default for default in self._defaults)

    def _expression(self, value: Any) -> str:
        if isinstance(value, _Given):
            return value.text
        if self._is_default(value):
            return self.out.constant(value)
        if type(value) is tuple:
            return tuple_text([self._expression(part) for part in value])
        if type(value) is dict:
            return "{" + ", ".join(f"{key!r}: {self._expression(part)}" for key, part in value.items()) + "}"
        return self.out.constant(value)

    def _check(self, structure: Structure, text: str) -> None:
        """Check that one argument, or a part of it, must be as it was."""
        if isinstance(structure, Leaf):
            self._leaf(structure.index, text)
        elif isinstance(structure, Const):
            self.out.need(equal(self.out, text, structure.value))
        elif isinstance(structure, (TupleOf, ListOf, DictOf)):
            name = self.out.fresh()
            factory = (structure.factory or tuple) if isinstance(structure, TupleOf) else getattr(structure, "factory", list)
            self.out.line(f"{name} = {text}")
            self.out.need(f"type({name}) is {self.out.constant(factory)}", f"len({name}) == {len(structure.items)}")
            keys: Sequence[Any] = structure.keys if isinstance(structure, DictOf) else range(len(structure.items))
            if isinstance(structure, DictOf):
                self.out.need(keys_are(self.out, name, list(keys), factory))
            if not isinstance(structure, TupleOf):
                self._containers.append(name)
            for key, item in zip(keys, structure.items):
                self._check(item, f"{name}[{self.out.constant(key)}]")
        elif isinstance(structure, Shared):
            self._shared_container(structure, text)
        else:
            raise NotInline("an argument of a class that is taken apart field by field")

    def _shared_container(self, structure: Shared, text: str) -> None:
        """Match a list or dict that stands in several places of the arguments."""
        known = self._shared.get(structure.number)
        if known is not None:
            self.out.need(f"{text} is {known}")
            return
        (item,) = structure.items
        self._shared[structure.number] = name = self.out.fresh()
        self.out.line(f"{name} = {text}")
        self._check(item, name)

    def _leaf(self, index: int, text: str) -> None:
        leaf, name = self.call.leaves[index], f"l{index}"
        self.leaves[index] = name
        if index in self.call.arrays:
            self._array(index, text)
            return
        self.out.line(f"{name} = {text}")
        if not isinstance(leaf, torch.Tensor):
            if hasattr(type(leaf), "__dataclass_fields__") and not self.call.held:
                raise NotInline("whether it is taken apart depends on its attributes")
            self.out.need(f"type({name}) is {self.out.constant(type(leaf))}")
            return
        if not is_plain(leaf):
            raise NotInline("a tensor of a special kind")
        self.out.need(*tensor(self.out, name, TensorShape.of(leaf, self.call.dynamic_dims[index]), type(leaf)))

    def _array(self, index: int, text: str) -> None:
        """Match an array of NumPy, in whose memory a tensor is made."""
        leaf, name, given = self.call.leaves[index], self.leaves[index], f"a{index}"
        self.out.line(f"{given} = {text}")
        self.out.line(f"{name} = {self.out.constant(in_memory)}({given})")
        self.out.need(f"{name} is not None")
        self.out.need(*tensor(self.out, name, TensorShape.of(leaf, self.call.dynamic_dims[index]), type(leaf)))

    def _same_tensors(self) -> None:
        """Note that which of the arguments are one tensor, or one array, must be as it was."""
        first: dict[int, str] = {}
        for index, name in sorted(self.leaves.items()):
            leaf = self.call.leaves[index]
            name = f"a{index}" if index in self.call.arrays else name
            if isinstance(leaf, torch.Tensor) and first.setdefault(id(leaf), name) != name:
                self.out.need(f"{name} is {first[id(leaf)]}")
        check_distinct(self.out, list(first.values()))
