"""What follows a branch knows which way was taken: same values, fewer questions."""

from __future__ import annotations

import pytest
import torch

import dy2st
from dy2st_runtime import verify
from dy2st_runtime.executors import python
from dy2st_runtime.ir.program import node_blocks
from dy2st_runtime.passes.jump_threading import thread_jumps
from dy2st_runtime.primitives import control

X = torch.arange(-4.0, 4.0).view(2, 4) / 4


def leaves_early(x, limit):
    for scale in (1.0, 2.0, 4.0, 8.0):
        if x.abs().max() > limit:
            return x
        x = x * scale + 0.5
    return x + 1


def breaks_and_continues(x, limit):
    total = x * 0
    for scale in (1.0, 2.0, 3.0):
        if x.sum() < -limit:
            continue
        total = total + x * scale
        if total.max() > limit:
            break
    else:
        total = total - 1
    return total, x


def loops_after(x, limit):
    done = False
    if x.sum() > limit:
        done = True
    while x.max() < limit:
        x = x + 0.5
        if x.sum() > 3:
            x = x + 0.25
    if done:
        x = x * 2
    print("sum", float(x.sum()))
    return x, done


def no_flags(x, limit):
    if x.sum() > limit:
        x = x + 1
    if x.max() > limit:
        x = x * 2
    return x


def many_flags(x, limit):
    flags = []
    for scale in range(9):
        flags.append(bool((x * scale).sum() > limit))
    return [x + 1 if flag else x - 1 for flag in flags]


@pytest.mark.parametrize("function", [leaves_early, breaks_and_continues, loops_after, no_flags, many_flags])
def test_gives_the_same_on_every_way(function, capsys):
    program = dy2st.to_static(function, backend="python").program(X, torch.tensor(1.0))
    threaded = thread_jumps(program)
    verify(threaded)
    for limit in (-2.0, -0.3, 0.1, 0.6, 1.0, 2.0, 5.0):
        values = [X, torch.tensor(limit)]
        outputs, texts = [], []
        for each in (program, threaded):
            outputs.append(python.run(each, values))
            texts.append(capsys.readouterr().out)
        torch.testing.assert_close(outputs[1], outputs[0], rtol=0, atol=0)
        assert texts[0] == texts[1]


@pytest.mark.parametrize("deepest", [0, 1, 2, 3, 4])
def test_no_deeper_than_allowed(deepest):
    program = dy2st.to_static(leaves_early, backend="python").program(X, torch.tensor(1.0))
    threaded = thread_jumps(program, deepest=deepest)
    verify(threaded)
    assert deepest <= depth(threaded.block) <= deepest + depth(program.block)
    assert (threaded is program) == (deepest == 0)
    for limit in (-2.0, -0.3, 0.1, 0.6, 1.0, 2.0, 5.0):
        values = [X, torch.tensor(limit)]
        torch.testing.assert_close(python.run(threaded, values), python.run(program, values), rtol=0, atol=0)


def depth(block):
    return max((1 + depth(inner) for node in block.graph.nodes for inner in node_blocks(node)), default=0)


def test_questions_that_a_branch_answered_are_gone():
    program = dy2st.to_static(leaves_early, backend="python").program(X, torch.tensor(1.0))
    threaded = thread_jumps(program)
    assert sum(node.target is control.if_ for node in threaded.nodes()) == 4
    assert not any(node.target is control.assert_ for node in threaded.nodes())
    unchanged = dy2st.to_static(no_flags, backend="python").program(X, torch.tensor(1.0))
    assert thread_jumps(unchanged) is unchanged
