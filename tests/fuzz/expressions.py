"""Random expressions of a wanted type, over the names that are bound.

Types are one letter: ``F`` a float tensor without dimensions, ``V`` one of three elements, ``N`` an int64 tensor without dimensions,
``I`` a Python int, ``P`` a Python float, ``B`` something to test, ``L`` a list of ``F``, ``H`` an ``F`` or ``None``, ``S`` a string.
"""

from __future__ import annotations

from tests.fuzz.choices import Choices

NAMES = {
    "F": ("x", "y", "z", "a"),
    "V": ("v", "w"),
    "N": ("n", "k"),
    "I": ("i", "j", "c"),
    "P": ("f",),
    "L": ("xs", "ys"),
    "H": ("h",),
    "S": ("mode",),
    "D": ("d",),
}
"""The names that hold a value of each type."""


class Expressions:
    """Writes expressions.

    Args:
        choices: decides.

    Attributes:
        bound: the names that hold something here, surely.
        maybe: the names that some way to here binds.
        frozen: names that must not be bound by an expression.
        helpers: the functions that may be called, each takes an ``F`` and an ``I`` and gives an ``F``.
        closures: names of local functions without arguments that give an ``F``.
    """

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.bound: set[str] = set()
        self.maybe: set[str] = set()
        self.frozen: set[str] = set()
        self.helpers: list[str] = []
        self.closures: list[str] = []
        self.owner = "box"

    def of(self, kind: str, depth: int = 2) -> str:
        """An expression of a type."""
        writers = {
            "F": self._float, "V": self._vector, "N": self._integer, "I": self._index, "P": self._number, "B": self.test,
            "L": self._list, "H": self._optional, "S": self._string, "D": self._dict,
        }  # fmt: skip
        return writers[kind](depth)

    def plain(self, kind: str, depth: int) -> str:
        """An expression that binds nothing, for places where Python allows no ``:=``."""
        frozen, self.frozen = self.frozen, self.frozen | set(NAMES["F"])
        made = self.of(kind, depth)
        self.frozen = frozen
        return made

    def named(self, kind: str) -> str | None:
        """A name of a type that is bound here, or rarely one that may be."""
        found = [name for name in NAMES[kind] if name in self.bound]
        risky = [name for name in NAMES[kind] if name in self.maybe and name not in self.bound]
        if risky and self.choices.chance(12):
            return self.choices.pick(risky)
        return self.choices.pick(found) if found else None

    def _leaf(self, kind: str, otherwise: list[str]) -> str:
        name = self.named(kind)
        if name is not None and not self.choices.chance(20):
            return name
        return self.choices.pick(otherwise)

    def _float(self, depth: int) -> str:
        if depth <= 0 or self.choices.chance(25):
            return self._leaf("F", ["x", "v[0]", "v.sum()", f"{self.owner}.t"])
        one, two = self.of("F", depth - 1), self.of("F", depth - 1)
        forms = [
            f"({one} + {two})", f"({one} - {two})", f"({one} * {two})", f"({one} * 0.5)", f"(-{one})", f"{self.of('V', depth - 1)}.sum()",
            f"{self.of('V', depth - 1)}[{self.of('I', depth - 1)} % 3]", f"{self.of('V', depth - 1)}[{self.of('N', depth - 1)} % 3]",
            f"({one} if {self.test(depth - 1)} else {two})", f"torch.where({one} > {two}, {one}, {two})", f"abs({one})",
            f"{one}.clamp(max=2)", f"max({one}, {two})", f"({one} + {self.of('I', depth - 1)})", f"({one} * {self.of('N', depth - 1)})",
            f"{self.owner}.t", f"sum({self.of('L', depth - 1)}, {one})", f"({one} + {self.of('P', depth - 1)})",
            f"sum([q * {self.plain('F', depth - 1)} for q in {self.plain('V', depth - 1)}])", f"min({one}, {two})",
        ]  # fmt: skip
        forms += self._rare_floats(one, two, depth)
        return self.choices.pick(forms)

    def _rare_floats(self, one: str, two: str, depth: int) -> list[str]:
        forms = [f"{one}.detach()", f"({one} / 2)", f"(lambda q: q + {self.plain('F', depth - 1)})({one})"]
        if self.helpers:
            forms += [f"{self.choices.pick(self.helpers)}({one}, {self.of('I', depth - 1)})"] * 2
        if self.closures:
            forms += [f"{self.choices.pick(self.closures)}()"] * 2
        if "xs" in self.bound:
            forms += ["(xs[-1] if xs else x)", f"(xs[{self.of('I', depth - 1)} % len(xs)] if len(xs) > 0 else {one})"]
        if "d" in self.bound:
            forms += ["d['a']", "d['b']", f"d.get('c', {one})"]
        if "h" in self.bound:
            forms += [f"(h if h is not None else {one})", f"({one} if h is None else h + {two})"]
        free = [name for name in NAMES["F"] if name in self.bound and name not in self.frozen]
        if free:
            forms.append(f"({self.choices.pick(free)} := {one})")
        return forms

    def _vector(self, depth: int) -> str:
        if depth <= 0 or self.choices.chance(35):
            return self._leaf("V", ["v", "v.clone()"])
        one, two = self.of("V", depth - 1), self.of("F", depth - 1)
        forms = [
            f"({one} + {two})", f"({one} * {two})", f"({one} - {self.of('V', depth - 1)})", f"{one}.flip(0)", f"{one}.clone()",
            f"torch.cat([{one}[1:], {self.of('V', depth - 1)}[:1]])", f"{one}.view(-1)", f"torch.stack([{two}, {two}, x])",
            f"{one}.roll({self.of('I', depth - 1)} % 3)", f"torch.where({one} > {two}, {one}, {self.of('V', depth - 1)})",
            f"({one} if {self.test(depth - 1)} else {self.of('V', depth - 1)})", f"{one}.cumsum(0)", f"{one}.expand(3)",
        ]  # fmt: skip
        return self.choices.pick(forms)

    def _integer(self, depth: int) -> str:
        if depth <= 0 or self.choices.chance(35):
            return self._leaf("N", ["n", "(v > 0).sum()"])
        one = self.of("N", depth - 1)
        forms = [
            f"({one} + 1)", f"({one} - {self.of('I', depth - 1)})", f"({one} % 3)", f"({one} // 2)", f"({self.of('V', depth - 1)} > 0).sum()",
            f"(-{one})", f"({one} if {self.test(depth - 1)} else {self.of('N', depth - 1)})", f"abs({one})", f"(({one} * 2) % 7)",
            f"{self.of('V', depth - 1)}.argmax()",
        ]  # fmt: skip
        return self.choices.pick(forms)

    def _index(self, depth: int) -> str:
        if depth <= 0 or self.choices.chance(40):
            return self._leaf("I", ["0", "1", "2", "(-1)", "3"])
        one, two = self.of("I", depth - 1), self.of("I", depth - 1)
        forms = [
            f"({one} + 1)", f"({one} - {two})", f"({one} % 3)", f"(({one} * 2) % 7)", f"int({self.of('N', depth - 1)})", f"abs({one})",
            f"{self.of('N', depth - 1)}.item()", f"({one} if {self.test(depth - 1)} else {two})", f"max({one}, {two})",
            f"len({self.of('V', depth - 1)})", f"{self.owner}.c", f"min({one}, {two}, 2)", f"int({self.test(depth - 1)})",
        ]  # fmt: skip
        if "xs" in self.bound:
            forms.append("len(xs)")
        return self.choices.pick(forms)

    def _number(self, depth: int) -> str:
        if depth <= 0 or self.choices.chance(40):
            return self._leaf("P", ["0.5", "1.0", "(-2.0)"])
        one = self.of("P", depth - 1)
        forms = [
            f"({one} + 1)", f"({one} * 0.5)", f"float({self.of('N', depth - 1)})", f"{self.of('F', depth - 1)}.item()", f"abs({one})",
            f"({one} if {self.test(depth - 1)} else {self.of('P', depth - 1)})", f"max({one}, 0.5)", f"({self.of('I', depth - 1)} / 2)",
        ]  # fmt: skip
        return self.choices.pick(forms)

    def _list(self, depth: int) -> str:
        name = self.named("L")
        if name is not None and (depth <= 0 or self.choices.chance(60)):
            return name
        if depth <= 0:
            return "[x]"
        one, two = self.of("F", depth - 1), self.of("F", depth - 1)
        forms = [f"[{one}]", f"[{one}, {two}]", "[]", f"[q + {self.plain('F', depth - 1)} for q in {self.plain('V', depth - 1)}]"]
        if name is not None:
            forms += [
                f"({name} + [{one}])",
                f"[q for q in {name} if q > {self.plain('F', depth - 1)}]",
                f"{name}[1:]",
                f"{name}[::-1]",
            ]
        return self.choices.pick(forms)

    def _optional(self, depth: int) -> str:
        return self.choices.pick(["None", self.of("F", depth), f"({self.of('F', depth - 1)} if {self.test(depth - 1)} else None)"])

    def _string(self, depth: int) -> str:
        return self.choices.pick(["'up'", "'down'", f"('up' if {self.test(depth - 1)} else 'down')"])

    def _dict(self, depth: int) -> str:
        return f"{{'a': {self.of('F', depth - 1)}, 'b': {self.of('F', depth - 1)}}}"

    def test(self, depth: int = 2) -> str:
        """Something to test: mostly a tensor, which is true for some inputs and false for others."""
        if depth > 0 and self.choices.chance(25):
            one, two = self.test(depth - 1), self.test(depth - 1)
            return self.choices.pick(
                [f"({one} and {two})", f"({one} or {two})", f"(not {one})", f"({one} if {two} else not {one})"]
            )
        small = self.choices.pick(["0", "1", "-1", "2"])
        forms = [
            f"{self.of('F', depth - 1)} > {small}", f"{self.of('N', depth - 1)} % 2 == 0", f"{self.of('V', depth - 1)}.sum() < {small}",
            f"{self.of('F', depth - 1)} <= {self.of('F', depth - 1)}", f"{self.of('N', depth - 1)} > {small}",
            f"{small} < {self.of('F', depth - 1)} < {self.of('F', depth - 1)} + 1", f"{self.of('I', depth - 1)} > {small}",
            f"bool({self.of('N', depth - 1)} % 2)", f"{self.of('N', depth - 1)} % 3", f"{self.of('I', depth - 1)} in (0, 2)",
            f"(v > {small}).any()", f"{self.of('N', depth - 1)} != {self.of('I', depth - 1)}", f"{self.of('P', depth - 1)} > {small}",
        ]  # fmt: skip
        if "h" in self.bound:
            forms += ["h is None", "(h is not None and h > 0)"]
        if "mode" in self.bound:
            forms += ["mode == 'up'", "mode != 'up'"]
        if "xs" in self.bound:
            forms += ["len(xs) > 1", "xs", f"any(q > {small} for q in xs)", f"all([q > {small} for q in xs])"]
        return self.choices.pick(forms)
