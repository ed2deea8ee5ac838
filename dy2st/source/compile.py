"""A rewritten tree as a code object under the user's own file name and line numbers.

    def _dy2st_factory(_dy2st, x, y):       # the hidden cell and the free names: they make the closure
        def f(a): ...                       # its code object is what is wanted; the factory never runs
        return f

Functions that the phases made carry the name of the user's function, so tracebacks read as if they were not there.
"""

from __future__ import annotations

import ast
import sys
import types
from collections.abc import Iterable
from typing import Any

import gast

from dy2st import names
from dy2st.source.nodes import walk

_FUTURE_FLAGS = 0x1FE0000
"""The bits of co_flags that stand for `from __future__ import ...`."""
_PREFIX = f"{names.FACTORY}.<locals>."


def compile_function(
    tree: gast.FunctionDef, original: types.CodeType, qualname: str, free: Iterable[str], generated: frozenset[str]
) -> types.CodeType:
    """Compile `tree`, in which `free` are names of enclosing functions and `generated` of functions made by phases."""
    lambdas = _Lambdas(tree)
    function = _without_header(gast.gast_to_ast(tree))
    arguments = ast.arguments(posonlyargs=[], args=[ast.arg(arg=name) for name in free], kwonlyargs=[], kw_defaults=[], defaults=[])
    factory = ast.FunctionDef(name=names.FACTORY, args=arguments, body=[function], decorator_list=[], returns=None)
    factory.__dict__.setdefault("type_params", [])  # a field since Python 3.12
    module = ast.Module(body=[ast.copy_location(factory, function)], type_ignores=[])
    flags = original.co_flags & _FUTURE_FLAGS
    compiled = compile(ast.fix_missing_locations(module), original.co_filename, "exec", flags, dont_inherit=True)
    inner = _child(_child(compiled, names.FACTORY), names.FUNCTION)
    return _Renaming(original, qualname, generated | {names.FUNCTION}, lambdas).renamed(inner)


def _without_header(function: ast.FunctionDef) -> ast.FunctionDef:
    """Drop what is evaluated when a function is defined: it was evaluated when the user's was."""
    function.name = names.FUNCTION  # under its own name it would hide the global that a recursive call reads
    arguments = function.args
    arguments.defaults = []
    arguments.kw_defaults = [None for _ in arguments.kwonlyargs]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    for argument in every:
        if argument is not None:
            argument.annotation = None
    function.returns = None
    function.decorator_list = []
    if hasattr(function, "type_params"):
        function.type_params = []
    return function


def _child(code: types.CodeType, name: str) -> types.CodeType:
    return next(const for const in code.co_consts if isinstance(const, types.CodeType) and const.co_name == name)


class _Lambdas:
    """Where the user's lambdas are, to tell them from thunks."""

    def __init__(self, tree: gast.AST) -> None:
        self._bodies = {
            (node.body.lineno, node.body.col_offset, node.body.end_lineno, node.body.end_col_offset)
            for node in walk(tree)
            if isinstance(node, gast.Lambda) and node.lineno is not None and _is_written(node)
        }

    def holds(self, code: types.CodeType) -> bool:
        """Tell whether the code of a lambda was written by the user; Python 3.10 keeps no columns, then all are."""
        if not hasattr(code, "co_positions"):
            return True
        spans = [span for span in code.co_positions() if None not in span and span[2] != span[3]]
        return any(_inside(span, body) for body in self._bodies for span in spans[-1:])


def _is_written(node: gast.Lambda) -> bool:
    """Return a thunk takes the location of its operand, so only a written lambda starts before its body."""
    return (node.lineno, node.col_offset) != (node.body.lineno, node.body.col_offset)


def _inside(span: tuple[int | None, ...], body: tuple[int, int, int, int]) -> bool:
    line, end_line, column, end_column = (value or 0 for value in span)
    return (body[0], body[1]) <= (line, column) and (end_line, end_column) <= (body[2], body[3])


class _Renaming:
    def __init__(self, original: types.CodeType, qualname: str, generated: frozenset[str], lambdas: _Lambdas) -> None:
        self._original = original
        self._generated = generated
        self._lambdas = lambdas
        self._qualified = getattr(original, "co_qualname", qualname)  # Python 3.10 knows it of functions only

    def renamed(self, code: types.CodeType) -> types.CodeType:
        """Return the code object and all inside it, under the user's names."""
        constants = tuple(self._constant(const) for const in code.co_consts)
        changes: dict[str, Any] = {"co_consts": constants, "co_name": self._new_name(code)}
        if sys.version_info >= (3, 11):
            changes["co_qualname"] = self._qualname(code.co_qualname)
        return code.replace(**changes)

    def _constant(self, value: object) -> object:
        if isinstance(value, types.CodeType):
            return self.renamed(value)
        if isinstance(value, str) and value.startswith(_PREFIX):  # Python 3.10 keeps qualified names there
            return self._qualname(value)
        return value

    def _new_name(self, code: types.CodeType) -> str:
        is_thunk = code.co_name == "<lambda>" and not self._lambdas.holds(code)
        return self._original.co_name if is_thunk or code.co_name in self._generated else code.co_name

    def _qualname(self, qualname: str) -> str:
        """Return generated functions are no scopes of the user's, so they leave qualified names."""
        _, *scopes = qualname.removeprefix(_PREFIX).split(".<locals>.")
        kept = [scope for scope in scopes if scope not in self._generated]
        return ".<locals>.".join([self._qualified, *kept])
