"""What is known of a container because of where it is held.

st = d.setdefault(k, {})        st is what d had under k, or the new dict. The new one is held where that is so and nowhere
if not st:                      else, so whoever finds it finds "n" in it, too: it need not be told apart from the others.
    st["n"] = 0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sympy

from dy2st.capture.objects.uniting import with_parts
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import TaggedUnion
from dy2st_runtime.ir.flattening import children

_Holders = dict[int, tuple[Any, list[sympy.Basic]]]
"""Containers with a fact for each of their holders, which is true where that has them."""


def narrow(session: Session, values: Iterable[Any], is_kept: Callable[[Any], bool]) -> None:
    """Leave out of tagged unions in new containers what they cannot be where the container is held.

    Containers that are alike become one in a loop, so those with several holders are left as they are: they have a name more.

    Args:
        session: the capture.
        values: all that holds containers from now on.
        is_kept: whether a container is an older one, which others may hold.
    """
    holders: _Holders = {}
    for value in values:
        _hold(value, sympy.true, is_kept, holders)
    for container, facts in holders.values():
        if len(facts) == 1 and facts[0] != sympy.true and isinstance(container, (list, dict)):
            _narrow(session, container, facts[0])


def _hold(value: Any, fact: sympy.Basic, is_kept: Callable[[Any], bool], holders: _Holders) -> None:
    if isinstance(value, TaggedUnion):
        for tag, option in value.options.items():
            _hold(option, sympy.Eq(value.tag.node.expr, tag), is_kept, holders)
        return
    parts = children(value)
    if parts is None or is_kept(value):
        return
    _, facts = holders.setdefault(id(value), (value, []))
    facts.append(fact)
    if len(facts) == 1:
        for part in parts[0]:
            _hold(part, fact, is_kept, holders)


def _narrow(session: Session, container: Any, fact: sympy.Basic) -> None:
    parts = children(container)
    order = session.blocks.key_orders.of(container)
    unions = [*(parts[0] if parts is not None else ()), order]
    if not any(isinstance(part, TaggedUnion) for part in unions):
        return
    before = session.shapes.facts()
    session.shapes.learn(fact)
    *result, known_order = (_possible(session, part) for part in unions)
    session.shapes.forget_since(before)
    with_parts(container, result)
    if known_order is not order:
        session.blocks.key_orders.put(container, known_order)


def _possible(session: Session, value: Any) -> Any:
    """Return a tagged union without the options that it cannot be; any other value as it is."""
    if not isinstance(value, TaggedUnion):
        return value
    left = {tag: option for tag, option in value.options.items() if session.shapes.known(value.tag == tag) is not False}
    if len(left) == 1:
        return next(iter(left.values()))
    return TaggedUnion(value.session, value.tag, left) if left else value
