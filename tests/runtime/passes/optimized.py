"""Natural code run as it is written and as an optimized program."""

import copy
import functools

import torch

import dy2st
from dy2st_runtime import verify
from dy2st_runtime.passes.pipeline import optimize
from tests.oracle import observe, same_outcome


def operators(program):
    """The operators of torch in all blocks."""
    return [str(node.target).split(".")[1] for node in program.nodes() if isinstance(node.target, torch._ops.OpOverload)]


def twice(function, calls, gradients=False):
    """Check that a function does the same with ``optimize``, that a second time finds nothing more, and give its program."""
    static = dy2st.to_static(function, passes=[functools.partial(optimize, gradients=gradients)])
    for call in calls:
        expected, found = observe(function, copy.deepcopy(call)), observe(static, copy.deepcopy(call))
        assert expected.error is None, expected.error
        assert same_outcome(expected, found), (expected, found)
    (captured,) = static.program_cache
    verify(captured.program)
    assert str(optimize(captured.program, gradients=gradients)) == str(captured.program)
    return captured.program
