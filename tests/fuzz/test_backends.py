"""Random programs do on the backends that round what they do in eager, up to rounding."""

from __future__ import annotations

import contextlib

import pytest
import torch

from tests.fuzz import backends
from tests.fuzz.carries import Carries
from tests.fuzz.choices import Seeded
from tests.fuzz.grammar import Program
from tests.fuzz.oracle import Kind
from tests.fuzz.rounding import Difference, alike, close, spread
from tests.fuzz.stateful import generate, oracle

SIGN = """import torch


def program(x, y, s, n):
    return torch.where(x * y - y * x > {limit}, x, y) + s
"""

STATEFUL = (2, 11)
"""Programs with state that do the same on both sides."""
PRINTED = """import torch


def program(x, y, s, n):
    print((x * y).sum().sin())
    return x
"""


def judged(backend: str, seed: str, numbers: range, size: int) -> None:
    for number in numbers:
        program = Carries(Seeded(f"{seed}-{number}"), size).program()
        verdict = backends.judge(program, backend, carries=True)
        assert not verdict.bad, f"{seed}-{number} on {backend}: {verdict.reason}\n{program.source}\n{verdict.detail}"


@pytest.mark.parametrize(("backend", "count"), [("cpp", 4), ("onnxruntime", 1), ("inductor", 2)])
def test_no_random_program_differs_by_more_than_rounding(backend, count):
    with backends.uncompiled() if backend == "inductor" else contextlib.nullcontext():
        judged(backend, "ci", range(count), 3)


@pytest.mark.parametrize("backend", backends.NAMES)
def test_random_programs_with_state(backend):
    with backends.uncompiled() if backend == "inductor" else contextlib.nullcontext():
        for number in STATEFUL:
            verdict = oracle.judge(generate.write(f"ci-{number}"), backend)
            assert not verdict.bad, f"ci-{number} on {backend}: {verdict.reason}\n{verdict.detail}"


@pytest.mark.slow
@pytest.mark.parametrize("backend", backends.NAMES)
def test_none_of_many_random_programs_differs_beyond_rounding(backend):
    judged(backend, "slow", range(300), 8)


def test_the_programs_written_are_valid_python():
    for number in range(100):
        compile(Carries(Seeded(f"carries-{number}"), 8).program().source, "<carries>", "exec")


def test_a_decision_that_rounding_may_change_is_left_out():
    near, far = (backends.judge(Program(SIGN.format(limit=limit)), "cpp", carries=True) for limit in ("0", "0.1"))
    assert (near.kind, far.kind) == (Kind.SAME, Kind.SAME)
    assert near.calls < far.calls == 6


def test_only_results_within_the_spread_are_close():
    allowed = spread((torch.ones(2), 0.5), [(torch.ones(2) + 1e-6, 0.5)])
    close((torch.ones(2), 0.5), (torch.ones(2) + 4e-6, 0.5), allowed)
    for other in ((torch.ones(2) + 2e-5, 0.5), (torch.ones(2), 0.6), (torch.ones(2), 1), (torch.full((2,), torch.nan), 0.5)):
        with pytest.raises(Difference):
            close((torch.ones(2), 0.5), other, allowed)


def test_texts_that_are_alike():
    assert alike("a: [0.1, nan] #1", "a: [0.1000001, nan] #1")
    assert alike("1e-09 -0.0", "0.0 0.0")
    for other in ("a: [0.2, nan] #1", "a: [0.1, nan] #2", "a: [0.1, inf] #1", "b: [0.1, nan] #1", "a: [0.1] #1"):
        assert not alike("a: [0.1, nan] #1", other)


def test_names_of_what_makes_gradients_are_not_compared():
    with backends.uncompiled():
        assert backends.judge(Program(PRINTED, grad=True), "inductor", carries=True).kind is Kind.SAME


def test_compiled_code_may_give_gradients_that_eager_refuses():
    refused, given = (backends._Seen({"result": 1, what: []}, None, []) for what in ("an error in backward", "gradients"))
    assert backends._differs(refused, given, [refused], ("", ""), "call 0") is None
    refused, given = (backends._Seen({"result": 1, what: []}, None, []) for what in ("an error in backward", "gradients"))
    verdict = backends._differs(given, refused, [given], ("", ""), "call 0")
    assert verdict is not None and verdict.reason == "whether there are gradients"
