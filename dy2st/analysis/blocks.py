"""The plan for the BLOCKS phase: which scope owns each name once the bodies of `if`, loops, `try` and `with` are functions.

A name that a block binds is its own when nobody outside can see it: not live where the block starts, not live after the
statement, not taken by a nested function. Every other one is `nonlocal` in the block, up to the function that owns it.
An owner starts a name as the undefined marker when an inner function may see it before it is bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import gast

from dy2st.analysis.definedness import definedness, unbound_in
from dy2st.analysis.flow import thunk_names
from dy2st.analysis.liveness import Lives, liveness
from dy2st.analysis.scopes import names_in, parameters

BLOCK_STATEMENTS = (gast.If, gast.While, gast.For)


def is_block_statement(node: gast.AST) -> bool:
    """Tell whether the bodies of a statement become functions: of a `try` or `with` if an exception may end in it."""
    if isinstance(node, gast.With):
        return len(node.items) == 1 and may_swallow(node.items[0].context_expr)
    return isinstance(node, BLOCK_STATEMENTS) or (isinstance(node, gast.Try) and bool(node.handlers))


def may_swallow(manager: gast.expr) -> bool:
    """Tell whether a context manager may end an exception: none of torch's does."""
    while isinstance(manager, gast.Call | gast.Attribute):
        manager = manager.func if isinstance(manager, gast.Call) else manager.value
    return not (isinstance(manager, gast.Name) and manager.id == "torch")


@dataclass(frozen=True)
class Block:
    """The declarations of one generated function."""

    nonlocals: tuple[str, ...] = ()
    globals: tuple[str, ...] = ()
    undefined: tuple[str, ...] = ()
    """Names of this function that start as the undefined marker."""


@dataclass(frozen=True)
class StatementPlan:
    """One statement: the names whose values leave it, and its blocks in order (a `while` has its test first).

    `caught` are the names in a `try` or `with` whose values the handlers, or what follows them, may see.
    """

    node: gast.stmt
    names: tuple[str, ...]
    blocks: tuple[Block, ...]
    caught: tuple[str, ...] = ()


@dataclass(frozen=True)
class BlockPlan:
    """The statements of one function by identity, and the names that the function itself starts as undefined."""

    statements: dict[int, StatementPlan] = field(default_factory=dict)
    undefined: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    """Local names that live in a cell because a generated function uses them."""
    unbindable: frozenset[str] = frozenset()
    """Those among them that a `del` or the end of an `except ... as name` unbinds."""

    def of(self, node: gast.stmt) -> StatementPlan:
        """Return the plan of one statement."""
        return self.statements[id(node)]


def plan_blocks(node: gast.FunctionDef, lost: Iterable[str], plain: frozenset[int] = frozenset()) -> BlockPlan:
    """Plan the blocks of a function; `lost` are local names whose binding statements are gone from the tree.

    The statements whose identities are `plain` stay as they are.
    """
    return _Planner(node, plain).plan(node, lost)


