"""Progress bars of tqdm: a program shows none, and goes through what they go through."""

import io

import pytest
import torch

import dy2st
from tests import worlds

tqdm = pytest.importorskip("tqdm")
auto = pytest.importorskip("tqdm.auto")


def halved(x, limit, n):
    steps = 0
    for _ in tqdm.tqdm(range(n), desc="steps", disable=True):
        if x.abs().max() <= limit:
            break
        x = x / 2
        steps += 1
    return x, steps


def counted(x, n):
    with auto.tqdm(total=n, disable=None, file=io.StringIO()) as bar:
        while x.sum() > 1:
            x = x / 2
            bar.update(1)
            bar.set_postfix({"sum": 1})
        bar.set_description("done")
    for i in tqdm.trange(int(n), disable=True):
        x = x + i
    return x, len(tqdm.tqdm([1, 2], disable=True)), bool(tqdm.tqdm([], disable=True)), bar.n, bar.total


def test_a_loop_over_a_bar_is_a_loop_over_what_it_was_given():
    def make():
        calls = [
            lambda run, limit=limit, n=n: run(torch.ones(3), torch.tensor(limit), torch.tensor(n).item())
            for limit, n in ((0.1, 9), (9.0, 9), (0.1, 9))
        ]
        return worlds.World(halved, [], calls)

    worlds.agree(make, programs=1)


def test_a_tensor_decides_how_often_a_bar_is_updated():
    def make():
        calls = [lambda run, s=s, n=n: run(torch.ones(3) * s, torch.tensor(n)) for s, n in ((1.0, 2), (0.1, 0), (50.0, 5))]
        return worlds.World(counted, [], calls)

    worlds.agree(make, programs=1)


def test_a_bar_that_would_be_shown_is_told_of():
    def f(x):
        bar = tqdm.tqdm(range(3))
        for i in bar:
            if x.sum() > i:
                x = x - i
        bar.update(2)
        bar.reset(7)
        return x, bar.total

    static = dy2st.to_static(f)
    with pytest.warns(UserWarning, match="shows no progress bars"):
        result, total = static(torch.ones(3))
    assert torch.equal(result, f(torch.ones(3))[0])
    assert total == 7
