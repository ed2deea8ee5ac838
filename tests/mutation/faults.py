"""The faults that can be put into a module: what an author forgets, or gets the wrong way round."""

from __future__ import annotations

import ast
import copy
import dataclasses
import difflib
import functools
import os
from collections.abc import Iterator

from tests.mutation.tracing import Scope, scopes, statement

NAMES_OF_JOINS = ("join", "merge", "unite", "common", "union")
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Is: ast.Eq, ast.Eq: ast.Is, ast.IsNot: ast.NotEq, ast.NotEq: ast.IsNot,
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
}  # fmt: skip
OTHERS = {"all": "any", "any": "all", "max": "min", "min": "max"}
JUMPS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
SILENT = (ast.Raise, ast.JoinedStr, ast.Assert, ast.Import, ast.ImportFrom)
"""What is for messages and readers alone."""

_WIDTH = 120


@dataclasses.dataclass(frozen=True)
class Edit:
    """A change of a tree.

    Attributes:
        kind: its kind.
        old: what goes.
        new: what comes.
    """

    kind: str
    old: ast.AST
    new: ast.AST


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault.

    Attributes:
        kind: its kind.
        file: the module's path in the capture.
        scope: the qualified name of the function or class around it; empty for a module.
        line: where it is.
        number: which one it is among those of its module.
        statement: what the statement is called that it is in (see tracing.py).
        around: the statement's tree.
        edit: the change of it.
    """

    kind: str
    file: str
    scope: str
    line: int
    number: int
    statement: str
    around: ast.stmt = dataclasses.field(compare=False, repr=False)
    edit: Edit = dataclasses.field(compare=False, repr=False)

    @functools.cached_property
    def change(self) -> str:
        """The lines that go and that come."""
        return _change(self.around, self.edit)

    @property
    def name(self) -> str:
        """What it is called in the list of equivalent ones, wherever its lines move."""
        return " | ".join((self.kind, f"{self.file}:{self.scope}", *self.change.splitlines()))


def faults(tree: ast.Module, file: str) -> list[Fault]:
    """All faults that can be put into a module."""
    around = _around(tree)
    found = []
    for number, edit in enumerate(edits(tree)):
        name, first, lines, line = around[edit.old]
        label = statement(file, name, line - first)
        found.append(Fault(edit.kind, file, name, line, number, label, lines, edit))
    return found


def faulty(tree: ast.Module, number: int) -> ast.Module:
    """A module with one of its faults."""
    for at, edit in enumerate(edits(tree)):
        if at == number:
            _Replacing(edit).visit(tree)
            return tree
    raise IndexError(number)


class _Replacing(ast.NodeTransformer):
    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._edit.old:
            return ast.copy_location(self._edit.new, node)
        return self.generic_visit(node)


def _around(tree: ast.Module) -> dict[ast.AST, tuple[str, int, ast.stmt, int]]:
    """For each node its innermost function with its first line, the statement it is in, and that one's line."""
    found: dict[ast.AST, tuple[str, int, ast.stmt, int]] = {}
    for name, owner in [("", tree), *scopes(tree)]:
        first = getattr(owner, "lineno", 1)
        for node in ast.iter_child_nodes(owner):
            _note(node, name, first, None, found)
    return found


def _note(
    node: ast.AST, name: str, first: int, inside: ast.stmt | None, found: dict[ast.AST, tuple[str, int, ast.stmt, int]]
) -> None:
    inside = node if isinstance(node, ast.stmt) else inside
    if inside is not None:
        found[node] = name, first, inside, inside.lineno
    if not isinstance(node, Scope):
        for child in ast.iter_child_nodes(node):
            _note(child, name, first, inside, found)


