"""Values that only exist during a capture, and the question whether a value is known only at run time."""

from __future__ import annotations

import collections
import operator
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any, NoReturn, Protocol

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dy2st.capture.values.abstract_objects import AbstractTuple
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st.errors import CaptureError, DataDependentError
from dy2st_runtime.primitives import scalars

SYMBOLIC_NUMBERS = (torch.SymInt, torch.SymFloat, torch.SymBool)
MAY_BE_ABSENT = "dy2st_may_be_absent"
"""Marks an abstract tensor for which the program has another value, or none, on some ways: its sizes are not asked there."""


class Undefined:
    """What a name holds before it is bound, or an item or attribute that is not there.

    Attributes:
        name: what it is, in words.
        kind: what Python raises when it is read.
        arguments: of that exception.
    """

    __slots__ = ("arguments", "kind", "name")

    def __init__(self, name: str, kind: type[Exception] = UnboundLocalError, arguments: tuple[Any, ...] | None = None) -> None:
        self.name, self.kind = name, kind
        self.arguments = (unbound_message(name),) if arguments is None else arguments

    def fail(self) -> NoReturn:
        """Raise what Python raises.

        Raises:
            Exception: always, with Python's own words.
        """
        raise self.kind(*self.arguments)

    def error(self, **about: Any) -> Exception:
        """Return what Python raises; ``about`` is what an AttributeError tells of the attribute: ``name`` and ``obj``."""
        result = self.kind(*self.arguments)
        for name, value in about.items():
            setattr(result, name, value)
        return result

    def __repr__(self) -> str:
        return f"<{self.name} is not bound>"


def unbound_message(name: str) -> str:
    """Return Python's words for reading an unbound local."""
    if sys.version_info < (3, 11):
        return f"local variable '{name}' referenced before assignment"
    return f"cannot access local variable '{name}' where it is not associated with a value"


def unbound_free_message(name: str) -> str:
    """Return Python's words for reading an unbound variable of an enclosing function."""
    if sys.version_info < (3, 11):
        return f"free variable '{name}' referenced before assignment in enclosing scope"
    return f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"


PLAIN_VALUES = (str, int, float, type(None), Undefined, Text, *SYMBOLIC_NUMBERS)
"""The classes of values of which a copy is the same, and that are compared without the user's code; or nothing."""


class Choosing(Protocol):
    """What a :class:`TaggedUnion` needs of the session."""

    def number(self, target: Callable[..., Any], args: Sequence[Any], kind: str) -> Any: ...

    def over(self, union: TaggedUnion, function: Callable[[Any], Any]) -> Any: ...

    def one_string(self, tag: Any, options: dict[int, Any]) -> RuntimeString: ...

    def new_union(self, tag: Any, options: dict[int, Any]) -> TaggedUnion: ...


