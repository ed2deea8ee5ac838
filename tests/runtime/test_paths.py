import pytest

from dy2st_runtime.ir import paths
from dy2st_runtime.ir.paths import Path

PLACES = [
    ("h", Path((), "h")),
    ("rnn.cell.h", Path(("rnn", "cell"), "h")),
    ("state[0]", Path((), "state", (0,))),
    ("a.state[12]['k']", Path(("a",), "state", (12, "k"))),
]


@pytest.mark.parametrize(("name", "place"), PLACES)
def test_names_and_places_convert_into_each_other(name, place):
    assert paths.parse(name) == place
    assert str(place) == name
    assert paths.written(f"self.{name}") == place


def test_names_of_parameters_hold_any_character():
    assert paths.parse("table.a[0]", items=False) == Path(("table",), "a[0]")


@pytest.mark.parametrize("target", ["h", "self", "self.", "self.h[-1]", "self.h[01]", "self.h['a b']", "self.h[0].x", "self.a-b"])
def test_what_is_no_place(target):
    assert paths.written(target) is None


@pytest.mark.parametrize("key", [0, 7, "k", "\u00e9"])
def test_a_key_is_written_and_parsed_back(key):
    assert paths.is_key(key)
    assert paths.parse(f"h{paths.step(key)}").items == (key,)


@pytest.mark.parametrize("key", [-1, True, 1.5, "a b", "", "'", None])
def test_what_is_no_key(key):
    assert not paths.is_key(key)
