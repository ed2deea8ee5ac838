"""One call of an island in a capture: what it gets, what is known of what it gives, and where it cannot stand."""

from __future__ import annotations

import os
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.raising.unwinding import Handlers
from dy2st.capture.session.session import Session
from dy2st.capture.texts import wording
from dy2st.capture.types import abstract_values, tensor_traits, value_types
from dy2st.capture.unconverted import learned, opaque, unseen_writes
from dy2st.capture.values.abstract_objects import AbstractObject, Represents, contents
from dy2st.capture.values.symbolic import (
    CAPTURE_VALUES,
    SYMBOLIC_NUMBERS,
    OfEachCall,
    RuntimeList,
    TaggedUnion,
    Undefined,
    unpack_list,
)
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.distributed.collectives import Group
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.primitives import control, island_kinds
from dy2st_runtime.primitives.islands import Container, Island, Known, Reference, Slot


class UnknownIslandError(errors.CaptureError):
    """What an island gives is not known yet: a call in eager shows it.

    Attributes:
        key: of the function.
    """

    key: learned.Key


class Recording:
    """One call of an island in a capture.

    Args:
        session: the capture.
        function: the island.
        reason: why it is one.
        name: of it; its own, where that is left out.
    """

    def __init__(self, session: Session, function: types.FunctionType, reason: str, name: str = "") -> None:
        self._session, self._function, self._reason = session, function, reason
        self._name = name or function.__qualname__
        self._slots: list[Any] = []
        self.group: Group | None = None

    def record(self, mark: island_kinds.Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Record the call; gives what stands for its result."""
        self._check()
        self._check_written((*args, *kwargs.values()))
        session = self._session
        parts = [self._part(value) for value in args]
        named = {name: self._part(value) for name, value in kwargs.items()}
        known = self._known(mark, args, kwargs)
        assert known.kind is not None
        location = session.position.locate()
        place = "" if location is None else f"{os.path.basename(location.file)}:{location.line}"
        function = _weakly(session, self._function)
        island = Island(function, self._name, parts, named, known, place, self._reason)
        island.group = self.group
        out: list[Any] = []
        value = abstract_values.fresh(self._type(known.kind), session, out)
        session.builder.call(control.call_, (island, tuple(self._slots), {}), {}, tuple(out))
        session.tracker.table.begin_late(session.blocks.repeats_since(-1))
        value = unpack_list(value)
        session.ownership.own_all(value)
        return value

    def _refuse(self, what: str, fix: str) -> errors.CaptureError:
        return errors.CaptureError(f"{self._name}(), which runs as Python, {what}", self._session.here(), fix=fix)

    def _check(self) -> None:
        """Refuse what no island can be.

        Raises:
            CaptureError: it cannot stand here.
        """
        session, function = self._session, self._function
        if session.request.for_any_call:
            raise self._refuse(
                "is a part of the program, and a saved or exported program has no Python",
                "write it with functions of torch and without the mark, or call it outside of what is saved",
            )
        if session.transforms:
            raise self._refuse(
                f"is called inside torch.func.{session.transforms[-1]}, which would have to see into it",
                "call it outside of the transformed function, or write it with functions of torch",
            )
        if function.__code__.co_flags & learned.GENERATORS:
            raise self._refuse("is a generator or a coroutine", "give a list of what it yields")
        if session.frames.codes.around(function):
            raise self._refuse("is defined inside the static function", "define it outside, and pass it what it reads")
        if any(isinstance(step, Handlers) for step in session.in_flight.pending):
            raise self._refuse(
                "may raise when the program runs, and no program enters the except clause around it",
                "put the try statement into the function",
            )

    def _known(self, mark: island_kinds.Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Known:
        if mark is not None and mark.returns is not None:
            tensors = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
            device = next((tensor.device for tensor in tensors), torch.get_default_device())
            return Known(island_kinds.on_device(mark.returns, device), declared=True)
        signature = learned.signature_of_call(self._function, args, kwargs, self._shown)
        known = learned.find(self._function.__code__, signature)
        if known is None or (known.kind is None and known.unknown is None):
            learned.register(self._function.__code__)
            unknown = UnknownIslandError(
                f"what {self._name}() gives is not known before it has been called with arguments like these",
                self._session.here(),
                fix="call the static function once so that it gets there, or declare it: @dy2st.not_to_static(returns=...)",
            )
            unknown.key = learned.key_of(self._function.__code__)
            raise unknown
        if known.unknown is not None:
            raise self._refuse(f"gives {known.unknown}", "give something of which the program can know what it is")
        return known

    def _shown(self, value: Any) -> Any:
        """Return a part of the signature for what only the program knows."""
        if isinstance(value, torch.Tensor) and tensor_traits.AUTOGRAD in tensor_traits.mixed(value):
            return (*learned.signature_of(value)[:-1], learned.ANY)
        if isinstance(value, torch.SymBool):
            return learned.ANY
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return "int" if isinstance(value, torch.SymInt) else "float"
        return learned.ANY if isinstance(value, (Text, RuntimeString)) else None

    # -- arguments -----------------------------------------------------------------------------------------------------------

    def _slot(self, value: Any) -> Slot:
        self._slots.append(value)
        return Slot(len(self._slots) - 1)

    def _part(self, value: Any) -> Any:
        """Return an argument as the island has it.

        Raises:
            CaptureError: no program can make it.
        """
        session = self._session
        if isinstance(value, (torch.Tensor, *SYMBOLIC_NUMBERS)):
            return self._slot(value)
        if isinstance(value, Text):
            return self._slot(wording.node_value(session, value))
        items = session.lists.of(contents(value))
        if items is not None:
            return self._list(value, items)
        if isinstance(value, (AbstractObject, TaggedUnion, Undefined, OfEachCall, *CAPTURE_VALUES)):
            raise self._given(value)
        if isinstance(value, (*CONSTANTS, type, types.ModuleType, types.BuiltinFunctionType)):
            return value
        parts = island_kinds.parts_of(value)
        source = session.tracker.source_of(value)
        is_argument = any(shown is value for _, shown in session.tracker.given.values())
        is_written = any(key[1] == id(value) for key in session.places.written_at)
        if parts is not None and (source is None or is_argument or is_written or isinstance(value, tuple)):
            return Container(type(value), parts[0], tuple(map(self._part, parts[1])))
        is_made = isinstance(value, types.FunctionType) and bool(session.frames.codes.around(value))
        if source is None and (is_made or session.ownership.is_new(value) or session.tracker.is_fresh(value)):
            raise self._given(value)
        if source is not None:
            session.tracker.guards.same(source, value)
        return Reference(value, source is not None)

    def _list(self, value: Any, items: RuntimeList) -> Slot:
        plain = (value_types.TensorType, value_types.NumberType, value_types.StringType)
        if not isinstance(value, list) or not isinstance(items.element, (*plain, type(None))):
            raise self._given(value)
        copied = self._session.lists.of(self._session.lists.copy(items))
        assert copied is not None
        return self._slot(copied)

    def _given(self, value: Any) -> errors.CaptureError:
        kind = type(value.example if isinstance(value, Represents) else value).__name__
        what = (
            "one of several values" if isinstance(value, TaggedUnion) else f"a {kind} that the static function has made or changed"
        )
        return self._refuse(f"gets {what}", "give it tensors, numbers and strings, in tuples, lists and dicts")

    def _check_written(self, values: tuple[Any, ...]) -> None:
        """Refuse that an island finds something as it was before the call: what is written outside is written at the end.

        Raises:
            CaptureError: it may.
        """
        session, written = self._session, self._session.places.written_at
        if not written:
            return
        parts = opaque.with_helpers(self._function)
        reached = [value for part in parts for value in opaque.found(part)]
        held = {id(value): value for value, _ in unseen_writes.reached((*values, *reached))}
        variables = {id(cell) for part in parts for cell in part.__closure__ or ()}
        names = {(id(part.__globals__), name) for part in parts for name in part.__code__.co_names}
        for key, location in written.items():
            owner = held.get(key[1])
            is_known = owner is not None and session.tracker.source_of(owner) is not None and not self._is_argument(owner)
            if is_known or key[1] in variables or key[1:] in names:
                what = f"{type(owner).__name__}.{key[2]}" if len(key) > 2 and owner is not None else "what it reads"
                raise errors.CaptureError(
                    f"{self._name}(), which runs as Python, may look at {what}, which the static function has "
                    "written before: it is written at the end of the call",
                    session.here(),
                    seen=None if location is None else f"written in {location}",
                    fix="pass what it reads as an argument, or write after the call",
                )

    def _is_argument(self, value: Any) -> bool:
        return any(shown is value for _, shown in self._session.tracker.given.values())

    # -- results -------------------------------------------------------------------------------------------------------------

    def _type(self, kind: island_kinds.Kind) -> value_types.Type:
        match kind:
            case island_kinds.TensorKind():
                return self._tensor_type(kind)
            case island_kinds.NumberKind(number):
                return value_types.NumberType(number.__name__)
            case island_kinds.TextKind():
                return value_types.StringType()
            case island_kinds.ConstantKind(value):
                return value_types.SameType(value)
            case island_kinds.ListKind(item):
                return value_types.ListType(self._type(item))
            case island_kinds.NestKind(container, keys, items):
                marks = [object() for _ in items]
                structure = shallow(Container(container, keys, ()).make(marks))[1]
                return value_types.ContainerType(structure, tuple(map(self._type, items)))
        return value_types.TaggedUnionType(tuple(map(self._type, kind.options)))

    def _tensor_type(self, kind: island_kinds.TensorKind) -> value_types.TensorType:
        tensors = [value for value in self._slots if isinstance(value, torch.Tensor)]
        sizes = tuple(value_types.DYNAMIC if size is None else size for size in kind.sizes)
        assert kind.device is not None
        if kind.requires_grad is not None:
            return value_types.TensorType(kind.dtype, kind.device, sizes, None, kind.requires_grad, kind.is_leaf, kind.kind)
        may = torch.is_grad_enabled() and (kind.dtype.is_floating_point or kind.dtype.is_complex)
        if may:
            self._session.traits.has_mixed = True
        mixed = frozenset({tensor_traits.AUTOGRAD}) if may else frozenset[str]()
        has = may and any(tensor_traits.autograd_of(tensor)[0] for tensor in tensors)
        return value_types.TensorType(kind.dtype, kind.device, sizes, None, has, not has, torch.Tensor, mixed)


def _weakly(session: Session, function: types.FunctionType) -> Callable[[], Any]:
    """Return what gives a function: the guards of the program see to it that it is there, where they know it."""
    if session.tracker.source_of(function) is None:
        return lambda: function
    return weakref.ref(function)
