"""Objects in C that were there before, whose state no capture can follow: buffers, hashes, compressors, context variables."""

from __future__ import annotations

import array
import contextvars
import hashlib
import re
import types
import zlib

import numpy as np
import pytest
import torch

import dy2st
from tests.oracle import same

T = torch.tensor
CALLS = [T(1.0), T(-1.0), T(2.0)]


class World:
    def __init__(self):
        self.bytes, self.array, self.numbers = bytearray(b"abc"), array.array("d", [1.0, 2.0]), np.array([1.0, 2.0])
        self.hash, self.packer, self.scanner = hashlib.md5(), zlib.compressobj(), re.compile("a").scanner("aaaaaaaa")
        self.variable = contextvars.ContextVar("variable", default=1)

    def left(self):
        kept = bytes(self.bytes), self.array.tolist(), self.numbers.tolist(), self.hash.hexdigest(), self.variable.get()
        return *kept, self.packer.compress(b"end") + self.packer.flush(zlib.Z_SYNC_FLUSH), self.scanner.match().span()

    def changed(self):
        self.bytes.append(1)
        self.array.append(1.0)
        self.numbers[0] += 1
        self.hash.update(b"z")
        self.variable.set(self.variable.get() + 1)


def changes_in_any_case(w, x):
    w.bytes.append(7)
    w.bytes[0] = 65
    w.array.extend([3.0])
    w.numbers[1] = 5.0
    w.hash.update(b"a")
    w.variable.set(w.variable.get() + 1)
    return x + len(w.bytes), w.packer.compress(b"abc"), w.scanner.match().span()


def reads(w, x):
    if x > 0:
        x = x + len(w.bytes) + sum(w.array) + w.numbers.sum() + w.variable.get() + len(w.hash.hexdigest())
    return x, bytes(w.bytes), w.array[0], w.hash.hexdigest(), w.variable.get()


@pytest.mark.parametrize("function", [changes_in_any_case, reads])
def test_state_is_eagers(function):
    eager, held = World(), World()
    static = dy2st.to_static(types.MethodType(function, held))
    for x in CALLS:
        same(static(x), function(eager, x))
        same(held.left(), eager.left())
        for world in (held, eager):
            world.changed()


@pytest.mark.parametrize(
    "use",
    [
        lambda w: w.bytes.append(1), lambda w: w.array.append(1.0), lambda w: w.numbers.fill(0.0), lambda w: w.hash.update(b"a"),
        lambda w: w.packer.compress(b"a"), lambda w: w.scanner.match(), lambda w: w.variable.set(3),
        lambda w: w.numbers.__setitem__(0, 3.0), lambda w: w.bytes.__delitem__(0),
    ],
)  # fmt: skip
def test_a_tensor_decides_whether_it_changes(use):
    world, other = World(), World()

    def function(x):
        if x > 0:
            use(world)
        return x

    with pytest.raises(dy2st.CaptureError, match="a tensor decides whether 'world."):
        dy2st.to_static(function)(-T(1.0))
    same(world.left(), other.left())


def test_an_item_where_a_tensor_decides():
    world = World()

    def function(x):
        if x > 0:
            world.numbers[0] = 3.0
        return x

    with pytest.raises(dy2st.CaptureError, match=r"a tensor decides whether 'world.numbers'"):
        dy2st.to_static(function)(-T(1.0))
    assert world.numbers.tolist() == [1.0, 2.0]


def test_made_here():
    def function(x):
        made = hashlib.md5()
        if x > 0:
            x = x * len(hashlib.md5(b"a").hexdigest())
        made.update(b"a")
        return x, made.hexdigest()

    static = dy2st.to_static(function)
    for x in CALLS:
        same(static(x), function(x))
    assert len(static.program_cache) == 1
