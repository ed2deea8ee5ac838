"""Random training steps leave what eager leaves; ``python -m tests.fuzz.training`` runs more."""

import warnings

import pytest

from tests.fuzz.training import judge


@pytest.mark.parametrize("number", [0, 2, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 3, 4, 5))])
def test_random_training_steps(number):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        verdict = judge(f"ci-{number}")
    assert verdict == "same", verdict
