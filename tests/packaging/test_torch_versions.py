"""Which releases of PyTorch are taken, and what others are told."""

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch

from dy2st_runtime.ir.operators import present
from dy2st_runtime.torch_versions import TESTED, warn_if_untested

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("version", ["2.10.0", "2.16.0a0+git1234", "3.0.0"])
def test_a_release_outside_the_tested_ones_is_warned_of_with_their_names(version: str):
    with pytest.warns(UserWarning, match=re.escape(f"2.11, 2.12, 2.13, 2.14 and 2.15; with torch {version}")):
        warn_if_untested(version)


@pytest.mark.parametrize("version", ["2.11.0", "2.13.0+cpu", "2.15.1+cu132", "unknown"])
def test_a_tested_release_is_not_warned_of(version: str):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_untested(version)


def test_importing_the_package_under_an_untested_release_warns_once():
    program = (
        f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'runtime')]}; import torch; torch.__version__ = '2.99.0'; import dy2st"
    )
    done = subprocess.run([sys.executable, "-W", "always", "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.count("dy2st is tested with torch") == 1


def test_the_packaging_takes_every_tested_release_and_those_to_come():
    (pin,) = re.findall(r'"torch([<>=~][^"]*)"', (ROOT / "pyproject.toml").read_text())
    assert pin == f">={TESTED[0]}"


def test_an_operator_that_torch_lacks_costs_only_itself():
    aten = torch.ops.aten
    assert present("add.Tensor", "no_such_operator", "add.NoSuchOverload", "no_such_operator.default", "mul") == (
        aten.add.Tensor,
        aten.mul,
    )
