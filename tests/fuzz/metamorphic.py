"""Programs that must do what another one does: its body under a test that is true, in a loop of one iteration, in a helper, renamed."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Callable

from tests.fuzz.grammar import Program


def _around(head: str) -> Callable[[ast.FunctionDef], list[ast.stmt]]:
    def wrap(function: ast.FunctionDef) -> list[ast.stmt]:
        before, around = ast.parse(head).body[:-1], ast.parse(head).body[-1]
        assert isinstance(around, (ast.If, ast.For, ast.While))
        around.body = [*around.body[:-1], *function.body]
        function.body = [*before, around]
        return [function]

    return wrap


def _outlined(function: ast.FunctionDef) -> list[ast.stmt]:
    inner = copy.deepcopy(function)
    inner.name = f"outlined_{function.name}"
    names = [argument.arg for argument in function.args.args]
    callee = f"self.{inner.name}" if names[0] == "self" else inner.name
    given = [name for name in names if name != "self"]
    function.body = ast.parse(f"result = {callee}({', '.join(given)})\nreturn result").body  # return outside of a function parses
    return [inner, function]


class _Renamer(ast.NodeTransformer):
    """Gives every short name of the grammar another one, the other way round in the alphabet."""

    def __init__(self) -> None:
        self._kept = {"self", "torch", "G", "Box", "Net", "program", "forward"}

    def _new(self, name: str) -> str:
        return name if name in self._kept or len(name) > 4 else f"{chr(219 - ord(name[0]))}_{name}"

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if len(node.id) <= 2 or node.id[0] == "t" and node.id[1:].isdigit() or node.id in ("box", "mode", "key"):
            node.id = self._new(node.id)
        return node

    def visit_arg(self, node: ast.arg) -> ast.arg:
        node.arg = self._new(node.arg)
        return node

    def visit_Nonlocal(self, node: ast.Nonlocal) -> ast.Nonlocal:
        node.names = [self._new(name) for name in node.names]
        return node

    def visit_MatchAs(self, node: ast.MatchAs) -> ast.MatchAs:
        self.generic_visit(node)
        node.name = self._new(node.name) if node.name else None
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        if node.name == "Net":
            self.generic_visit(node)
        return node


TRANSFORMS = {
    "true test": _around("if n * 0 == 0:\n    pass"),
    "one iteration of for": _around("for once in range(n * 0 + 1):\n    pass"),
    "one iteration of while": _around("once = n * 0\nwhile once < 1:\n    once = once + 1\n    pass"),
    "outlined": _outlined,
}
NAMES = (*TRANSFORMS, "renamed")


def transformed(program: Program, name: str) -> Program:
    """A program that must do what another one does."""
    tree = ast.parse(program.source)
    if name == "renamed":
        tree = _Renamer().visit(tree)
    else:
        _rewrite(tree, "forward" if program.module else "program", TRANSFORMS[name])
    return dataclasses.replace(program, source=ast.unparse(ast.fix_missing_locations(tree)) + "\n")


def _rewrite(tree: ast.Module, name: str, change: Callable[[ast.FunctionDef], list[ast.stmt]]) -> None:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for index, statement in enumerate(body):
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                body[index : index + 1] = change(statement)
                return
