"""One straight Python function that tells whether a call is one that a captured program serves.

Taking a call apart, looking up its key and checking guards one by one costs tens of microseconds. For a call that is spelled
like an earlier one (as many positional arguments, the same keywords) all of that is known but for the values, and becomes
code without loops:

    def match(args, kwargs, instance):
        try:
            g0, = args
            if not (type(g0) is k0 and (s0 := g0.shape) == k1 and g0.dtype is k2 and ...): return None
            v3 = instance.scale
            if not (type(v3) is float and v3 == 0.5): return None
            return [g0, v5], None
        except known_errors:
            return None

What it accepts, the way over keys and guards accepts; what it does not accept goes that way.
"""

from __future__ import annotations

import inspect
import linecache
import operator
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._C._dynamo.guards import TensorGuards
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules import module as _module

from dy2st.capture import on_raise
from dy2st.capture.environment.guards import HOOKS, MAPPINGS, Guard, ModuleShape, TensorShape, is_frozen, same_frozen, same_keys
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.sources import GONE, Source, fetch, held_item, step
from dy2st.capture.trace import Captured
from dy2st.capture.types.lattice import same_constant
from dy2st.capture.values import expressions
from dy2st.static.signature import Call, CallSignature, InputSpec, modes
from dy2st_runtime.executors.python.code import tuple_text
from dy2st_runtime.ir.flattening import children
from dy2st_runtime.ir.structure import Const, DictOf, Leaf, ListOf, Shared, Structure, TupleOf
from dy2st_runtime.primitives.scalars import NAMES

Match = Callable[[tuple[Any, ...], dict[str, Any], Any], tuple[list[Any], list[Any] | None] | None]
"""Takes arguments and the object the function is bound to; gives the program's inputs and the values of its sources."""

_PLAIN_TENSORS = (torch.Tensor, torch.nn.Parameter)
_FEW = 4
"""So many tensors are compared two by two to see that none is given twice, and checked one by one."""

_MEMBERS = ("_parameters", "_buffers", "_modules")
"""Where a module keeps what is not in its ``__dict__``, in the order in which it looks."""


def _is_plain(value: Any) -> bool:
    """Whether a value is a tensor of no special kind."""
    return type(value) in _PLAIN_TENSORS and not value.is_nested and value.layout is torch.strided


def _is_input(leaf: Any) -> bool:
    """Whether a leaf of a call is an input of the program, and no object that the program is made for."""
    return isinstance(leaf, (torch.Tensor, int, float))


class NotInline(Exception):
    """Something in the call or the program has no straight code."""


class _Given:
    """Stands for one argument while a call is bound to parameters without its values."""

    def __init__(self, text: str) -> None:
        self.text = text


class Writer:
    """The code of one function, and the objects that it mentions."""

    def __init__(self, header: str) -> None:
        self.lines = [header]
        self.names: dict[str, Any] = {}
        self._known: dict[int, str] = {}
        self._fresh = 0

    def constant(self, value: Any) -> str:
        """An expression for an object: itself where it can be written down."""
        if value is None or value is True or value is False:
            return repr(value)
        if type(value) in (int, str):
            return repr(value)
        return self.held(value)

    def held(self, value: Any) -> str:
        """The name of an object."""
        if id(value) not in self._known:
            self._known[id(value)] = name = f"k{len(self.names)}"
            self.names[name] = value
        return self._known[id(value)]

    def fresh(self) -> str:
        """A new local name."""
        self._fresh += 1
        return f"t{self._fresh}"

    def line(self, text: str, depth: int = 2) -> None:
        """One more line."""
        self.lines.append(" " * depth + text)

    def need(self, *conditions: str) -> None:
        """Go on only if all of these hold."""
        if conditions:
            self.line(f"if not ({' and '.join(conditions)}): return None")

    def made(self, name: str, file: str) -> Callable[..., Any]:
        """The function."""
        text = "\n".join(self.lines) + "\n"
        space = dict(self.names)
        exec(compile(text, file, "exec"), space)
        found: Callable[..., Any] = space[name]
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        weakref.finalize(found, linecache.cache.pop, file, None)
        return found


