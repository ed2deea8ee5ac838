"""Small random programs whose arguments are others at each call: containers of any length that are read, changed, kept and given back,
sizes and numbers.
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.program import Call, Program

SIZE = 6
"""About how many statements a program has."""

_WORLD = """\
import collections
import dataclasses
import torch


class Item:
    def __init__(self, h, k=0):
        self.h, self.k = h, k


@dataclasses.dataclass
class State:
    h: object
    k: int = 0
    log: list = dataclasses.field(default_factory=list)


class Box:
    def __init__(self):
        self.last, self.total = None, 0


st = Box()
"""


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of argument.

    Attributes:
        made: what is given; ``i`` are its items.
        item: an item of what is given, by its number ``j``; empty where there are none.
        new: items that the program makes.
        statements: what programs do with ``p``, with ``v`` for such an item.
    """

    made: str
    item: str
    new: tuple[str, ...]
    statements: tuple[str, ...]


_OF_LISTS = (
    "{p}.append({v})", "{p}.append({v})", "{p} = [*{p}, {v}]", "{p} = {p}[1:]", "if {p}: {p}.pop()", "if {p}: {p}.pop(0)", "{p}.reverse()",
    "if {p}: {p}[0] = {v}", "seen.append(len({p}))", "seen.append({p}[-1] if {p} else None)", "{p}.clear()", "{p}.insert(0, {v})",
    "kept = {p}", "st.last = {p}", "seen.append(kept is {p})", "{p} += [{v}, {v}]", "st.total = st.total + len({p})", "{p} = list({p})",
    "seen.append(st.last is {p})",
)  # fmt: skip
_KINDS = {
    "tensors": _Kind("[{i}]", "torch.tensor([{j} - 1.5, 0.5])", ("x", "x * 2", "x + n"), (
        *_OF_LISTS, "for t in {p}:\n    if t.sum() > 0:\n        acc = acc + t", "acc = acc + sum({p}, torch.zeros(2))",
        "for t in {p}:\n    t.add_(1)", "{p} = [t * 2 for t in {p} if t.sum() > 0]", "if {p}: acc = torch.stack({p}).amax(0)",
    )),
    "numbers": _Kind("[{i}]", "({j} * 7) % 5", ("int(n)", "3", "len(seen)"), (
        *_OF_LISTS, "for t in {p}:\n    if t > n:\n        acc = acc + t", "acc = acc * sum({p})", "{p}.sort()", "seen.append(max({p}, default=0))",
        "seen.append(2 in {p})", "{p} = sorted({p})[:3]", "seen.append([t for t in {p} if t > 1])",
    )),
    "texts": _Kind("[{i}]", "'ab'[:{j}]", ("'a'", "'c' if x.sum() > 0 else 'b'"), (
        *_OF_LISTS, "seen.append(''.join({p}))", "acc = acc * len(''.join({p}))", "seen.append('a' in {p})",
    )),
    "rows": _Kind("[{i}]", "{{'h': torch.ones(2) * {j}, 'k': {j}}}", ("{{'h': x, 'k': 1}}",), (
        *_OF_LISTS, "for t in {p}:\n    if t['h'].sum() > 1:\n        t['k'] += 1", "for t in {p}:\n    t['h'] = t['h'] + x", "seen.append([t['k'] for t in {p}])",
    )),
    "pairs": _Kind("[{i}]", "(torch.ones(2) * {j}, {j})", ("(x, 1)", "(x + n, 2)"), (
        *_OF_LISTS, "for h, k in {p}:\n    acc = acc + h * k", "{p} = sorted({p}, key=lambda t: -t[1])[:2]", "seen.append([k for h, k in {p} if h.sum() > 1])",
    )),
    "lists": _Kind("[{i}]", "list(range({j} % 3))", ("[1, int(n)]", "[]"), (
        *_OF_LISTS, "for t in {p}:\n    t.append(2)", "seen.append([sum(t) for t in {p}])", "for t in {p}:\n    if len(t) > n:\n        acc = acc + len(t)",
    )),
    "items": _Kind("[{i}]", "Item(torch.ones(2) * {j}, {j})", ("Item(x, 1)",), (
        *_OF_LISTS, "for t in {p}:\n    if t.h.sum() > 1:\n        t.k += 1", "for t in {p}:\n    t.h = t.h + x", "seen.append([t.k for t in {p}])",
        "if {p}: seen.append(max({p}, key=lambda t: t.k) is {p}[0])",
    )),
    "table": _Kind("{{{i}}}", "'abcd'[{j} % 4]: torch.ones(2) * {j}", (), (
        "{p}['a'] = x", "{p}['a' if x.sum() > 0 else 'b'] = x", "acc = acc + sum({p}.values())", "seen.append(list({p}))", "{p}.pop('a', None)",
        "acc = acc + {p}.setdefault('c', x)", "for k, v in {p}.items():\n    if v.sum() > 0:\n        acc = acc + v", "{p}.update(d=x)", "kept = {p}",
        "seen.append('b' in {p})", "seen.append(kept is {p})", "st.last = {p}", "{p} = {{**{p}, 'e': x}}",
    )),
    "counts": _Kind("{{{i}}}", "{j}: {j} * 2", (), (
        "{p}[int(n)] = {p}.get(int(n), 0) + 1", "seen.append(sorted({p}.items()))", "acc = acc + sum({p}.values())", "seen.append(int(n) in {p})",
        "{p}.pop(int(n), 0)", "seen.append(len({p}))",
    )),
    "members": _Kind("set([{i}])", "{j}", (), (
        "{p}.add(int(n))", "seen.append(int(n) in {p})", "seen.append(len({p}))", "{p}.discard(1)", "acc = acc + len({p})",
    )),
    "queue": _Kind("collections.deque([{i}], 4)", "torch.ones(2) * {j}", (), (
        "{p}.append(x)", "{p}.appendleft(x * 2)", "if {p}: acc = acc + {p}.popleft()", "seen.append(len({p}))", "acc = acc + sum({p}, torch.zeros(2))",
        "for t in {p}:\n    if t.sum() > 1:\n        acc = acc + t",
    )),
    "state": _Kind("State(torch.ones(2), 0, [{i}])", "{j}", (), (
        "{p}.k += 1", "{p}.h = {p}.h + x", "{p}.log.append({p}.k)", "seen.append(len({p}.log))", "{p}.log.clear()", "acc = acc + {p}.h * {p}.k",
        "{p} = dataclasses.replace({p}, k=3)", "st.last = {p}", "seen.append(st.last is {p})", "{p}.log = [t for t in {p}.log if t > n]",
    )),
    "matrix": _Kind("torch.tensor([[0.0, 0.0], {i}])[1:]", "[{j} - 1.0, 0.5]", (), (
        "acc = acc + {p}.sum(0)", "for t in {p}:\n    if t.sum() > 0:\n        acc = acc + t", "seen.append(len({p}))", "{p}.mul_(2)",
        "acc = acc * {p}.shape[0]", "{p} = torch.cat([{p}, x[None]])", "if len({p}) > 2: acc = acc + {p}[2]", "seen.append({p}.tolist())",
    )),
    "number": _Kind("len([{i}])", "{j}", (), (
        "acc = acc * {p}", "for _ in range({p}):\n    acc = acc * 1.5 if acc.sum() > 0 else acc + 1", "seen.append({p} * 2)", "{p} += 1", "acc = acc[: {p} + 1].sum() + x",
        "seen.append(f'{{{p}}}')",
    )),
    "scale": _Kind("len([{i}]) / 4", "{j}", (), ("acc = acc * {p}", "seen.append({p} > 0.4)", "{p} = {p} / 2", "if x.sum() > {p}: acc = acc + {p}")),
}  # fmt: skip
_MOST = 5
"""How many items an argument has at most."""