class TaggedUnion:
    """A value that is one of several which no single value stands for: ``None`` or a tensor, one string or another.

    The program knows which by a number, the tag. An operation on a tagged union becomes an ``if`` over the tag with the operation
    on each option in its branch.

    Attributes:
        tag: a symbolic int.
        options: the value for each tag.
    """

    __slots__ = ("__weakref__", "options", "session", "tag")

    def __init__(self, session: Choosing, tag: Any, options: dict[int, Any]) -> None:
        self.session, self.tag, self.options = session, tag, options

    def retagged(self, mapping: dict[int, int]) -> Any:
        """Return the tag after renumbering the options."""
        if all(old == new for old, new in mapping.items()):
            return self.tag
        *others, (_, result) = mapping.items()
        for old, new in others:
            result = self.session.number(scalars.where, (self.tag == old, new, result), "int")
        return result

    def flat(self) -> Any:
        """Return the same tagged union with the options of those of its options that are tagged unions themselves in their
        place.
        """
        if not any(isinstance(option, TaggedUnion) for option in self.options.values()):
            return self
        tags: list[tuple[int, Any]] = []
        options: list[Any] = []
        for outer, option in self.options.items():
            inner = option.flat() if isinstance(option, TaggedUnion) else None
            start = len(options)
            if inner is None:
                tags.append((outer, start))
                options.append(option)
            else:
                tags.append((outer, inner.retagged({tag: start + place for place, tag in enumerate(inner.options)})))
                options += inner.options.values()
        *others, (_, result) = tags
        for outer, tag in others:
            result = self.session.number(scalars.where, (self.tag == outer, tag, result), "int")
        return TaggedUnion(self.session, result, dict(enumerate(options)))

    def without_unbound(self) -> Any:
        """Return what is left where the name is known to be bound."""
        left = {tag: value for tag, value in self.options.items() if not isinstance(value, Undefined)}
        return next(iter(left.values())) if len(left) == 1 else TaggedUnion(self.session, self.tag, left)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return a function of torch gets a tagged union among its arguments."""
        kwargs = kwargs or {}
        union = next(c for c in tree_leaves((args, kwargs)) if isinstance(c, TaggedUnion))

        def call(option: Any) -> Any:
            given, named = tree_map(lambda leaf: option if leaf is union else leaf, (args, kwargs))
            return func(*given, **named)

        return union.session.over(union, call)

    def __bool__(self) -> bool:
        raise DataDependentError(
            "the truth value of this is known only when the program runs, and is asked in code that was not converted",
            seen=repr(self),
            fix="ask it in an if statement of converted code",
        )

    def __iter__(self) -> Any:
        raise DataDependentError(
            "what this iterates over is known only when the program runs", seen=repr(self), fix="loop in each of the branches"
        )

    def __repr__(self) -> str:
        return f"one of {list(self.options.values())}"


def options_of(value: Any) -> list[Any]:
    """Return what a value may be: the options of a tagged union, or itself."""
    return list(value.options.values()) if isinstance(value, TaggedUnion) else [value]


def _refuse_hash(value: Any) -> NoReturn:
    raise DataDependentError(
        "a value that is known only when the program runs is looked up, or put into a dict or set, by code that was not converted",
        seen=repr(value),
        fix="do it in converted code, or in the branches of an if statement",
    )


def with_option(value: Any, union: TaggedUnion, option: Any) -> Any:
    """Return a value with an option for a tagged union in it; the same object where it is not in there."""
    if value is union:
        return option
    if not isinstance(value, (list, tuple, dict)) or isinstance(value, torch.Size):
        return value
    parts = _parts(value)
    results = [with_option(part, union, option) for part in parts]
    if all(new is old for new, old in zip(results, parts)):
        return value
    if isinstance(value, dict):
        return dict(zip(_base(value).keys(value), results))
    return _with_parts(value, results)


def _base(container: Any) -> Any:
    """Return the class of Python's own whose methods give what a container holds, past those of a class of the user's."""
    return next(kind for kind in (collections.OrderedDict, dict, list, tuple) if isinstance(container, kind))


def _parts(container: Any) -> list[Any]:
    base = _base(container)
    return list(base.values(container) if issubclass(base, dict) else base.__iter__(container))


def _with_parts(container: list[Any] | tuple[Any, ...], parts: list[Any]) -> Any:
    """Return a list or tuple like another one with other items; what its class does when one is made is not done again."""
    if isinstance(container, tuple):
        result: Any = tuple.__new__(type(container), parts)
    else:
        result = list.__new__(type(container))
        list.extend(result, parts)
    if type(container).__dictoffset__:
        object.__getattribute__(result, "__dict__").update(object.__getattribute__(container, "__dict__"))
    return result


def union_in(value: Any) -> TaggedUnion | None:
    """Return the first tagged union among a value and what is in it."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, TaggedUnion):
            return part
        if isinstance(part, (list, tuple, dict)) and id(part) not in seen:
            seen.add(id(part))
            waiting += reversed(_parts(part))
    return None


def _add_operators() -> None:
    """Do ``union + x``, ``x + union``, ``union < x``, ``-union``…"""

    def binary(function: Callable[[Any, Any], Any]) -> Any:
        return lambda self, other: self.session.over(self, lambda option: function(option, other))

    def reflected(function: Callable[[Any, Any], Any]) -> Any:
        return lambda self, other: self.session.over(self, lambda option: function(other, option))

    def unary(function: Callable[[Any], Any]) -> Any:
        return lambda self: self.session.over(self, function)

    for name in ["add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"]:
        function = getattr(operator, f"{name}_" if name in ("and", "or") else name)
        setattr(TaggedUnion, f"__{name}__", binary(function))
        setattr(TaggedUnion, f"__r{name}__", reflected(function))
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        setattr(TaggedUnion, f"__{name}__", binary(getattr(operator, name)))
    for name in ["neg", "pos", "invert", "abs"]:
        setattr(TaggedUnion, f"__{name}__", unary(getattr(operator, name)))
    TaggedUnion.__hash__ = _refuse_hash  # type: ignore[method-assign,assignment]


_add_operators()


def may_be_undefined(value: Any) -> bool:
    """Tell whether a value stands for nothing, on some ways at least."""
    if isinstance(value, TaggedUnion):
        return any(isinstance(option, Undefined) for option in value.options.values())
    return isinstance(value, Undefined)


