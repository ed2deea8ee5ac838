"""Small random programs whose loops and branches rebind names and attributes to containers of this call, or from outside, and write to them."""

from __future__ import annotations

import textwrap

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

SIZE = 5
"""About how many statements a program has."""

_WORLD = """\
import torch


class Box:
    def __init__(self, h, parts=None):
        self.h = h
        self.parts = parts


st = Box({0}, {0})
far = {0}
"""
_KINDS = {
    "dict": {
        "new": ["{{'k': {v}}}", "dict({o})", "{{**{o}}}", "{{'k': {v}, 'u': x}}", "{o}.copy()"],
        "write": ["{o}['k'] = {v}", "{o}['u'] = {v}", "{o}.clear()", "{o}.pop('u', None)", "{o}.update(k={v})", "{o}.setdefault('k', {v})", "{o} |= {{'k': {v}}}", "{o}['k'] += 1"],
        "read": ["{o}.get('k', x)", "len({o})", "sum({o}.values())", "list({o})[:1]", "'u' in {o}"],
    },
    "list": {
        "new": ["[{v}]", "[]", "list({o})", "{o} + [{v}]", "{o}[:1]", "{o}[::-1]"],
        "write": ["{o}.append({v})", "{o}[:1] = [{v}]", "{o}.clear()", "{o}.reverse()", "{o} += [{v}]", "{o}.insert(0, {v})", "if {o}: {o}[0] = {v}", "if {o}: {o}.pop()"],
        "read": ["len({o})", "sum({o})", "{o}[-1] if {o} else x", "[e + 1 for e in {o}]"],
    },
    "object": {
        "new": ["Box({v})", "Box({v}, {o})"],
        "write": ["{o}.h = {v}", "{o}.h = {o}.h + 1", "{o}.parts = {o2}", "{o}.parts = None", "{o}.h += x"],
        "read": ["{o}.h", "{o}.parts is {o2}", "{o}.parts is None"],
    },
    "nested": {
        "new": ["[[{v}]]", "[{o}[0], [{v}]]", "[{o}[0]]", "[list(p) for p in {o}]"],
        "write": ["{o}[0][0] = {v}", "{o}[0].append({v})", "{o}[0] = {o2}[0]", "{o}[-1][0] = {v}", "{o}[0] = [{v}]"],
        "read": ["{o}[0][0]", "len({o}[0])", "{o}[0] is {o2}[0]", "{o}[0] is {o}[-1]"],
    },
}  # fmt: skip
"""Expressions of a kind of container: ``o``, ``o2`` are places that hold one, ``v`` is a tensor."""
_FIRST = {"dict": "{'k': torch.ones(2)}", "list": "[torch.ones(2)]", "object": "Box(torch.ones(2))", "nested": "[[torch.ones(2)]]"}
_PLACES = ["a", "b", "c", "st.h", "st.parts", "far"]


class _Writer:
    """Writes one program about containers of one kind."""

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget, self._loops = choices, size, 0
        self.kind = choices.pick(list(_KINDS))

    def place(self) -> str:
        """A place that holds a container."""
        return self.choices.pick(_PLACES)

    def filled(self, role: str) -> str:
        """An expression or statement of the kind."""
        value = self.choices.pick(["x + n", "x * 2", "y", "x * 0", "y + 1", "torch.ones(2)"])
        place = self.place()
        text = self.choices.pick(_KINDS[self.kind][role])
        if " += " in text or " |= " in text:
            place = self.choices.pick(["a", "b", "c", "st.h"])
        return text.format(v=value, o=place, o2=self.place())

    def test(self) -> str:
        """Something to test."""
        own = f"i{self._loops}" if self._loops else "n"
        forms = ["x.sum() > 0", "x[0] > 1", "n > 1", f"x.sum() > {own}", f"{self.place()} is {self.place()}", "y.sum() < 3"]
        return self.choices.pick(forms)

    def block(self, depth: int) -> str:
        """Some statements."""
        return "\n".join(self.statement(depth) for _ in range(self.choices.count(1, 3)))

    def statement(self, depth: int) -> str:
        """One statement."""
        self._budget -= 1
        form = self.choices.count(0, 11)
        inside = lambda: textwrap.indent(self.block(depth - 1), "    ")  # noqa: E731
        if depth and form == 0:
            text = f"if {self.test()}:\n{inside()}"
            return text + (f"\nelse:\n{inside()}" if self.choices.chance(50) else "")
        if depth and form <= 2:
            return self.loop(inside)
        if form <= 4:
            return f"{self.place()} = {self.filled('new')}"
        if form <= 6:
            return f"{self.place()} = {self.place()}"
        if form == 7:
            return f"if {self.test()}:\n    {self.place()} = {self.filled('new')}"
        if form == 8:
            return f"seen.append({self.filled('read')})"
        return self.filled("write")

    def loop(self, inside) -> str:  # type: ignore[no-untyped-def]
        """A loop that ends."""
        self._loops += 1
        name = f"i{self._loops}"
        head = self.choices.pick(["for {} in range(int(n)):", "while {} < n:", "while {} < n:", "for {} in range(2):"]).format(name)
        body = inside()
        if head.startswith("while"):
            body = f"    {name} = {name} + 1\n{body}"
            head = f"{name} = {self.choices.pick(['0', 'n * 0'])}\n{head}"
        end = f"\n    if {self.test()}:\n        {self.choices.pick(['break', 'continue'])}" if self.choices.chance(20) else ""
        self._loops -= 1
        return f"{head}\n{body}{end}"

    def program(self) -> Program:
        """A program and its calls."""
        first = _FIRST[self.kind]
        lines = [f"{name} = {self.choices.pick([first.replace('torch.ones(2)', 'x * 1'), 'far', 'st.h', 'st.parts', 'a' if name != 'a' else 'far'])}" for name in "abc"]  # fmt: skip
        lines += ["y = x + 1", "seen = []"]
        while self._budget > 0:
            lines.append(self.statement(2))
        kept = [name for name in ("a", "b", "c") if self.choices.chance(50)]
        lines.append(f"return {', '.join([*kept, 'seen', 'y'])}")
        body = textwrap.indent("\n".join(["global far", *lines]), "    ")
        source = f"{_WORLD.format(first)}\n\ndef program(x, n):\n{body}\n"
        return Program(source, tuple(self.call(number) for number in range(6)))

    def call(self, number: int) -> Call:
        """One call, and what happens to the objects before it."""
        first = _FIRST[self.kind]
        anew = [f"st.h = {first}", f"st.parts = {first}", f"far = {first}"]
        before = self.choices.pick([anew, anew, [*anew[:2], "far = st.h"], [*anew[:1], *anew[2:], "st.parts = st.h"], []])
        x = self.choices.pick(["[1.0, 2.0]", "[-1.0, -2.0]", "[1.5, -1.0]", "[0.5, 0.0]"])
        return Call(tuple(before), f"torch.tensor({x}), torch.tensor({self.choices.pick('0123')})")


def write(seed: str, size: int = SIZE) -> Program:
    """Write one program."""
    return _Writer(Seeded(seed), size).program()
