"""Expressions over a world: the ways that lead to its objects, tests, keys and numbers."""

from __future__ import annotations

from tests.fuzz.choices import Choices
from tests.fuzz.stateful.world import World

_ATTRIBUTES = {"T": ["h", "init", "opt"], "L": ["items"], "D": ["table"], "N": ["c"], "O": ["other"]}
_TESTS = ["x.sum() > 0", "x.sum() < 0", "x[0] > 5", "n > 1", "n % 2 == 0", "n > 0", "x[1] > 1"]


class Paths:
    """Writes expressions.

    Args:
        choices: where decisions come from.
        world: the objects.

    Attributes:
        local: names that the function binds, by kind.
    """

    def __init__(self, choices: Choices, world: World) -> None:
        self.choices, self.world = choices, world
        self.local: dict[str, list[str]] = {kind: [] for kind in "TNLDOSCVEKR"}
        self.inside = True
        """Whether the expressions are for the program, and not for what happens between calls."""

    # -- objects -------------------------------------------------------------------------------------------------------------

    def has(self, kind: str) -> bool:
        """Whether there is an object of a kind."""
        return bool(self.local[kind] or self.world.names(kind)) or kind in "TNLDO"

    def roots(self, kind: str) -> list[str]:
        """The names of objects."""
        own = []
        if kind == "O":
            if self.world.form == "method":
                own = ["self"] if self.inside else ["st"]
            if self.world.form == "module":
                own = ["self"] if self.inside else ["program"]
        return [*own, *self.world.names(kind), *(self.local[kind] if self.inside else ())]

    def object(self, depth: int = 1) -> str:
        """An object with attributes."""
        root = self.choices.pick(self.roots("O"))
        if depth and self.world.kind != "module" and self.choices.chance(18):
            return f"{root}.other"
        return root

    def place(self, kind: str) -> str:
        """What can be assigned an object of a kind."""
        if kind == "K":
            return self.choices.pick(self.local["K"])
        roots = self.roots(kind)
        if kind in _ATTRIBUTES and (not roots or self.choices.chance(60)):
            return f"{self.object()}.{self.choices.pick(_ATTRIBUTES[kind][:2])}"
        return self.choices.pick(roots)

    def list(self) -> str:
        """A list of tensors that is there."""
        if self.world.names("V") and self.choices.chance(15):
            return f"dd[{self.key()}]"
        if self.world.form == "module" and self.choices.chance(10):
            return f"{self.roots('O')[0]}.shared"
        return self.place("L")

    def dict(self) -> str:
        """A dict of tensors that is there."""
        if self.world.names("E") and self.choices.chance(30):
            return "nest[1]"
        return self.place("D")

    def key(self) -> str:
        """A key, which a tensor may have chosen."""
        if self.inside and self.local["K"] and self.choices.chance(65):
            return self.choices.pick([*self.local["K"] * 3, 'f"{k}_x"'])
        return self.choices.pick(['"a"', '"b"', '"a"', '"k"'])

    def any(self) -> str:
        """An object of any kind that has an identity."""
        kind = self.choices.pick("TLDOLDT")
        return self.object() if kind == "O" else self.place(kind)

    # -- values ------------------------------------------------------------------------------------------------------------

    def tensor(self, depth: int = 1) -> str:
        """A tensor of two floats; now and then one that may be missing, or ``None``."""
        way = self.choices.count(0, 11 if depth else 4)
        if way <= 2:
            return self.choices.pick(["x", *self.local["T"]]) if self.inside else "torch.tensor([1.5, -2.0])"
        if way <= 4:
            return f"{self.object()}.{self.choices.pick(['h', 'h', 'init'])}"
        if way == 5 and self.world.names("T"):
            return "t"
        if way == 6:
            return f'{self.dict()}.get("a", x)' if self.inside else "torch.ones(2)"
        if way == 7 and self.world.form == "module":
            return f"{self.roots('O')[0]}.{self.choices.pick(['w', 'b', 'w.detach()'])}"
        if way == 8:
            return f"torch.full((2,), {self.number(0)})" if self.choices.chance(30) else "torch.zeros(2)"
        return f"{self.tensor(0)} {self.choices.pick(['+', '-', '*'])} {self.choices.pick([self.tensor(0), '2', '0.5', '1'])}"

    def number(self, depth: int = 1) -> str:
        """A number of Python."""
        forms = ["1", "2", "-3", f"{self.object()}.c", f"len({self.place('L')})", f"len({self.dict()})"]
        if self.inside:
            forms += ["int(n)", "int(n)", *self.local["N"]]
        forms += [name for name in self.world.names("N")]
        if self.world.names("C"):
            forms.append(f"cnt[{self.key()}]")
        if depth:
            left, right = self.number(0), self.number(0)
            forms += [f"({left}) {sign} ({right})" for sign in ("+", "*", "-", "//", "%")]
        return self.choices.pick(forms)

    def odd_number(self) -> str:
        """A number of the odd kind."""
        k = self.choices.pick(["int(n)", "j", "x.sum().item()", "x[0].item()"]) if self.inside else "2"
        whole = self.choices.pick(["int(n)", "j"]) if self.inside else "2"
        return self.choices.pick(
            [
                f"(-3) ** {whole}", f"(-2.0) ** {whole}", f"{whole} in range(-2, 10**6, 2)", f"{k} * -0.0", f"10**18 * {whole}", f"-({k})",
                f"({k}, 1.0) == ({k}, 1.0)", f"divmod({whole}, -2)", f"complex({k}, -1)", f"round({k}, 1)", f"{whole} / 3", f"-7 // ({whole} or 1)",
                f"[{k}, float('nan')].count({k})", f"min({k}, 0.0)", f"{whole} << 3", f"bool({k})", f"abs({k})", f"~{whole}", f"str({whole})",
                f"hash({whole})", f"{k} if {k} else None", f"max({whole}, 1) is {whole}", f"float('nan') if {k} > 1 else 0.0", f"isinstance({k}, float)",
            ]
        )  # fmt: skip

    def test(self) -> str:
        """Something to test; most often a tensor decides."""
        way = self.choices.count(0, 12)
        if way <= 7 and self.inside:
            return self.choices.pick(_TESTS)
        if way == 8:
            return f"{self.tensor(0)}.sum() > 1"
        if way == 9:
            return f"len({self.place('L')}) > 1"
        if way == 10:
            return f"{self.key()} in {self.dict()}"
        return self.question()

    def question(self) -> str:
        """A question whose answer is the same on all ways only if nobody looks."""
        t = self.tensor(0)
        one, two = (self.place(kind) if kind != "O" else self.object() for kind in [self.choices.pick("TLDO")] * 2)
        forms = [
            f"{one} is {two}", f"{one} is {two}", f"{one} is not {two}", f"{self.object()}.opt is None", f"{self.object()}.c > 1",
            f"{t}.requires_grad", f"{t}.is_leaf", f"{t}.grad_fn is None", f"isinstance({t}, nn.Parameter)", f"not {self.place('L')}",
            f"{t}.dtype is torch.float32", f'hasattr({self.object()}, "extra")', f'"a" in {self.dict()}', f"type({one}) is type({two})",
            f"any({t} is v for v in {self.place('L')})",
        ]  # fmt: skip
        if self.inside and self.local["K"]:
            forms += ['k == "a"', 'k in ("a", "c")', "k is None", f"k in {self.dict()}"]
        return self.choices.pick(forms)
