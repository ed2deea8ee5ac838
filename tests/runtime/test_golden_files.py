"""Archives of every version of the format load and give the answers that they were saved with.

A golden archive holds its inputs and the results for them as buffers ``x0``, ``y0``, ``trips0``, ``stacked0``, …. Never
change one of these files; add one when the version changes (``tests/runtime/golden/README.md``).
"""

from pathlib import Path

import pytest
import torch

from dy2st_runtime import load
from dy2st_runtime.archive import serialize

FILES = sorted((Path(__file__).parent / "golden").glob("format-*.dy2st"))


def test_every_version_has_its_file():
    names = [file.name for file in FILES]
    assert names == [f"format-{serialize.VERSION[0]}.{minor}.dy2st" for minor in range(serialize.VERSION[1] + 1)]
    assert all(file.stat().st_size < 30_000 for file in FILES)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_gives_its_answers(file):
    model = load(file)
    for index in range(3):
        found, stacked = model(getattr(model, f"x{index}"))
        assert found["trips"] == getattr(model, f"trips{index}").item()
        torch.testing.assert_close(found["y"], getattr(model, f"y{index}"))
        torch.testing.assert_close(stacked, getattr(model, f"stacked{index}"))
    assert model.calls == 3
    torch.testing.assert_close(model.last, model.last_in_the_end)
    assert model.modes == ("train", "eval") and model.again is model.layer
    assert "scale" not in model.state_dict() and "layer.weight" in model.state_dict()


def test_the_newest_archive_has_several_methods_and_examples():
    """From version 1.1 on."""
    model = load(FILES[-1])
    (x, times), named = model.examples["fixed"]
    assert not named and times == 2
    torch.testing.assert_close(model.fixed(x, times), model.fixed_twice)
    assert model.methods[:2] == ("forward", "fixed") and model.calls == 1
    assert model.about["task"] == "golden" and model.about["documentation of fixed"] == "As many trips as asked for."


def test_results_are_the_containers_that_were_there():
    """From version 1.2 on."""
    model, given = load(FILES[-1]), [torch.ones(4)]
    recent = model.recent
    for x in (torch.ones(4), torch.zeros(4)):
        found, kept = model.remember(x, given)
        assert found is model.recent is recent and kept is given
    assert [row.sum().item() for row in recent] == [4, 0]


def test_what_was_written_before_an_exception_stays():
    """From version 1.3 on."""
    model = load(FILES[-1])
    with pytest.raises(ValueError, match="negative"):
        model.checked(-torch.ones(4))
    assert model.calls == 1


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_can_be_written_again(file, tmp_path):
    load(file).save(tmp_path / "once")
    load(tmp_path / "once").save(tmp_path / "twice")
    assert (tmp_path / "once").read_bytes() == (tmp_path / "twice").read_bytes()
