"""The tables of rewrites and operators."""

from __future__ import annotations

import gast
import pytest

from dy2st.constructs.registry import Phase, namespace, operator, rewrites


def test_a_pair_registers_once() -> None:
    with pytest.raises(RuntimeError, match="If already has a rewrite in phase BLOCKS"):
        rewrites(gast.If, Phase.BLOCKS)(lambda node, context: node)


def test_an_operator_registers_once() -> None:
    with pytest.raises(RuntimeError, match="if_stmt is defined twice"):
        operator("if_stmt")(lambda: None)


def test_each_namespace_is_new() -> None:
    first, second = namespace(), namespace()
    first.call = None
    assert second.call is not None
