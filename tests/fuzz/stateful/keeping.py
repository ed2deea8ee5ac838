"""Random programs that can be saved: what they keep has one structure for ever, and is shared, replaced, swapped and filled anew.

Most programs of :mod:`tests.fuzz.stateful.generate` cannot be saved, since their lists grow and objects of the user's are arguments.
"""

from __future__ import annotations

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

_HEAD = """\
import collections
import contextlib
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass(eq=False)
class Box:
    h: torch.Tensor
    items: list


t = torch.tensor([0.5, 0.25])
kept = [torch.zeros(2), torch.ones(2)]
acc = [torch.zeros(2), torch.full((2,), 3.0)]
d = {"a": torch.zeros(2), "b": torch.ones(2)}
e = {"b": torch.ones(2), "a": torch.full((2,), 3.0)}
st = Box(torch.ones(2), acc)
ob = Box(torch.zeros(2), [torch.ones(2), torch.zeros(2)])
"""
_NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([0.5, -1.0]))
        self.register_buffer("b", torch.zeros(2))
        self.h = torch.zeros(2)
        self.init = torch.full((2,), 5.0)
        self.c = 0
        self.f = 0.5
        self.flag = False
        self.items = [torch.zeros(2), torch.ones(2)]
        self.table = {"a": torch.zeros(2), "b": torch.ones(2)}
        self.pair = (torch.zeros(2), torch.ones(2))
        self.nest = {"l": [torch.zeros(2), torch.ones(2)], "d": {"a": torch.zeros(2), "b": torch.ones(2)}}
        self.order = collections.OrderedDict(a=torch.zeros(2), b=torch.ones(2))
        self.cfg = Box(torch.ones(2), [torch.ones(2), torch.zeros(2)])
