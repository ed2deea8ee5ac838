"""What values say of themselves, as parts of a text: ``str(value)``, ``repr(value)``, ``format(value, "...")``, ``"%5s" % value``.

[n, D(n)]               '[', n, ', D(n=', n, ')]'
a class of the user's   what its ``__repr__`` gives, which is converted
deque([n])              asked as it is; what is known only at run time answers with a mark (marks.py)
a tagged union                the text of each option, made in the branch of each
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import reprlib
import threading
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import fx

from dy2st import errors
from dy2st.capture.environment import written_out
from dy2st.capture.environment.users_code import as_written, has_own
from dy2st.capture.session.session import Session
from dy2st.capture.texts.marks import Marks, answering
from dy2st.capture.types import tensor_traits, value_types
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_arrays import AbstractArray
from dy2st.capture.values.abstract_objects import AbstractDeque, AbstractSet
from dy2st.capture.values.kinds import is_symbolic
from dy2st.capture.values.symbolic import RuntimeList, TaggedUnion, Undefined, may_be_undefined
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st_runtime.ir.structure import ObjectOf
from dy2st_runtime.primitives import control, scalars, text

MAKES_TEXTS_FOR_USER = True
CALLS_METHODS_FOR_USER = True

_OF_DATACLASSES = frozenset({"<string>", dataclasses.__file__, reprlib.__file__})
"""Where the ``__repr__`` is written that a dataclass gets."""
_LEAVES = (Text, RuntimeString, RuntimeList, AbstractArray, fx.Node)
_local = threading.local()


def is_constant(value: Any) -> bool:
    """Tell whether a value is of a class whose text no code of the user's makes, and the same at each call."""
    return isinstance(value, (str, int, float, bytes, type(None))) and type(value).__module__ == "builtins"


def flat(session: Session, parts: Iterable[Any]) -> tuple[Any, ...]:
    """Parts of a text with nothing but strings and what only the program knows in them, as arguments of a node."""
    results: list[Any] = []
    for part in parts:
        for piece in [part] if isinstance(part, str) else _words(session, *part):
            if isinstance(piece, str) and results and isinstance(results[-1], str):
                results[-1] += piece
            elif piece != "":
                results.append(piece)
    return tuple(results)


def node_value(session: Session, given: Any) -> Any:
    """Return a value as an argument of a node: a text becomes the string that an operation makes.

    Raises:
        CaptureError: it is an object that the function makes, with values known only at run time in it.
    """
    if isinstance(given, Text):
        return session.builder.call_raw(control.format_, (session.builder.argument(flat(session, given.parts)),))
    if type(given) in (tuple, list) and session.lists.of(given) is None:
        return type(given)(node_value(session, item) for item in given)
    if isinstance(given, TaggedUnion) and all(is_constant(o) or isinstance(o, RuntimeString) for o in given.options.values()):
        options = tuple(map(session.builder.argument, given.options.values()))
        return session.builder.call_raw(control.item_choose, (session.builder.argument(given.tag), tuple(given.options), options))
    if isinstance(given, (TaggedUnion, AbstractArray)):
        raise errors.CaptureError(
            "an exception, a warning or a log entry is given an array of NumPy, or one of several values where a tensor decides",
            session.here(),
            fix="give it in the branch where it is known, or give str(array) or float(number)",
        )
    if is_object_of_runtime(session, given):
        raise errors.CaptureError(
            f"an exception, a warning or a log entry is given an object, a {type(given).__name__} with values that are known only "
            "at run time",
            session.here(),
            fix="give it the text of the object, str(value), or what is in it",
        )
    return session.lists.of(given) or sized(session, given)


def is_object_of_runtime(session: Session, value: Any) -> bool:
    """Tell whether a value is an object that the function makes, with values known only at run time in it, or holds one."""
    if isinstance(value, (list, tuple, dict)) and session.lists.of(value) is None:
        return any(is_object_of_runtime(session, item) for item in _in(value))
    plain = is_constant(value) or isinstance(value, (list, TaggedUnion, *_LEAVES)) or is_symbolic(value)
    return not plain and has_runtime_parts(session, value)


def has_runtime_parts(session: Session, value: Any) -> bool:
    """Tell whether a value is known only at run time, or something in it."""
    waiting, seen = [value], set[int]()
    while waiting:
        part = waiting.pop()
        if isinstance(part, (TaggedUnion, *_LEAVES)) or is_symbolic(part) or session.lists.of(part) is not None:
            return True
        if id(part) not in seen and session.tracker.source_of(part) is None:
            seen.add(id(part))
            waiting += _in(part)
    return False


