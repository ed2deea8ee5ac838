"""Random tensor functions, as Python source.

A program is a module with a function ``program(x, v, n)`` (or a ``Net`` whose ``forward`` takes the same), a few helpers, and ``Box``, a
small object with state. Loops have a counter of their own that the body cannot write, so every program ends. Names come from a short
list for each type of value, so that they are shadowed, overwritten, left unbound on one way and read later.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies

from tests.fuzz.choices import Choices, Drawn
from tests.fuzz.expressions import NAMES, Expressions

_PRELUDE = """\
import torch


class Box:
    def __init__(self, t, c):
        self.t = t
        self.c = c

"""
_NET = """\

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("t", torch.tensor(0.5, dtype=torch.float64))
        self.weight = torch.nn.Parameter(torch.tensor(1.5, dtype=torch.float64))
        self.c = 1

"""


@dataclasses.dataclass(frozen=True)
class Program:
    """A random program.

    Attributes:
        source: the text of its module.
        module: whether it is a ``Net`` and not a function.
        grad: whether its float inputs require gradients.
        single: whether its floats are float32.
    """

    source: str
    module: bool = False
    grad: bool = False
    single: bool = False


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a statement stands."""

    loop: bool = False
    final: bool = False
    depth: int = 2


class Grammar(Expressions):
    """Writes one program."""

    def __init__(self, choices: Choices, size: int) -> None:
        super().__init__(choices)
        self._lines: list[str] = []
        self._indent = 0
        self._fresh = 0
        self._budget = size
        self._closed: set[str] = set()
        self._module = False
        self._in_helper = False

    def program(self) -> Program:
        """A program."""
        self._module = self.choices.chance(25)
        grad = self.choices.chance(50)
        for number in range(self.choices.count(0, 2)):
            self._in_helper = True
            self._helper(f"helper{number}")
            self._in_helper = False
        self._main()
        text = "\n".join(self._lines) + "\n"
        return Program(_PRELUDE + text, self._module, grad, self.choices.chance(10))

    # -- functions -----------------------------------------------------------------------------------------------------------

    def _helper(self, name: str) -> None:
        self._scope("x", "i", "v", "n", "box")
        self.owner = "box"
        self._line(f"def {name}(x, i, v=torch.arange(3.0, dtype=torch.float64), n=torch.tensor(2)):")
        with self._deeper():
            self._line("box = Box(x, i)")
            budget, self._budget = self._budget, 4
            self._block(_Place(depth=1))
            self._budget = budget
            self._line(f"return {self.of('F')}")
        self._line("")
        self.helpers.append(name)

    def _main(self) -> None:
        if self._module:
            self._lines += _NET.splitlines()
            self._indent = 1
            self.owner = "self"
            self._line("def forward(self, x, v, n):")
        else:
            self.owner = "box"
            self._line("def program(x, v, n):")
        self._scope("x", "v", "n")
        with self._deeper():
            if not self._module:
                self._line(f"box = Box({self.choices.pick(['x', 'x * 2', 'v[0]'])}, {self.choices.pick(['0', '1'])})")
            for kind, names in NAMES.items():
                for name in names:
                    if name not in self.bound and self.choices.chance(45):
                        self._line(f"{name} = {self.of(kind, 1)}")
                        self._bind(name)
            self._block(_Place(depth=3))
            self._line(self._result())

    def _early_return(self) -> str:
        if self._in_helper:
            return f"return {self.of('F')}"
        return self.choices.pick(
            [f"return {self.of('F')}", f"return {self.of('F')}, {self.of('V', 1)}", "return", "return x, v, n"]
        )

    def _scope(self, *names: str) -> None:
        self.bound, self.maybe, self.frozen = set(names), set(), set()
        self.closures, self._closed = [], set()

    def _result(self) -> str:
        names = [name for names in NAMES.values() for name in names if name in self.bound]
        if self.maybe and self.choices.chance(15):
            names.append(self.choices.pick(sorted(self.maybe)))
        kept = [name for name in names if self.choices.chance(60)] or ["x"]
        extra = [self.of("F"), f"{self.owner}.t", f"{self.owner}.c"]
        return f"return {', '.join([*kept, self.choices.pick(extra)])}"

    # -- blocks --------------------------------------------------------------------------------------------------------------

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text if text else "")

    @contextlib.contextmanager
    def _deeper(self) -> Iterator[None]:
        self._indent += 1
        yield
        self._indent -= 1

    def _bind(self, *names: str) -> None:
        self.bound.update(names)
        self.maybe.update(names)

    def _block(self, place: _Place) -> None:
        """Statements; whether names are still bound afterwards is for the caller to say."""
        for _ in range(self.choices.count(1, 4)):
            before = len(self._lines)
            self._statement(place)
            if self._lines[-1].split()[:1] in (["return"], ["break"], ["continue"], ["raise"]) and len(self._lines) == before + 1:
                return

    def _branch(self, place: _Place) -> set[str]:
        """An indented block; the names that it surely binds."""
        bound, closures = set(self.bound), list(self.closures)
        with self._deeper():
            self._block(place)
        after, self.bound, self.closures = self.bound, bound, closures
        return after

    def _statement(self, place: _Place) -> None:
        self._budget -= 1
        compound = [
            self._if,
            self._if,
            self._if,
            self._while,
            self._while,
            self._for,
            self._for,
            self._match,
            self._try,
            self._with,
            self._nested,
        ]
        if place.depth > 0 and self._budget > 0 and self.choices.chance(48):
            self.choices.pick(compound)(dataclasses.replace(place, depth=place.depth - 1))
        elif place.loop and self.choices.chance(12):
            self._line(self.choices.pick(["break", "continue"]))
        elif not place.final and place.depth < 3 and self.choices.chance(8):
            self._line(self._early_return())
        else:
            self._simple()

    # -- simple statements -----------------------------------------------------------------------------------------------------

    def _simple(self) -> None:
        writers = [
            self._assign, self._assign, self._assign, self._assign, self._augment, self._augment, self._inplace, self._inplace, self._swap,
            self._attribute, self._append, self._append, self._check, self._print, self._items, self._alias, self._unpack,
        ]  # fmt: skip
        self.choices.pick(writers)()

    def _target(self, *kinds: str) -> tuple[str, str] | None:
        names = [(name, kind) for kind in kinds for name in NAMES[kind] if name not in self.frozen]
        return self.choices.pick(names) if names else None

    def _assign(self) -> None:
        found = self._target("F", "F", "F", "V", "N", "I", "I", "P", "L", "H", "S", "D")
        if found is None:
            return self._line("pass")
        name, kind = found
        if kind == "F" and self.choices.chance(3):
            kind = self.choices.pick(["V", "N", "P", "I"])  # a name changes its type
        self._line(f"{name} = {self.of(kind)}")
        self._bind(name)

    def _augment(self) -> None:
        found = [n for n in (self.named("F"), self.named("N"), self.named("I"), self.named("V"), self.named("P")) if n]
        found = [name for name in found if name not in self.frozen]
        if not found:
            return self._line("pass")
        name = self.choices.pick(found)
        value = self.of(
            "I" if name in (*NAMES["N"], *NAMES["I"]) else self.choices.pick(["F", "I"]) if name not in NAMES["P"] else "I", 1
        )
        self._line(f"{name} {self.choices.pick(['+=', '-=', '*='])} {value}")

    def _inplace(self) -> None:
        one = self.of("F", 1)
        forms = [f"x.add_({one})"]
        for name in [self.named("F"), self.named("V")]:
            if name is not None:
                forms += [f"{name}.add_({one})", f"{name}.mul_(0.5)", f"{name} += {one}"]
        vector = self.named("V")
        if vector is not None:
            position = self.choices.pick(["0", "-1", "n % 3", f"{self.of('I', 1)} % 3"])
            forms += [
                f"{vector}[{position}] = {one}", f"{vector}[{position}] += {one}", f"{vector}[1:] *= 2", f"{vector}[{vector} > 1] = 0.0",
                f"{vector}[:2].add_({one})", f"{vector}[:] = {one}",
            ]  # fmt: skip
        self._line(self.choices.pick(forms))

    def _alias(self) -> None:
        """Two names of one tensor, or a view."""
        vector, number = self.named("V"), self.named("F")
        forms = []
        if vector is not None:
            forms += [
                ("w", f"{vector}[:]"),
                ("w", vector),
                ("a", f"{vector}[0]"),
                ("y", f"{vector}[1]"),
                ("w", f"{vector}.view(3)"),
            ]
        if number is not None:
            forms += [
                ("z", number),
                ("y", number),
                ("h", number),
                ("z", f"{number}.view(())"),
                ("ys", "xs" if "xs" in self.bound else f"[{number}]"),
            ]
        forms = [(name, value) for name, value in forms if name not in self.frozen]
        if not forms:
            return self._line("pass")
        name, value = self.choices.pick(forms)
        self._line(f"{name} = {value}")
        self._bind(name)

    def _swap(self) -> None:
        kind = self.choices.pick(["F", "I", "V"])
        names = [name for name in NAMES[kind] if name in self.bound and name not in self.frozen]
        if len(names) < 2:
            return self._assign()
        one, two = names[0], names[-1]
        self._line(
            self.choices.pick(
                [f"{one}, {two} = {two}, {one}", f"{one} = {two} = {self.of(kind, 1)}", f"{one}, {two} = {two} + 1, {one}"]
            )
        )

    def _unpack(self) -> None:
        if self.frozen & {"y", "z", "a"}:
            return self._line("pass")
        form = self.choices.pick(["y, z, a = {v}", "y, (z, a) = {f}, ({f}, {f})", "y, *ys = [{f}, {f}]", "y = z = a = {f}"])
        if "*ys" in form and "ys" in self.frozen:
            return self._line("pass")
        for kind in ("v", "f", "f", "f"):
            form = form.replace(f"{{{kind}}}", self.of(kind.upper(), 1), 1)
        self._line(form)
        self._bind(*(["y", "ys"] if "*ys" in form else ["y", "z", "a"]))

    def _attribute(self) -> None:
        owner = self.owner
        tensor = f"{owner}.t = {self.of('F', 1)}" if owner != "self" else f"self.t = ({self.of('F', 1)}).detach().clone()"
        self._line(
            self.choices.pick(
                [tensor, tensor, f"{owner}.t += 1", f"{owner}.c = {self.of('I', 1)}", f"{owner}.c += 1"][
                    : 5 if owner == "box" else 3
                ]
            )
        )

    def _append(self) -> None:
        name = self.named("L")
        if name is None or name in self.frozen or name not in self.bound:
            return self._assign()
        one = self.of("F", 1)
        forms = [
            f"{name}.append({one})", f"{name}.append({one})", f"{name} += [{one}]", f"{name}.extend([{one}, x])", f"{name}.insert(0, {one})",
        ]  # fmt: skip
        self._line(self.choices.pick(forms))

    def _check(self) -> None:
        test, one = self.test(1), self.of("F", 0)
        forms = [
            f"assert {test}, f'assert {{{one}}}'", f"assert {test} or x < 3", f"assert x < 4, 'large {self.choices.pick('abc')}'",
        ]  # fmt: skip
        self._line(self.choices.pick(forms) if self.choices.chance(30) else f"assert n < 9, f'{{n}} and {{{one}}}'")

    def _print(self) -> None:
        self._line(f"print({self.choices.pick(['F', 'N', 'I'])!r}, {self.of(self.choices.pick(['F', 'N', 'I']), 1)})")

    def _items(self) -> None:
        if "d" not in self.bound:
            return self._assign()
        forms = [
            f"d['a'] = {self.of('F', 1)}",
            f"d['b'] += {self.of('F', 1)}",
            f"d['c'] = {self.of('F', 1)}",
            f"d.update(a={self.of('F', 1)})",
        ]
        self._line(self.choices.pick(forms if "d" not in self.frozen else forms[:2]))

    # -- compound statements -----------------------------------------------------------------------------------------------------

    def _if(self, place: _Place) -> None:
        self._line(f"if {self.test()}:")
        ways = [self._branch(place)]
        while self.choices.chance(25):
            self._line(f"elif {self.test()}:")
            ways.append(self._branch(place))
        if self.choices.chance(55):
            self._line("else:")
            ways.append(self._branch(place))
            self.bound |= set.intersection(*ways)

    def _number_of_iterations(self) -> str:
        return self.choices.pick(["n % 4", "int(n) % 4", "3", f"{self.of('N', 1)} % 3", "2", f"{self.of('I', 1)} % 3"])

    def _while(self, place: _Place) -> None:
        self._fresh += 1
        counter, trips = f"t{self._fresh}", self._number_of_iterations()
        self._line(f"{counter} = {self.choices.pick(['0', '0', '0 * n'])}")
        form = self.choices.pick(["plain", "plain", "and", "true"])
        if form == "true":
            self._line("while True:")
            with self._deeper():
                self._line(f"if {counter} >= {trips}{self.choices.pick(['', f' or {self.test(1)}'])}:")
                with self._deeper():
                    self._line("break")
                self._line(f"{counter} = {counter} + 1")
        else:
            self._line(f"while {counter} < {trips}{f' and {self.test(1)}' if form == 'and' else ''}:")
            with self._deeper():
                self._line(self.choices.pick([f"{counter} = {counter} + 1", f"{counter} += 1"]))
        self._branch(dataclasses.replace(place, loop=not place.final))
        self._orelse(place)

    def _orelse(self, place: _Place) -> None:
        if self.choices.chance(20):
            self._line("else:")
            self._branch(place)

    def _for(self, place: _Place) -> None:
        forms = [
            (("i",), f"range({self._number_of_iterations()})"), (("j",), f"range({self._number_of_iterations()})"), (("y",), self.of("V", 1)),
            (("z",), f"[{self.of('F', 1)}, {self.of('F', 1)}]"), (("i", "y"), f"enumerate({self.of('V', 1)})"),
            (("y", "z"), f"zip({self.of('V', 1)}, {self.of('V', 1)})"), (("i",), f"reversed(range({self._number_of_iterations()}))"),
            (("c",), f"range(1, {self._number_of_iterations()} + 1)"), (("j",), f"range({self._number_of_iterations()}, 0, -1)"),
            (("i", "y"), f"zip(range({self._number_of_iterations()}), {self.of('V', 1)})"), (("f",), "(0.5, 1.0)"),
        ]  # fmt: skip
        frozen = set(self.frozen)
        for name in ("xs", "ys"):
            if name in self.bound:
                forms += [(("z",), name), (("i", "z"), f"enumerate({name})")]
        if "d" in self.bound:
            forms += [(("key", "y"), "d.items()"), (("z",), "d.values()")]
        forms = [(names, over) for names, over in forms if not set(names) & self.frozen] or [(("i_",), "range(2)")]
        names, over = self.choices.pick(forms)
        if "xs" in over or "ys" in over or over.startswith("d."):
            self.frozen |= {"xs", "ys", "d"}
        self._line(f"for {', '.join(names)} in {over}:")
        kept = set(self.bound)
        self._bind(*names)
        self._branch(dataclasses.replace(place, loop=not place.final))
        self.bound, self.frozen = kept, frozen
        self._orelse(place)

    def _match(self, place: _Place) -> None:
        subject, cases = self.choices.pick([
            (f"{self.of('N', 1)} % 3", ["0", "1 | 2", "int() as j"]), (self.of("I", 1), ["0", "1", "2 | 3"]),
            (f"({self.of('N', 1)} % 2, {self.of('F', 1)})", ["(0, y)", "(1, z)"]), (f"[{self.of('F', 1)}, {self.of('F', 1)}]", ["[y]", "[y, z]", "[y, *_]"]),
            ("'up'" if "mode" not in self.bound else "mode", ["'up'", "'down'"]),
        ])  # fmt: skip
        if self.frozen & {"j", "y", "z"}:
            return self._if(place)
        self._line(f"match {subject}:")
        with self._deeper():
            for case in [*cases, "_"]:
                if case != "_" and self.choices.chance(20):
                    continue
                guard = f" if {self.test(1)}" if case != "_" and self.choices.chance(25) else ""
                self._line(f"case {case}{guard}:")
                self.maybe.update(name for name in ("y", "z", "j") if name in case)
                self._branch(place)

    def _try(self, place: _Place) -> None:
        self._line("try:")
        self._branch(place)
        self._line("finally:")
        self._branch(dataclasses.replace(place, final=True, loop=False, depth=0))

    def _with(self, place: _Place) -> None:
        self._line(f"with {self.choices.pick(['torch.no_grad()', 'torch.enable_grad()', 'torch.set_grad_enabled(True)'])}:")
        with_bound = self._branch(place)
        self.bound = with_bound

    def _nested(self, place: _Place) -> None:
        """A local function without arguments, which reads and maybe writes names of the function around it."""
        self._fresh += 1
        name = f"local{self._fresh}"
        if self.choices.chance(50):
            default = self.choices.pick(["", f"q={self.plain('F', 1)}"])
            self._line(f"{name} = lambda {default}: {self.plain('F', 1)}{' + q' if default else ''}")
        else:
            self._line(f"def {name}():")
            written = [n for n in ("y", "z", "i", "c") if n in self.bound and n not in self.frozen]
            with self._deeper():
                outer = self.frozen
                self.frozen = {n for names in NAMES.values() for n in names}
                if written and self.choices.chance(50):
                    target = self.choices.pick(written)
                    self._line(f"nonlocal {target}")
                    self._line(f"{target} = {self.of('F' if target in 'yz' else 'I', 1)}")
                self._line(f"if {self.test(1)}:")
                with self._deeper():
                    self._line(f"return {self.of('F', 1)}")
                self._line(f"return {self.of('F', 1)}")
                self.frozen = outer
        self.closures.append(name)


def write(choices: Choices, size: int = 14) -> Program:
    """A random program.

    Args:
        choices: decides.
        size: about how many statements it has.
    """
    return Grammar(choices, size).program()


@strategies.composite
def programs(draw: Any, size: int = 14) -> Program:
    """Random programs as a strategy of hypothesis."""
    return write(Drawn(draw), size)