"""
_TIES = (
    "self.same = self.items",
    "self.same = self.nest['l']",
    "self.items[0] = self.h",
    "self.init = self.h",
    "self.h = self.b",
    "self.table = self.nest['d']",
)
_TESTS = ("x.sum() > 0", "x.sum() < 0", "n > 1", "x[0] > 5", "n % 2 == 0")
_KEYS, _POSITIONS = ("'a'", "'b'"), ("0", "1", "-1")
_XS = ("[1.0, 2.0]", "[-1.0, -2.0]", "[6.0, -7.0]", "[0.0, 0.0]", "[-3.0, 1.5]")


class Keeping:
    """Writes one program.

    Args:
        choices: where decisions come from.
        size: about how many statements it has.
    """

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self.size = choices, size
        self.is_module = choices.chance(80)
        self.arguments = [name for name in ("acc", "d", "st", "ob", "num") if choices.chance(35)]
        own = choices.chance(60) or not self.arguments
        self.lists = ["ys", *(["self.items", "self.nest['l']"] if self.is_module else []), *(["kept"] if own else [])]
        self.dicts = [*(["self.table", "self.nest['d']", "self.order"] if self.is_module else []), *(["e"] if own else [])]
        self.lists += [name for name in ("acc", "st.items", "ob.items") if name.split(".")[0] in self.arguments]
        self.dicts += ["d"] if "d" in self.arguments else []
        self.lists += ["self.cfg.items"] if self.is_module and choices.chance(20) else []
        self.dicts = self.dicts or ["{'a': y, 'b': x}"]

    def program(self) -> Program:
        """The program."""
        body = ["y = x * 2", "ys = [x, y]", *(line for _ in range(self.size) for line in self._statement(0))]
        body.append(f"return {', '.join(self._result() for _ in range(self.choices.count(1, 3)))}")
        given = ", ".join(["x", "n", *self.arguments])
        if not self.is_module:
            text = "\n    ".join([f"def program({given}):", *body]) + "\n"
            return Program(f"{_HEAD}\n\n{text}", self._calls())
        ties = [f"        {tie}\n" for tie in _TIES if self.choices.chance(12)]
        forward = "\n        ".join([f"    def forward(self, {given}):", *body]) + "\n"
        return Program(f"{_HEAD}\n\n{_NET}{''.join(ties)}\n{forward}\n\nprogram = Net()\n", self._calls())

    def _calls(self) -> tuple[Call, ...]:
        pick = self.choices.pick
        made = []
        for _ in range(self.choices.count(3, 5)):
            given = [pick([*[name] * 8, "acc" if name == "acc" else "e" if name == "d" else name]) for name in self.arguments]
            given = ["3" if name == "num" else name for name in given]
            made.append(Call((), ", ".join([f"torch.tensor({pick(_XS)})", f"torch.tensor({pick('0123')})", *given])))
        return tuple(made)

    def _tensor(self, depth: int = 1) -> str:
        pick = self.choices.pick
        way = self.choices.count(0, 9)
        if depth and way < 4:
            return f"{self._tensor(0)} {pick('+-*')} {pick([self._tensor(0), '2', '0.5'])}"
        if way < 6:
            return pick(["x", "y", "x", "t"])
        if way < 7:
            return f"{pick(self.dicts)}[{pick(_KEYS)}]"
        if way < 8 or not self.is_module:
            return f"{pick(self.lists)}[{pick(_POSITIONS)}]"
        return pick(["self.h", "self.init", "self.b", "self.w * 1", "self.pair[0]", "self.h"])

    def _place(self) -> str:
        """What is assigned a tensor."""
        pick = self.choices.pick
        places = [f"{self._own(self.lists)}[{pick('01')}]", f"{self._own(self.dicts)}[{pick(_KEYS)}]", "y"]
        return pick([*places, *(["self.h", "self.init", "self.b", "self.h", "self.init"] if self.is_module else [])])

    def _own(self, names: list[str]) -> str:
        """What the program keeps, most often: what it is given cannot be filled anew by a saved one."""
        own = [name for name in names if name.startswith(("self", "ys"))]
        return self.choices.pick(own if own and self.choices.chance(95) else names)

    def _statement(self, depth: int) -> list[str]:
        if depth < 2 and self.choices.chance(35):
            head = f"if {self._test()}:" if self.choices.chance(80) else f"for _ in range({self.choices.pick(['n', '2'])}):"
            more = ["else:", *self._block(depth)] if head.startswith("if") and self.choices.chance(50) else []
            return [head, *self._block(depth), *more]
        one, v = self._own(self.lists), self._tensor()
        return self.choices.pick(
            [
                [f"{self._place()} = {v}"], [f"{self._place()} = {v}"], [f"{self._place()} = {self._place()}"], [f"y = y + {v}"],
                [f"{one}[0], {one}[1] = {one}[1], {v}"], [f"{one}.reverse()"], [f"{one}.append({v})", f"{one}.pop(0)"],
                [f"{one}.insert(0, {v})", f"{one}.pop()"], [f"{one}[:] = [{v}, {self._tensor()}]"], [f"{self._own(self.dicts)}.update(a={v})"],
                [f"{self._tensor(0).replace(' * 1', '')}.add_(1)"] if self.choices.chance(50) else [f"y.mul_({v})"],
                [f"ys = {self.choices.pick(self.lists)}"], [f"ys = {one} if {self._test()} else {self.choices.pick(self.lists)}"],
                *self._of_module(v),
            ]
        )  # fmt: skip

    def _block(self, depth: int) -> list[str]:
        return [f"    {line}" for _ in range(self.choices.count(1, 2)) for line in self._statement(depth + 1)]

    def _of_module(self, v: str) -> list[list[str]]:
        if not self.is_module:
            return []
        pick = self.choices.pick
        return [
            ["self.c += 1"], ["self.f = self.f * 2"], ["self.flag = not self.flag"], [f"self.items = [{v}, {self._tensor()}]"],
            [f"self.table = {{'a': {v}, 'b': {self._tensor()}}}"], [f"self.pair = ({v}, self.pair[0])"], [f"self.nest['l'] = [{v}, {v}]"],
            [f"self.items = {pick(self.lists)}"] if self.choices.chance(40) else [f"self.init, self.h = self.h, {v}"],
        ]  # fmt: skip

    def _test(self) -> str:
        if self.choices.chance(80) or not self.is_module:
            return self.choices.pick(_TESTS)
        one, two = self.choices.pick(self.lists), self.choices.pick(self.lists)
        return self.choices.pick(["self.flag", "self.c > 1", f"{one} is {two}", "self.h is self.init", f"{one}[0] is self.h"])

    def _result(self) -> str:
        names = [*self.lists, *self.dicts, "y", self._tensor(), self._tensor(), *(name for name in self.arguments if name != "num")]
        names += ["self.nest", "self.pair", "self.c", "self.flag", "self.h", "self.cfg"] if self.is_module else []
        return self.choices.pick(names)


def write(seed: str, size: int = 4) -> Program:
    """The program of a seed."""
    return Keeping(Seeded(seed), size).program()
