"""Small random programs whose lists of objects grow and shrink: what is put in, taken out, written to, and which is which."""

from __future__ import annotations

import textwrap

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

SIZE = 6
"""About how many statements a program has."""

_WORLD = """\
import dataclasses
import torch


{item}


class Box:
    def __init__(self):
        self.items = []
        self.last = None


st = Box()
rows = []
"""
_FIELDS = "    h: object\n    k: object = 0\n"
_KINDS = {
    "plain": "class Item:\n    def __init__(self, h, k=0):\n        self.h, self.k = h, k",
    "slots": 'class Item:\n    __slots__ = ("h", "k")\n\n    def __init__(self, h, k=0):\n        self.h, self.k = h, k',
    "dataclass": f"@dataclasses.dataclass(eq=False)\nclass Item:\n{_FIELDS}",
    "compared": f"@dataclasses.dataclass\nclass Item:\n{_FIELDS}",
    "frozen": f"@dataclasses.dataclass(frozen=True, eq=False)\nclass Item:\n{_FIELDS}",
    "dict": "def Item(h, k=0):\n    return {'h': h, 'k': k}",
}
_PUT = [
    "{l}.append({o})", "{l}.append({o})", "{l}.append(Item({v}, n))", "{l}.insert(0, {o})", "pairs.append(({o}, {o2}))", "pairs.append((n, {o}))",
    "{l} += [{o}, {o2}]", "{l}.extend({l2})", "if {l}: {l}[0] = {o}",
]  # fmt: skip
_TAKE = [
    "if {l}: {p} = {l}.pop()", "if {l}: {l}.pop(0)", "if {l}: {p} = {l}[-1]", "if {l}: {p} = {l}[0]", "{l}.clear()", "{l}.reverse()",
    "{l}[:] = [t for t in {l} if {t_h}.sum() > 1]", "if {l}: {p} = max({l}, key=lambda t: {t_h}.sum())", "{l}.sort(key=lambda t: float({t_h}.sum()))",
]  # fmt: skip
_ASK = [
    "{o} is {o2}", "[t is {o} for t in {l}]", "len({l})", "[{t_k} for t in {l}]", "{l}[0] is {l}[-1] if {l} else None", "{o_h}", "{o_k}",
    "any(t is {o} for t in {l2})", "[p[1] is {o} for p in pairs]",
]  # fmt: skip
"""Statements and expressions: ``l`` is a list, ``p`` a place of an object, ``o`` what is there, ``v`` a tensor."""


class _Writer:
    """Writes one program about lists of objects of one kind."""

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget, self._loops = choices, size, 0
        self.kind = choices.pick(list(_KINDS))
        self.lists = choices.pick([["rows"], ["more"], ["st.items"], ["rows", "more"], ["st.items", "rows"]])
        self.places = choices.pick([["a"], ["a", "b"], ["a", "st.last"]])

    def part(self, place: str, name: str) -> str:
        """An attribute of an item."""
        return f"{place}['{name}']" if self.kind == "dict" else f"{place}.{name}"

    def filled(self, forms: list[str]) -> str:
        """A statement or expression."""
        pick, place = self.choices.pick, self.choices.pick(self.places)
        return pick(forms).format(
            l=pick(self.lists), l2=pick(self.lists), o=place, o2=pick(self.places), p=pick(self.places), v=self.value(),
            t_h=self.part("t", "h"), t_k=self.part("t", "k"), o_h=self.part(place, "h"), o_k=self.part(place, "k"),
        )  # fmt: skip

    def value(self) -> str:
        """A tensor."""
        return self.choices.pick(["x + n", "x * 2", "x", "torch.ones(2)"])

    def test(self) -> str:
        """Something to test."""
        own = f"i{self._loops}" if self._loops else "n"
        return self.choices.pick(
            ["x.sum() > 0", "x[0] > 1", "n > 1", f"x.sum() > {own}", self.filled(["{o} is {o2}", "len({l}) > 1"])]
        )

    def write(self) -> str:
        """A statement that changes an item."""
        place = self.choices.pick(self.places)
        if self.kind == "frozen":
            return f"{place} = dataclasses.replace({place}, k=n)"
        return self.choices.pick([f"{self.part(place, 'k')} += 1", f"{self.part(place, 'h')} = {self.value()}"])

    def statement(self, depth: int) -> str:
        """One statement."""
        self._budget -= 1
        form = self.choices.count(0, 11)
        inside = lambda: textwrap.indent("\n".join(self.statement(depth - 1) for _ in range(self.choices.count(1, 2))), "    ")  # noqa: E731
        if depth and form <= 1:
            text = f"if {self.test()}:\n{inside()}"
            return text + (f"\nelse:\n{inside()}" if self.choices.chance(50) else "")
        if depth and form == 2:
            self._loops += 1
            text = f"for i{self._loops} in range({self.choices.pick(['int(n)', '2'])}):\n{inside()}"
            self._loops -= 1
            return text
        if form == 3 and self.kind != "frozen":
            return f"for t in {self.choices.pick(self.lists)}:\n    {self.part('t', 'k')} += 1"
        if form == 4:
            return f"{self.choices.pick(self.places)} = Item({self.value()}, n)"
        if form == 5:
            return self.write()
        if form <= 7:
            return f"seen.append({self.filled(_ASK)})"
        return self.filled(_TAKE) if form == 8 else self.filled(_PUT)

    def program(self) -> Program:
        """A program and its calls."""
        lines = ["a, more, pairs, seen = Item(x), [], [], []", "b = Item(x + 1)"]
        lines += ["if st.last is None:\n    st.last = a"] if "st.last" in self.places else []
        while self._budget > 0:
            lines.append(self.statement(2))
        kept = [name for name in ("a", "more", "pairs", "rows") if self.choices.chance(25)]
        lines.append(f"return {', '.join([*kept, 'seen', 'n'])}")
        body = textwrap.indent("\n".join(lines), "    ")
        source = f"{_WORLD.format(item=_KINDS[self.kind])}\n\ndef program(x, n):\n    global rows\n{body}\n"
        return Program(source, tuple(self.call() for _ in range(6)))

    def call(self) -> Call:
        """One call, and what happens to the objects before it."""
        before = self.choices.pick(
            [
                [],
                [],
                ["rows = []", "st.last = None"],
                ["st.items = rows"],
                ["rows.append(Item(torch.ones(2)))"],
                ["st.items.clear()"],
            ]
        )
        x = self.choices.pick(["[1.0, 2.0]", "[-1.0, -2.0]", "[1.5, -1.0]", "[0.5, 0.0]"])
        return Call(tuple(before), f"torch.tensor({x}), torch.tensor({self.choices.pick('0123')})")


def write(seed: str, size: int = SIZE) -> Program:
    """Write one program."""
    return _Writer(Seeded(seed), size).program()
