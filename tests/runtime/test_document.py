import pytest

from dy2st_runtime import LoadError
from dy2st_runtime.ir.document import Json, dump, parse


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"\xff",
        b"[NaN]",
        b"[Infinity]",
        b"[1e999]",
        b'{"a": 1, "a": 2}',
        b"[" * 100_000,
        b"9" * 10_000,
        b"1 2",
    ],
)
def test_what_is_not_json(text):
    with pytest.raises(LoadError, match=r"^p.json is not valid JSON: "):
        parse(text, "p.json")


def test_a_value_is_asked_for_with_its_type():
    json = parse(b'{"n": 3, "t": ["a", true]}', "p.json")
    assert json.field("n").integer(0) == 3
    assert json.field("t").array()[0].text() == "a"
    assert json.field("t").array()[1].boolean() is True
    assert json.optional("missing") is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda json: json.field("missing"), "p.json: has no field 'missing'"),
        (lambda json: json.field("n").text(), "p.json:.n is 3, expected a string"),
        (lambda json: json.field("n").integer(4), "p.json:.n is 3, expected an integer of at least 4"),
        (lambda json: json.field("t").array()[1].integer(), r"p.json:.t\[1\] is true, expected an integer"),
        (lambda json: json.field("t").array(3), "expected an array of 3 items"),
        (lambda json: json.field("t").array()[0].text(("b", "c")), 'is "a", expected one of b, c'),
        (lambda json: json.field("n").field("x"), "p.json:.n is 3, expected an object"),
    ],
)
def test_a_wrong_type_names_its_place(ask, message):
    with pytest.raises(LoadError, match=message):
        ask(parse(b'{"n": 3, "t": ["a", true]}', "p.json"))


def test_long_values_are_shortened():
    with pytest.raises(LoadError, match=r"\.\.\., expected an integer\n"):
        Json("x" * 1000, "p").integer()


def test_text_round_trip_keeps_what_utf8_does_not_have():
    assert parse(dump(["é\ud800\0"]), "p.json").value == ["é\ud800\0"]
