"""Altered archives, each one told by its number: the same number always gives the same bytes."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import random
import zipfile
from collections.abc import Mapping
from typing import Any

from dy2st_runtime.archive import container

ODD = (
    None, True, False, 0, 1, -1, 2, 7, 100, 2**31 - 1, 2**31, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**40, -(2**63), 0.0, -0.0,
    1e308, 5e-324, "", "x", "\x00", "../x", "aten.add.Tensor", [], {}, [[]], {"": 0}, {"tuple": []}, {"float": "nan"}, {"leaf": 0},
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Mutant:
    """An altered archive.

    Attributes:
        number: what it is told by.
        kind: how it was made.
        reference: the archive it was made of.
        data: its bytes.
        sealed: whether its hashes fit what is in it, as those of an attacker's file would.
    """

    number: int
    kind: str
    reference: str
    data: bytes
    sealed: bool = False


def mutant(number: int, references: Mapping[str, bytes]) -> Mutant:
    """The mutant with a number; the first ones are all lengths to which the smallest archive can be cut."""
    small = references["small"]
    if number < len(small):
        return Mutant(number, "cut", "small", small[:number])
    choose = random.Random(number)
    kind = choose.choices(list(_KINDS), weights=[5, 3, 2, 1, 1, 1, 4, 1])[0]
    name = choose.choices(list(references), weights=[4, 5, 1])[0]
    data = _KINDS[kind](choose, references[name], references)
    return Mutant(number, kind, name, data, kind in ("documents", "headers"))


def _flips(choose: random.Random, data: bytes, _: Any) -> bytes:
    changed = bytearray(data)
    for _ in range(choose.choice((1, 1, 1, 2, 8))):
        changed[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    return bytes(changed)


def _overwrite(choose: random.Random, data: bytes, references: Mapping[str, bytes]) -> bytes:
    """Bytes from elsewhere, of the same or another archive, or all alike."""
    length = choose.choice((1, 2, 4, 8, 64, 512))
    source = choose.choice([data, *references.values(), bytes(1024), b"\xff" * 1024])
    start, other = choose.randrange(len(data)), choose.randrange(max(len(source) - length, 1))
    piece = source[other : other + length][: len(data) - start]
    return data[:start] + piece + data[start + len(piece) :]


def _cut(choose: random.Random, data: bytes, _: Any) -> bytes:
    return data[: choose.randrange(len(data))]


def _insert(choose: random.Random, data: bytes, _: Any) -> bytes:
    start = choose.randrange(len(data) + 1)
    return data[:start] + choose.randbytes(choose.choice((1, 8, 64))) + data[start:]


def _remove(choose: random.Random, data: bytes, _: Any) -> bytes:
    start = choose.randrange(len(data))
    return data[:start] + data[start + choose.choice((1, 8, 64)) :]


def _swap(choose: random.Random, data: bytes, references: Mapping[str, bytes]) -> bytes:
    """Members of another archive, in another order, under other names, or missing; the container itself is whole."""
    members = read(data)
    way = choose.randrange(4)
    name, other = choose.sample(list(members), 2)
    if way == 0:
        members[name] = read(references[choose.choice(list(references))])[name]
    elif way == 1:
        members[name], members[other] = members[other], members[name]
    elif way == 2:
        items = list(members.items())
        choose.shuffle(items)
        members = dict(items)
    else:
        del members[name]
    return written(members)


def _documents(choose: random.Random, data: bytes, _: Any) -> bytes:
    """A document with other values in it, under hashes that fit."""
    members = read(data)
    name = choose.choice(("program.json", "program.json", "program.json", "signature.json"))
    document = json.loads(members[name])
    for _ in range(choose.choice((1, 1, 2, 4))):
        _change(choose, document)
    return sealed(members | {name: json.dumps(document).encode()})


def _headers(choose: random.Random, data: bytes, _: Any) -> bytes:
    """Weights with another header, under hashes that fit."""
    members = read(data)
    found = members["weights.safetensors"]
    length = int.from_bytes(found[:8], "little")
    header = json.loads(found[8 : 8 + length])
    for _ in range(choose.choice((1, 1, 2))):
        _change(choose, header)
    text = json.dumps(header).encode()
    return sealed(members | {"weights.safetensors": len(text).to_bytes(8, "little") + text + found[8 + length :]})


def _change(choose: random.Random, document: Any) -> None:
    """Replace, repeat, move or remove one part of a document, anywhere in it."""
    places = list(_places(document))
    if not places:
        return
    holder, key = choose.choice(places)
    way = choose.randrange(5)
    if way == 0:
        holder[key] = _copy(choose.choice(ODD))
    elif way == 1:
        other, at = choose.choice(places)
        holder[key] = _copy(other[at])
    elif way == 2:
        del holder[key]
    elif way == 3 and isinstance(holder, list):
        holder.insert(key, _copy(holder[key]))
    elif type(holder[key]) is int:
        holder[key] += choose.choice((-1, 1, 1000))
    else:
        holder[key] = _copy(choose.choice([other[at] for other, at in places if type(other[at]) is type(holder[key])]))


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _places(value: Any) -> Any:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


_KINDS = {
    "flips": _flips, "overwrite": _overwrite, "cut": _cut, "insert": _insert, "remove": _remove, "swap": _swap,
    "documents": _documents, "headers": _headers,
}  # fmt: skip


def read(data: bytes) -> dict[str, bytes]:
    """The members of an archive."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def written(members: Mapping[str, bytes]) -> bytes:
    """An archive with these members, in its canonical form."""
    file = io.BytesIO()
    container.write(file, members)
    return file.getvalue()


def sealed(members: Mapping[str, bytes]) -> bytes:
    """An archive with these members and a manifest that fits them."""
    manifest = json.loads(members["manifest.json"])
    manifest["members"] = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != "manifest.json"
    }
    return written(dict(members) | {"manifest.json": json.dumps(manifest).encode()})
