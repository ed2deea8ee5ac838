"""``sum`` of lists and tuples, and strings that are filled up to a length, where a tensor decides how long they are."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agree

ROWS = [(torch.tensor(row),) for row in ([1.0, 2.0, 0.3], [-0.1, 0.2, 0.3], [-1.0, -1.0, -1.0])]


def list_of_a_known_list(x):
    chosen = []
    for row in x:
        if row > 0:
            chosen.append(row)
    return sum([chosen, [x[0]]], [])


def lists_in_a_list_that_grows(x):
    pairs = []
    for row in x:
        if row > 0:
            pairs.append([row, row + 1])
    flat = sum(pairs, [])
    flat.append(x[0])
    return flat, pairs


def lists_of_any_length(x):
    rows, count = [], 0
    while count < x.sum():
        rows.append([count] * count)
        count += 1
    return sum(rows, [])


def tuples(x):
    rows, count = [], 0
    while count < x.sum():
        rows.append((count,))
        count += 1
    return sum(rows, ()), sum(rows, (x,))


def from_a_generator(x):
    return sum(([row] * 2 for row in x if row > 0), [x[0]])


def the_start_stays_as_it_is(x):
    start, rows = [x[0]], []
    for row in x:
        if row > 0:
            rows.append([row])
    found = sum(rows, start)
    found.append(x[1])
    return start, found


def what_cannot_be_added(x):
    rows = []
    for row in x:
        if row > 0.5:
            rows.append((row,))
    return sum(rows, [])


@pytest.mark.parametrize(
    "function",
    [list_of_a_known_list, lists_in_a_list_that_grows, lists_of_any_length, tuples, from_a_generator, the_start_stays_as_it_is],
    ids=lambda function: function.__name__,
)
def test_sum(function):
    agree(function, ROWS)


def test_sum_of_what_cannot_be_added():
    agree(what_cannot_be_added, [ROWS[2], ROWS[0], ROWS[1]])


def test_text_filled_up_to_a_length():
    def fill(x):
        count = int((x > 0).sum())
        return "ab".ljust(count + 1) + "|", "7".zfill(count), "x".center(count, "*"), "abab".find("a", count), "ab".rjust(count - 1)

    agree(fill, ROWS)


def test_columns_of_a_table():
    def table(x):
        rows, widths = [], [0, 0]
        for row in x:
            if row > 0:
                rows.append("value" if row > 1 else "low")
        for index, row in enumerate(rows):
            widths[index % 2] = max(widths[index % 2], len(row) + 1)
        return " ".join(cell.rjust(width) for cell, width in zip(rows, widths))

    agree(table, ROWS)
