"""Functions of ``itertools`` and ``functools`` over what only the program knows the length of, in Python: they are converted."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def takewhile(predicate: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.takewhile``, all at once."""
    taken = []
    for value in values:
        if not predicate(value):
            break
        taken.append(value)
    return taken


def dropwhile(predicate: Callable[[Any], Any], values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.dropwhile``, all at once."""
    taken = []
    is_dropping = True
    for value in values:
        if is_dropping:
            if predicate(value):
                continue
            is_dropping = False
        taken.append(value)
    return taken


def filterfalse(predicate: Callable[[Any], Any] | None, values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.filterfalse``, all at once."""
    if predicate is None:
        return [value for value in values if not value]
    return [value for value in values if not predicate(value)]


def compress(values: Iterable[Any], selectors: Iterable[Any]) -> list[Any]:
    """Return ``itertools.compress``, all at once."""
    return [value for value, is_selected in zip(values, selectors) if is_selected]


def islice(values: Iterable[Any], start: int, stop: int, step: int) -> list[Any]:
    """Return ``itertools.islice``, all at once."""
    if stop < 0:
        raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if start < 0 or step < 1:
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    taken = [value for _, value in zip(range(stop), values)]  # asks for no value after the last
    return taken[start::step]


def islice_from(values: Iterable[Any], start: int, step: int) -> list[Any]:
    """Return ``itertools.islice`` without an end, all at once."""
    if start < 0 or step < 1:
        raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    items = [*values]
    return items[start::step]


def repeat(value: Any, times: int) -> list[Any]:
    """Return ``itertools.repeat``, all at once."""
    return [value for _ in range(times)]


def chain(*many: Iterable[Any]) -> list[Any]:
    """Return ``itertools.chain``, all at once."""
    joined: list[Any] = []
    for values in many:
        joined = [*joined, *values]
    return joined


def pairwise(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    """Return ``itertools.pairwise``, all at once."""
    items = [*values]
    return [(items[place], items[place + 1]) for place in range(len(items) - 1)]


def groupby(values: Iterable[Any], key: Callable[[Any], Any] | None) -> list[tuple[Any, list[Any]]]:
    """Return the pairs of ``itertools.groupby(values, key)``, with a list for each group."""
    items = [*values]
    known = items if key is None else [key(item) for item in items]
    starts = [place for place in range(len(items)) if place == 0 or not known[place] == known[place - 1]]  # noqa: SIM201
    return [(known[start], items[start:end]) for start, end in zip(starts, [*starts[1:], len(items)])]


def merge(key: Callable[[Any], Any] | None, reverse: bool, *many: Iterable[Any]) -> list[Any]:
    """Return ``heapq.merge``, all at once: of equal items, those of the first iterable come first."""
    rows = [[*values] for values in many]
    ranks = rows if key is None else [[key(item) for item in row] for row in rows]
    places = [0 for _ in rows]
    merged: list[Any] = []
    for _ in range(sum([len(row) for row in rows])):
        best = -1
        for number in range(len(rows)):
            if places[number] < len(rows[number]):
                if best < 0:
                    best = number
                else:
                    rank, other = ranks[number][places[number]], ranks[best][places[best]]
                    if (rank > other) if reverse else (rank < other):
                        best = number
        merged.append(rows[best][places[best]])
        places[best] += 1
    return merged


def accumulate(values: Iterable[Any], function: Callable[[Any, Any], Any]) -> list[Any]:
    """Return ``itertools.accumulate``, all at once."""
    totals: list[Any] = []
    for value in values:
        totals.append(function(totals[-1], value) if totals else value)
    return totals


def product(*many: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return ``itertools.product``, all at once."""
    rows: list[tuple[Any, ...]] = [()]
    for values in many:
        items = [*values]
        rows = [(*row, item) for row in rows for item in items]
    return rows


def starmap(function: Callable[..., Any], values: Iterable[Any]) -> list[Any]:
    """Return ``itertools.starmap``, all at once."""
    return [function(*arguments) for arguments in values]


def zip_longest(fill: Any, *many: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return ``itertools.zip_longest``, all at once."""
    rows = [[*values] for values in many]
    count = max([len(row) for row in rows])
    return [tuple([row[place] if place < len(row) else fill for row in rows]) for place in range(count)]


def combinations(values: Iterable[Any], size: int) -> list[tuple[Any, ...]]:
    """Return ``itertools.combinations`` of a size that Python knows, all at once."""
    found: list[tuple[Any, ...]] = []
    _combine([*values], size, 0, 1, (), found)
    return found


def combinations_with_replacement(values: Iterable[Any], size: int) -> list[tuple[Any, ...]]:
    """Return ``itertools.combinations_with_replacement`` of a size that Python knows, all at once."""
    found: list[tuple[Any, ...]] = []
    _combine([*values], size, 0, 0, (), found)
    return found


def _combine(items: list[Any], size: int, start: int, step: int, taken: tuple[Any, ...], found: list[tuple[Any, ...]]) -> None:
    """Add what can be made of some items and those from a place on; ``step`` is how far the next one lies behind one at least."""
    if size == 0:
        found.append(taken)
        return
    for place in range(start, len(items)):
        _combine(items, size - 1, place + step, step, (*taken, items[place]), found)


def permutations(values: Iterable[Any], size: int) -> list[tuple[Any, ...]]:
    """Return ``itertools.permutations`` of a size that Python knows, all at once."""
    found: list[tuple[Any, ...]] = []
    _permute([*values], size, (), found)
    return found


def _permute(items: list[Any], size: int, places: tuple[int, ...], found: list[tuple[Any, ...]]) -> None:
    if len(places) == size:
        found.append(tuple([items[place] for place in places]))
        return
    for place in range(len(items)):
        if all(place != other for other in places):
            _permute(items, size, (*places, place), found)


def reduce(function: Callable[[Any, Any], Any], values: Iterable[Any]) -> Any:
    """Return ``functools.reduce`` without an initial value."""
    items = [*values]
    if not items:
        raise TypeError("reduce() of empty iterable with no initial value")
    result = items[0]
    for item in items[1:]:
        result = function(result, item)
    return result


def reduce_from(function: Callable[[Any, Any], Any], values: Iterable[Any], initial: Any) -> Any:
    """Return ``functools.reduce`` with an initial value."""
    result = initial
    for item in values:
        result = function(result, item)
    return result
