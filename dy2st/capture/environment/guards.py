"""What a capture relied on, checked at each call before its program is used again.

The Python values that the captured code read (attributes, globals, closure cells, defaults) are compared with what they were.
When one has changed, the program does not fit and another is captured.
"""

from __future__ import annotations

import collections
import dataclasses
import os
import sys
import types
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor

from dy2st.capture.environment.same_contents import ClassShape, ModuleShape, TensorShape, is_frozen, keys_in, same_keys, weakly
from dy2st.capture.environment.sources import GONE, Source
from dy2st.capture.operands.overlap import Differs, shared
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.types import tensor_traits
from dy2st.capture.types.value_types import same_constant
from dy2st.capture.values import storage
from dy2st.capture.values.kinds import is_spread
from dy2st_runtime.arrays.calls import share_memory
from dy2st_runtime.ir.structure import exact

ACTS_FOR_USER = False

_Check = Callable[[Any], bool]


@dataclasses.dataclass(frozen=True)
class Guard:
    """One condition on the value of a source.

    Attributes:
        source: where the value comes from.
        kind: which of the conditions of :class:`GuardTable`.
        check: whether the program is right for a value.
        expected: the condition in words.
        value: the number, the shape of the tensor, or the constants in the container, that was met.
        data: what the value is compared with, where that is more than equality: a class, a :class:`TensorShape`, a
            :class:`ModuleShape`, a tuple of constants whose items are guarded too.
    """

    source: Source
    kind: str
    check: _Check
    expected: str
    value: Any = None
    data: Any = None

    @property
    def alias(self) -> Source | None:
        """The other source, where the condition is that two give one object."""
        return self.check.other if isinstance(self.check, _Alias) else None

    @property
    def sources(self) -> list[Source]:
        """All sources that it looks at."""
        return [self.source, *([] if self.alias is None else [self.alias]), *self.others]

    @property
    def others(self) -> Sequence[Source]:
        """The other sources, where the condition is that they give other objects.

        ``"apart"``: each of them; ``"distinct"``: than the first ``data`` of all sources do, which differ, too.
        """
        return self.check.others if isinstance(self.check, _Distinct) else ()


TOGETHER = frozenset(("memory", "holds"))
"""The kinds of conditions on several values at once, which ``data`` tells the contrary of."""

_OF_TENSORS = frozenset(("tensor", "strides", "leaf", "class"))
"""The kinds of conditions on tensors; what a program changes of one itself, it changes at once."""


