"""Objects that a loop makes in its first iteration: what they have is there only on the ways on which they are."""

from __future__ import annotations

import torch

from tests.oracle import agree

ROWS = [(torch.tensor(row),) for row in ([1.0, 2.0, 0.3], [0.1, 0.2, 0.3], [9.0, 0.0, 0.0])]


class Layer:
    """Keys that grow, and a flag that tells whether there are any."""

    def __init__(self):
        self.keys = None
        self.ready = False

    def update(self, keys):
        if not self.ready:
            self.keys = torch.tensor([], dtype=keys.dtype)
            self.ready = True
        self.keys = torch.cat([self.keys, keys], dim=-1)
        return self.keys

    def length(self):
        if not self.ready or self.keys.numel() == 0:
            return 0
        return self.keys.shape[-1]


class Cache:
    """A layer for each layer of a network."""

    def __init__(self, count):
        self.layers = [Layer() for _ in range(count)]

    def update(self, keys, index):
        return self.layers[index].update(keys)

    def length(self):
        return self.layers[0].length()


def test_layer_made_in_the_first_iteration():
    def generate(x):
        past, count = None, 0
        while count < 5:
            if past is None:
                past = Layer()
            keys = past.update(x)
            count += 1
            if keys.sum() > 3:
                break
        return past.length(), keys, past.ready

    agree(generate, ROWS)


def test_cache_made_by_the_network():
    def network(x, past):
        if past is None:
            past = Cache(2)
        x = x + torch.arange(x.shape[-1]) + past.length()
        for index in range(2):
            x = x + past.update(x, index).mean()
        return x, past

    def generate(x):
        past, made, current = None, [], x
        while len(made) < 5:
            y, past = network(current, past)
            current = y[-1:].sin()
            made.append(current)
            if current.sum() > 0.6:
                break
        return torch.cat(made), past.length()

    agree(generate, [*ROWS, (torch.tensor([0.4, 0.4, 0.4]),)])


def test_flag_and_size_of_what_is_not_there_in_the_first_iteration():
    def last_size(x):
        held, sizes = None, []
        for step in range(4):
            if held is not None:
                sizes.append(held.keys.shape[0] + int(held.ready))
            if x.sum() > step:
                held = held or Layer()
                held.update(x)
        return sizes

    agree(last_size, [*ROWS, (torch.tensor([-1.0, 0.0, 0.0]),)])


def test_flag_decided_by_a_tensor_in_an_object_made_where_a_tensor_decides():
    def count(x):
        found, flags = None, 0
        for row in x:
            if row > 0:
                if found is None:
                    found = Layer()
                    found.ready = bool(row > 1)
                elif found.ready:
                    flags = flags + int(found.ready)
                    found.ready = bool(row > 2)
                else:
                    found.ready = True
        return flags, found is None

    agree(count, [*ROWS, (torch.tensor([-1.0, 0.0, 0.0]),), (torch.tensor([3.0, 4.0, 5.0]),)])
