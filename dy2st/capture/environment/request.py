"""What is to be captured: one call of a function, and how it is to be taken."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from dy2st.capture.environment.sizes import Place as SizePlace
from dy2st.options import Options
from dy2st_runtime.ir.structure import Structure

ACTS_FOR_USER = False


LENGTH = frozenset((-1,))
"""What differs of a list from outside that the code only appends to: how long it is, and what is in it."""
ITEMS = frozenset((-2,))
"""The same of one that the code reads."""
OBJECT = frozenset((-3,))
"""Which object of a plain class it is, and what is in it."""
GRADIENT = frozenset((-4,))
"""Whether a tensor has a gradient."""


@dataclasses.dataclass(frozen=True)
class Request:
    """What to capture.

    Attributes:
        function: the user's function.
        structure: how ``(args, kwargs)`` are made from the leaves.
        leaves: the tensors and opaque objects of this call.
        names: a name for each leaf.
        dynamic_dims: for each leaf, the dimensions that differ from call to call.
        bound: whether the first argument is the object that the function is bound to.
        dynamic_state: for names of sources, ``None`` for a number that differs from call to call, the dimensions that do, or
            :data:`LENGTH` or :data:`ITEMS` of a list, :data:`OBJECT` or :data:`GRADIENT`.
        given: ``(args, kwargs)`` of this call.
        options: of the static function.
        fixed: sizes that are declared dynamic and are taken as they are all the same.
        with_hooks: capture the call of the module it is bound to, hooks included, and not its ``forward`` alone.
        leaves_always: whether one that fails otherwise does so too; such a program runs slower.
        changed: names of sets and deques from outside that blocks change.
        tables: names of dicts and sets from outside of which only the program knows the keys, with the types of what is in there
            (``None`` for those it has now), and what is wrong where it can be no input.
        leaves_early: whether a program that raises leaves what it has written outside until then.
        apart: the traits of tensors that are told apart.
        for_any_call: whether the program is kept for calls of which nothing is guarded, as one that is saved.
        arrays: the positions of the leaves that are tensors in the memory of NumPy's arrays.
        ranked: whether the orders of the keys of dicts are told by ranks.
        in_steps: the iterators whose items are taken one by one, where the code asks for them; see
            :func:`~dy2st.capture.iterables.ahead.taken`.
        giving: the generators that give their items to the loops that take them; see
            :meth:`~dy2st.capture.iterables.generators.UserGenerator.give_to`.
        by_position: the files and lines on which iterators of the program are made; see
            :func:`~dy2st.capture.session.iterators.Iterators.require`.
        islands: the functions that run as Python since they cannot be captured, with the reasons.
    """

    function: FunctionType
    structure: Structure
    leaves: Sequence[Any]
    names: Sequence[str]
    dynamic_dims: Sequence[frozenset[int]]
    bound: bool
    dynamic_state: Mapping[str, frozenset[int] | None]
    given: tuple[tuple[Any, ...], dict[str, Any]]
    options: Options
    fixed: frozenset[SizePlace] = frozenset()
    with_hooks: bool = False
    changed: frozenset[str] = frozenset()
    tables: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    leaves_early: bool = True
    leaves_always: bool = False
    apart: frozenset[str] = frozenset()
    for_any_call: bool = False
    arrays: frozenset[int] = frozenset()
    ranked: bool = False
    in_steps: frozenset[Any] = frozenset()
    giving: frozenset[Any] = frozenset()
    by_position: frozenset[Any] = frozenset()
    islands: Mapping[tuple[str, int, str, int], str] = dataclasses.field(default_factory=dict)
