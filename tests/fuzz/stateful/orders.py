"""Small random programs that put keys into dicts and attributes into objects, take them out and ask for their order."""

from __future__ import annotations

import textwrap

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

SIZE = 8
"""About how many statements a program has."""

_WORLD = """\
import collections
import torch


class Box:
    pass


st = Box()
st.h = {first}
d = {first}
"""
_DICT = {
    "write": ["{o}['{k}'] = {v}", "{o}['{k}'] = {v}", "{o}.update({k}={v})", "{o}.setdefault('{k}', {v})", "{o} |= {{'{k}': {v}}}"],
    "take": ["{o}.pop('{k}', None)", "{o}.clear()", "if '{k}' in {o}: del {o}['{k}']", "if {o}: {o}.popitem()", "{o} = dict({o})"],
    "ask": ["list({o})", "[*{o}.values()]", "next(iter({o}), None)", "'{k}' in {o}", "dict({o})", "[*{o}.items()]", "[k + 'z' for k in {o}]",
            "sorted({o}.keys() - {{'{k}': 1}})", "sorted({o}.keys() & ['{k}', 'c'])", "{o}.keys() <= {{'{k}', 'a'}}",
            "{o}.keys().isdisjoint(['{k}'])", "next(iter({o}.values()), None)", "next(iter({o}.items()), '{k}')"],
    "walk": ["for key in {o}", "for key, z in {o}.items()", "for key, z in {o}.items()", "for z in {o}.values()", "for key in {o}.keys()",
             "for key in list({o})", "for key, z in enumerate({o}.values())"],
    "step": ["{o}.pop(key, None)", "{o}['{k}'] = {v}", "{o}[key] = {v}", "{o}[key] = {o}.pop(key, 0)", "y = y + len({o})", "{o}.pop('{k}', None)"],
}  # fmt: skip
_KINDS = {
    "dict": ("{}", _DICT),
    "filled": ("{'c': torch.zeros(1), 'a': torch.ones(1)}", _DICT),
    "ordered": (
        "collections.OrderedDict(b=torch.ones(1))",
        {
            **_DICT,
            "take": [*_DICT["take"][:-1], "if '{k}' in {o}: {o}.move_to_end('{k}', last=False)", "if {o}: {o}.popitem(last=False)"],
        },
    ),
    "counter": ("collections.defaultdict(int)", {**_DICT, "write": [*_DICT["write"], "{o}['{k}'] += {v}"]}),
    "object": (
        "Box()",
        {
            "write": ["{o}.{k} = {v}", "setattr({o}, '{k}', {v})"],
            "take": ["if hasattr({o}, '{k}'): del {o}.{k}", "{o}.__dict__.pop('{k}', None)"],
            "ask": ["list(vars({o}))", "list({o}.__dict__.values())", "getattr({o}, '{k}', 0)", "[*vars({o}).items()]"],
            "walk": ["for key in vars({o})", "for key, z in vars({o}).items()", "for key in list({o}.__dict__)"],
            "step": ["{o}.{k} = {v}", "setattr({o}, key, {v})", "y = y + 1", "delattr({o}, key)"],
        },
    ),
}
"""What is kept in the places at first, and statements and expressions: ``o`` is a place, ``k`` a key, ``v`` a tensor."""


class _Writer:
    """Writes one program about keys in containers of one kind."""

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget, self._loops = choices, size, 0
        self.first, self.forms = _KINDS[choices.pick(list(_KINDS))]
        self.places = choices.pick([["d"], ["st.h"], ["new"], ["d", "new"], ["d", "st.h"]])

    def filled(self, role: str) -> str:
        """An expression or statement of a kind."""
        value = self.choices.pick(["x + 1", "x * 2", "y", "y - 1"])
        return self.choices.pick(self.forms[role]).format(o=self.choices.pick(self.places), k=self.choices.pick("abcd"), v=value)

    def test(self) -> str:
        """Something to test."""
        own = f"i{self._loops}" if self._loops else "n"
        return self.choices.pick(["x.sum() > 0", "x[0] > 2", "n > 1", f"x.sum() > {own}", "y.sum() < 3", f"{own} == 1"])

    def block(self, depth: int) -> str:
        """Some statements."""
        return "\n".join(self.statement(depth) for _ in range(self.choices.count(1, 3)))

    def statement(self, depth: int) -> str:
        """One statement."""
        self._budget -= 1
        form = self.choices.count(0, 9)
        if depth and form <= 1:
            text = f"if {self.test()}:\n{textwrap.indent(self.block(depth - 1), '    ')}"
            return text + (f"\nelse:\n{textwrap.indent(self.block(depth - 1), '    ')}" if self.choices.chance(50) else "")
        if depth and form == 2:
            return self.loop(depth)
        if depth and form == 8 and self.choices.chance(50):
            return self.walk()
        if form == 3:
            return f"if {self.test()}:\n{textwrap.indent(self.filled('take'), '    ')}"
        if form <= 5:
            return self.filled("take")
        return f"seen.append({self.filled('ask')})" if form == 6 else self.filled("write")

    def loop(self, depth: int) -> str:
        """A loop over numbers, which may be left early."""
        self._loops += 1
        name = f"i{self._loops}"
        body = self.block(depth - 1) + self.choices.pick(["", "", f"\nx = x + {name}", "\ny = y * 2"])
        if self.choices.chance(25):
            body += f"\nif {self.test()}:\n    {self.choices.pick(['break', 'continue'])}\n{self.filled('write')}"
        self._loops -= 1
        return f"for {name} in range({self.choices.pick(['int(n)', 'n', '2'])}):\n{textwrap.indent(body, '    ')}"

    def walk(self) -> str:
        """A loop over a container, which an iteration may change before it leaves the loop, or goes on."""
        place, key = self.choices.pick(self.places), self.choices.pick("abcd")
        head, step = (self.choices.pick(self.forms[role]).format(o=place, k=key, v="x + 1") for role in ("walk", "step"))
        names = head.removeprefix("for ").split(" in ")[0]
        step = step if "key" in names or "key" not in step else "y = y - z"
        test = self.choices.pick([self.test(), "z.sum() > y.sum()" if "z" in names else self.test(), "len(seen) < 3"])
        end = self.choices.pick(["", "\n    break", "\n    break", "\n    continue"])
        return f"{head}:\n    seen.append(({names},))\n    if {test}:\n        {step}{textwrap.indent(end, '    ')}"

    def program(self) -> Program:
        """A program and its calls."""
        lines = [f"new = {self.first}", "y = x + 1", "seen = []"]
        while self._budget > 0:
            lines.append(self.statement(2))
        lines.append(f"return {', '.join([*self.places, 'seen'])}")
        body = textwrap.indent("\n".join(["global d", *lines]), "    ")
        source = f"{_WORLD.format(first=self.first)}\n\ndef program(x, n):\n{body}\n"
        return Program(source, tuple(self.call() for _ in range(8)))

    def call(self) -> Call:
        """One call; before some, all is what it was at first."""
        before = ("st.h = " + self.first, "d = " + self.first) if self.choices.chance(60) else ()
        x = self.choices.pick(["[1.0]", "[-1.0]", "[3.0]", "[0.5]"])
        return Call(before, f"torch.tensor({x}), torch.tensor({self.choices.pick('0123')})")


def write(seed: str, size: int = SIZE) -> Program:
    """Write one program."""
    return _Writer(Seeded(seed), size).program()