class GuardTable:
    """The conditions of one program."""

    def __init__(self) -> None:
        self._guards: dict[tuple[int, str], Guard] = {}
        self.before_once: Callable[[Source], None] | None = None
        """Told of what makes the program right for one call only, before it is used; while the program is captured."""

    def __len__(self) -> int:
        return len(self._guards)

    def __iter__(self) -> Iterator[Guard]:
        return iter(self._guards.values())

    @property
    def once(self) -> bool:
        """Whether the program is right for one call only."""
        return self.read_once is not None

    @property
    def read_once(self) -> str | None:
        """The name of what makes the program right for one call only, if something does."""
        return next((guard.source.name for guard in self._guards.values() if guard.kind == "never"), None)

    def add(self, source: Source, kind: str, check: _Check, expected: str, value: Any = None, data: Any = None) -> None:
        """Add a condition; the first of a kind for a source counts."""
        self._guards.setdefault((source.index, kind), Guard(source, kind, check, expected, value, data))

    def equal(self, source: Source, value: Any) -> None:
        """Require that the value stay equal, and of the same type."""
        self.add(source, "equal", lambda now: same_constant(now, value), f"== {value!r}", value)

    def same(self, source: Source, value: Any) -> None:
        """Require that the value stay the same object.

        A bound method, which Python makes anew at each access, that of the same object.
        """
        named = value if isinstance(value, (type, types.FunctionType, types.MethodType)) else type(value)
        self.add(source, "same", _is_same(value), f"is {named.__qualname__}", data=value if lives_anyway(value) else None)

    def missing(self, source: Source) -> None:
        """There must be nothing."""
        self.add(source, "missing", lambda now: now is GONE, "is missing")

    def never(self, source: Source) -> None:
        """Note that the program is right for the call that it was captured for only."""
        if self.before_once is not None:
            self.before_once(source)
        self.add(source, "never", lambda now: False, "is read once")

    def present(self, source: Source) -> None:
        """There must be something, no matter what."""
        self.add(source, "present", lambda now: True, "is there")

    def same_value(self, source: Source, value: Any) -> None:
        """Require that the value stay equal, by its own judgement, and of the same class."""
        kind = type(value)
        self.add(source, "value", lambda now: type(now) is kind and bool(now == value), f"== {value!r}", value)

    def same_answer(self, source: Source, value: Any) -> None:
        """Require that what a library answers stay equal, of the same class; the answer may be anything."""
        kind = type(value)
        self.add(source, "answer", lambda now: type(now) is kind and bool(now == value), f"== {value!r}")

    def same_environment(self, source: Source) -> None:
        """Require that the variables of the environment stay as they are."""
        kept = dict(vars(os.environ)["_data"])  # as bytes: reading them as strings takes time
        self.add(source, "environment", lambda now: now is os.environ and vars(now)["_data"] == kept, "is this environment")

    def same_array(self, source: Source, value: np.ndarray[Any, Any]) -> None:
        """Require that a numpy array keep its dtype and contents."""
        kept = value.copy()

        def check(now: Any) -> bool:
            return isinstance(now, np.ndarray) and now.dtype == kept.dtype and np.array_equal(now, kept)

        self.add(source, "array", check, f"is this array of {value.dtype} {value.shape}")

    def same_contents(self, source: Source, container: Any) -> None:
        """Require that a container of constants keep its class and contents."""
        kind, kept = type(container), _typed(container)
        self.add(
            source, "contents", lambda now: type(now) is kind and _typed(now) == kept, f"is this {kind.__name__}", _copy(container)
        )

    def same_function(self, source: Source, method: types.MethodType) -> None:
        """Require that a bound method stay bound to the same function."""
        function = method.__func__
        check = lambda now: getattr(now, "__func__", None) is function  # noqa: E731
        self.add(source, "function", check, f"is {method.__qualname__}", data=function)

    def same_function_of_library(self, source: Source, function: Any) -> None:
        """Require that a function of a library stay where it was found; it is kept alive, as its module does."""
        name = getattr(function, "__qualname__", type(function).__name__)
        self.add(source, "library", lambda now: now is function, f"is {name}", data=function)

    def same_type(self, source: Source, value: Any) -> None:
        """Require that the value keep its class."""
        kind = type(value)
        self.add(source, "type", lambda now: type(now) is kind, f"is a {kind.__qualname__}", data=kind)

    def same_keys(self, source: Source, container: Any) -> None:
        """Require that a container keep its class, length and keys."""
        kind, keys = type(container), keys_in(container)
        data = container if is_frozen(container) else kind
        shown = f"[{', '.join(map(storage.shown_key, keys))}]" if isinstance(keys, list) else keys
        self.add(
            source, "keys", lambda now: type(now) is kind and same_keys(now, keys), f"is a {kind.__name__} with {shown}", keys, data
        )

    def same_making(self, source: Source, container: collections.deque[Any] | collections.defaultdict[Any, Any]) -> None:
        """Require that a deque keep how many items it holds at most, and a dict what makes an item that is missing."""
        if isinstance(container, collections.deque):
            limit = container.maxlen
            self.add(source, "making", lambda now: getattr(now, "maxlen", None) == limit, f"is a deque of maxlen {limit}")
            return
        check = _is_same_factory(container.default_factory)
        self.add(source, "making", lambda now: check(getattr(now, "default_factory", None)), "has the same default_factory")

    def same_parts(self, source: Source, tensor: Any) -> None:
        """Require that a tensor which is made of others keep its class, and what it says of how it is made of them."""
        kind, parts = type(tensor), tensor.__tensor_flatten__()
        check = lambda now: type(now) is kind and bool(now.__tensor_flatten__() == parts)  # noqa: E731
        self.add(source, "parts", check, f"is a {kind.__qualname__} of {', '.join(parts[0])}")

    def same_special_methods(self, source: Source, kind: type, bases: Collection[type]) -> None:
        """Require that a class keep its special methods and what it is made of; ``bases`` are those that may change."""
        if (source.index, "special") not in self._guards:
            shape = ClassShape(kind, bases)
            self.add(source, "special", shape.holds, "has the same bases and special methods", data=shape)

    def same_module(self, source: Source, module: torch.nn.Module) -> None:
        """Require that a module keep its class, its children's names, which tensors it has, and its hooks."""
        shape = ModuleShape.of(module)

        def check(now: Any) -> bool:
            return isinstance(now, torch.nn.Module) and ModuleShape.of(now) == shape

        self.add(source, "module", check, f"is a {shape.kind.__name__} with the same children and hooks", data=shape)

    def tensor(self, source: Source, tensor: torch.Tensor, dynamic: Collection[int] = ()) -> None:
        """Require that a tensor keep dtype, device, layout, whether it requires a gradient, and its sizes except the dynamic
        ones.
        """
        expected = TensorShape.of(tensor, dynamic)

        def check(now: Any) -> bool:
            there = isinstance(now, torch.Tensor) and TensorShape.of(now, dynamic) == expected
            return there and not _stands_in(now) and not is_spread(now)

        self.add(source, "tensor", check, f"is a tensor {tuple(expected)}", tensor.shape, expected)

    def gradient(self, source: Source, tensor: torch.Tensor) -> bool:
        """Require that a gradient be ``None``, or lie in memory as its tensor does and have none itself; whether it is so now."""
        like = gradient_like(tensor)
        expected, strides = TensorShape.of(like)._replace(device=tensor.device), like.stride()

        def check(now: Any) -> bool:
            return now is None or (
                isinstance(now, torch.Tensor)
                and TensorShape.of(now) == expected
                and now.stride() == strides
                and not _stands_in(now)
            )

        with torch._C.DisableTorchFunction():
            is_so = check(tensor.grad)
        if is_so:
            self.add(source, "gradient", check, f"is None or a tensor {tuple(expected)}")
        return is_so

    def same_layout(self, source: Source, tensor: torch.Tensor) -> None:
        """Require that a tensor lie in memory in the same way."""
        expected = tensor.stride()
        self.add(source, "strides", lambda now: now.stride() == expected, f"has strides {expected}", data=expected)

    def same_leaf(self, source: Source, tensor: torch.Tensor) -> None:
        """Require that a tensor stay a leaf, or stay none."""
        expected = tensor_traits.autograd_of(tensor)[1]
        text = f"is {'a' if expected else 'no'} leaf"
        self.add(source, "leaf", lambda now: tensor_traits.autograd_of(now)[1] is expected, text, data=expected)

    def same_class(self, source: Source, tensor: torch.Tensor) -> None:
        """Require that a tensor keep its class."""
        kind = type(tensor)
        self.add(source, "class", lambda now: type(now) is kind, f"is a {kind.__qualname__}", data=kind)

    def same_object(self, source: Source, other: Source) -> None:
        """Require that two sources keep giving one tensor or object; checked by :meth:`failure`."""
        self._guards.setdefault((source.index, f"alias {other.index}"), Guard(source, "alias", _Alias(other), f"is {other.name}"))

    def distinct(self, source: Source, others: Sequence[Source]) -> None:
        """Require that the value of a source stay another object than those of some others; checked by :meth:`failure`."""
        expected = f"is not {' or '.join(other.name for other in others[:3])}{' …' if len(others) > 3 else ''}"
        indices = sorted({source.index, *(other.index for other in others)})
        key = indices[0], f"distinct {' '.join(map(str, indices))}"
        known = self._guards.get(key)  # with others of these as the first: one condition on all takes time in proportion to them
        before = [] if known is None else known.sources[: known.data]
        if source not in before:
            first, *rest = dict.fromkeys((*before, source, *others, *([] if known is None else known.sources)))
            self._guards[key] = Guard(first, "distinct", _Distinct(rest), expected, data=len(before) + 1)

    def apart_in_memory(self, source: Source, others: Sequence[Source]) -> None:
        """Require that an array lie outside of the memory of some others; checked by :meth:`failure`."""
        expected = f"lies outside of the memory of {others[0].name}"
        self._guards.setdefault((source.index, "memory"), Guard(source, "memory", _Distinct(others), expected, data=share_memory))

    def holds_none(self, source: Source, others: Sequence[Source], holds: Callable[..., bool]) -> None:
        """Require that none of some objects be in a list; checked by :meth:`failure`.

        Args:
            source: gives the list.
            others: give the objects.
            holds: tells of a list and such objects whether it holds one.
        """
        expected = f"does not hold {' or '.join(other.name for other in others[:3])}{' …' if len(others) > 3 else ''}"
        self.add(source, "holds", _Distinct(others), expected, data=holds)

    def same_memory(self, sources: Sequence[Source], tensors: Sequence[torch.Tensor]) -> None:
        """Require that some tensors share memory as they do, or do not; checked by :meth:`failure`."""
        first, *others = sources
        expected = " beside ".join(["lies in memory as it did", *(other.name for other in others[:3])])
        guard = Guard(first, "memory", _Distinct(others), expected, data=Differs(shared(*tensors)))
        self._guards.setdefault((first.index, f"memory {[other.index for other in others]}"), guard)

    def apart(self, source: Source, kind: type) -> None:
        """Require that the objects of a class that the program meets stay as many as they are.

        Hashes and comparisons in Python's own containers ask for that, unseen.
        """
        key = (-id(kind), "apart")
        known = self._guards.get(key)
        if known is not None and source in known.sources:
            return  # a property gives another object each time
        first, *others = [source] if known is None else [*known.sources, source]
        expected = f"and the other objects of {kind.__qualname__} are different ones"
        self._guards[key] = Guard(first, "apart", _Distinct(others), expected)

    def all_apart(self, sources: Sequence[Source], kind: str) -> None:
        """Require that some sources keep giving as many objects as there are sources; ``kind`` says what they are."""
        first, *others = sources
        self._guards.setdefault(
            (first.index, f"apart {len(sources)} {kind}"),
            Guard(first, "apart", _Distinct(others), f"and the other {kind} are different ones"),
        )

    def of(self, source: Source) -> list[Guard]:
        """Return the conditions on the value of one source, and on others being the same object."""
        return [guard for guard in self._guards.values() if source in guard.sources]

    def copied(self) -> dict[tuple[int, str], Guard]:
        """Return the conditions by now, for :meth:`replace`."""
        return dict(self._guards)

    def replace(self, guards: dict[tuple[int, str], Guard]) -> None:
        """Have other conditions."""
        self._guards = guards

    def of_values(self, wanted: Callable[[Source], bool]) -> GuardTable:
        """Return the conditions on Python values among some of the sources."""
        result = GuardTable()
        kept = {key: guard for key, guard in self._guards.items() if guard.kind not in (*_OF_TENSORS, "special", "never")}
        result._guards = {key: guard for key, guard in kept.items() if any(map(wanted, guard.sources))}
        return result

    def failure(self, values: Sequence[Any]) -> Guard | None:
        """Return the first condition that does not hold; ``None`` when the program fits.

        Args:
            values: the value of each source, from :func:`~dy2st.capture.environment.sources.fetch`.
        """
        for guard in self._guards.values():
            value = values[guard.source.index]
            check = guard.check
            if isinstance(check, _Alias):
                holds = value is values[check.other.index]
            elif guard.kind in TOGETHER:
                holds = not guard.data(value, *(values[other.index] for other in guard.others))
            elif isinstance(check, _Distinct):
                found = [id(value), *(id(values[other.index]) for other in check.others)]
                count = len(found) if guard.kind == "apart" else guard.data
                holds = len({*found[:count]}) == count and {*found[:count]}.isdisjoint(found[count:])
            else:
                holds = check(value) if value is not GONE else guard.kind == "missing"
            if not holds:
                return guard
        return None


