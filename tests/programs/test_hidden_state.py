"""Objects in C that were there before, whose state no capture can follow: buffers, hashes, compressors."""

from __future__ import annotations

import array
import hashlib
import io
import json
import operator
import queue
import random
import re
import struct
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

    def left(self):
        kept = bytes(self.bytes), self.array.tolist(), self.numbers.tolist(), self.hash.hexdigest()
        return *kept, self.packer.compress(b"end") + self.packer.flush(zlib.Z_SYNC_FLUSH), self.scanner.match().span()

    def changed(self):
        self.bytes.append(1)
        self.array.append(1.0)
        self.numbers[0] += 1
        self.hash.update(b"z")


def changes_in_any_case(w, x):
    w.bytes.append(7)
    w.bytes[0] = 65
    w.array.extend([3.0])
    w.numbers[1] = 5.0
    w.hash.update(b"a")
    return x + len(w.bytes), w.packer.compress(b"abc"), w.scanner.match().span()


def reads(w, x):
    if x > 0:
        x = x + len(w.bytes) + sum(w.array) + w.numbers.sum() + len(w.hash.hexdigest())
    return x, bytes(w.bytes), w.array[0], w.hash.hexdigest()


@pytest.mark.parametrize("function", [changes_in_any_case, reads])
def test_state_of_objects_in_c_is_left_as_eager_leaves_it(function):
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
        lambda w: w.bytes.append(1), lambda w: w.array.append(1.0), lambda w: w.hash.update(b"a"),
        lambda w: w.packer.compress(b"a"), lambda w: w.scanner.match(),
        lambda w: w.bytes.__delitem__(0),
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


@pytest.mark.parametrize(
    "use", [lambda w: w.numbers.fill(0.0), lambda w: w.numbers.__setitem__(0, 3.0), lambda w: operator.setitem(w.numbers, 1, 4.0)]
)
def test_an_array_changes_where_a_tensor_decides(use):
    world, other = World(), World()

    def function(w, x):
        if x > 0:
            use(w)
        return x, w.numbers.sum()

    static = dy2st.to_static(function)
    for x in (-T(1.0), T(1.0), -T(1.0)):
        same(static(world, x), function(other, x))
        same(world.left(), other.left())
    assert len(static.program_cache) <= 2


def test_a_hash_made_inside_gives_eagers_digest_in_one_program():
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


def buffer_made_before(x):
    made = bytearray()
    if x > 0:
        made.append(1)
    return len(made)


def item_of_a_buffer_made_before(x):
    made = np.arange(3.0)[1:]
    if x > 0:
        made[0] = 1.0
    return made.sum()


def buffer_made_before_grows(x):
    made = array.array("d", [1.0])
    if x > 0:
        made += array.array("d", [2.0])
    return len(made)


def buffer_given_to_a_library(x):
    made = np.arange(3.0)
    if x > 0:
        np.add(made, 1, out=made)
    return made.sum()


def packed_into_a_buffer(x):
    made = bytearray(4)
    if x > 0:
        struct.pack_into("i", made, 0, 7)
    return bytes(made)


def hash_made_before(x):
    made = hashlib.sha256()
    if x > 0:
        made.update(b"a")
    return made.hexdigest()


def file_made_before(x):
    made = io.StringIO()
    if x > 0:
        made.write("a")
    return made.getvalue()


def file_printed_to(x):
    made = io.StringIO()
    if x > 0:
        print("a", file=made)
    return made.getvalue()


def file_given_to_a_library(x):
    made = io.StringIO()
    if x > 0:
        json.dump([1], made)
    return made.getvalue()


def generator_made_before(x):
    made = random.Random(3)
    if x > 0:
        made.random()
    return made.random()


def queue_made_before(x):
    made = queue.Queue()
    if x > 0:
        made.put(1)
    return made.qsize()


def changed_in_a_loop(x):
    made = bytearray()
    while x > 0:
        made.append(1)
        x = x - 1
    return len(made)


def exception_made_anew(x):
    made = ValueError("a")
    if x > 0:
        made.__init__("b", 2)
    return made.args


MADE_BEFORE = [
    buffer_made_before, item_of_a_buffer_made_before, buffer_made_before_grows, buffer_given_to_a_library, packed_into_a_buffer,
    hash_made_before, file_made_before, file_printed_to, file_given_to_a_library, generator_made_before, queue_made_before,
    changed_in_a_loop, exception_made_anew,
]  # fmt: skip


@pytest.mark.parametrize("function", MADE_BEFORE, ids=lambda function: function.__name__)
def test_a_tensor_does_not_decide_whether_an_object_made_before_is_changed(function):
    with pytest.raises(dy2st.CaptureError, match="a tensor decides whether an object is changed that was made before"):
        dy2st.to_static(function)(T(1.0))


def made_in_the_branch(x):
    if x > 0:
        made, numbers, file, digest = bytearray(), np.zeros(3), io.StringIO(), hashlib.sha256()
        made.append(1)
        made[0] = 7
        made += b"z"
        numbers[1:][0] = 5.0
        np.add(numbers, 1, out=numbers)
        print("a", file=file)
        json.dump([1], file)
        digest.update(b"z")
        return bytes(made), float(numbers.sum()), file.getvalue(), digest.hexdigest(), random.Random(1).randint(0, 9), x
    return b"", 0.0, "", "", 0, x


def changed_in_any_case(x):
    made, numbers, file, digest = bytearray(), np.zeros(3), io.StringIO(), hashlib.sha256()
    for number in range(3):
        made.append(number)
    numbers += 1
    print("a", 1, file=file, end="!")
    digest.update(b"z")
    if x > 0:
        x = x + len(made) + float(numbers.sum()) + len(file.getvalue())
    return bytes(made), file.getvalue(), digest.hexdigest(), x


@pytest.mark.parametrize("function", [made_in_the_branch, changed_in_any_case])
def test_objects_of_the_block_itself_are_changed(function):
    static = dy2st.to_static(function)
    for x in CALLS:
        same(function(x), static(x))
    assert len(static.program_cache) == 1
