"""The values that a program reads from outside, as the code of a match fetches and checks them."""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch._C._dynamo.guards import TensorGuards

from dy2st.capture.environment.guards import TOGETHER, Guard, IsReferent
from dy2st.capture.environment.same_contents import HOOKS, ClassShape, ModuleShape, TensorShape, is_frozen, same_frozen
from dy2st.capture.environment.sources import GONE, Source, ToObject, ToReferent, fetch, follows_reads, held_item, step
from dy2st.capture.outputs.captured import Captured
from dy2st.static.calls.call import Call
from dy2st.static.matching.code import Writer
from dy2st.static.matching.conditions import (
    FEW,
    PLAIN_TENSORS,
    are_distinct,
    are_none_of,
    equal,
    is_none_of,
    is_plain,
    is_pythons,
    keys_are,
    tensor,
)

_INLINE = ("same", "strides", "leaf", "class", "function", "value")
"""The kinds of conditions that are written out."""

_ALONE = (types.BuiltinFunctionType, type)
"""Classes whose objects are equal to themselves."""

_MEMBERS = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what is not in its ``__dict__``, in the order in which it looks."""


class SourceCode:
    """Fetches the values of a program's sources, and checks what the program relies on in them.

    Args:
        out: where the code goes.
        captured: the program.
        call: one that it has served.
        leaves: the local name of each leaf of the arguments.
        given: the expression for ``(args, kwargs)``.
        wants_values: whether something is done with the values after the run.

    Attributes:
        registers: the local name of each source.
    """

    def __init__(
        self, out: Writer, captured: Captured, call: Call, leaves: Mapping[int, str], given: str, wants_values: bool
    ) -> None:
        self.out, self.captured = out, captured
        self.values = fetch(captured.sources, call.arguments)
        self.registers: dict[int, str] = {}
        self._leaves, self._given, self._wants_values = leaves, given, wants_values
        self._tables: dict[int, str] = {}
        """For sources that are modules, the name of their ``__dict__``: a module's attributes take four times as long."""
        self._absent: set[tuple[type, str]] = set()

    def write(self) -> None:
        guards = self._by_last_source()
        fragile: set[int] = set()
        wanted, frozen = self._wanted(), self._frozen()
        texts: dict[str, str] = {}
        libraries: list[str] = []
        together: list[tuple[str, TensorShape, torch.Tensor]] = []
        for source in self.captured.sources:
            if source.index not in wanted or (source.parent is not None and source.parent.index in frozen):
                continue
            parent = None if source.parent is None else self.registers[source.parent.index]
            own = guards.get(source.index, ())
            if source.key[0] == "library":
                text = self.registers[source.index] = f"{self.out.held(source.key[1])}.{source.key[2]}"
                libraries += [f"{text} is {self.out.held(guard.data)}" for guard in own]
                continue
            if any(guard.kind == "missing" for guard in own) or (source.parent is not None and source.parent.index in fragile):
                is_written = self._is_absent(source, own, fragile)
                fragile.add(source.index)
                if is_written:
                    continue
                text = f"{self.out.constant(step)}({self.out.constant(source)}, {parent or self._all()})"
            else:
                text = self._read(source, parent)
            if text in texts and self._is_only_alias(own, source, texts[text]):
                self.registers[source.index] = texts[text]  # the same object by another way, which is spelled alike
                continue
            name = self.registers[source.index] = texts[text] = f"v{source.index}"
            self.out.line(f"{name} = {text}")
            if source.index in frozen:
                kept = self.out.constant(frozen[source.index])
                self.out.need(f"{name} is {kept} or {self.out.constant(same_frozen)}({name}, {kept})")
                continue
            for guard in own:
                value = self.values[source.index]
                if guard.kind == "tensor" and isinstance(guard.data, TensorShape) and is_plain(value):
                    together.append((name, guard.data, value))
                else:
                    self.out.need(*self._guard(guard))
        self.out.need(*libraries, *self._classes())
        self._tensors(together)

    def _by_last_source(self) -> dict[int, list[Guard]]:
        """Return the conditions by the last source that each looks at."""
        results: dict[int, list[Guard]] = {}
        for guard in self.captured.guards:
            if guard.kind != "special":
                results.setdefault(max(source.index for source in guard.sources), []).append(guard)
        return results

    def _is_absent(self, source: Source, own: Sequence[Guard], fragile: Collection[int]) -> bool:
        """Check that there is no attribute, or no item of a plain dict, under a name; if that is all that is asked of a source.

        Returns:
            Whether it is: the parent is there, and this is enough.
        """
        if source.parent is None or source.parent.index in fragile or len(own) != 1 or own[0].kind != "missing":
            return False
        kind, *key = source.key
        owner, parent, gone = self.values[source.parent.index], self.registers[source.parent.index], self.out.constant(GONE)
        if kind == "item" and type(key[2]) is str and type(owner) is dict:
            self.out.need(f"type({parent}) is dict and {self.out.constant(key[2])} not in {parent}")
        elif kind == "attribute" and key[1].isidentifier() and not follows_reads(type(owner)):
            self.out.need(f"{self.out.held(getattr)}({parent}, {key[1]!r}, {gone}) is {gone}")
        else:
            return False
        self.registers[source.index] = gone
        return True

    def _classes(self) -> list[str]:
        """Return the conditions on what Python looks up itself in classes."""
        shapes = [guard.data for guard in self.captured.guards if isinstance(guard.data, ClassShape)]
        seen: set[type] = set()
        results = []
        for shape in shapes:
            alike = [f"{self.out.held(shape.kind)}.__mro__ is {self.out.held(shape.mro)}"]
            for base, table, (size, last), methods in zip(shape.bases, shape.tables, shape.sizes, shape.methods):
                if base in seen:
                    continue
                seen.add(base)
                name = self.out.held(table)
                alike.append(f"len({name}) == {size} and {self.out.held(next)}({self.out.held(reversed)}({name})) == {last!r}")
                alike += [f"{name}[{key!r}] is {self.out.held(method)}" for key, method in methods.items()]
            results.append(f"({' and '.join(alike)} or {self.out.held(shape.holds)}())")
        return results

    def _is_only_alias(self, own: Sequence[Guard], source: Source, name: str) -> bool:
        """Tell whether all that is asked of a source is that it is the object of that name."""
        if len(own) != 1 or own[0].alias is None or own[0].source is not source:
            return False
        return self.registers[own[0].alias.index] == name

    def _tensors(self, checked: Sequence[tuple[str, TensorShape, torch.Tensor]]) -> None:
        """Match tensors of the state, one by one or, where there are many, in one call: that takes a fifth of the time."""
        distinct = len({id(tensor) for _, _, tensor in checked}) == len(checked)
        if len(checked) <= FEW or not distinct:
            for name, shape, _ in checked:
                self.out.need(*tensor(self.out, name, shape, *PLAIN_TENSORS))
            return
        sizes: Any = [list(shape.sizes) for _, shape, _ in checked]
        strides: Any = [[None] * len(shape.sizes) for _, shape, _ in checked]  # any
        guards = TensorGuards(*(tensor for _, _, tensor in checked), dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        self.out.need(f"{self.out.constant(guards.check)}({', '.join(name for name, _, _ in checked)})")

    def _frozen(self) -> dict[int, tuple[Any, ...]]:
        """Return tuples of constants: most often it is the very same tuple, and nobody has to look inside."""
        if self._wants_values:
            return {}
        looked_at = {source.index for source in self.captured.state_sources if source is not None}
        for guard in self.captured.guards:
            if len(guard.sources) > 1:
                looked_at |= {source.index for source in guard.sources}
        results: dict[int, tuple[Any, ...]] = {}
        for source in reversed(self.captured.sources):
            if source.index in looked_at and source.parent is not None:
                looked_at.add(source.parent.index)
        for guard in self.captured.guards:
            if guard.kind == "keys" and type(guard.data) is tuple and guard.source.index not in looked_at:
                results[guard.source.index] = guard.data
        return results

    def _wanted(self) -> set[int]:
        """Return the sources that something looks at."""
        results = {source.index for guard in self.captured.guards for source in guard.sources if guard.kind != "special"}
        results |= {source.index for source in self.captured.state_sources if source is not None}
        if self._wants_values:
            results |= {source.index for source in self.captured.sources}
        for source in reversed(self.captured.sources):
            if source.index in results and source.parent is not None:
                results.add(source.parent.index)
        return results

    def _all(self) -> str:
        return f"[{', '.join(name for _, name in sorted(self._leaves.items()))}, {self._given}]"

    def _read(self, source: Source, parent: str | None) -> str:
        kind, *key = source.key
        if kind == "argument":
            return self._leaves.get(key[0], self._given)
        if isinstance(source.step, ToObject):
            return self.out.held(source.step.value)
        if isinstance(source.step, ToReferent):
            return f"{self.out.held(source.step.reference)}()"
        if kind == "attribute" and all(map(str.isidentifier, key[1].split("."))):
            return self._attribute(source, key[1], f"{parent}.{key[1]}")
        if kind == "item":
            return self._item(source, f"{parent}", self.out.constant(key[2]))
        if kind == "cell":
            return f"{parent}.cell_contents"
        if kind in ("_modules", "_parameters", "_buffers"):
            return f"{self._member(source.parent, kind)}[{key[1]!r}]"
        return f"{self.out.constant(source.step)}({parent})"

    def _item(self, source: Source, parent: str, key: str) -> str:
        """Return an item, as :func:`~dy2st.capture.environment.sources.held_item` finds it."""
        assert source.parent is not None
        owner = self.values[source.parent.index]
        if type(owner) is not dict and isinstance(owner, dict):
            return f"{self.out.held(dict.get)}({parent}, {key}, {self.out.constant(GONE)})"
        if not is_pythons(type(owner)):
            return f"{self.out.constant(held_item)}({parent}, {key})"
        return f"{parent}[{key}]"

    def _attribute(self, source: Source, name: str, plainly: str) -> str:
        """Return an attribute; of a module that has it itself, from its ``__dict__``."""
        assert source.parent is not None
        owner = self.values[source.parent.index]
        if follows_reads(type(owner)):
            return f"{self.out.constant(source.step)}({self.registers[source.parent.index]})"
        if source.parent.index not in self._tables:
            return plainly
        table = self._tables[source.parent.index]
        if name in owner.__dict__:
            of_class = inspect.getattr_static(type(owner), name, None)
            return plainly if inspect.isdatadescriptor(of_class) else f"{table}[{name!r}]"
        kind = next((member for member in _MEMBERS if name in owner.__dict__[member]), None)
        if kind is None or type(owner).__getattr__ is not torch.nn.Module.__getattr__ or hasattr(type(owner), name):
            return plainly
        self._without(type(owner), name)
        self.out.need(f"{name!r} not in {table}")
        return f"{table}[{kind!r}][{name!r}]"

    def _without(self, kind: type, name: str) -> None:
        """Do what a class does not have, its objects have of their own; that is asked once for each class."""
        if (kind, name) not in self._absent:
            self._absent.add((kind, name))
            self.out.need(f"not {self.out.constant(hasattr)}({self.out.constant(kind)}, {name!r})")

    def _member(self, source: Source | None, table: str) -> str:
        """Return one of the tables that every module has."""
        assert source is not None
        known = self._tables.get(source.index)
        return f"{known}[{table!r}]" if known else f"{self.registers[source.index]}.{table}"

    def _guard(self, guard: Guard) -> list[str]:
        value = self.registers[guard.source.index]
        if guard.alias is not None:
            return [f"{value} is {self.registers[guard.alias.index]}"]
        if guard.others or guard.kind == "apart" or guard.kind in TOGETHER:
            return self._other(guard, value, [self.registers[other.index] for other in guard.others])
        if guard.kind in ("missing", "present"):
            return [f"{value} is {'' if guard.kind == 'missing' else 'not '}{self.out.constant(GONE)}"]
        if guard.kind == "equal":
            return [equal(self.out, value, guard.value)]
        if guard.kind in _INLINE:
            return self._inline(guard, value)
        if guard.kind == "type":
            return [f"type({value}) is {self.out.constant(guard.data)}"]
        if guard.kind == "keys":
            kind = type(guard.data) if is_frozen(guard.data) else guard.data
            kept = self.out.constant(kind)
            return [f"type({value}) is {kept}", keys_are(self.out, value, guard.value, kind)]
        if guard.kind == "tensor" and isinstance(guard.data, TensorShape) and guard.data.own is None:
            return tensor(self.out, value, guard.data)
        if guard.kind == "module" and isinstance(guard.data, ModuleShape) and not guard.data.hooks:
            return self._module(guard.source, guard.data)
        return [f"{value} is not {self.out.constant(GONE)}", f"{self.out.constant(guard.check)}({value})"]

    def _inline(self, guard: Guard, value: str) -> list[str]:
        """Return a condition on an object that is quicker to ask here than in a function."""
        kept = self.out.held(guard.data)
        if guard.kind == "same" and guard.data is not None:
            return [f"{value} is {kept}"]
        if isinstance(guard.check, IsReferent) and isinstance(guard.check.reference, weakref.ref):
            return [f"{value} is {self.out.held(guard.check.reference)}()", f"{value} is not None"]
        if guard.kind == "strides":
            return [f"{value}.stride() == {kept}"]
        if guard.kind == "leaf" and is_plain(self.values[guard.source.index]):
            return [f"type({value}) in {self.out.constant(PLAIN_TENSORS)} and {value}.is_leaf is {guard.data}"]
        if guard.kind == "class":
            return [f"type({value}) is {kept}"]
        if guard.kind == "function":
            return [f"{self.out.held(getattr)}({value}, '__func__', None) is {kept}"]
        there = f"{value} is not {self.out.constant(GONE)}"
        check = f"{there} and {self.out.constant(guard.check)}({value})"
        return [f"({value} is {self.out.held(guard.value)} or {check})" if type(guard.value) in _ALONE else check]

    def _other(self, guard: Guard, value: str, others: list[str]) -> list[str]:
        """Return the conditions that a value is another one than some others."""
        if guard.kind in TOGETHER:
            return [f"not {self.out.constant(guard.data)}({', '.join([value, *others])})"]
        names = [value, *others]
        first, rest = (names, []) if guard.kind == "apart" else (names[: guard.data], names[guard.data :])
        if len(first) == 1 and rest:
            return [is_none_of(value, rest)]
        return are_distinct(first) + ([are_none_of(first, rest)] if rest else [])

    def _module(self, source: Source, shape: ModuleShape) -> list[str]:
        name, table = self.registers[source.index], f"d{source.index}"
        self.out.line(f"{table} = {name}.__dict__")
        self._tables[source.index] = table
        members = {
            "_modules": shape.children,
            "_parameters": tuple(key for key, _ in shape.parameters),
            "_buffers": tuple(key for key, _ in shape.buffers),
        }
        results = [f"type({name}) is {self.out.constant(shape.kind)}"]
        for member, keys in members.items():
            results.append(f"[*{table}[{member!r}]] == {self.out.constant(list(keys))}" if keys else f"not {table}[{member!r}]")
        for member, entries in (("_parameters", shape.parameters), ("_buffers", shape.buffers)):
            results += [f"{table}[{member!r}][{key!r}] is {'' if gone else 'not '}None" for key, gone in entries]
        results += [f"not {table}[{hooks!r}]" for hooks in HOOKS]
        if shape.own_forward is None:
            results.append(f"'forward' not in {table}")
        else:
            own = self.out.fresh()
            results.append(f"getattr({own} := {table}['forward'], '__func__', {own}) is {self.out.constant(shape.own_forward)}()")
        results.append(f"{self.out.constant(shape.kind)}.forward is {self.out.constant(shape.forward)}")
        return results
