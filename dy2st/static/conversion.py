"""A function becomes a converted function: parse, fence, phases, compile.

The result is cached by code object: closures made from one definition share it, and each is bound to its own cells.
"""

from __future__ import annotations

import functools
import inspect
import sys
import threading
import types
import weakref
from dataclasses import dataclass, field
from typing import Any

import dy2st.constructs  # noqa: F401  # registers every construct
from dy2st import logs, names
from dy2st.analysis.blocks import plan_blocks
from dy2st.analysis.fence import check_fence, check_no_yield
from dy2st.analysis.scopes import NESTED_SCOPES, names_in, parameters
from dy2st.analysis.yielding import plain_statements
from dy2st.code_names import global_names, written_free
from dy2st.collecting import COLLECTING
from dy2st.constructs.context import Context
from dy2st.constructs.labels import label_blocks
from dy2st.constructs.private_names import mangle
from dy2st.constructs.pushing import gives_items, push
from dy2st.constructs.registry import LAST_READABLE, Phase
from dy2st.constructs.undefined import lost_names
from dy2st.constructs.walk import insert_at_start, run_phase
from dy2st.errors import ConversionError, SourceNotFoundError
from dy2st.names import Namer
from dy2st.source.compile import compile_function
from dy2st.source.locate import compiled_from, text_of
from dy2st.source.nodes import walk
from dy2st.source.parse import Parsed, identifiers, parse_function
from dy2st.source.unparse import unparse, user_lines

_WRAPPER_ATTRIBUTES = ("__name__", "__qualname__", "__module__", "__doc__", "__kwdefaults__")


