"""Two texts side by side, to read what has become of one.

if x.sum() > 0:                        |     def then_1():
                                       >         nonlocal x
    x = x * 2                                    x = x * 2
"""

from __future__ import annotations

import difflib
import itertools
import textwrap
from collections.abc import Iterator, Sequence

_Row = tuple[str | None, str | None]
_SIMILAR = 0.6


def side_by_side(left: str, right: str, width: int) -> str:
    """Return both texts in columns; the sign between them says that lines differ (`|`) or stand on one side only (`<`, `>`).

    Args:
        left: the text before.
        right: the text after.
        width: of a whole line; longer lines of the texts go on below.
    """
    column = max((width - 3) // 2, 10)
    lines = []
    for before, after in _rows(left.splitlines(), right.splitlines()):
        sign = ">" if before is None else "<" if after is None else " " if _key(before) == _key(after) else "|"
        for a, b in itertools.zip_longest(_wrapped(before, column), _wrapped(after, column), fillvalue=""):
            lines.append(f"{a:<{column}} {sign} {b}".rstrip())
            sign = " "
    return "\n".join(lines)


def _rows(left: Sequence[str], right: Sequence[str]) -> Iterator[_Row]:
    matcher = difflib.SequenceMatcher(None, [_key(line) for line in left], [_key(line) for line in right], autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        yield from zip(left[a:b], right[c:d]) if kind == "equal" else _changed(left[a:b], right[c:d])


def _changed(left: Sequence[str], right: Sequence[str]) -> Iterator[_Row]:
    """Yield lines that became similar ones stand next to those."""
    done = 0
    for before in left:
        similar = (n for n in range(done, len(right)) if _similarity(before, right[n]) > _SIMILAR)
        result = next(similar, None)
        if result is None:
            yield before, None
            continue
        yield from ((None, after) for after in right[done:result])
        yield before, right[result]
        done = result + 1
    yield from ((None, after) for after in right[done:])


def _similarity(a: str, b: str) -> float:
    return difflib.SequenceMatcher(None, _key(a), _key(b), autojunk=False).ratio()


def _key(line: str) -> str:
    """Return a line as it compares: how deep it stands and how its strings are quoted does not matter."""
    return line.strip().replace('"', "'")


def _wrapped(line: str | None, width: int) -> list[str]:
    if not line:
        return [""]
    indent = " " * min(len(line) - len(line.lstrip()), width // 2)
    return textwrap.wrap(line.strip(), width, initial_indent=indent, subsequent_indent=indent + "  ", break_on_hyphens=False)