def match_function(
    signature: CallSignature, call: Call, captured: Captured, spelling: tuple[int, tuple[str, ...]], bound: bool
) -> Match:
    """The function that recognises calls like one that a program served.

    Args:
        signature: of the user's function.
        call: that call.
        captured: the program, and what it relies on.
        spelling: how many positional arguments it had, and the names of its keyword arguments.
        bound: whether the function is bound to an object, which comes first.

    Raises:
        NotInline: there is no straight code for it.
    """
    if not all(_is_checked_by_key(spec) for spec in signature.specs or ()):
        raise NotInline("an object is specified that must be given itself")
    return _Matcher(signature, call, captured, spelling, bound).written()


def _is_checked_by_key(spec: Any) -> bool:
    """Whether a call that has the key of one that fits a specification fits it too."""
    parts = children(spec)
    return isinstance(spec, (InputSpec, *CONSTANTS)) if parts is None else all(map(_is_checked_by_key, parts[0]))


class _Matcher:
    def __init__(
        self, signature: CallSignature, call: Call, captured: Captured, spelling: tuple[int, tuple[str, ...]], bound: bool
    ) -> None:
        self.signature, self.call, self.captured, self.spelling, self.bound = signature, call, captured, spelling, bound
        self.out = Writer("def match(args, kwargs, instance):")
        self.leaves: dict[int, str] = {}
        self.registers: dict[int, str] = {}
        self.values = fetch(captured.sources, call.arguments)
        self.tables: dict[int, str] = {}
        """For sources that are modules, the name of their ``__dict__``: a module's attributes take four times as long."""
        self._absent: set[tuple[type, str]] = set()
        self._containers: list[str] = []
        """The names of the lists and dicts among the arguments: each is another object."""
        self._shared: dict[int, str] = {}

    def written(self) -> Match:
        """The whole function."""
        self.out.line("try:", 1)
        self._modes()
        given = self._arguments()
        self._same_tensors()
        self._distinct(self._containers)
        self._sources(given)
        self._sizes()
        states = [
            self.registers[source.index] if source is not None else self.out.constant(self.captured.states[position](()))
            for position, source in enumerate(self.captured.state_sources)
        ]
        inputs = [name for index, name in sorted(self.leaves.items()) if _is_input(self.call.leaves[index])]
        values = f"[{', '.join(self.registers[source.index] for source in self.captured.sources)}]" if self._wants_values else None
        self.out.line(f"return [{', '.join([*inputs, *states])}], {values}")
        self.out.line("except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError, ReferenceError):", 1)
        self.out.line("return None")
        return self.out.made("match", f"<match of {self.captured.program.name} {id(self):x}>")

    @property
    def _wants_values(self) -> bool:
        """Whether something is written, or a result found, at a source after the run or where it raises."""
        return bool(self.captured.program.effects) or bool(self.captured.existing) or on_raise.may_leave(self.captured.program)

    # -- the call ------------------------------------------------------------------------------------------------------------

    def _modes(self) -> None:
        now = modes()
        grad, inference, autocast, dtype, hooks = now
        if now != self.call.key[-1] or hooks:
            raise NotInline("modes have changed, or there are hooks on all modules")
        constant = self.out.constant
        self.out.need(
            f"{constant(torch.is_grad_enabled)}() is {grad}",
            f"{constant(torch.is_inference_mode_enabled)}() is {inference}",
            f"{constant(modes)}() == {constant(now)}" if autocast else f"not {constant(torch._C._is_any_autocast_enabled)}()",
            f"{constant(torch._C._get_tracing_state)}() is None",
            f"{constant(torch.get_default_dtype)}() is {constant(dtype)}",
            f"not {constant(_module._global_forward_pre_hooks)}",
            f"not {constant(_module._global_forward_hooks)}",
        )

    def _arguments(self) -> str:
        """Check the arguments; gives the expression for ``(args, kwargs)`` as bound to the parameters."""
        count, keywords = self.spelling
        names = [f"g{index}" for index in range(count)]
        if names:
            self.out.line(f"{', '.join(names)}, = args")
        function = self.out.constant(self.signature.function)
        for attribute in ("__code__", "__defaults__", "__kwdefaults__"):
            current = getattr(self.signature.function, attribute)
            self.out.need(f"{function}.{attribute} is {self.out.constant(current)}")
        args = [_Given("instance")] * self.bound + [_Given(name) for name in names]
        markers = self.signature.bind(tuple(args), {name: _Given(f"kwargs[{name!r}]") for name in keywords})
        given = (markers.args, markers.kwargs)
        assert isinstance(self.call.structure, TupleOf)
        for structure, value in zip(self.call.structure.items, given):
            self._given(structure, value)
        return self._expression(given)

    def _given(self, structure: Structure, value: Any) -> None:
        """A tuple or dict that binding makes of arguments, or an argument."""
        if isinstance(value, _Given):
            self._check(structure, value.text)
        elif isinstance(value, (tuple, dict)) and isinstance(structure, (TupleOf, DictOf)):
            parts = list(value.values()) if isinstance(value, dict) else value
            if len(parts) != len(structure.items):
                raise NotInline("a default has other parts now")
            for item, part in zip(structure.items, parts):
                self._given(item, part)
        elif isinstance(structure, Const) or type(value) in CONSTANTS:
            return  # a default, which is the same object as long as the defaults are
        else:
            self._check(structure, self.out.constant(value))

    def _expression(self, value: Any) -> str:
        if isinstance(value, _Given):
            return value.text
        if type(value) is tuple:
            return tuple_text([self._expression(part) for part in value])
        if type(value) is dict:
            return "{" + ", ".join(f"{key!r}: {self._expression(part)}" for key, part in value.items()) + "}"
        return self.out.constant(value)

    def _check(self, structure: Structure, text: str) -> None:
        """One argument, or a part of it, must be as it was."""
        if isinstance(structure, Leaf):
            self._leaf(structure.index, text)
        elif isinstance(structure, Const):
            self.out.need(self._equal(text, structure.value))
        elif isinstance(structure, (TupleOf, ListOf, DictOf)):
            name = self.out.fresh()
            factory = (structure.factory or tuple) if isinstance(structure, TupleOf) else getattr(structure, "factory", list)
            self.out.line(f"{name} = {text}")
            self.out.need(f"type({name}) is {self.out.constant(factory)}", f"len({name}) == {len(structure.items)}")
            keys: Sequence[Any] = structure.keys if isinstance(structure, DictOf) else range(len(structure.items))
            if isinstance(structure, DictOf):
                self.out.need(self._keys(name, list(keys)))
            if not isinstance(structure, TupleOf):
                self._containers.append(name)
            for key, item in zip(keys, structure.items):
                self._check(item, f"{name}[{self.out.constant(key)}]")
        elif isinstance(structure, Shared):
            self._shared_container(structure, text)
        else:
            raise NotInline("an argument of a class that is taken apart field by field")

    def _shared_container(self, structure: Shared, text: str) -> None:
        """A list or dict that stands in several places of the arguments."""
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
        self.out.line(f"{name} = {text}")
        if not isinstance(leaf, torch.Tensor):
            if hasattr(type(leaf), "__dataclass_fields__"):
                raise NotInline("whether it is taken apart depends on its attributes")
            self.out.need(f"type({name}) is {self.out.constant(type(leaf))}")
            return
        if not _is_plain(leaf):
            raise NotInline("a tensor of a special kind")
        self.out.need(*self._tensor(name, TensorShape.of(leaf, self.call.dynamic_dims[index]), type(leaf)))

    def _same_tensors(self) -> None:
        """Which of the arguments are one tensor must be as it was."""
        first: dict[int, str] = {}
        for index, name in sorted(self.leaves.items()):
            leaf = self.call.leaves[index]
            if isinstance(leaf, torch.Tensor) and first.setdefault(id(leaf), name) != name:
                self.out.need(f"{name} is {first[id(leaf)]}")
        self._distinct(list(first.values()))

    def _distinct(self, names: Sequence[str]) -> None:
        """Each is another object."""
        if len(names) <= _FEW:
            self.out.need(*(f"{a} is not {b}" for position, a in enumerate(names) for b in names[:position]))
        else:
            self.out.need(f"len({{{', '.join(f'id({name})' for name in names)}}}) == {len(names)}")

    # -- what the program relies on ------------------------------------------------------------------------------------------

    def _sources(self, given: str) -> None:
        guards: dict[int, list[Guard]] = {}
        for guard in self.captured.guards:
            last = max(source.index for source in guard.sources)
            guards.setdefault(last, []).append(guard)
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
                fragile.add(source.index)
                text = f"{self.out.constant(step)}({self.out.constant(source)}, {parent or self._all(given)})"
            else:
                text = self._read(source, parent, given)
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
                if guard.kind == "tensor" and isinstance(guard.data, TensorShape) and _is_plain(value):
                    together.append((name, guard.data, value))
                else:
                    self.out.need(*self._guard(guard))
        self.out.need(*libraries)
        self._tensors(together)

    def _is_only_alias(self, own: Sequence[Guard], source: Source, name: str) -> bool:
        """Whether all that is asked of a source is that it is the object of that name."""
        if len(own) != 1 or own[0].alias is None or own[0].source is not source:
            return False
        return self.registers[own[0].alias.index] == name

    def _tensors(self, checked: Sequence[tuple[str, TensorShape, torch.Tensor]]) -> None:
        """Tensors of the state, one by one or, where there are many, in one call: that takes a fifth of the time."""
        distinct = len({id(tensor) for _, _, tensor in checked}) == len(checked)
        if len(checked) <= _FEW or not distinct:
            for name, shape, _ in checked:
                self.out.need(*self._tensor(name, shape, *_PLAIN_TENSORS))
            return
        sizes: Any = [list(shape.sizes) for _, shape, _ in checked]
        strides: Any = [[None] * len(shape.sizes) for _, shape, _ in checked]  # any
        guards = TensorGuards(*(tensor for _, _, tensor in checked), dynamic_dims_sizes=sizes, dynamic_dims_strides=strides)
        self.out.need(f"{self.out.constant(guards.check)}({', '.join(name for name, _, _ in checked)})")

    def _frozen(self) -> dict[int, tuple[Any, ...]]:
        """Tuples of constants: most often it is the very same tuple, and nobody has to look inside."""
        if self._wants_values:
            return {}
        looked_at = {source.index for source in self.captured.state_sources if source is not None}
        for guard in self.captured.guards:
            if len(guard.sources) > 1:
                looked_at |= {source.index for source in guard.sources}
        found: dict[int, tuple[Any, ...]] = {}
        for source in reversed(self.captured.sources):
            if source.index in looked_at and source.parent is not None:
                looked_at.add(source.parent.index)
        for guard in self.captured.guards:
            if guard.kind == "keys" and type(guard.data) is tuple and guard.source.index not in looked_at:
                found[guard.source.index] = guard.data
        return found

    def _wanted(self) -> set[int]:
        """The sources that something looks at."""
        found = {source.index for guard in self.captured.guards for source in guard.sources}
        found |= {source.index for source in self.captured.state_sources if source is not None}
        if self._wants_values:
            found |= {source.index for source in self.captured.sources}
        for source in reversed(self.captured.sources):
            if source.index in found and source.parent is not None:
                found.add(source.parent.index)
        return found

    def _all(self, given: str) -> str:
        return f"[{', '.join(name for _, name in sorted(self.leaves.items()))}, {given}]"

    def _read(self, source: Source, parent: str | None, given: str) -> str:
        kind, *key = source.key
        if kind == "argument":
            return self.leaves.get(key[0], given)
        if kind == "held":
            return f"{self.out.constant(source.step)}(None)"
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
        """An item, as :func:`~dy2st.capture.environment.sources.held_item` finds it."""
        assert source.parent is not None
        owner = self.values[source.parent.index]
        if isinstance(owner, dict) and type(owner) is not dict:
            return f"{self.out.constant(held_item)}({parent}, {key})"
        return f"{parent}[{key}]"

    def _attribute(self, source: Source, name: str, plainly: str) -> str:
        """An attribute; of a module that has it itself, from its ``__dict__``."""
        assert source.parent is not None
        owner = self.values[source.parent.index]
        if source.parent.index not in self.tables:
            return plainly
        table = self.tables[source.parent.index]
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
        """What a class does not have, its objects have of their own; that is asked once for each class."""
        if (kind, name) not in self._absent:
            self._absent.add((kind, name))
            self.out.need(f"not {self.out.constant(hasattr)}({self.out.constant(kind)}, {name!r})")

    def _member(self, source: Source | None, table: str) -> str:
        """One of the tables that every module has."""
        assert source is not None
        known = self.tables.get(source.index)
        return f"{known}[{table!r}]" if known else f"{self.registers[source.index]}.{table}"

    def _guard(self, guard: Guard) -> list[str]:
        value = self.registers[guard.source.index]
        if guard.alias is not None:
            return [f"{value} is {self.registers[guard.alias.index]}"]
        if guard.others:
            return [self._is_none_of(value, [self.registers[other.index] for other in guard.others])]
        if guard.kind == "missing":
            return [f"{value} is {self.out.constant(GONE)}"]
        there = [f"{value} is not {self.out.constant(GONE)}"]
        if guard.kind == "present":
            return there
        if guard.kind == "equal":
            return [self._equal(value, guard.value)]
        if guard.kind == "type":
            return [f"type({value}) is {self.out.constant(guard.data)}"]
        if guard.kind == "keys":
            kind = type(guard.data) if is_frozen(guard.data) else guard.data
            kept = self.out.constant(kind)
            keys = self._keys(value, guard.value) if issubclass(kind, MAPPINGS) else f"len({value}) == {guard.value}"
            return [f"type({value}) is {kept}", keys]
        if guard.kind == "tensor" and isinstance(guard.data, TensorShape):
            return self._tensor(value, guard.data)
        if guard.kind == "module" and isinstance(guard.data, ModuleShape) and not guard.data.hooks:
            return self._module(guard.source, guard.data)
        return [*there, f"{self.out.constant(guard.check)}({value})"]

    def _is_none_of(self, value: str, others: Sequence[str]) -> str:
        """The condition that a value is another object than some others."""
        if len(others) <= _FEW:
            return " and ".join(f"{value} is not {other}" for other in others)
        return f"id({value}) not in {{{', '.join(f'id({other})' for other in others)}}}"

    def _keys(self, text: str, keys: list[Any]) -> str:
        """The keys of a dict; equal strings are the same, equal numbers may be of another type."""
        kept = self.out.constant(keys)
        alike = all(type(key) is str for key in keys)
        return f"[*{text}] == {kept}" if alike else f"{self.out.constant(same_keys)}({text}, {kept})"

    def _equal(self, text: str, value: Any) -> str:
        if value is None or value is True or value is False or value is ...:
            return f"{text} is {self.out.constant(value)}"
        if isinstance(value, (torch.dtype, type)):
            return f"{text} is {self.out.constant(value)}"
        name, kept = self.out.fresh(), self.out.held(value)  # most often it is the very same object
        if type(value) in (int, str):
            return f"(({name} := {text}) is {kept} or type({name}) is {self.out.constant(type(value))} and {name} == {kept})"
        return f"(({name} := {text}) is {kept} or {self.out.constant(same_constant)}({name}, {kept}))"

    def _tensor(self, name: str, shape: TensorShape, *kinds: type) -> list[str]:
        """What a tensor must be; of one of some classes, if they are given."""
        constant = self.out.constant
        plain = [f"isinstance({name}, {constant(torch.Tensor)})", f"type({name}) is not {constant(FakeTensor)}"]
        exact = f"type({name}) is {constant(kinds[0])}" if len(kinds) == 1 else f"type({name}) in {constant(frozenset(kinds))}"
        found = [exact] if kinds else plain
        sizes = self.out.fresh()
        if None not in shape.sizes:
            found.append(f"{name}.shape == {constant(shape.sizes)}")
        else:
            found.append(f"len({sizes} := {name}.shape) == {len(shape.sizes)}")
            found += [f"{sizes}[{dim}] == {size}" for dim, size in enumerate(shape.sizes) if size is not None]
        found.append(f"{name}.dtype is {constant(shape.dtype)}")
        found.append(f"{name}.is_cpu" if shape.device.type == "cpu" else f"{name}.device == {constant(shape.device)}")
        found.append(f"{name}.requires_grad is {shape.requires_grad}")
        found.append(f"{name}.layout is {constant(shape.layout)}")
        return found

    def _module(self, source: Source, shape: ModuleShape) -> list[str]:
        name, table = self.registers[source.index], f"d{source.index}"
        self.out.line(f"{table} = {name}.__dict__")
        self.tables[source.index] = table
        members = {
            "_modules": shape.children,
            "_parameters": tuple(key for key, _ in shape.parameters),
            "_buffers": tuple(key for key, _ in shape.buffers),
        }
        found = [f"type({name}) is {self.out.constant(shape.kind)}"]
        for member, keys in members.items():
            found.append(f"[*{table}[{member!r}]] == {self.out.constant(list(keys))}" if keys else f"not {table}[{member!r}]")
        for member, entries in (("_parameters", shape.parameters), ("_buffers", shape.buffers)):
            found += [f"{table}[{member!r}][{key!r}] is {'' if gone else 'not '}None" for key, gone in entries]
        found += [f"not {table}[{hooks!r}]" for hooks in HOOKS]
        if shape.own_forward is None:
            found.append(f"'forward' not in {table}")
        else:
            own = self.out.fresh()
            found.append(f"getattr({own} := {table}['forward'], '__func__', {own}) is {self.out.constant(shape.own_forward)}()")
        found.append(f"{self.out.constant(shape.kind)}.forward is {self.out.constant(shape.forward)}")
        return found

    def _sizes(self) -> None:
        sizes = self.captured.sizes
        self.out.need(*(f"{self.leaves[leaf]}.shape[{dim}] == {size}" for (leaf, dim), size in sizes.fixed.items()))
        symbols = {symbol: f"{self.leaves[leaf]}.shape[{dim}]" for symbol, (leaf, dim) in sizes.symbols.items()}
        self.out.need(*(self._condition(condition, symbols) for condition in sizes.conditions))

    def _condition(self, expr: sympy.Basic, symbols: Mapping[sympy.Basic, str]) -> str:
        if expr in symbols:
            return symbols[expr]
        if not expr.free_symbols:
            return self.out.constant(expressions.constant(expr))
        return str(expressions.build(expr, lambda part: self._condition(part, symbols), self._computed))

    def _computed(self, target: Callable[..., Any], args: Sequence[str]) -> str:
        sign = _SIGNS.get(target)
        if sign is not None and len(args) == 2 and target in NAMES:
            return f"({args[0]} {sign} {args[1]})"
        return f"{self.out.constant(target)}({', '.join(args)})"


_SIGNS: dict[Callable[..., Any], str] = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.mod: "%", operator.floordiv: "//", operator.eq: "==",
    operator.ne: "!=", operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