@dataclass(frozen=True)
class ConvertedFunction:
    """The outcome for one code object; `bind` makes it callable with the state of one function."""

    code: types.CodeType
    original: weakref.ref[types.CodeType]
    namespace_name: str
    free_names: tuple[str, ...]
    """What it takes from enclosing functions, the hidden namespace excepted."""
    global_names: tuple[str, ...]
    """The globals and builtins that it reads or writes itself, not in nested functions of the user's."""
    written_globals: tuple[str, ...]
    written_free: tuple[str, ...]
    """The variables of enclosing functions that it assigns or deletes, or a function inside it does."""
    _giving: list[ConvertedFunction | None] = field(default_factory=list, compare=False)

    @functools.cached_property
    def source(self) -> str:
        """The function with its control flow rewritten, for people to read."""
        return self.printed(LAST_READABLE)

    @functools.cached_property
    def full_source(self) -> str:
        """The same with every call and access rewritten: what is compiled."""
        return self.printed(Phase.ACCESS)

    @property
    def user_lines(self) -> list[int | None]:
        """For each line of :attr:`source`, the user's line that it comes from."""
        original = self.original()
        return [] if original is None else user_lines(_rewritten(original, None, LAST_READABLE).root, self.source)

    def printed(self, last: Phase) -> str:
        """Return the function after a phase."""
        original = self.original()
        if original is None:
            raise ReferenceError("the function that this code was made from is gone")
        return unparse(_rewritten(original, None, last).root)

    def giving(self, function: types.FunctionType) -> ConvertedFunction | None:
        """Return the form of a generator function that gives its items to a loop; see :mod:`~dy2st.constructs.pushing`.

        ``None`` where a ``yield`` stands in something else than branches and loops.
        """
        with _lock:
            if not self._giving:
                self._giving.append(_convert(function, gives=True))
            return self._giving[0]

    def bind(self, function: types.FunctionType, operators: object) -> types.FunctionType:
        """Return a function with the globals, cells, defaults and names of `function`, that runs the converted code."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        cells[self.namespace_name] = types.CellType(operators)
        closure = tuple(cells[name] for name in self.code.co_freevars)
        bound = types.FunctionType(self.code, function.__globals__, function.__name__, function.__defaults__, closure)
        for attribute in _WRAPPER_ATTRIBUTES:
            setattr(bound, attribute, getattr(function, attribute))
        bound.__annotations__ = function.__annotations__
        bound.__dict__.update(function.__dict__)
        return bound


_cache: dict[int, ConvertedFunction] = {}
_lock = threading.RLock()


def convert(function: types.FunctionType) -> ConvertedFunction:
    """Return the converted form of a Python function; raises ConversionError when there is none."""
    code = function.__code__
    with _lock:
        result = _cache.get(id(code))  # by identity: code objects of different files may compare equal
        if result is None or result.original() is not code:
            with COLLECTING.rarely():
                result = _cache[id(code)] = _convert(function)
            logs.transform.info("converted %s (%s:%d)", function.__qualname__, code.co_filename, code.co_firstlineno)
        return result


def convert_callee(function: types.FunctionType) -> ConvertedFunction | None:
    """Return the converted form of a function that converted code calls; ``None`` when it is called as it is.

    Functions without source and coroutines are called as they are: tensor operations inside are recorded, and asking a tensor for
    its truth value there is an error that names them. One whose file has changed since it was imported has a source that nobody
    can read any more: what it does there would be lost.
    """
    if function.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    try:
        converted = convert(function)
    except SourceNotFoundError as error:
        if error.edited:
            raise
        logs.transform.info("%s is called as it is: %s", function.__qualname__, error.msg)
        return None
    if (level := logs.code_level()) is not None:
        log_code(function, level)
    return converted


def convert_root(function: types.FunctionType) -> ConvertedFunction:
    """Convert the decorated function itself, where every reason not to is an error.

    Raises:
        ConversionError: it has no source, or is written with something that has no static meaning.
    """
    _refuse_generator(function)
    return convert(function)


def check_root(function: types.FunctionType) -> None:
    """Check that a function can be captured: converted, or called as it is where a decorator has written it around one that can be.

    Raises:
        ConversionError: it cannot.
    """
    try:
        convert_root(function)
    except SourceNotFoundError:
        wrapped = getattr(function, "__wrapped__", None)
        if not isinstance(wrapped, types.FunctionType) or wrapped is function:
            raise
        check_root(wrapped)


def conversion_error(function: types.FunctionType) -> ConversionError | None:
    """Return why a function cannot be captured, if so."""
    try:
        check_root(function)
    except ConversionError as error:
        return error
    return None


def _refuse_generator(function: types.FunctionType) -> None:
    """Raise UnsupportedSyntaxError at the first `yield` of a function."""
    if function.__code__.co_flags & inspect.CO_GENERATOR:
        check_no_yield(parse_function(function.__code__, function.__globals__).tree, function.__code__.co_filename)


def log_code(function: types.FunctionType, level: int) -> None:
    """Show the code of a function after a phase, counted from 1."""
    last = [*Phase][: [*Phase].index(LAST_READABLE) + 1][:level][-1]
    text = convert(function).printed(last)
    code = function.__code__
    logs.code.info("%s (%s:%d) after %s:\n%s", function.__qualname__, code.co_filename, code.co_firstlineno, last.name, text)


def _convert(function: types.FunctionType, gives: bool = False) -> Any:
    code = function.__code__
    context = _rewritten(code, function.__globals__, Phase.ACCESS, gives)
    if context is None:
        return None
    free = (context.operators, *code.co_freevars)
    compiled = compile_function(context.root, code, function.__qualname__, free, frozenset(context.generated))
    compiled_from(compiled, text_of(code, function.__globals__))
    return ConvertedFunction(
        code=compiled,
        original=weakref.ref(code, functools.partial(_forget, _cache, id(code))),
        namespace_name=context.operators,
        free_names=tuple(name for name in compiled.co_freevars if name != context.operators),
        global_names=tuple(dict.fromkeys(global_names(compiled))),
        written_globals=tuple(name for name in context.declared_globals if name in context.assigned),
        written_free=tuple(dict.fromkeys(written_free(code))),
    )


def _forget(cache: dict[int, ConvertedFunction], key: int, _: object) -> None:
    """Drop a code object that is gone; it may run while the interpreter shuts down, so it uses no globals."""
    cache.pop(key, None)


def _rewritten(code: types.CodeType, module_globals: dict[str, Any] | None, last: Phase, gives: bool = False) -> Any:
    """Return the function after a phase; ``None`` where it is a generator function that cannot give its items to a loop."""
    parsed = parse_function(code, module_globals)
    check_fence(parsed.tree, code.co_filename)
    if parsed.class_name is not None:
        mangle(parsed.tree, parsed.class_name)
    context = _context(parsed, code, names.GIVEN if gives else "")  # the code around it has names of its own
    if gives:
        if not gives_items(context.root.body):
            return None
        push(context)
        context.yields = False
    for phase in Phase:
        if phase is Phase.RETURNS:
            context.plain = plain_statements(context.root)
        if phase is Phase.BLOCKS:
            context.plan = plan_blocks(context.root, lost_names(context), context.plain)
            context.labels = label_blocks(context)
        run_phase(context, phase)
        if phase is last:
            break
    if last is Phase.ACCESS and context.root.args.kwarg is not None:
        own = context.statements("_dy2st.own(given)", context.root, given=context.root.args.kwarg.id)
        insert_at_start(context.root, own)  # each call makes a dict of its own
    return context


def _context(parsed: Parsed, code: types.CodeType, prefix: str = "") -> Context:
    tree = parsed.tree
    use = names_in(tree.body)
    declared = {*use.global_names, *use.nonlocal_names}
    local_names = tuple(name for name in use.writes if name not in declared)
    own = {*parameters(tree), *local_names, *code.co_freevars}
    namer = Namer({*identifiers(tree), *code.co_freevars}, prefix)
    nested = [node for node in walk(tree) if isinstance(node, NESTED_SCOPES) and node is not tree]
    return Context(
        root=tree,
        namer=namer,
        class_name=parsed.class_name,
        yields=bool(code.co_flags & inspect.CO_GENERATOR),
        opaque={id(node): node for node in nested},
        local_names=tuple(name for name in local_names if name not in parameters(tree)),
        free_names=frozenset(code.co_freevars) - {"__class__"},
        declared_globals=use.global_names,
        declared_nonlocals=use.nonlocal_names,
        assigned=frozenset(use.writes),
        shared_globals=parsed.shared.union(use.global_names) - own,
        variables=_variables(code, own),
        operators=namer.fresh(names.OPERATORS),
    )


def _variables(code: types.CodeType, known: set[str]) -> tuple[str, ...]:
    """Return the names in ``locals()`` in their order; Python may know more, those of comprehensions."""
    own = code.co_varnames if sys.version_info >= (3, 11) else [name for name in code.co_varnames if name not in code.co_cellvars]
    return tuple(name for name in dict.fromkeys((*own, *code.co_cellvars, *code.co_freevars)) if name in known)
