"""Which names a piece of code reads, binds, and leaves to nested functions.

Only the scope of the function being converted is looked at: comprehension variables, and the insides of nested
functions and classes, count through the names they take from that scope.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import gast

from dy2st.source.nodes import children, fields_of

Nested = gast.FunctionDef | gast.AsyncFunctionDef | gast.Lambda | gast.ClassDef
NESTED_SCOPES = (gast.FunctionDef, gast.AsyncFunctionDef, gast.Lambda, gast.ClassDef)
COMPREHENSIONS = (gast.ListComp, gast.SetComp, gast.DictComp, gast.GeneratorExp)


@dataclass(frozen=True)
class NameUse:
    """The names of a piece of code, in order of appearance."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]
    deletes: tuple[str, ...]
    captured: tuple[str, ...]
    """What nested functions, classes and generator expressions take from the scope: they may look at any time."""
    global_names: tuple[str, ...]
    nonlocal_names: tuple[str, ...]

    @property
    def mentions(self) -> frozenset[str]:
        """Every name of the scope that appears in any role."""
        return frozenset(self.reads) | frozenset(self.writes) | frozenset(self.captured)


def names_in(nodes: Iterable[gast.AST | None]) -> NameUse:
    """Return the names used by `nodes`, which all belong to one scope."""
    collector = _Collector()
    for node in nodes:
        if node is not None:
            collector.visit(node, frozenset())
    return collector.result()


def parameters(node: gast.FunctionDef | gast.Lambda) -> tuple[str, ...]:
    """Return the parameter names of a function."""
    arguments = node.args
    every = [*arguments.posonlyargs, *arguments.args, arguments.vararg, *arguments.kwonlyargs, arguments.kwarg]
    return tuple(parameter.id for parameter in every if parameter is not None)


def free_names(node: gast.AST) -> frozenset[str]:
    """Return the names that a nested function or class takes from the scopes around it, globals included."""
    body = [node.body] if isinstance(node, gast.Lambda) else node.body
    use = names_in(body)
    free = set(use.reads) | set(use.captured) | set(use.nonlocal_names)
    if isinstance(node, gast.ClassDef):
        return frozenset(free)  # a class body looks names up outside until it binds them
    bound = (set(use.writes) | set(parameters(node))) - set(use.nonlocal_names)
    return frozenset(free - bound - set(use.global_names))


def outside_parts(node: gast.AST) -> list[gast.AST]:
    """Return the expressions of a nested function or class that the surrounding scope evaluates."""
    if isinstance(node, gast.ClassDef):
        return [*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)]
    defaults = [default for default in (*node.args.defaults, *node.args.kw_defaults) if default is not None]
    return defaults if isinstance(node, gast.Lambda) else [*node.decorator_list, *defaults]


class _Collector:
    """Accumulates the roles of names; a dict keeps the order of first appearance."""

    def __init__(self) -> None:
        self._reads: dict[str, None] = {}
        self._writes: dict[str, None] = {}
        self._deletes: dict[str, None] = {}
        self._captured: dict[str, None] = {}
        self._globals: dict[str, None] = {}
        self._nonlocals: dict[str, None] = {}

    def result(self) -> NameUse:
        return NameUse(
            tuple(self._reads),
            tuple(self._writes),
            tuple(self._deletes),
            tuple(self._captured),
            tuple(self._globals),
            tuple(self._nonlocals),
        )

    def visit(self, node: gast.AST, bound: frozenset[str]) -> None:
        """Collect from `node`, in which comprehensions around it bind `bound`."""
        visitor = _VISITORS.get(type(node))
        if visitor is not None:
            visitor(self, node, bound)
            return
        for field in fields_of(type(node)):
            value = getattr(node, field, None)
            if isinstance(value, gast.AST):
                self.visit(value, bound)
            elif isinstance(value, list):
                for child in value:
                    if isinstance(child, gast.AST):
                        self.visit(child, bound)

    def _walrus(self, node: gast.NamedExpr, bound: frozenset[str]) -> None:
        self._writes[node.target.id] = None
        self.visit(node.value, bound)

    def _naming(self, node: gast.AST, bound: frozenset[str]) -> None:
        self._statement(node)
        for child in children(node):
            if child is not getattr(node, "annotation", None):  # never evaluated in a function
                self.visit(child, bound)

    def _statement(self, node: gast.AST) -> None:
        if isinstance(node, gast.Import | gast.ImportFrom):
            for alias in node.names:
                self._writes[alias.asname or alias.name.split(".")[0]] = None
        elif isinstance(node, gast.MatchAs | gast.MatchStar) and node.name is not None:
            self._writes[node.name] = None
        elif isinstance(node, gast.MatchMapping) and node.rest is not None:
            self._writes[node.rest] = None
        elif isinstance(node, gast.Global):
            self._globals.update(dict.fromkeys(node.names))
        elif isinstance(node, gast.Nonlocal):
            self._nonlocals.update(dict.fromkeys(node.names))
        elif isinstance(node, gast.AugAssign) and isinstance(node.target, gast.Name):
            self._reads[node.target.id] = None

    def _name(self, node: gast.Name, bound: frozenset[str]) -> None:
        if node.id in bound:
            return
        if isinstance(node.ctx, gast.Load):
            self._reads[node.id] = None
            return
        self._writes[node.id] = None
        if isinstance(node.ctx, gast.Del):
            self._reads[node.id] = None
            self._deletes[node.id] = None

    def _nested(self, node: gast.AST, bound: frozenset[str]) -> None:
        for part in outside_parts(node):
            self.visit(part, bound)
        free = free_names(node) - bound
        self._captured.update(dict.fromkeys(sorted(free)))
        if not isinstance(node, gast.Lambda):
            self._writes[node.name] = None

    def _comprehension(self, node: gast.AST, bound: frozenset[str]) -> None:
        targets = names_in(generator.target for generator in node.generators)
        inside = bound | frozenset(targets.writes)
        self.visit(node.generators[0].iter, bound)
        rest: list[gast.AST] = [generator.iter for generator in node.generators[1:]]
        for generator in node.generators:
            rest.extend([generator.target, *generator.ifs])
        rest.extend([node.key, node.value] if isinstance(node, gast.DictComp) else [node.elt])
        for part in rest:
            self.visit(part, inside)
        if isinstance(node, gast.GeneratorExp):
            later = names_in(rest).reads
            self._captured.update({name: None for name in later if name not in inside})


_VISITORS: dict[type, Callable[[_Collector, Any, frozenset[str]], None]] = {
    gast.Name: _Collector._name,
    gast.NamedExpr: _Collector._walrus,
    **dict.fromkeys(NESTED_SCOPES, _Collector._nested),
    **dict.fromkeys(COMPREHENSIONS, _Collector._comprehension),
    **dict.fromkeys(
        (
            gast.Import, gast.ImportFrom, gast.MatchAs, gast.MatchStar, gast.MatchMapping, gast.Global, gast.Nonlocal,
            gast.AugAssign, gast.AnnAssign,
        ),
        _Collector._naming,
    ),
}  # fmt: skip