class _Planner:
    def __init__(self, node: gast.FunctionDef, plain: frozenset[int]) -> None:
        use = names_in(node.body)
        self._plain = plain
        self._captured = frozenset(use.captured)
        self._globals = frozenset(use.global_names)
        self._declared = self._globals | frozenset(use.nonlocal_names)
        self._nonlocals = frozenset(use.nonlocal_names)
        self._lives = liveness(node.body)
        self._own = frozenset(use.writes) | frozenset(parameters(node))
        self._plans: dict[int, StatementPlan] = {}
        self._shared: set[str] = set()

    def plan(self, node: gast.FunctionDef, lost: Iterable[str]) -> BlockPlan:
        arguments = frozenset(parameters(node))
        own = (frozenset(names_in(node.body).writes) | arguments) - self._declared
        undefined = self._undefined(node.body, own, arguments)
        shared = frozenset(self._shared)
        return BlockPlan(self._plans, (*undefined, *lost), shared, shared & unbound_in(node.body))

    def _undefined(self, body: Sequence[gast.stmt], own: frozenset[str], entry: frozenset[str]) -> tuple[str, ...]:
        """Plan the statements of one scope; the names among `own` that the scope must start as undefined."""
        before = definedness(body, entry)
        missing: dict[str, None] = {}
        bound: set[str] = set()
        mentioned: set[str] = set()
        for statement in self._same_scope(body):
            seen = own & self._seen_inside(statement)
            self._shared |= seen
            missing.update(dict.fromkeys(seen - before.get(id(statement), frozenset())))
            head = names_in(self._head(statement))
            bound.update(head.writes)
            mentioned.update(seen, head.mentions)
        missing.update(dict.fromkeys((own & mentioned) - bound))  # else they would be names of an outer scope
        order = names_in(body).writes
        return tuple(name for name in order if name in missing and name not in entry)

    def _seen_inside(self, node: gast.stmt) -> frozenset[str]:
        """Return the names of the surrounding scope that generated functions of this statement use."""
        if not self._is_block(node):  # its thunks, not those of statements inside it
            return frozenset().union(*(thunk_names(part) for part in self._head(node)))
        lives = self._lives[id(node)]
        blocks: list[Block] = []
        seen = _seen_by_head(node)
        for (body, extra), entry in zip(_bodies(node), lives.entries, strict=True):
            block, outer = self._block(body, extra, entry | lives.after | self._loop_head(node, lives))
            blocks.append(block)
            seen |= outer
        names = self._leaving(node, lives)
        self._plans[id(node)] = StatementPlan(node, names, tuple(blocks), self._caught(node, lives))
        return seen

    def _is_block(self, node: gast.stmt) -> bool:
        return is_block_statement(node) and id(node) not in self._plain

    def _same_scope(self, body: Sequence[gast.stmt]) -> Iterator[gast.stmt]:
        """Yield the statements of one scope: into `with` and `finally`, not into what becomes a function."""
        for statement in body:
            yield statement
            inside = [statement.finalbody] if isinstance(statement, gast.Try) else []
            for inner in inside if self._is_block(statement) else _inner_bodies(statement):
                yield from self._same_scope(inner)

    def _head(self, node: gast.stmt) -> list[gast.AST]:
        """Return what a statement evaluates and binds in the scope it stands in, without the statements inside it."""
        if id(node) in self._plain:
            if isinstance(node, gast.Try | gast.With):
                return _head(node)
            return [node.iter, node.target] if isinstance(node, gast.For) else [node.test]
        if isinstance(node, gast.With) and self._is_block(node):
            return [node.items[0].context_expr]
        if isinstance(node, gast.Try) and node.handlers:
            return [handler.type for handler in node.handlers if handler.type is not None]
        return _head(node)

    @staticmethod
    def _loop_head(node: gast.stmt, lives: Lives) -> frozenset[str]:
        if isinstance(node, gast.If | gast.With):
            return frozenset()
        if isinstance(node, gast.Try):
            return lives.head
        return lives.head | (lives.entries[-1] if isinstance(node, gast.While) else frozenset())

    def _block(self, body: Sequence[gast.stmt], extra: Sequence[gast.AST], live: frozenset[str]) -> tuple[Block, frozenset[str]]:
        use = names_in([*extra, *body])
        writes = frozenset(use.writes)
        outer = writes & (live | self._captured | self._nonlocals) - self._globals
        own = writes - outer - self._globals
        bound = frozenset() if not body else own & frozenset(names_in(extra).writes)
        thunks = own.intersection(*[thunk_names(part) for part in extra]) if extra and not body else frozenset()
        undefined = (*sorted(thunks), *self._undefined(body, own, bound))
        block = Block(
            tuple(name for name in use.writes if name in outer),
            tuple(name for name in use.writes if name in self._globals),
            undefined,
        )
        return block, use.mentions - own

    def _caught(self, node: gast.stmt, lives: Lives) -> tuple[str, ...]:
        if not isinstance(node, gast.Try | gast.With):
            return ()
        behind = [lives.after] if isinstance(node, gast.With) else lives.entries[1:-1]
        live = self._captured | self._nonlocals | frozenset().union(*behind)
        parts = [part for body, extra in _bodies(node) for part in (*extra, *body)]
        return tuple(sorted(names_in(parts).mentions & self._own & live))

    def _leaving(self, node: gast.stmt, lives: Lives) -> tuple[str, ...]:
        live = lives.after | self._captured | self._nonlocals | self._loop_head(node, lives)
        parts = [part for body, extra in _bodies(node) for part in (*extra, *body)]
        return tuple(name for name in names_in(parts).writes if name in live - self._globals)


def _bodies(node: gast.stmt) -> list[tuple[Sequence[gast.stmt], Sequence[gast.AST]]]:
    """Return the blocks of a statement: statements, and what is bound or evaluated in the same function before them."""
    if isinstance(node, gast.If):
        return [(node.body, ()), (node.orelse, ())]
    if isinstance(node, gast.While):
        return [((), (node.test,)), (node.body, ())]
    if isinstance(node, gast.Try):
        handlers = [(handler.body, () if handler.name is None else (handler.name,)) for handler in node.handlers]
        return [(node.body, ()), *handlers, (node.orelse, ())]
    if isinstance(node, gast.With):
        return [(node.body, [target for item in node.items if (target := item.optional_vars) is not None])]
    return [(node.body, (node.target,))]


def _seen_by_head(node: gast.stmt) -> frozenset[str]:
    """Return the names in thunks of the expressions that a block statement evaluates in the surrounding scope."""
    if isinstance(node, gast.If):
        return thunk_names(node.test)
    if isinstance(node, gast.For):
        return thunk_names(node.iter) | names_in([getattr(node, "test", None)]).mentions
    if isinstance(node, gast.Try):
        return names_in(handler.type for handler in node.handlers).mentions
    if isinstance(node, gast.With):
        return thunk_names(node.items[0].context_expr)
    return frozenset()


def _inner_bodies(node: gast.stmt) -> list[Sequence[gast.stmt]]:
    if isinstance(node, gast.With):
        return [node.body]
    if isinstance(node, BLOCK_STATEMENTS):
        return [node.body, node.orelse]
    if isinstance(node, gast.Try) or type(node).__name__ == "TryStar":
        return [node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody]
    return []


def _head(node: gast.stmt) -> list[gast.AST]:
    """Return what a statement that may become functions evaluates and binds in the scope it stands in."""
    if isinstance(node, gast.While):
        return []
    if isinstance(node, gast.If):
        return [node.test]
    if isinstance(node, gast.For):
        return [node.iter]
    if isinstance(node, gast.With):
        return list(node.items)
    if isinstance(node, gast.Try) or type(node).__name__ == "TryStar":
        parts = [part for handler in node.handlers for part in (handler.type, handler.name)]
        return [part for part in parts if part is not None]
    return [node]
