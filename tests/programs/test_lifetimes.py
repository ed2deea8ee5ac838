"""Objects live as long as in eager: a capture that has ended holds none of them."""

from __future__ import annotations

import gc
import weakref

import torch

import dy2st


class Item:
    def __init__(self, level):
        self.level, self.history, self.part = level, [], None


def test_what_a_capture_has_met_lives_no_longer_than_in_eager():
    items, table, held = [Item(1), Item(2)], {"a": Item(3)}, Item(4)
    held.part, weights = Item(5), {"w": torch.ones(2)}
    references = [weakref.ref(value) for value in (items[1], table["a"], held.part, weights["w"])]

    @dy2st.to_static
    def f(n):
        total = n
        for item in items:
            total = total + item.level
            item.history.append(n)
        if n > 1:
            table["a"].level = n
            held.part.level += n
        weights["w"].add_(n)
        return total

    gc.disable()
    try:
        f(torch.tensor(2))
        f(torch.tensor(0))
        items.pop()
        table.clear()
        held.part = weights["w"] = None
        assert [reference() for reference in references] == [None] * 4
    finally:
        gc.enable()


def test_objects_end_when_they_are_let_go():
    ended = []

    class Ending(Item):
        def __del__(self):
            ended.append(self.level)

    items = [Ending(level) for level in range(3)]

    @dy2st.to_static
    def f(x):
        return x * items[-1].level

    gc.disable()
    try:
        f(torch.ones(2))
        items.pop()
        assert ended == [2]
        f(torch.ones(2))
        items.pop()
        assert ended == [2, 1]
    finally:
        gc.enable()