class _Alias:
    """Another source gives the same object."""

    def __init__(self, other: Source) -> None:
        self.other = other

    def __call__(self, value: Any) -> bool:
        raise AssertionError("checked with both values at hand")


class _Distinct:
    """Other sources give other objects."""

    def __init__(self, others: Sequence[Source]) -> None:
        self.others = others

    def __call__(self, value: Any) -> bool:
        raise AssertionError("checked with all values at hand")


def gradient_like(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor that lies in memory as the gradients do which a backward pass gives a tensor."""
    with torch.no_grad(), torch._C.DisableTorchFunction():
        return torch.empty_like(tensor, device="meta")


def _stands_in(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is there only as long as another thread captures."""
    return isinstance(tensor, FakeTensor) and isinstance(tensor.fake_mode.shape_env, CaptureShapes)


def _is_same(value: Any) -> _Check:
    """Return what tells whether something is an object, which is not kept alive."""
    if isinstance(value, types.MethodType):
        function, owner = value.__func__, weakly(value.__self__)
        return lambda now: type(now) is types.MethodType and now.__func__ is function and now.__self__ is owner()
    return IsReferent(weakly(value))


@dataclasses.dataclass(frozen=True, eq=False)
class IsReferent:
    """The condition that something is an object, which is not kept alive."""

    reference: Callable[[], Any]

    def __call__(self, now: Any) -> bool:
        return now is self.reference()


def lives_anyway(value: Any) -> bool:
    """Tell whether to hold a value keeps nothing alive of the user's: code, a module, what Python or torch define in one."""
    if isinstance(value, (types.CodeType, types.ModuleType)):
        return True
    if isinstance(value, types.BuiltinFunctionType) and not isinstance(value.__self__, (types.ModuleType, type(None))):
        return False
    if not isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
        return False
    module = sys.modules.get(value.__module__ or "")
    if module is None or module.__name__.partition(".")[0] not in (*sys.stdlib_module_names, "torch"):
        return False
    return module.__name__ != "__main__" and getattr(module, value.__name__, None) is value


def _is_same_factory(value: Any) -> _Check:
    """Return the same for a factory, where a function that is made anew at each call is the one of its code."""
    if not isinstance(value, types.FunctionType) or value.__closure__ or value.__defaults__ or value.__kwdefaults__:
        return _is_same(value)
    code = value.__code__
    return lambda now: isinstance(now, types.FunctionType) and now.__code__ is code and not (now.__defaults__ or now.__kwdefaults__)


def _typed(container: Any) -> Any:
    """Contents that differ where a value or its type does."""
    if isinstance(container, (set, frozenset)):
        return frozenset(map(exact, storage.plain(container)))
    held = storage.plain(container)
    return exact(tuple(held.items() if isinstance(container, dict) else held))


def _copy(container: Any) -> Any:
    """Return the contents as they are, in a container of Python's own; ``None`` for a set, whose members have no place."""
    if isinstance(container, dict):
        return {key: dict.__getitem__(container, key) for key in container}
    return None if isinstance(container, (set, frozenset)) else list(container)
