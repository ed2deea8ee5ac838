"""Iterators from outside that run code of the user's: what eager would show in another order is refused, and nothing of it is done."""

from __future__ import annotations

import pytest
import torch

import dy2st

X = torch.ones(2)
buffer = torch.zeros(2)
total = 0
log: list[int] = []


def counter():
    n = 0
    while True:
        sent = yield n
        n += 1 if sent is None else sent


def refused(function, says, x=X):
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(function)(x)


@pytest.mark.parametrize("what", [lambda x: x, lambda x: int(x.sum()), lambda x: [x], lambda x: x > 0])
def test_a_value_of_the_program_is_not_sent(what):
    generator = counter()
    next(generator)
    refused(lambda x: x + generator.send(what(x)), "gets a value that only the program knows")
    assert next(generator) == 1


def test_what_is_sent_by_value_arrives():
    generator = counter()
    next(generator)
    add = dy2st.to_static(lambda x, by: x + generator.send(by))
    assert [add(X, by).tolist() for by in (2, 2, 5)] == [[3, 3], [5, 5], [10, 10]]


def printing(x):
    print("first")


def drawing(x):
    return torch.rand(2)


def writing(x):
    x.add_(1)


@pytest.mark.parametrize("act", [printing, drawing, writing])
def test_the_program_acts_before_the_generator(act):
    generator = counter()

    def f(x):
        act(x)
        return x + next(generator)

    refused(f, "follows on operations that print, draw or write")
    assert next(generator) == 0


@pytest.mark.parametrize("make", [counter, lambda: iter([0, 1]), lambda: map(abs, [0, 1])])
def test_the_program_may_raise_before_an_item_is_taken(make):
    iterator = make()

    def f(x):
        assert x.sum() > 0
        return x + next(iterator)

    refused(f, "(?s)follows on operations that may raise.*pass it in as an argument")
    assert next(iterator) == 0


def test_the_function_writes_what_the_generator_may_read():
    generator = (len(log) for _ in range(3))

    def f(x):
        log.append(1)
        return x + next(generator)

    refused(f, "may read what the static function has written before")
    assert log == []


def test_the_generator_assigns_a_global_variable():
    def assigning():
        global total
        while True:
            total += 1
            yield total

    generator = assigning()
    refused(lambda x: x + next(generator), "assigns variables from outside")
    assert total == 0


def test_the_generator_changes_a_tensor_of_the_program():
    def changing():
        while True:
            yield buffer.add_(1)

    generator = changing()
    refused(lambda x: buffer + x + next(generator), "changes a tensor that the program reads")


def test_an_island_gets_a_generator():
    def halves():
        value = torch.ones(2)
        while True:
            value = value / 2
            yield value

    @dy2st.not_to_static
    def step(items):
        return next(items)

    generator = halves()
    f = dy2st.to_static(lambda x: x * step(generator))
    assert [f(X).tolist() for _ in range(3)] == [[0.5, 0.5], [0.25, 0.25], [0.125, 0.125]]
