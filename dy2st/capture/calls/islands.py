"""Islands: functions that run as Python when the program runs. What they give is declared, or was learned from a call in eager.

A function that is marked and does no more than operations on tensors is followed, as ever: its operations are recorded one by one,
and what it reads is guarded. Any other is an operation of the program.
"""

from __future__ import annotations

import builtins
import contextlib
import dis
import os
import types
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves

from dy2st import errors
from dy2st.capture.calls import opaque, unseen_writes
from dy2st.capture.calls.plain import call_plain, over_argument, union_among
from dy2st.capture.diagnostics.translation import TRACING_ERRORS
from dy2st.capture.environment import learned
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.users_code import is_library, is_part_of_library
from dy2st.capture.raising.unwinding import Handlers
from dy2st.capture.session.regions import Region
from dy2st.capture.session.session import Session
from dy2st.capture.texts import wording
from dy2st.capture.types import abstract_values, tensor_traits, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractObject, contents
from dy2st.capture.values.signals import Refused, Signal
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
from dy2st.capture.writes.places import ContentsPlace
from dy2st_runtime.call.tracebacks import note
from dy2st_runtime.ir.flattening import shallow
from dy2st_runtime.primitives import control, islands
from dy2st_runtime.primitives.islands import Container, Island, Known, Reference, Slot

_FOLLOWED = frozenset(
    ("torch", "math", "cmath", "operator", "functools", "itertools", "collections", "dataclasses", "typing", "enum", "copy",
     "dy2st", "dy2st_runtime", "builtins", "types", "abc", "contextlib", "einops", "re", "string", "heapq", "bisect", "fractions",
     "decimal", "numbers", "textwrap", "weakref", "array")
)  # fmt: skip
"""Modules whose functions do the same whenever they run, and nothing else."""
_ACTING = frozenset(
    getattr(builtins, name) for name in ("print", "input", "open", "exec", "eval", "compile", "__import__", "breakpoint")
)


_NAMED = (types.FunctionType, types.BuiltinFunctionType, type)
_BLAMED = "__dy2st_blamed__"
"""The attribute of an exception that has the key of the function in which it has come up."""


@contextlib.contextmanager
def blamed(session: Session, function: types.FunctionType) -> Iterator[None]:
    """Note which function cannot be captured, where it may run as Python instead: the innermost one."""
    try:
        yield
    except (Exception, Refused) as error:
        if not session.request.options.full_graph and not is_part_of_library(function):
            kept = error.error if isinstance(error, Refused) else error
            if not hasattr(kept, _BLAMED):
                setattr(kept, _BLAMED, learned.key_of(function.__code__))
        raise


def culprit(error: BaseException) -> learned.Key | None:
    """Return the key of the innermost function that could not be captured, as the error of a capture tells."""
    if not isinstance(error, (errors.CaptureError, errors.ConversionError)):
        return None
    step: BaseException | None = error
    result = None
    while step is not None:
        result = getattr(step, _BLAMED, result)
        step = step.__cause__ or step.__context__
    return result


class UnknownIslandError(errors.CaptureError):
    """What an island gives is not known yet: a call in eager shows it.

    Attributes:
        key: of the function.
    """

    key: learned.Key


def is_island(session: Session, function: types.FunctionType) -> bool:
    """Tell whether a function may become an operation of the program: the user has marked it, or it cannot be captured."""
    return learned.mark_of(function) is not None or learned.key_of(function.__code__) in session.request.islands


