"""What a program writes outside, as plain data and back."""

from __future__ import annotations

from typing import Any

from dy2st_runtime.call.on_raise import Leave
from dy2st_runtime.ir import constants, structure_json
from dy2st_runtime.ir.document import Json
from dy2st_runtime.ir.program import Effect, ObjectPlace, Program

EFFECT_KINDS = ("set", "delete", "extend")
OBJECT_PLACES = ("argument", "state", "kept")


def _effect_to_json(effect: Effect) -> dict[str, Any]:
    results = {"target": effect.target, "kind": effect.kind, "value": structure_json.to_json(effect.value)}
    return results | ({"in_place": True} if effect.in_place else {})


def written_to_json(program: Program | Leave) -> dict[str, Any]:
    """Return the effects, and which objects of before the call stand in them."""
    results: dict[str, Any] = {"effects": [_effect_to_json(effect) for effect in program.effects]}
    if program.existing:
        results["existing"] = [[number, place_to_json(place)] for number, place in program.existing]
    return results


def place_to_json(place: ObjectPlace) -> dict[str, Any]:
    """Return where an object of before the call is found."""
    return {place.kind: [constants.encode(step) for step in place.path]}


def read_effects(json: Json) -> tuple[Effect, ...]:
    """Return the effects that :func:`written_to_json` gave."""
    return tuple(_read_effect(effect) for effect in json.field("effects").array())


def read_existing(json: Json) -> tuple[tuple[int, ObjectPlace], ...]:
    """Return the objects of before the call that stand in them."""
    return tuple((pair.array(2)[0].integer(0), read_place(pair.array(2)[1])) for pair in json.some("existing"))


def _read_effect(json: Json) -> Effect:
    value = structure_json.from_json(json.field("value"))
    in_place = json.optional("in_place")
    kind = json.field("kind").text(EFFECT_KINDS)
    return Effect(json.field("target").text(), kind, value, in_place is not None and in_place.boolean())


def read_place(json: Json) -> ObjectPlace:
    """Return the inverse of :func:`place_to_json`."""
    for kind in OBJECT_PLACES:
        if (path := json.optional(kind)) is not None:
            return ObjectPlace(kind, tuple(constants.decode(step) for step in path.array()))
    json.fail("a place")
