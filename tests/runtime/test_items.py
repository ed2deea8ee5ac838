"""Items of lists that are one of several: which one, a tag says."""

from __future__ import annotations

import pytest

from dy2st_runtime.ir import items


def test_the_option_of_a_tag():
    assert items.choose(4, (3, 4), ("a", "b")) == "b"


def test_a_way_that_has_returned_has_no_tag():
    """What follows a branch that may return runs on both ways, and is not looked at on the one."""
    assert items.choose(None, (0, 1), ("a", "b")) is None


def test_a_tag_of_no_option():
    with pytest.raises(ValueError, match="not in tuple"):
        items.choose(2, (0, 1), ("a", "b"))