def call(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that may be an island."""
    mark = learned.mark_of(function)
    if mark is None or mark.returns is not None or not _is_followed(function, (*args, *kwargs.values())):
        reason = session.request.islands.get(learned.key_of(function.__code__), "it is marked")
        return _recorded(session, function, args, kwargs, reason)
    followed = _Following(session, function, args, kwargs)
    error = followed.run()
    if error is None and (session.blocks.at_root or not followed.grows()):
        return followed.keep()
    followed.take_back()
    if error is not None:
        return _instead(session, function, args, kwargs, error)
    try:
        return _recorded(session, function, args, kwargs, "it changes the length of a list, where a tensor decides")
    except UnknownIslandError:
        raise
    except errors.CaptureError:
        followed.run()
        return followed.keep()


class _Following:
    """An attempt to record what a function does, operation by operation.

    Args:
        session: the capture.
        function: what is called.
        args, kwargs: its arguments.
    """

    def __init__(self, session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._session, self._function, self._args, self._kwargs = session, function, args, kwargs
        self._result: Any = None

    def run(self) -> Exception | None:
        """Do so; returns why it could not be done."""
        session = self._session
        self._attempt, self._written = session.blocks.begin_attempt([]), dict(session.places.written_at)
        self._known = session.tracker.known()
        try:
            opaque.look(session, self._function, self._args, self._kwargs)
            self._result = call_plain(session, self._function, self._args, self._kwargs)
        except Signal:
            session.blocks.roll_back(self._attempt)
            raise
        except Exception as error:
            if session.in_flight.pending and not isinstance(error, (errors.Dy2stError, *TRACING_ERRORS)):
                self.keep()
                raise  # for a handler of the user's
            return error
        return None

    def keep(self) -> Any:
        """Keep what it has recorded; returns the result."""
        self._session.blocks.commit(self._attempt)
        return self._result

    def take_back(self) -> None:
        """Forget it."""
        session = self._session
        session.blocks.roll_back(self._attempt)
        session.places.written_at = self._written
        session.tracker.forget_since(self._known)

    def grows(self) -> bool:
        """Tell whether it changes the length of a list from outside."""
        return _grows(self._session, self._attempt[0])


def _grows(session: Session, region: Region) -> bool:
    """Tell whether what was done changes the length of a list from outside."""
    return any(
        isinstance(entry.place, ContentsPlace)
        and isinstance(owner := entry.place.owner, list)
        and session.tracker.source_of(owner) is not None
        and isinstance(entry.seen, list)
        and len(entry.seen) != len(owner)
        for entry in region.undo_log.entries.values()
    )


def _instead(
    session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
) -> Any:
    """Record a call that could not be followed; where that cannot be, either, say why it could not."""
    try:
        return _recorded(session, function, args, kwargs, "the values of tensors decide what it does")
    except UnknownIslandError:
        raise
    except errors.CaptureError as refused:
        if not isinstance(error, errors.Dy2stError):
            raise
        message = refused.message
    note(error, f"It cannot run as Python when the program runs, either: {message}")
    raise error


def _recorded(session: Session, function: types.FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any], reason: str) -> Any:
    union = union_among(function, args, kwargs)
    if union is not None:
        return over_argument(session, union, function, args, kwargs)
    return _Recording(session, function, reason).record(learned.mark_of(function), args, kwargs)


def _is_followed(function: types.FunctionType, given: tuple[Any, ...]) -> bool:
    """Tell whether a function names nothing that does more than compute, as far as its code and its arguments show."""
    for part in opaque.with_helpers(function):
        if any(_imports_or_tries(code) for code in _codes(part.__code__)):
            return False
        of_python = [getattr(builtins, name, None) for name in part.__code__.co_names if name not in part.__globals__]
        found = [*opaque.found(part)]
        tables = [storage.table_of(value) or {} for value in (*given, *found) if not isinstance(value, (type, types.ModuleType))]
        held = [table[name] for table in tables for code in _codes(part.__code__) for name in code.co_names if name in table]
        if any(map(_acts, (*found, *of_python, *held))):
            return False
    return True


def _codes(code: types.CodeType) -> list[types.CodeType]:
    results = [code]
    for known in results:
        results += [constant for constant in known.co_consts if isinstance(constant, types.CodeType)]
    return results


def _imports_or_tries(code: types.CodeType) -> bool:
    """Tell whether code imports something, or handles exceptions: what raises when the program runs is not known at capture."""
    names = [instruction.opname for instruction in dis.get_instructions(code)]
    return "IMPORT_NAME" in names or "SETUP_FINALLY" in names or names.count("PUSH_EXC_INFO") > names.count("WITH_EXCEPT_START")


def _acts(value: Any) -> bool:
    """Tell whether a value is a function that does more than compute, or an object of a library that may change by itself."""
    if isinstance(value, types.BuiltinFunctionType) and value in _ACTING:
        return True
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] not in _FOLLOWED
    if isinstance(value, (np.ndarray, np.generic, *CAPTURE_VALUES)):
        return False
    module = getattr(value if isinstance(value, _NAMED) else type(value), "__module__", None) or ""
    return is_library(module) and module.partition(".")[0] not in _FOLLOWED


class _Recording:
    """One call of an island in a capture.

    Args:
        session: the capture.
        function: the island.
        reason: why it is one.
    """

    def __init__(self, session: Session, function: types.FunctionType, reason: str) -> None:
        self._session, self._function, self._reason = session, function, reason
        self._slots: list[Any] = []

    def record(self, mark: islands.Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
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
        island = Island(function, self._function.__qualname__, parts, named, known, place, self._reason)
        out: list[Any] = []
        value = abstract_values.fresh(self._type(known.kind), session, out)
        session.builder.call(control.call_, (island, tuple(self._slots), {}), {}, tuple(out))
        session.tracker.table.begin_late(session.blocks.repeats_since(-1))
        value = unpack_list(value)
        session.ownership.own_all(value)
        return value

    def _refuse(self, what: str, fix: str) -> errors.CaptureError:
        return errors.CaptureError(f"{self._function.__qualname__}(), which runs as Python, {what}", self._session.here(), fix=fix)

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

    def _known(self, mark: islands.Mark | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Known:
        if mark is not None and mark.returns is not None:
            tensors = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor))
            device = next((tensor.device for tensor in tensors), torch.get_default_device())
            return Known(islands.on_device(mark.returns, device), declared=True)
        signature = learned.signature_of_call(self._function, args, kwargs, self._shown)
        known = learned.find(self._function.__code__, signature)
        if known is None or (known.kind is None and known.unknown is None):
            learned.register(self._function.__code__)
            unknown = UnknownIslandError(
                f"what {self._function.__qualname__}() gives is not known before it has been called with arguments like these",
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
        parts = islands.parts_of(value)
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
        kind = type(value).__name__.removeprefix("Abstract").lower() if isinstance(value, AbstractObject) else type(value).__name__
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
                    f"{self._function.__qualname__}(), which runs as Python, may look at {what}, which the static function has "
                    "written before: it is written at the end of the call",
                    session.here(),
                    seen=None if location is None else f"written in {location}",
                    fix="pass what it reads as an argument, or write after the call",
                )

    def _is_argument(self, value: Any) -> bool:
        return any(shown is value for _, shown in self._session.tracker.given.values())

    # -- results -------------------------------------------------------------------------------------------------------------

    def _type(self, kind: islands.Kind) -> value_types.Type:
        match kind:
            case islands.TensorKind():
                return self._tensor_type(kind)
            case islands.NumberKind(number):
                return value_types.NumberType(number.__name__)
            case islands.TextKind():
                return value_types.StringType()
            case islands.ConstantKind(value):
                return value_types.SameType(value)
            case islands.ListKind(item):
                return value_types.ListType(self._type(item))
            case islands.NestKind(container, keys, items):
                marks = [object() for _ in items]
                structure = shallow(Container(container, keys, ()).make(marks))[1]
                return value_types.ContainerType(structure, tuple(map(self._type, items)))
        return value_types.TaggedUnionType(tuple(map(self._type, kind.options)))

    def _tensor_type(self, kind: islands.TensorKind) -> value_types.TensorType:
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
