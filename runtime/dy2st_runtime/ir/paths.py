"""Where on a module a value is: ``encoder.weight``, ``rnn.h``, ``state[0]``, ``cache['k']``."""

from __future__ import annotations

import dataclasses
import functools
import re

Key = str | int
_STEP = r"\[(?:0|[1-9]\d*|'\w+')\]"
_ITEMS = re.compile(rf"(?:{_STEP})+$")
_ATTRIBUTE = re.compile(rf"self((?:\.\w+)+(?:{_STEP})*)")


@dataclasses.dataclass(frozen=True)
class Path:
    """A place on a module.

    Attributes:
        owner: the names of the submodules on the way.
        name: of the parameter, buffer or attribute.
        items: the steps inside the attribute, which is a list, tuple or dict then.
    """

    owner: tuple[str, ...]
    name: str
    items: tuple[Key, ...] = ()

    def __str__(self) -> str:
        return ".".join((*self.owner, self.name)) + "".join(map(step, self.items))


@functools.lru_cache(maxsize=4096)
def parse(name: str, items: bool = True) -> Path:
    """Return the place with a name.

    Args:
        name: as a state slot has it.
        items: whether it may be inside of an attribute; names of parameters and buffers may hold any character.
    """
    inside = _ITEMS.search(name) if items else None
    steps = re.findall(_STEP, inside[0]) if inside else []
    *owner, last = (name[: inside.start()] if inside else name).split(".")
    return Path(tuple(owner), last, tuple(s[2:-2] if s[1] == "'" else int(s[1:-1]) for s in steps))


def step(key: Key) -> str:
    """Return how one step inside an attribute is written."""
    return f"[{key!r}]"


def is_key(key: object) -> bool:
    """Tell whether a list position or dict key can be written as a step."""
    if type(key) is int:
        return key >= 0
    return isinstance(key, str) and re.fullmatch(r"\w+", key) is not None


def written(target: str) -> Path | None:
    """Return the place that an effect writes, from what the user wrote (``self.rnn.h``); ``None`` if it is no attribute."""
    result = _ATTRIBUTE.fullmatch(target)
    return parse(result[1].removeprefix(".")) if result else None
