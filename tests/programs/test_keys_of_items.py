"""Dicts in lists whose length a tensor decides get and lose keys after they have been put in."""

import pytest
import torch

from tests.oracle import agree

WAYS = [
    (torch.tensor(p),)
    for p in ([0.9, 0.9, 0.1, 0.1, 0.9], [0.1, 0.9, 0.1, 0.9, 0.1], [0.0] * 5, [0.9] * 5, [0.9, 0.1, 0.9, 0.1, 0.9])
]


def of_the_last_item(p):
    spans = []
    for at, value in enumerate(p.tolist()):
        if value > 0.5:
            spans.append({"start": at})
        elif spans:
            spans[-1]["end"] = at
    return spans


def of_all_items(p):
    spans = []
    for at, value in enumerate(p.tolist()):
        if value > 0.5:
            spans.append({"start": at, "peak": value})
    for number, span in enumerate(spans):
        span["length"] = span["start"] - number
        if span["length"] > 0:
            del span["peak"]
    return spans, sum("peak" in span for span in spans)


def of_the_current_item(p):
    spans, current = [], {}
    for at, value in enumerate(p.tolist()):
        if value >= 0.5 and not current:
            current["start"] = at
        elif value < 0.5 and current:
            current["end"] = at
            spans.append(current)
            current = {}
    if current and len(p) - current["start"] > 1:
        current["end"] = len(p)
        spans.append(current)
    for number, span in enumerate(spans):
        if number != len(spans) - 1:
            gap = spans[number + 1]["start"] - span["end"]
            span["end"] += gap // 2
    return spans


def of_an_item_with_another_name(p):
    groups, last = [], None
    for at, value in enumerate(p.tolist()):
        if last is None or value > 0.5:
            last = {"first": at}
            groups.append(last)
        else:
            last["last"] = at
    return groups, [group.get("last", -1) for group in groups]


def with_tensors(p):
    found = []
    for row in p:
        item = {"score": row}
        found.append(item)
        if row > 0.5:
            item["kept"] = row * 2
    total = torch.zeros(())
    for item in found:
        if "kept" in item:
            total = total + item.pop("kept")
    return found, total


def by_methods(p):
    queue = [{"a": value, "b": value * 2} for value in p if value > 0.05]
    taken = []
    for item in queue:
        if item["a"] > 0.5:
            taken.append(item.pop("b"))
        item.setdefault("c", item["a"] + 1)
        item.update(d=3)
    return queue, taken


def of_items_that_are_merged(p):
    spans = []
    for at in range(p.shape[0]):
        if p[at] > 0.5:
            if spans and spans[-1].get("end", -9) == at:
                spans[-1]["end"] = at + 1
            else:
                spans.append({"start": at})
                spans[-1]["end"] = at + 1
    for span in spans:
        span["score"] = p[span["start"] : span["end"]].mean()
    return spans, max(spans, key=lambda span: span["end"] - span["start"])["score"] if spans else None


PROGRAMS = [
    by_methods,
    of_items_that_are_merged,
    of_the_last_item,
    of_all_items,
    of_the_current_item,
    of_an_item_with_another_name,
    with_tensors,
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_keys_come_and_go(program):
    agree(program, WAYS)
