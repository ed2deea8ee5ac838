"""One of several lists, of which a tensor decides which: what is put in is put into that one."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from tests import worlds


def in_a_branch(x, labels):
    buckets = [[] for _ in range(2)]
    if x.sum() > 0:
        buckets[int(labels[0])].append(x)
    return buckets


def in_a_loop(x, labels):
    buckets = [[], [], []]
    for k in range(int(labels.sum())):
        buckets[labels[k]].append(x[k])
    return buckets, [len(bucket) for bucket in buckets]


def until_they_are_full(x, labels):
    buckets = [[] for _ in range(2)]
    for step in range(int(labels.sum())):
        found = (x > step).nonzero().flatten()
        for k in range(found.shape[0]):
            place = found[k] % 2
            if len(buckets[place]) == 3:
                continue
            buckets[place].append((x[k], x[k] * 2))
    return buckets


def dicts(x, labels):
    tables = [{}, {"a": x}]
    if x.sum() > 0:
        tables[int(labels[0])]["a"] = x * 2
        tables[int(labels[1])]["b"] = x * 3
    return tables


def padded(x, labels):
    rows = []
    for k in range(int(labels.sum())):
        if x[k] > 0 or k == 0:
            rows.append(x[: k + 1] * 2)
    return pad_sequence(rows), pad_sequence([row[:, None].expand(-1, 2) for row in rows], True, -1.0, padding_side="left")


@pytest.mark.parametrize(
    "function", [in_a_branch, in_a_loop, until_they_are_full, dicts, padded], ids=lambda function: function.__name__
)
def test_what_is_put_into_one_of_several(function):
    def make():
        values = ([1.0, 2.0, 3.0, -1.0], [-3.0, 1.0, -1.0, 2.0], [0.5, 0.5, -0.1, 3.0], [-1.0, -1.0, -1.0, -1.0])
        labels = ([1, 0, 2, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 1, 0, 0])
        calls = [
            lambda run, row=row, places=places: run(torch.tensor(row), torch.tensor(places)) for row, places in zip(values, labels)
        ]
        return worlds.World(function, [], calls)

    worlds.agree(make, programs=1)
