"""Small random programs with arrays of NumPy in arguments and state: written, viewed, aliased and replaced, inside and between calls."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

SIZE = 4
"""About how many statements a program has."""

_WORLD = """\
import collections
import dataclasses
import types

import numpy as np
import torch


@dataclasses.dataclass(eq=False)
class Box:
    a: np.ndarray


class Slotted:
    __slots__ = ("a",)

    def __init__(self, a):
        self.a = a


class Kept:
    shared = np.{first}


class State:
    def __init__(self):
        self.l = [np.{first}]
        self.d = {{"a": np.{first}}}
        self.q = collections.deque([np.{first}])
        self.box = Box(np.{first})
        self.slotted = Slotted(np.{first})
        self.t = (np.{first},)
        self.tl = ([np.{first}],)
        self.n = types.SimpleNamespace(a=np.{first})
        self.od = collections.OrderedDict(a=np.{first})
        self.dd = collections.defaultdict(list, a=np.{first})
        self.ll = [[np.{first}], [np.{first}]]
        self.a = np.{long}
        self.v = self.a[2:5]
        self.al = self.a
        self.tens = torch.from_numpy(self.a)


st = State()
far = np.{first}
"""
_OWN = ("st.l[0]", "st.d['a']", "st.q[0]", "st.box.a", "st.slotted.a", "st.n.a", "st.od['a']", "st.dd['a']", "st.a", "st.v", "st.al", "st.ll[1][0]", "st.tl[0][0]", "Kept.shared", "far")  # fmt: skip
"""Places that hold an array and may get another."""
_PLACES = (*_OWN, "st.t[0]", "g", "b")
_WRITES = (
    "{0}[0] = float(x[0])", "{0}[1] += 1", "{0}[:] = {0} * 2 + 1", "{0} *= 1.5", "{0}.fill(float(r.sum()))", "np.add({0}, 1, out={0})",
    "np.add({0}[:3], r.numpy(), out={0}[:3])", "{0}[:3] = r.numpy()", "{0}[0], {0}[2] = {0}[2].copy(), {0}[0].copy()", "{0}[:3][x.numpy() > 0] = 3",
    "{0}[::-1][:2] = 4", "{0}[int(x.argmax())] = 7", "np.copyto({0}[:3], {1}[:3])", "{0}.sort()", "{0}[-1:] = {1}[:1]", "np.clip({0}, 0, 3, out={0})",
    "st.tens.add_(1)", "st.tens[0] = r.sum()", "torch.from_numpy({0}).mul_(2)", "{0}[[0, 2]] = 5", "np.maximum({0}[:3], {1}[:3], out={0}[:3])",
)  # fmt: skip
_READS = (
    "float({0}.sum())", "torch.from_numpy({0}).sum()", "{0}[int(x.argmax())]", "float({0}[::-1][0])", "({0} is {1})", "float(({0}[:2] + {1}[:2]).sum())",
    "st.tens.sum()", "np.stack([{0}[:3], {1}[:3]]).sum()", "len({0}) + {0}.shape[0]", "torch.as_tensor({0}[:3])", "torch.tensor({0}[:3])",
    "float(np.dot({0}[:3], {1}[:3]))", "{0}.tolist()[0]", "np.shares_memory({0}, {1})", "np.where({0}[:3] > {1}[:3], 1.0, 2.0).sum()", "st.l[-1].sum()", "st.q[-1][0]",
)  # fmt: skip
_ARRAYS = ("{0}", "{0}.copy()", "{0} + 1", "{0}[:3]", "np.roll({0}, 1)", "r.numpy()", "np.zeros_like({0})", "{0}.view()", "np.array({0})", "{0}.reshape(-1)", "np.asarray({0})")  # fmt: skip
_TESTS = (
    "r.sum() > 0",
    "r.sum() > 3",
    "x[0] > 1",
    "x.sum() > 0",
    "{0}.sum() > 2",
    "{0}[0] > {1}[0]",
    "{0} is {1}",
    "float({0}.max()) > 1",
)
_XS = ("[1.0, 2.0, -1.0]", "[-3.0, 0.0, 1.0]", "[0.0, 0.0, 0.0]", "[4.0, -2.0, 2.0]", "[-1.0, -1.0, -2.0]")


class _Writer:
    """Writes one program.

    Args:
        choices: where decisions come from.
        size: about how many statements it has.
    """

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget, self._loops = choices, size, 0
        self._dtype = choices.pick(["float64", "float64", "float64", "float32"])
        self._places = [choices.pick(_PLACES) for _ in range(3)]

    def _filled(self, texts: tuple[str, ...], inside: bool = True) -> str:
        """One of some texts, about places of the program."""
        places = [place for place in self._places if inside or place not in ("g", "b")] or list(_OWN)
        return self.choices.pick(texts).format(self.choices.pick(places), self.choices.pick(places))

    def _replaced(self, inside: bool = True) -> str:
        """A place gets another array, or a container one more."""
        array = self._filled(tuple(text for text in _ARRAYS if inside or "r." not in text), inside)
        places = [*(place for place in self._places if place in _OWN or inside and place != "st.t[0]"), "st.a", "st.l[0]"]
        forms = [f"{self.choices.pick(places)} = {array}", f"st.l.append({array})", f"st.q.append({array})"]
        return forms[max(self.choices.count(0, 9) - 7, 0)]

    def _statement(self, depth: int) -> str:
        self._budget -= 1
        form = self.choices.count(0, 11)
        inside: Callable[[], str] = lambda: textwrap.indent(self._block(depth - 1), "    ")  # noqa: E731
        if depth and form <= 2:
            text = f"if {self._filled(_TESTS)}:\n{inside()}"
            return text + (f"\nelse:\n{inside()}" if self.choices.chance(40) else "")
        if depth and form == 3:
            self._loops += 1
            return f"for i{self._loops} in range({self.choices.pick(['2', 'int(x.abs().max())'])}):\n{inside()}"
        if form <= 6:
            return f"r = r + {self._filled(_READS)}"
        if form == 7:
            return self._replaced()
        return self._filled(_WRITES)

    def _block(self, depth: int) -> str:
        return "\n".join(self._statement(depth) for _ in range(self.choices.count(1, 2)))

    def program(self) -> Program:
        """A program and its calls."""
        lines = ["global far", "r = x * 1", f"b = {self._filled(_ARRAYS, inside=False)}"]
        while self._budget > 0:
            lines.append(self._statement(2))
        kept = [name for name in (*self._places, "b") if self.choices.chance(20)]
        lines.append(f"return {', '.join(['r', *kept])}")
        world = _WORLD.format(first=f"zeros(3, np.{self._dtype})", long=f"zeros(6, np.{self._dtype})")
        source = f"{world}\n\ndef program(x, g):\n{textwrap.indent(chr(10).join(lines), '    ')}\n"
        return Program(source, tuple(self._call() for _ in range(6)))

    def _call(self) -> Call:
        """One call, and what happens to the arrays before it."""
        before = []
        for _ in range(self.choices.count(0, 2)):
            if self.choices.chance(60):
                before.append(f"{self._filled(('{0}',), inside=False)}[{self.choices.count(0, 2)}] += {self.choices.count(1, 3)}")
            else:
                before.append(self._replaced(inside=False))
        x = f"torch.tensor({self.choices.pick(_XS)}, dtype=torch.{self._dtype})"
        state = self._filled(("{0}",), inside=False).replace("Kept.shared", "far")  # which the one who calls a saved one has, too
        given = self.choices.pick(["np.ones(3)", f"np.arange(3, dtype=np.{self._dtype})", state])
        return Call(tuple(before), f"{x}, {given}")


def write(seed: str, size: int = SIZE) -> Program:
    """Write one program."""
    return _Writer(Seeded(seed), size).program()