def _change(lines: ast.stmt, edit: Edit) -> str:
    """The lines of a statement that an edit changes."""
    before = ast.unparse(lines).splitlines()
    after = ast.unparse(ast.fix_missing_locations(_Copying(edit).visit(lines))).splitlines()
    compared = difflib.unified_diff(before, after, lineterm="", n=0)
    changed = [line for line in compared if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    if len(changed) == 2 and len(changed[0]) > _WIDTH:
        first, last = (
            len(os.path.commonprefix(both)) for both in ([line[1:] for line in changed], [line[:0:-1] for line in changed])
        )
        changed = [f"{line[0]}…{line[max(first - 20, 1) : len(line) - max(last - 20, 0)]}…" for line in changed]
    return "\n".join(changed)


class _Copying:
    """Makes a statement with an edit, and leaves the given one as it is."""

    def __init__(self, edit: Edit) -> None:
        self._edit = edit

    def visit(self, node: ast.AST) -> ast.AST:
        if node is self._edit.old:
            return ast.copy_location(copy.deepcopy(self._edit.new), node)
        made = copy.copy(node)
        for field, value in ast.iter_fields(node):
            if isinstance(value, list):
                setattr(made, field, [self.visit(each) if isinstance(each, ast.AST) else each for each in value])
            elif isinstance(value, ast.AST):
                setattr(made, field, self.visit(value))
        return made


def edits(tree: ast.Module) -> Iterator[Edit]:
    """All changes of a module that make a fault, in the order of its nodes."""
    for name, owner in [("", tree), *scopes(tree)]:
        if isinstance(owner, ast.FunctionDef):
            yield from _early_returns(owner)
        for node in _own_nodes(owner):
            yield from _of_node(node, name)


def _own_nodes(owner: ast.AST) -> Iterator[ast.AST]:
    """What is in a scope, without what is in scopes in it, types and messages."""
    for field, value in ast.iter_fields(owner):
        if field == "body" if isinstance(owner, (Scope, ast.Lambda)) else field != "annotation":
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and not isinstance(child, (Scope, *SILENT)):
                    yield child
                    yield from _own_nodes(child)


def _of_node(node: ast.AST, scope: str) -> Iterator[Edit]:
    if isinstance(node, ast.stmt):
        yield from _dropped(node, scope)
        yield from _blocks(node)
    elif isinstance(node, ast.BoolOp):
        yield from _operands(node)
    elif isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _compared(node)
    elif isinstance(node, ast.Call):
        yield from _called(node)
    yield from _conditions(node)
    yield from _values(node)


def _dropped(node: ast.stmt, scope: str) -> Iterator[Edit]:
    """A call whose result nobody uses, or a write, is left out."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        text = ast.unparse(node.value.func)
        yield Edit("skipped guard" if "guard" in text else "dropped call", node, ast.Pass())
    written = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    outside = [target for target in written if isinstance(target, (ast.Attribute, ast.Subscript))]
    if outside and not scope.endswith("__init__"):
        yield Edit("dropped write", node, ast.Pass())


def _blocks(node: ast.stmt) -> Iterator[Edit]:
    """A block runs always, never, once, or without what surrounds it."""
    if isinstance(node, ast.If):
        if node.orelse:
            yield Edit("one way only", node, _with(node, test=ast.Constant(True)))
            yield Edit("one way only", node, _with(node, test=ast.Constant(False)))
        else:
            yield Edit("skipped block", node, ast.Pass())
    elif isinstance(node, ast.For) and not isinstance(node.body[-1], JUMPS):
        yield Edit("first iteration only", node, _with(node, body=[*node.body, ast.Break()]))
    elif isinstance(node, ast.Try) and node.finalbody:
        yield Edit("not undone", node, _with(node, finalbody=[ast.Pass()]))
    elif isinstance(node, ast.With) and all(item.optional_vars is None for item in node.items):
        yield Edit("not entered", node, _with(ast.If(ast.Constant(True), node.body, [])))


def _conditions(node: ast.AST) -> Iterator[Edit]:
    """A condition is the wrong way round."""
    if isinstance(node, (ast.If, ast.While, ast.IfExp)):
        yield Edit("negated condition", node.test, _negated(node.test))
    elif isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield Edit("negated condition", test, _negated(test))
    elif isinstance(node, ast.Return) and isinstance(node.value, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        if not isinstance(node.value, ast.UnaryOp) or isinstance(node.value.op, ast.Not):
            yield Edit("negated condition", node.value, _negated(node.value))
    if isinstance(node, ast.IfExp):
        yield Edit("one way only", node, node.body)
        yield Edit("one way only", node, node.orelse)


def _operands(node: ast.BoolOp) -> Iterator[Edit]:
    for at in range(len(node.values)):
        rest = node.values[:at] + node.values[at + 1 :]
        yield Edit("dropped operand", node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest))


def _compared(node: ast.Compare) -> Iterator[Edit]:
    other, right = SWAPPED.get(type(node.ops[0])), node.comparators[0]
    swapped = Edit("", node, ast.Compare(node.left, [other()], node.comparators)) if other is not None else None
    if swapped is not None and isinstance(node.ops[0], (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        yield dataclasses.replace(swapped, kind="off by one")
    elif swapped is not None and not isinstance(right, ast.Constant) and not ast.unparse(node.left).startswith("type("):
        yield dataclasses.replace(swapped, kind="is for ==")
    if isinstance(node.ops[0], (ast.In, ast.NotIn)):
        yield from _items(right)


def _called(node: ast.Call) -> Iterator[Edit]:
    """A join gives its first option; a check of several things looks at one."""
    name = ast.unparse(node.func).rpartition(".")[2].lower()
    if len(node.args) > 1 and any(part in name for part in NAMES_OF_JOINS):
        yield from (Edit("joined one way", node, option) for option in node.args if not isinstance(option, ast.Starred))
    if isinstance(node.func, ast.Name) and node.func.id in OTHERS:
        yield Edit("joined one way", node.func, ast.Name(OTHERS[node.func.id], ast.Load()))
    if name == "isinstance":
        yield from _items(node.args[1])
    elif name in ("set", "frozenset", "tuple"):
        yield from (edit for argument in node.args for edit in _items(argument))


def _values(node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitOr, ast.BitAnd)):
        yield Edit("joined one way", node, node.left)
        yield Edit("joined one way", node, node.right)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield Edit("off by one", node, ast.Constant(node.value + 1))
    elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
        names = node.targets if isinstance(node, ast.Assign) else [node.target]
        if all(isinstance(name, ast.Name) and name.id.isupper() and name.id != "__all__" for name in names):
            yield from _items(node.value)


def _items(node: ast.AST) -> Iterator[Edit]:
    """An item of a display is left out."""
    if isinstance(node, (ast.Tuple, ast.Set, ast.List)) and len(node.elts) > 1:
        for at in range(len(node.elts)):
            yield Edit("dropped item", node, _with(node, elts=node.elts[:at] + node.elts[at + 1 :]))
    elif isinstance(node, ast.Dict) and len(node.keys) > 1:
        for at in range(len(node.keys)):
            yield Edit(
                "dropped item", node, ast.Dict(node.keys[:at] + node.keys[at + 1 :], node.values[:at] + node.values[at + 1 :])
            )


def _early_returns(function: ast.FunctionDef) -> Iterator[Edit]:
    """A function that gives nothing returns after each of its statements but the last."""
    given = any(isinstance(node, (ast.Return, ast.Yield, ast.YieldFrom)) for node in _own_nodes(function))
    if given or function.name == "__init__":
        return
    for at, node in enumerate(function.body[:-1]):
        if not isinstance(node, (ast.Expr, ast.Nonlocal, ast.Global)) or at > 0:
            yield Edit("early return", function.body[at + 1], ast.Return(None))


def _negated(test: ast.expr) -> ast.expr:
    return test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else ast.UnaryOp(ast.Not(), test)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    made = copy.copy(node)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