def _in(value: Any) -> Iterable[Any]:
    if isinstance(value, (list, tuple)):
        return storage.plain(value)  # type: ignore[no-any-return]
    if isinstance(value, dict):
        return dict.values(value)
    if isinstance(value, BaseException):
        return (*value.args, *vars(value).values())
    if isinstance(value, AbstractDeque):
        return value.items
    is_object = not isinstance(value, (type, types.ModuleType, types.FunctionType, torch.nn.Module))
    return (storage.table_of(value) or {}).values() if is_object else ()


def sized(session: Session, given: Any) -> Any:
    """Return a ``torch.Size`` as the operation that makes it, which in a node would be a tuple; everything else as it is."""
    if isinstance(given, torch.Size):
        return session.builder.call_raw(scalars.size_of, tuple(session.builder.argument(size) for size in given))
    return given


def _list_of_objects(session: Session, value: Any) -> list[Any] | None:
    """Return a list of the program with objects in it that say themselves how they are shown: what is in them now counts."""
    known = value if isinstance(value, RuntimeList) else session.lists.of(value)
    return known.items if known is not None and _says_itself(known.element) else None


def _says_itself(kind: value_types.Type | None) -> bool:
    match kind:
        case value_types.ListType(element):
            return _says_itself(element)
        case value_types.TaggedUnionType(options):
            return any(map(_says_itself, options))
        case value_types.ContainerType(structure, items):
            made = structure.factory if isinstance(structure, ObjectOf) else None
            return getattr(made, "__repr__", object.__repr__) is not object.__repr__ or any(map(_says_itself, items))
        case value_types.SameType(constant):
            if isinstance(constant, tuple):
                return any(_says_itself(value_types.SameType(item)) for item in tuple.__iter__(constant))
            return isinstance(constant, (list, dict, set, collections.deque)) or has_own(constant, "__repr__")
    return False


def _words(session: Session, value: Any, conversion: str | None, specification: Any) -> Sequence[Any]:
    """Return the parts of the text of a value."""
    if conversion == "%":
        return _printf(session, value, specification)
    if isinstance(value, TaggedUnion):
        return _chosen(session, value, conversion, specification)
    if isinstance(value, AbstractArray):
        way = f"{'scalar' if value.is_scalar else 'array'} {conversion or 'f'}"
        return [(value.as_tensor(), way, _specification(session, specification))]
    kind = tensor_traits.users_class(value)
    if kind is not None:
        return _of_tensor(session, value, kind, conversion, specification)
    listed = _list_of_objects(session, value)
    if listed is not None:
        shown = session.call(written_out.list_text, listed, ascii if conversion == "a" else repr)
        return _words(session, shown, "s", specification)
    if isinstance(value, Text) and conversion in (None, "s") and _is_empty(specification):
        return flat(session, value.parts)
    if _is_leaf(session, value) or (is_constant(value) and not isinstance(specification, str)):
        return [(node_value(session, value), conversion, _specification(session, specification))]
    if conversion is None:
        return _formatted(session, value, specification)
    shown = _ascii(_shown(session, value, "r")) if conversion == "a" else _shown(session, value, conversion)
    return shown if _is_empty(specification) else [(_string(session, shown), None, _specification(session, specification))]


def _is_leaf(session: Session, value: Any) -> bool:
    return isinstance(value, _LEAVES) or is_symbolic(value) or session.lists.of(value) is not None


def _of_tensor(session: Session, value: Any, kind: type, conversion: str | None, specification: Any) -> Sequence[Any]:
    """Return the parts of the text of a tensor of a class that the user has written, and that says how it is shown."""
    names = ("__repr__",) if conversion in ("r", "a") else ("__str__", "__repr__")
    method = next((storage.of_class(kind, name) for name in names if has_own(value, name)), None)
    if method is None or conversion == "a" or not _is_empty(specification):
        raise errors.CaptureError(
            f"a text is made of a tensor of the class {kind.__qualname__}",
            session.here(),
            fix="make it of value.as_subclass(torch.Tensor), or give the class a __repr__",
        )
    return _words(session, session.call(types.MethodType(as_written(method), value)), "s", "")