class _Writer:
    """Writes one program."""

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget = choices, size
        kinds = [choices.pick(list(_KINDS)) for _ in range(choices.count(1, 2))]
        if choices.chance(25):
            kinds.append(kinds[0])
        self.parameters = {f"{'pqr'[i]}": _KINDS[kind] for i, kind in enumerate(kinds)}
        self._alike = len(set(kinds)) < len(kinds)

    def statement(self, depth: int) -> str:
        """One statement."""
        self._budget -= 1
        form = self.choices.count(0, 9)
        inside: Callable[[], str] = lambda: textwrap.indent(  # noqa: E731
            "\n".join(self.statement(depth - 1) for _ in range(self.choices.count(1, 2))), "    "
        )
        if depth and form <= 1:
            text = f"if {self.test()}:\n{inside()}"
            return text + (f"\nelse:\n{inside()}" if self.choices.chance(50) else "")
        if depth and form == 2:
            return f"for i in range({self.choices.pick(['int(n)', '2'])}):\n{inside()}"
        if form == 3:
            return f"if {self.test()}:\n    return {self.result()}"
        name = self.choices.pick(list(self.parameters))
        kind = self.parameters[name]
        new = self.choices.pick(kind.new).format() if kind.new else ""
        return self.choices.pick(kind.statements).format(p=name, v=new)

    def test(self) -> str:
        """Something to test."""
        return self.choices.pick(["x.sum() > 0", "x[0] > 1", "n > 1", "acc.sum() > 2"])

    def result(self) -> str:
        """What is given back."""
        return ", ".join([*(name for name in self.parameters if self.choices.chance(30)), "acc", "seen"])

    def program(self) -> Program:
        """A program and its calls."""
        lines = ["seen, acc, kept = [], x, None"]
        while self._budget > 0:
            lines.append(self.statement(2))
        lines.append(f"return {self.result()}")
        body = textwrap.indent("\n".join(lines), "    ")
        worlds = "".join(f"w{name} = {self.made(kind, 1)}\n" for name, kind in self.parameters.items())
        source = f"{_WORLD}{worlds}\n\ndef program({', '.join(self.parameters)}, x, n):\n{body}\n"
        return Program(source, tuple(self.call() for _ in range(8)))

    def made(self, kind: _Kind, length: int) -> str:
        """What is given, of a length."""
        return kind.made.format(i=", ".join(kind.item.format(j=j) for j in range(length)))

    def call(self) -> Call:
        """One call; arguments are new, or what an earlier call has left, and may be one."""
        given = []
        for name, kind in self.parameters.items():
            is_new = self.choices.chance(60)
            given.append(self.made(kind, self.choices.count(0, _MOST)) if is_new else f"w{name}")
        if self._alike and self.choices.chance(25):
            given[-1] = given[0] = "wp"
        before = self.choices.pick(
            [[], [], [], ["st.last = None"], ["st.last = wp"], [f"wp = {self.made(self.parameters['p'], 2)}"]]
        )
        x = self.choices.pick(["[1.0, 2.0]", "[-1.0, -2.0]", "[1.5, -1.0]", "[0.5, 0.0]"])
        return Call(tuple(before), f"{', '.join(given)}, torch.tensor({x}), torch.tensor({self.choices.pick('0123')})")


def write(seed: str, size: int = SIZE) -> Program:
    """Write one program."""
    return _Writer(Seeded(seed), size).program()
