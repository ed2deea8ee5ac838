"""What the rewrites of one function share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import gast

from dy2st import names
from dy2st.analysis.blocks import Block, BlockPlan
from dy2st.names import Namer
from dy2st.source import template
from dy2st.source.template import Hole

_BLOCK = """
    def function():
        nonlocal outer
        global module
        undefined
        body
"""
_BLOCK_OF_ITEM = """
    def function(item):
        nonlocal outer
        global module
        undefined
        body
"""


@dataclass
class Context:
    """One function on its way through the phases: facts are frozen values, the rest is bookkeeping of new names."""

    root: gast.FunctionDef
    namer: Namer
    class_name: str | None
    opaque: dict[int, gast.AST]
    """The user's nested functions, lambdas and classes by identity: their insides are left alone."""
    local_names: tuple[str, ...]
    """What Python compiles as local to the function, in order of appearance, parameters excluded."""
    free_names: frozenset[str] = frozenset()
    """What the function takes from the functions around it, `__class__` excepted."""
    assigned: frozenset[str] = frozenset()
    """What the function as written binds, its declared names included."""
    yields: bool = False
    """Whether it is a generator function."""
    declared_globals: tuple[str, ...] = ()
    declared_nonlocals: tuple[str, ...] = ()
    shared_globals: frozenset[str] = frozenset()
    """The globals that functions of the same file assign or delete, so that they may be there on some ways only."""
    variables: tuple[str, ...] = ()
    """All that the function sees by name but the module's, in the order in which Python's table of them has them."""
    operators: str = names.OPERATORS
    plain: frozenset[int] = frozenset()
    """The identities of `if`, `while` and `for` statements that stay as they are, because a `yield` stands in them."""
    plan: BlockPlan = field(default_factory=BlockPlan)
    labels: dict[int, tuple[str, ...]] = field(default_factory=dict)
    """The names for the functions of each block statement, by its identity."""
    unchecked: dict[int, gast.AST] = field(default_factory=dict)
    """Reads of names that may hold the undefined marker, and get it, by identity."""
    marked: set[str] = field(default_factory=set)
    """Names that may hold the undefined marker: reading them goes through an operator."""
    generated: set[str] = field(default_factory=set)
    """Names of the functions that the phases made."""
    setters: list[dict[str, str]] = field(default_factory=list)
    """For each generated function around the current node: name → the function that binds it from inside a thunk."""

    def statements(self, text: str, at: gast.AST, /, **holes: Hole) -> list[gast.stmt]:
        """Return a statement template, in which `_dy2st` stands for the operators."""
        return template.statements(text, at, _dy2st=self.operators, **holes)

    def expression(self, text: str, at: gast.AST, /, **holes: Hole) -> gast.expr:
        """Return an expression template, in which `_dy2st` stands for the operators."""
        return template.expression(text, at, _dy2st=self.operators, **holes)

    def functions(self, *bases: str) -> tuple[str, ...]:
        """Return names for generated functions that belong together."""
        fresh = self.namer.numbered(*bases)
        self.generated.update(fresh)
        return fresh

    def is_opaque(self, node: gast.AST) -> bool:
        """Tell whether the insides of a nested scope belong to the user alone."""
        return id(node) in self.opaque

    def is_generated_call(self, node: gast.Call) -> bool:
        """Tell whether the phases made this call, of an operator or of a generated function."""
        function = node.func
        if isinstance(function, gast.Attribute):
            return self.is_operators(function.value)
        return isinstance(function, gast.Name) and function.id in self.generated

    def is_operators(self, node: gast.AST) -> bool:
        """Tell whether the node names the operator namespace."""
        return isinstance(node, gast.Name) and node.id == self.operators

    def block_function(
        self, name: str, body: Sequence[gast.stmt], block: Block, at: gast.AST, item: str | None = None
    ) -> list[gast.stmt]:
        """Return a block as a nested function, with a parameter for loops that take items."""
        self.marked.update(block.undefined)
        return self.statements(
            _BLOCK if item is None else _BLOCK_OF_ITEM,
            at,
            function=name,
            item=item,
            outer=block.nonlocals,
            module=block.globals,
            undefined=self.undefined(block.undefined, at),
            body=list(body) or self.statements("pass", at),
        )

    def undefined(self, unbound: Sequence[str], at: gast.AST) -> list[gast.stmt]:
        """Return statements that start names as the undefined marker."""
        results: list[gast.stmt] = []
        for name in unbound:
            text = template.constant(name, at)
            results.extend(self.statements("name = _dy2st.undefined(text)", at, name=name, text=text))
        return results