class Stale:
    """What is found in the Python object of a list that has become a list of the program: nothing that may be used.

    Args:
        runtime: that list of the program.
        message, fix: what to say when it is used.
        needed: what is raised then, where another capture has an answer.
    """

    def __init__(
        self,
        runtime: RuntimeList | None = None,
        message: str = "a list that changes length inside a captured block is used in a way that cannot be captured",
        fix: str = "use append, extend, insert, pop, indexing, len, a for loop, torch.stack or torch.cat",
        needed: BaseException | None = None,
    ) -> None:
        self.runtime, self.message, self.fix, self.needed = runtime, message, fix, needed

    def fail(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse, whatever is asked.

        Raises:
            CaptureError: always, unless another capture has an answer.
        """
        raise self.needed or CaptureError(self.message, fix=self.fix)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        """Note that an operation of torch is no exception."""
        cls().fail()

    __iter__ = __len__ = __bool__ = __call__ = __add__ = __radd__ = __mul__ = __rmul__ = fail
    __sub__ = __rsub__ = __truediv__ = __rtruediv__ = __getitem__ = __lt__ = __gt__ = __le__ = __ge__ = __eq__ = __ne__ = fail
    __hash__ = object.__hash__


class Order:
    """An order of the keys of a dict; ``None`` for one that nobody knows."""

    __slots__ = ("keys",)

    def __init__(self, keys: tuple[Any, ...] | None) -> None:
        self.keys = keys

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Order) or self.keys is None or other.keys is None:
            return isinstance(other, Order) and self.keys is other.keys
        return same_keys(self.keys, other.keys)

    def __hash__(self) -> int:
        return hash(self.keys)

    def without(self, key: Any) -> Order:
        """Return the same without a key."""
        return self if self.keys is None else Order(tuple(other for other in self.keys if other not in {key}))

    def with_at(self, key: Any, last: bool) -> Order:
        """Return the same with a key at an end."""
        others = self.without(key).keys
        if others is None:
            return self
        return Order((*others, key) if last else (key, *others))

    def with_behind(self, key: Any, others: Collection[Any]) -> Order:
        """Return the same with a key behind those others that it is not behind yet."""
        keys = (self.without(key).keys or ()) if self.keys is not None else ()
        last = max((place for place, other in enumerate(keys, 1) if other in others), default=0)
        if self.keys is None or last <= next((place for place, other in enumerate(self.keys) if other in {key}), -1):
            return self
        return Order((*keys[:last], key, *keys[last:]))

    def merged(self, other: Order) -> Order | None:
        """Return one order for both, if they agree about the keys they share."""
        if self.keys is None or other.keys is None:
            return Order(None)
        mine, theirs = (dict.fromkeys(keys) for keys in (self.keys, other.keys))
        if not same_keys([key for key in mine if key in theirs], [key for key in theirs if key in mine]):
            return None
        results: list[Any] = []
        for key in mine:
            while key in theirs:
                first = next(iter(theirs))
                del theirs[first]
                results += [] if first in {key} else [first]
            results.append(key)
        return Order((*results, *theirs))


def same_keys(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Tell whether keys are the same in the same order, as a dict compares them: ``==`` of tensors has no truth value."""
    return len(one) == len(other) and all(mine in {theirs} for mine, theirs in zip(one, other))


class OfEachCall(int):
    """A number that each call has another of."""

    def fail(self, *args: Any) -> NoReturn:
        """Refuse to compute with it."""
        raise NotImplementedError


class RuntimeFunction:
    """A function that an operation of the program makes."""


class RuntimeList:
    """Marks a Python list that has become a list of the program.

    Attributes:
        items: the Python list object that the user's code holds; its contents are out of date.
        element: the type of the elements, or ``None`` while nothing is known to have been put in.
        alone: whether no other handle stands for the same list, so that all that is put in goes through this one.
        places: the lists of which it is an item, or part of one, with that item.
        held: the items that have lists in them, of those that are known.
        is_appended: whether it holds only what the program appends to a list from outside, of which it knows nothing else.
        others_put_in: how many operations had put items into lists that several handles stand for when this one was made; ``None``
            where nobody knows what had been put in by then.
        put_in, taken_out: how many operations have been recorded that put items in, or take some out.
    """

    def __init__(self, items: list[Any], element: Any, alone: bool = False) -> None:
        self.items = items
        self.element = element
        self.alone = alone
        self.places: list[tuple[RuntimeList, Any]] = []
        self.held: list[Any] = []
        self.is_appended = False
        self.others_put_in: int | None = None
        self.put_in = self.taken_out = 0


CAPTURE_VALUES = (*SYMBOLIC_NUMBERS, Undefined, TaggedUnion, Text, RuntimeList, Stale, AbstractTuple)
"""Classes of values that a variable holds during a capture only."""


def is_out_of_date(value: Any) -> bool:
    """Tell whether a value is what an object held that may be another one, which has been changed."""
    return isinstance(value, Stale) and value.runtime is None


def runtime_list(value: Any) -> RuntimeList | None:
    """Return the list of the program that a Python list stands for, if it does."""
    known = value[0].runtime if type(value) is list and value and isinstance(value[0], Stale) else None
    return known if known is not None and known.items is value else None


def unpack_list(value: Any) -> Any:
    """Return the Python list that stands for a list of the program; any other value as it is."""
    return value.items if isinstance(value, RuntimeList) else value
