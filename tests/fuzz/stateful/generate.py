"""Random programs with state, and what happens to the state between their calls."""

from __future__ import annotations

import ast
import re
import textwrap

from tests.fuzz.choices import Choices, Seeded
from tests.fuzz.stateful.paths import Paths
from tests.fuzz.stateful.program import Call, Program
from tests.fuzz.stateful.statements import THEMES
from tests.fuzz.stateful.world import HELPERS, IMPORTS, MADE, NET, world

SIZE = 5
"""About how many statements a program has."""

_HELPERS = (
    """\
class Mode(enum.Enum):
    UP = 1
    DOWN = 2
""",
    """\
def named(a=0.0, b=0.0, **more):
    return a + 2 * b + len(more)
""",
    """\
def gathered(v, *rest, **more):
    if v.sum() > 0:
        more["c"] = v
        rest = rest + (v,)
    else:
        more.pop("a", None)
    for part in rest:
        v = v + part
    return v + len(more) + sum(more.values())
""",
    """\
def default(v, kept=[]):
    if v.sum() > 0:
        kept.append(v)
    return v + len(kept)
""",
    """\
def changed(v, box):
    if v.sum() < 0:
        return v
    box.h = v
    box.items.append(v)
    return box.h + 1
""",
    """\
def chosen(v, one, two):
    if v.sum() > 0:
        return one
    return two
""",
)
_XS = ["[float('nan'), 1.0]", "[1.0, 2.0]", "[-1.0, -2.0]", "[6.0, -7.0]", "[0.0, 0.0]", "[7.0, 2.0]", "[-3.0, 1.5]"]
_NS = ["0", "1", "2", "3", "-1"]