def _is_empty(specification: Any) -> bool:
    return isinstance(specification, str) and not specification


def _specification(session: Session, given: Any) -> Any:
    if isinstance(given, str):
        return given
    return flat(session, given.parts if isinstance(given, Text) else given)


def _chosen(session: Session, union: TaggedUnion, conversion: str | None, specification: Any) -> Sequence[Any]:
    result = session.over(union, lambda option: _string(session, [(option, conversion, specification)]))
    return _words(session, result, None, "")


def _string(session: Session, parts: Sequence[Any]) -> RuntimeString:
    """Return the string of the program that some parts are."""
    runtime_string = RuntimeString()
    session.builder.call(control.format_, (flat(session, parts),), {}, runtime_string)
    return runtime_string


def _printf(session: Session, value: Any, specification: str) -> Sequence[Any]:
    """Return a field of a ``%`` format."""
    width, letter = specification[:-1], specification[-1]
    if isinstance(value, TaggedUnion):
        return _chosen(session, value, "%", specification)
    if isinstance(value, AbstractArray):
        if letter not in "rsa":
            return [(value.number(), "%", specification)]
        words = _words(session, value, letter, "")
        return words if width == "%" else [(_string(session, words), "%", f"{width}s")]
    if _is_leaf(session, value) and _list_of_objects(session, value) is None:
        shown: Sequence[Any] = flat(session, value.parts) if isinstance(value, Text) and specification == "%s" else ()
        return shown or [(node_value(session, value), "%", specification)]
    if letter not in "rsa" or is_constant(value):
        return [specification % (value,)]
    shown = _words(session, value, letter, "")
    return shown if width == "%" else [(_string(session, shown), "%", f"{width}s")]


def _formatted(session: Session, value: Any, specification: Any) -> Sequence[Any]:
    """Return ``format(value, specification)`` of what is no leaf."""
    if is_constant(value):
        return [format(value, specification)]
    kind: Any = type(value)
    if kind.__format__ in (object.__format__, BaseException.__format__) and _is_empty(specification):
        return _shown(session, value, "s")
    if isinstance(specification, str):
        return _asked(session, lambda: format(value, specification))
    return _asked(session, lambda: kind.__format__(value, specification))


def _shown(session: Session, value: Any, conversion: str) -> Sequence[Any]:
    """Return ``str(value)`` or ``repr(value)`` of what is no leaf."""
    if is_constant(value):
        return [text.join_parts([(value, conversion, "")])]
    if conversion == "s" and not isinstance(value, (AbstractDeque, AbstractSet)):
        own: Any = type(value).__str__
        if own in (BaseException.__str__, KeyError.__str__):
            return _of_error(session, value, own is KeyError.__str__)
        if own is not object.__str__:
            return _asked(session, lambda: str(value))
    with _inside(value) as again:
        return [again] if again is not None else _represented(session, value)


def _of_error(session: Session, error: BaseException, is_key: bool) -> Sequence[Any]:
    if len(error.args) == 1:
        return _words(session, error.args[0], "r" if is_key else "s", "")
    return _words(session, error.args, "s", "") if error.args else [""]


@contextlib.contextmanager
def _inside(value: Any) -> Iterator[str | None]:
    """Open a scope in which the text of a value is made; if that is so already, what Python says in its place."""
    around: list[Any] = _local.__dict__.setdefault("around", [])
    again = _AGAIN.get(type(value).__repr__, "...") if any(other is value for other in around) else None
    around.append(value)
    try:
        yield again
    finally:
        around.pop()


_AGAIN: dict[Any, str] = {list.__repr__: "[...]", tuple.__repr__: "(...)", dict.__repr__: "{...}"}


def _is_table_of_ways(session: Session, table: Any) -> bool:
    return any(map(may_be_undefined, dict.values(table))) or session.blocks.key_orders.asks(table) is not None


