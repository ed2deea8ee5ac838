"""Small programs for the compiled backends: loops that carry, grow, swap, share and overwrite tensors.

A program is a function of two matrices of one shape, which may be one tensor or views of one, a scalar and a number of trips.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tests.fuzz.choices import Choices
from tests.fuzz.grammar import Program

_NAMES = {"M": ["x", "y", "a", "b", "c"], "R": ["r", "u"], "S": ["s", "t", "h"]}
"""Names of matrices, rows and scalars."""


class Carries:
    """Writes one program.

    Args:
        choices: decides.
        size: about how many statements it has.
    """

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self._budget = choices, size
        self._lines: list[str] = []
        self._indent, self._loops = 1, 0
        self.bound = {"x", "y", "s"}
        self.pure = choices.chance(50)
        """Whether it does nothing but compute tensors, with iterations counted in tensors, so that it may be compiled whole."""
        self.writes, self.lists, self.grows = (choices.chance(percent) and not self.pure for percent in (60, 35, 45))

    def program(self) -> Program:
        """A program."""
        grad = not self.pure and self.choices.chance(30)
        for name, kind in (("a", "M"), ("b", "M"), ("r", "R"), ("t", "S"), ("h", "S")):
            if self.choices.chance(60):
                self._bind(name, self.of(kind))
        if self.writes and self.choices.chance(50):
            self._bind("p", "torch.zeros(4, 3)")
        if self.lists:
            self._bind("xs", self.choices.pick(["[]", "[x]", "[x, y]", f"[{self.of('M')}]"]))
        if self.grows:
            self._bind("g", self.choices.pick(["x", "x[:1]", f"{self.of('M')}", "x.new_zeros(0, 3)"]))
        while self._budget > 0:
            self._statement(3)
        names = [name for name in sorted(self.bound) if self.choices.chance(75)] or ["x"]
        if self.pure:
            names = [self.choices.pick([f"{name}.clone()", f"{name} + 1"]) for name in names if name in "xyabcrusth"] or ["x * s"]
        self._line(f"return {', '.join(names)}{',' if len(names) == 1 and self.choices.chance(20) else ''}")
        return Program(
            "import torch\n\nw = torch.linspace(-0.4, 0.5, 9).view(3, 3)\n\n\ndef program(x, y, s, n):\n"
            + "\n".join(self._lines)
            + "\n",
            False,
            grad,
            True,
        )

    # -- lines ---------------------------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)

    def _bind(self, name: str, value: str) -> None:
        self._line(f"{name} = {value}")
        self.bound.add(name)

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        before = set(self.bound)
        self._indent += 1
        yield
        self._indent -= 1
        self.bound = before

    def _block(self, depth: int) -> None:
        for _ in range(self.choices.count(1, 3)):
            self._statement(depth)

    # -- expressions -----------------------------------------------------------------------------------------------------------

    def named(self, kind: str) -> str:
        """A name that is bound."""
        bound = [name for name in _NAMES[kind] if name in self.bound]
        if bound:
            return self.choices.pick(bound)
        return {"M": "x", "R": self.choices.pick(["x[0]", "y[-1]"]), "S": "s"}[kind]

    def of(self, kind: str) -> str:
        """An expression."""
        a, b, r, s = self.named("M"), self.named("M"), self.named("R"), self.named("S")
        number = self.choices.pick(["0.37", "-0.61", "1.3"])
        if kind == "S":
            return self.choices.pick([
                f"{a}.sum() * 0.1", f"{a}[0, 0]", f"{r}.max()", f"({s} * {number})", f"torch.minimum({s}, 1.7 - {self.named('S')})",
                f"({a} - {b}).pow(2).mean().sqrt()", f"torch.clamp({s}, -1.1, 1.3)", f"{s} + 0.21", s, f"torch.tanh({s})",
                *(["g.sum() * 0.05"] if "g" in self.bound else []),
            ])  # fmt: skip
        if kind == "R":
            return self.choices.pick([
                f"{a}[0]", f"{a}[-1] * {number}", f"{a}.mean(0)", f"torch.cat([{a}[0, :1], {b}[-1, 1:]])", f"{r} + {s}", r,
                f"torch.stack([{r}, {a}[0]])[1]", f"{r}.flip(0)", f"{a}.sum(0).tanh()", f"{r} @ w", f"{a}[:, 0].sum().expand(3)",
                *(["p[1]", "p.sum(0)"] if "p" in self.bound else []), *(["g.sum(0) * 0.3"] if "g" in self.bound else []),
            ])  # fmt: skip
        return self.choices.pick([
            f"{a} * {number} + {b}", f"torch.tanh({a} + {s})", f"{a} @ w", f"torch.cat([{a}, {b}], 1)[:, 2:5]", f"torch.cat([{a}, {s}.expand({a}.shape[0], 1)], 1)[:, 1:]",
            a, a, f"{a}.clone()", f"torch.stack([{a}, {b}])[1]", f"{a} + {r}", f"{a} - {a}.mean()", f"torch.where({a} > {b}, {a}, {b} * 0.5)",
            f"{a}.flip(1)", f"{a} * {s}", f"{r}.expand({a}.shape[0], 3)", f"torch.cat([{a}[:1], {b}[1:]])", f"torch.maximum({a}, {b})", f"({a}.t() * 0.9).t()",
            f"torch.cat([{a}[1:], {a}[:1]])", f"{a}.softmax(1)", f"torch.cat([{a}[:, 1:], {r}.expand({a}.shape[0], 3)[:, :1]], 1)",
            f"torch.zeros_like({a})", f"torch.nn.functional.relu({a})", f"{a}.t().contiguous().t()",
            *(["g[-2:].sum(0) + x"] if "g" in self.bound else []), *(["xs[0]", "xs[-1] * 0.7", "torch.stack(xs).sum(0)", "sum(xs) * 0.3"] if "xs" in self.bound else []),
        ])  # fmt: skip

    def test(self) -> str:
        """Something to test."""
        limit = self.choices.pick(["0.13", "-0.29", "0.71", "1.9"])
        a, s = self.named("M"), self.named("S")
        return self.choices.pick([
            f"{a}.sum() > {limit}", f"{s} < {limit}", f"{a}[0, 0] > {limit}", f"({a} > {limit}).any()", f"{self.named('R')}.max() < {limit}",
            f"n > {self.choices.pick('012')}", f"{a}.abs().max() <= {limit}", *(["len(xs) > 1"] if "xs" in self.bound else []),
            *([f"i{self._loops} > {self.choices.pick('012')}"] if f"i{self._loops}" in self.bound else []), *([] if self.pure else ["n % 2 == 0", "n % 2 == 1"]),
        ])  # fmt: skip

    # -- statements ------------------------------------------------------------------------------------------------------------

    def _statement(self, depth: int) -> None:
        self._budget -= 1
        if depth > 0 and self.choices.chance(40):
            self.choices.pick([self._if, self._if, self._loop, self._loop, self._solver])(depth - 1)
        elif self.choices.chance(5) and depth == 2:
            self._line(f"if {self.test()}:")
            self._line(f"    return {self.of('M')}, {self.of('M')}")
        else:
            self._simple()

    def _simple(self) -> None:
        forms = [self._assign, self._assign, self._assign, self._swap]
        forms += [self._write, self._write] * self.writes + [self._list] * self.lists + [self._grow] * self.grows
        self.choices.pick(forms)()

    def _assign(self) -> None:
        kind = self.choices.pick("MMMMRSS")
        name = self.choices.pick(_NAMES[kind])
        self._bind(name, self.of(kind))

    def _swap(self) -> None:
        kind = self.choices.pick("MMMRS")
        names = [name for name in _NAMES[kind] if name in self.bound]
        if len(names) < 2:
            return self._assign()
        one, two = names[self.choices.count(0, len(names) - 2)], names[-1]
        self._line(self.choices.pick([
            f"{one}, {two} = {two}, {one}", f"{one}, {two} = {two}, {self.of(kind)}", f"{one} = {two} = {self.of(kind)}",
            f"{one}, {two} = {two} * 0.5, {one}", f"{one}, {two} = {self.of(kind)}, {one}",
        ]))  # fmt: skip

    def _write(self) -> None:
        a, r, s = self.named("M"), self.named("R"), self.named("S")
        forms = [
            f"{a}.add_({self.of('M')})", f"{a}.mul_(0.7)", f"{a}[0] = {self.of('R')}", f"{a}[:, 1] += {s}", f"{a}[:1].mul_(0.5)", f"{a}.copy_({self.of('M')})",
            f"{a} += {self.of('R')}", f"{a}[:, :2] = {self.of('M')}[:, 1:]", f"{a}.clamp_(-2.5, 2.5)",
        ]  # fmt: skip
        if r in self.bound:
            forms += [f"{r}.add_({s})", f"{r}[1:] *= 0.5", f"{r}.copy_({self.of('R')})"]
        if s in self.bound:
            forms += [f"{s}.mul_(0.6)", f"{s} += 0.11"]
        if "p" in self.bound:
            forms += [f"p[{self._loops % 4}] = {self.of('R')}", f"p[1:].add_({self.of('R')})", f"p[0].copy_({self.of('R')})"] * 2
        self._line(self.choices.pick(forms))

    def _list(self) -> None:
        if "xs" not in self.bound:
            return self._assign()
        self._line(self.choices.pick([f"xs.append({self.of('M')})", f"xs.append({self.of('M')})", f"xs = xs + [{self.of('M')}]", f"xs[-1:] = [{self.of('M')}]", f"xs = [{self.of('M')}]"]))  # fmt: skip

    def _grow(self) -> None:
        if "g" not in self.bound:
            return self._assign()
        self._line("g = " + self.choices.pick([
            f"torch.cat([g, {self.of('M')}])", f"torch.cat([g, {self.of('R')}.unsqueeze(0)])", "g * 0.9", "g[1:]", f"torch.cat([({self.of('R')})[None], g])",
            "g.clone()", "g.flip(0)",
        ]))  # fmt: skip

    def _if(self, depth: int) -> None:
        self._line(f"if {self.test()}:")
        with self._deeper():
            self._block(depth)
        if self.choices.chance(60):
            self._line("else:")
            with self._deeper():
                self._block(depth)

    def _loop(self, depth: int) -> None:
        self._loops += 1
        counter = f"i{self._loops}"
        form = self.choices.pick(["while", "while", "true", "known", *([] if self.pure else ["for", "rows"])])
        if form in ("while", "true"):
            self._bind(counter, self.choices.pick(["0", "n * 0"]))
        heads = {
            "while": f"while {counter} < {self.choices.pick(['n', 'n - 1', 'n + 1'])}{self.choices.pick(['', '', f' and {self.test()}'])}:", "for": f"for {counter} in range(n):",
            "rows": f"for r in {self.named('M')}:", "true": "while True:", "known": f"for {counter} in range({self.choices.pick('123')}):",
        }  # fmt: skip
        self._line(heads[form])
        with self._deeper():
            self.bound |= {"r"} if form == "rows" else {counter}
            if form == "true":
                self._line(f"if {counter} >= n:")
                self._line("    break")
            if form in ("while", "true"):
                self._line(f"{counter} = {counter} + 1")
            self._block(depth)
            if self.choices.chance(15):
                self._line(f"if {self.test()}:")
                self._line(f"    {self.choices.pick(['break', 'continue'])}")

    def _solver(self, depth: int) -> None:
        """Steps that are accepted or rejected, with a first stage carried over."""
        self._loops += 1
        counter, a, s = f"i{self._loops}", self.named("M"), self.named("S")
        self._line(f"k1, z, d = torch.tanh({a} @ w), {a}, {s} * 0.2 + 0.3")
        self._line(f"{counter} = n * 0")
        self._line(f"while {counter} < n:")
        with self._deeper():
            self._line(f"{counter} = {counter} + 1")
            self._line("k2 = torch.cat([z + d * k1, (d * 0.5).expand(z.shape[0], 1)], 1)")
            self._line(f"k2 = torch.tanh(k2[:, {self.choices.pick(['1:', ':3'])}] @ w)")
            self._line("new = z + d * (0.3 * k1 + 0.6 * k2 + 0.2 * torch.tanh(z @ w))")
            self._line("k3 = torch.tanh(torch.cat([new, d.expand(z.shape[0], 1)], 1)[:, 1:] @ w)")
            if self.choices.chance(40):
                self._block(min(depth, 1))
            self._line("if (new - z).abs().mean() < 0.2317:")
            with self._deeper():
                self._line(self.choices.pick(["z, k1 = new, k3", "z, k1 = new, k3", "z, k1 = new, k2", "k1, z = z - new, new"]))
                self._line("d = d * 1.1")
            self._line("else:")
            self._line("    d = d * 0.8")
        self._bind(self.choices.pick(_NAMES["M"][2:]), "z")
        self._bind("h", "d")