class Generator:
    """Writes one program.

    Args:
        choices: where decisions come from.
        size: about how many statements it has.
    """

    def __init__(self, choices: Choices, size: int) -> None:
        self.choices, self.budget = choices, size
        self.themes = [choices.pick(list(THEMES)) for _ in range(choices.count(1, 3))]
        self.world = world(choices, frozenset().union(*(THEMES[theme][1] for theme in self.themes)))
        self.paths = Paths(choices, self.world)
        self.loops = 0
        self.more = choices.chance(12)
        """Whether the program takes any keyword arguments."""

    def program(self) -> Program:
        """The program."""
        body = self._body()
        text = self.world.classes + "\n".join(body)
        helpers = [helper for helper in _HELPERS if _names(helper, text)]
        parts = [IMPORTS, *helpers, self.world.classes, self.world.made, self._target(body)]
        if self.world.form == "method":
            parts[-3] += "\n" + textwrap.indent(parts[-1], "    ")
            parts[-1] = "program = st.run"
        return Program("\n\n\n".join(part.strip("\n") for part in parts) + "\n", self._calls())

    # -- the function ----------------------------------------------------------------------------------------------------------

    def _body(self) -> list[str]:
        local = self.paths.local
        lines = ["y = x * 2"]
        local["T"].append("y")
        if self.choices.chance(45) or "numbers" in self.themes or "nested" in self.themes:
            lines.append("j = 1")
            local["N"].append("j")
        if self.choices.chance(30) or "keys" in self.themes:
            lines.append(f'k = {self.choices.pick(["a", "b"])!r} if {self.paths.test()} else "c"')
            local["K"].append("k")
        if self.choices.chance(30):
            lines.append(f"ys = {self.paths.list()}")
            local["L"].append("ys")
        if self.choices.chance(25):
            lines.append(f"m = {self.paths.dict()}")
            local["D"].append("m")
        if self.choices.chance(25):
            lines.append(f"o = {self.paths.object()}")
            local["O"].append("o")
        if self.more:
            local["D"].append("more")
        lines += self._block(0)
        if lines[-1].startswith("return"):
            return lines
        return [*lines, f"return {self._result()}"]

    def _block(self, depth: int) -> list[str]:
        lines: list[str] = []
        for _ in range(self.choices.count(1, 2) if depth else self.budget):
            lines += self._statement(depth)
        if depth and self.choices.chance(16):
            lines.append(f"return {self._result()}")
        return lines

    def _statement(self, depth: int) -> list[str]:
        way = self.choices.count(0, 99)
        if depth < 2 and way < 38:
            return self._control(depth, way)
        form = THEMES[self.choices.pick(self.themes)][0] if way < 92 else THEMES[self.choices.pick(list(THEMES))][0]
        lines = form(self.paths)
        bound = {name for kind in "TNKLDO" for name in self.paths.local[kind]}
        for name in ("y", "j", "k", "ys", "m", "o"):  # a form may want a name that this program does not bind
            if name not in bound and any(_mentions(line, name) for line in lines):
                return [f"y = y + {self.paths.tensor()}"]
        return lines

    def _control(self, depth: int, way: int) -> list[str]:
        block = lambda: _indented(self._block(depth + 1))  # noqa: E731
        if way < 24:
            lines = [f"if {self.paths.test()}:", *block()]
            if self.choices.chance(20):
                lines += [f"elif {self.paths.test()}:", *block()]
            return [*lines, "else:", *block()] if self.choices.chance(50) else lines
        if way < 29:
            return [f"for i in range({self.choices.pick(['int(n)', 'n', '2'])}):", *block()]
        if way < 32:
            self.loops += 1
            count = f"w{self.loops}"
            return [
                f"{count} = {self.choices.pick(['n', 'n * 1', 'int(n)'])}",
                f"while {count} > 0:",
                f"    {count} = {count} - 1",
                *block(),
            ]
        if way < 34:
            return [f"for v in list({self.paths.list()}):", *_indented(["y = y + v", *self._block(depth + 1)])]
        if way < 36:
            return ["try:", *block(), "finally:", *_indented(self._statement(2))]
        return [
            f"with {self.choices.pick(['torch.no_grad()', 'contextlib.nullcontext()', 'contextlib.suppress(KeyError, IndexError)'])}:",
            *block(),
        ]

    def _result(self) -> str:
        p = self.paths
        way = self.choices.count(0, 9)
        if way <= 2:
            return self.choices.pick(["y", "x", "None", p.tensor()])
        if way <= 5:
            return p.any()
        names = [name for kind in "TN" for name in p.local[kind]]
        parts = [
            p.any() if self.choices.chance(60) else p.question() if self.choices.chance(50) else p.number()
            for _ in range(self.choices.count(1, 2))
        ]
        return ", ".join([*names, *parts])

    def _target(self, body: list[str]) -> str:
        ways = self.world.ways
        arguments = [name for name, way in ways.items() if way == "argument"]
        defaults = [f"{name}={name}" for name, way in ways.items() if way == "default"]
        cells = [name for name, way in ways.items() if way == "cell"]
        given = ", ".join(["x", "n", *arguments, *defaults, *(["**more"] if self.more else [])])
        text = "\n".join(body) + "\n"
        assigned = [name for name, way in ways.items() if way == "global" and _assigns(text, name)]
        nonlocals = [name for name in cells if _assigns(text, name)]
        head = "".join(
            [f"global {', '.join(assigned)}\n" if assigned else "", f"nonlocal {', '.join(nonlocals)}\n" if nonlocals else ""]
        )
        self.given = ["{x}", "{n}", *arguments]
        inside = textwrap.indent(head + text, "    ")
        if self.world.form == "module":
            net = (
                NET
                if self.choices.chance(60)
                else NET.replace("        self.h = torch.zeros(2)\n", "") + "        self.h = self.init\n"
            )
            return net + textwrap.indent(f"\ndef forward(self, {given}):\n{inside}", "    ") + "\n\nprogram = Net()\n"
        if self.world.form == "method":
            return f"def run(self, {given}):\n{inside}"
        if self.world.form == "closure":
            function = f"{HELPERS}\ndef program({given}):\n{inside}    \nreturn program\n"
            return f"def build({', '.join(cells)}):\n{textwrap.indent(function, '    ')}\n\nprogram = build({', '.join(cells)})\n"
        return f"def program({given}):\n{inside}\n"

    # -- the calls -------------------------------------------------------------------------------------------------------------

    def _calls(self) -> tuple[Call, ...]:
        self.paths.inside = False
        self.paths.local = {kind: [] for kind in self.paths.local}
        grad = self.choices.chance(25)
        made = []
        for position in range(self.choices.count(4, 6)):
            before = [line for _ in range(self.choices.count(0, 2) if position else 0) for line in self._change()]
            x = f"torch.tensor({self.choices.pick(_XS)}" + (", requires_grad=True)" if grad else ")")
            if position > 2 and self.choices.chance(8):
                x = "torch.tensor([1.0, -2.0], dtype=torch.float64)"
            n = f"torch.tensor({self.choices.pick(_NS)})"
            names = [self._other(name) for name in self.given[2:]]
            if self.more:
                names += ["a=torch.ones(2)", "b=torch.full((2,), 3.0)"]
            mode = "torch.no_grad()" if self.choices.chance(8) else ""
            made.append(Call(tuple(before), ", ".join([x, n, *names]), mode))
        return tuple(made)

    def _other(self, name: str) -> str:
        """An argument, or another one of its kind."""
        names = [other for other in self.world.ways if MADE[other][0] == MADE[name][0]]
        return self.choices.pick(names) if self.choices.chance(18) else name

    def _change(self) -> list[str]:
        """What happens to the world between two calls."""
        if self.world.form == "module" and self.choices.chance(25):
            return [self.choices.pick([
                "program.eval()", "program.train()", "program.h = program.init", "program.h = torch.ones(2)", "program.b.zero_()", "program.w.requires_grad_(not program.w.requires_grad)",
                "program.lin.register_forward_hook(lambda m, a, r: r * 2)", "program.register_buffer('b', torch.ones(2))", "program.lin = nn.Linear(2, 2, bias=True); nn.init.ones_(program.lin.weight); nn.init.zeros_(program.lin.bias)",
                "program.w = nn.Parameter(torch.ones(2))", "Net.z = 9", "program.__dict__.pop('z', None)", "program.init = program.h", "Net.shared.clear()",
            ])]  # fmt: skip
        if self.world.form == "closure" and self.choices.chance(20):
            return [self.choices.pick(["build.turn(3.0)", "build.turn(0.5)", "build.known.clear()", "build.known['a'] = 4"])]
        kind = self.choices.pick(
            [theme for theme in self.themes if theme in ("lists", "dicts", "objects", "classes")] or ["lists", "dicts", "objects"]
        )
        if kind == "classes" and self.world.kind in ("plain", "subclass", "module") and self.choices.chance(50):
            return [
                self.choices.pick(
                    ["Box.z = 9", "Box.shared = []", "Box.shared.append(torch.ones(2))", "st.__dict__.pop('z', None)", "st.z = 4"]
                )
            ]
        if self.choices.chance(12):
            return [f"{self.paths.object()}.h = torch.ones(2, requires_grad=True)"]
        lines = THEMES[kind][0](self.paths)
        if any(_mentions(line, name) for line in lines for name in ("x", "y", "j", "k", "n", "o")) or "yield" in lines:
            return [f"{self.paths.place('L')} = {self.paths.list()}"]
        return ["\n".join(lines)]


def write(seed: str, size: int = SIZE) -> Program:
    """The program of a seed."""
    return Generator(Seeded(seed), size).program()


def _names(helper: str, text: str) -> bool:
    """Whether a text mentions what a helper defines."""
    name = re.search(r"(?:def|class) (\w+)", helper)
    return name is not None and re.search(rf"\b{name[1]}\b", text) is not None


def _mentions(line: str, name: str) -> bool:
    return re.search(rf"(?<![\w.'\"]){name}(?![\w'\"=])", line) is not None


def _assigns(text: str, name: str) -> bool:
    for node in ast.walk(ast.parse("def f():\n" + textwrap.indent(text, "    "))):
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, (ast.Store, ast.Del)):
            return True
    return False


def _indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]