def _represented(session: Session, value: Any) -> Sequence[Any]:
    """Return ``repr(value)``: piece by piece where it is known how that is made, as an item may be known only at run time."""
    kind = type(value)
    if isinstance(value, Undefined):
        value.fail()
    table = value.table if isinstance(value, AbstractSet) else value
    if isinstance(table, dict) and not has_own(table, "__repr__") and _is_table_of_ways(session, table):
        return _words(session, session.call(repr, value), "s", "")
    if isinstance(value, AbstractDeque):
        return flat(session, ["deque(", (value.items, "r", ""), ")" if value.maxlen is None else f", maxlen={value.maxlen})"])
    pieces = _parts_of(session, value, kind)
    session.tracker.step_at_capture(value)
    if id(value) in session.iterators.counters:
        raise errors.CaptureError(
            "the text of a counter is made from which the program takes numbers",
            session.here(),
            fix="keep the number in an attribute: self.next_id += 1",
        )
    return _asked(session, lambda: repr(value)) if pieces is None else flat(session, pieces)


def _parts_of(session: Session, value: Any, kind: type) -> Sequence[Any] | None:
    method: Any = kind.__repr__
    if method is list.__repr__:
        return ["[", *_separated(list.__iter__(value)), "]"]
    if kind is torch.Size:
        return ["torch.Size([", *_separated(value), "])"]
    if method is tuple.__repr__:
        return ["(", *_separated(value), ",)" if len(value) == 1 else ")"]
    if method is dict.__repr__:
        return ["{", *_pairs(dict.items(value)), "}"]
    if method is BaseException.__repr__:
        return [f"{kind.__name__}(", *_separated(value.args), ")"]
    if method is types.SimpleNamespace.__repr__:
        name = "namespace" if kind is types.SimpleNamespace else kind.__name__
        return [f"{name}(", *_namespace(session, value), ")"]
    file = getattr(getattr(as_written(method), "__code__", None), "co_filename", None)
    if file in _OF_DATACLASSES and dataclasses.is_dataclass(kind):
        shown = [field.name for field in dataclasses.fields(kind) if field.repr]
        return [f"{kind.__qualname__}(", *_named(session, value, shown), ")"]
    if file == collections.__file__ and isinstance(value, tuple):
        return [f"{kind.__name__}(", *_named(session, value, kind._fields), ")"]  # type: ignore[attr-defined]
    return None


def _separated(items: Iterable[Any]) -> list[Any]:
    return [part for item in items for part in (", ", (item, "r", ""))][1:]


def _pairs(items: Iterable[tuple[Any, Any]]) -> list[Any]:
    return [part for key, item in items for part in (", ", (key, "r", ""), ": ", (item, "r", ""))][1:]


def _named(session: Session, owner: Any, names: Iterable[str]) -> list[Any]:
    return [part for name in names for part in (", ", f"{name}=", (session.call(getattr, owner, name), "r", ""))][1:]


def _namespace(session: Session, value: types.SimpleNamespace) -> list[Any]:
    """Return the attributes of a namespace.

    Raises:
        CaptureError: one of them is there on some ways only.
    """
    there = {name: item for name, item in vars(value).items() if not isinstance(item, Undefined)}
    unsure = next((name for name, item in there.items() if may_be_undefined(item)), None)
    if unsure is not None:
        raise errors.CaptureError(
            f"a text is made of a namespace whose attribute '{unsure}' is there on some ways only",
            session.here(),
            fix="give the attribute a value before",
        )
    return _named(session, value, there)


def _asked(session: Session, ask: Callable[[], str]) -> Sequence[Any]:
    """Return what a value of another class says, with marks for what is known only at run time."""
    return flat(session, asked(ask))


def asked(ask: Callable[[], str]) -> Sequence[Any]:
    """Return the parts of the text that code makes which is not converted, and puts texts next to each other."""
    marks = Marks()
    with answering(marks):
        result = ask()
    return marks.split(result)


def of_method(session: Session, method: Callable[..., str], args: Sequence[Any]) -> Any:
    """Return ``super().__repr__()``, ``list.__repr__(value)``: what such a method gives that is not converted."""
    pieces = flat(session, asked(lambda: method(*args)))
    return "".join(pieces) if all(isinstance(piece, str) for piece in pieces) else Text(pieces)


def _ascii(parts: Sequence[Any]) -> list[Any]:
    """Return what ``ascii()`` makes of what ``repr()`` has made.

    Raises:
        CaptureError: a string known only at run time is in it.
    """
    if any(isinstance(part, tuple) and isinstance(part[0], (RuntimeString, fx.Node)) and part[1] != "r" for part in parts):
        raise errors.CaptureError("ascii() of a text with values known only at run time", fix="use repr()")
    return [
        part.encode("ascii", "backslashreplace").decode() if isinstance(part, str) else (part[0], "a", part[2]) for part in parts
    ]
