"""Random Python functions over a few small integers and lists: seeded, bounded, full of unbound names."""

from __future__ import annotations

import random

NAMES = ("a", "b", "c", "d", "e")


class ProgramGenerator:
    """Writes one function `program(a, b, xs, log)`; `log(x)` records its argument and returns it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._lines: list[str] = []
        self._fresh = 0

    def program(self) -> str:
        """The text of a module that defines `program`."""
        self._lines = ["class Box:", "    def __init__(self): self.v = 1", ""]
        self._lines.append("def program(a, b, xs, log):")
        self._line(1, "box = Box()")
        if self._random.random() < 0.15:
            self._line(1, f"global g_{self._random.choice('xy')}")
            self._line(1, "g_x = a")
        for name in NAMES[2:]:
            if self._random.random() < 0.6:
                self._line(1, f"{name} = {self._random.randint(0, 3)}")
        self._block(1, depth=3, in_loop=False, in_finally=False)
        if self._random.random() < 0.5:
            self._line(1, f"return {self._expression(2)}")
        return "\n".join(self._lines) + "\n"

    def _line(self, indent: int, text: str) -> None:
        self._lines.append("    " * indent + text)

    def _block(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        for _ in range(self._random.randint(1, 4)):
            self._statement(indent, depth, in_loop, in_finally)
            left = self._lines[-1].split()[0] in ("return", "break", "continue", "raise")
            if left and self._random.random() < 0.9:
                return

    def _statement(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        simple = [self._assign, self._augment, self._unpack, self._log, self._store, self._delete]
        compound = [self._if, self._if, self._if, self._while, self._for, self._for, self._try, self._with, self._match]
        roll = self._random.random()
        if depth > 0 and roll < 0.55:
            self._random.choice(compound)(indent, depth - 1, in_loop, in_finally)
        elif roll < 0.64 and not in_finally:
            self._jump(indent, in_loop)
        elif roll < 0.68:
            self._nested(indent)
        elif roll < 0.7:
            self._line(indent, f"assert {self._expression(2)}, {self._expression(2)}")
        elif roll < 0.72:
            self._line(indent, f"raise ValueError({self._expression(1)})")
        else:
            self._random.choice(simple)(indent)

    def _name(self) -> str:
        return self._random.choice(NAMES)

    def _assign(self, indent: int) -> None:
        targets = " = ".join(self._name() for _ in range(self._random.choice((1, 1, 1, 2))))
        self._line(indent, f"{targets} = {self._expression(2)}")

    def _augment(self, indent: int) -> None:
        target = self._random.choice((self._name(), self._name(), "box.v", "xs[0]", "log(box).v"))
        self._line(indent, f"{target} {self._random.choice(('+=', '-=', '*='))} {self._expression(1)}")

    def _unpack(self, indent: int) -> None:
        choices = (
            "{0}, {1} = {1x}, {0x}",
            "{0}, box.v = {1x}, {0x}",
            "xs[0], {1} = {0x}, {1x}",
            "{0}, *{1} = [{0x}, 1]; {1} = len({1})",
            "({0}, xs[-1]), box.v = ({0x}, 2), {1x}",
        )
        text = self._random.choice(choices).replace("{0x}", self._expression(1)).replace("{1x}", self._expression(1))
        first, second = self._random.sample(NAMES, 2)
        self._line(indent, text.replace("{0}", first).replace("{1}", second))

    def _log(self, indent: int) -> None:
        self._line(indent, f"log({self._expression(2)})")

    def _store(self, indent: int) -> None:
        target = self._random.choice(("box.v", "xs[0]", "log(xs)[log(0)]", "log(box).v"))
        self._line(indent, f"{target} = {self._expression(2)}")

    def _delete(self, indent: int) -> None:
        if self._random.random() < 0.4:
            self._line(indent, f"del {self._name()}")
        else:
            self._assign(indent)

    def _jump(self, indent: int, in_loop: bool) -> None:
        choices = ["return " + self._expression(1), "return"]
        if in_loop:
            choices = ["break", "continue", "break", "continue", choices[0]]
        self._line(indent, self._random.choice(choices))

    def _nested(self, indent: int) -> None:
        name = self._name()
        self._fresh += 1
        kind = self._random.randrange(3)
        if kind == 0:
            self._line(indent, f"h{self._fresh} = lambda p={self._expression(1)}: p + {name}")
        elif kind == 1:
            self._line(indent, f"def h{self._fresh}(p=1):")
            self._line(indent + 1, f"nonlocal {name}" if name not in ("a", "b") else "pass")
            self._line(indent + 1, f"{name} = p" if name not in ("a", "b") else f"p = {name}")
            self._line(indent + 1, "return p")
        else:
            self._line(indent, f"h{self._fresh} = lambda: [q + {name} for q in range(2)]")
        self._line(indent, f"{self._name()} = log(h{self._fresh}())")
        if kind == 2:
            self._line(indent, f"{name} = 4")

    def _if(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        self._line(indent, f"if {self._expression(2)}:")
        self._block(indent + 1, depth, in_loop, in_finally)
        if self._random.random() < 0.3:
            self._line(indent, f"elif {self._expression(2)}:")
            self._block(indent + 1, depth, in_loop, in_finally)
        if self._random.random() < 0.5:
            self._line(indent, "else:")
            self._block(indent + 1, depth, in_loop, in_finally)

    def _while(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        self._line(indent, f"while log.tick() and {self._expression(2)}:")
        self._block(indent + 1, depth, not in_finally, in_finally)
        self._loop_else(indent, depth, in_loop, in_finally)

    def _for(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        target = self._random.choice((self._name(), self._name(), "box.v", f"{self._name()}, {self._name()}"))
        items = self._random.choice(("xs[:3]", "range(3)", "log.steps(3)"))
        iterable = f"zip({items}, range(9))" if "," in target else items
        self._line(indent, f"for {target} in {iterable}:")
        self._line(indent + 1, "log.tick()")
        self._block(indent + 1, depth, not in_finally, in_finally)
        self._loop_else(indent, depth, in_loop, in_finally)

    def _loop_else(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        if self._random.random() < 0.3:
            self._line(indent, "else:")
            self._block(indent + 1, depth, in_loop, in_finally)

    def _try(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        self._line(indent, "try:")
        self._block(indent + 1, depth, in_loop, in_finally)
        handled = self._random.random() < 0.8
        if handled:
            errors = self._random.choice(("(ValueError, AssertionError)", "(NameError, TypeError)", "Exception"))
            name = self._random.choice(("", "", f" as {self._name()}"))
            self._line(indent, f"except {errors}{name}:")
            self._block(indent + 1, depth, in_loop, in_finally)
            if self._random.random() < 0.3:
                self._line(indent, "else:")
                self._block(indent + 1, depth, in_loop, in_finally)
        if not handled or self._random.random() < 0.4:
            self._line(indent, "finally:")
            self._block(indent + 1, depth, False, True)

    def _with(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        target = self._random.choice(("", f" as {self._name()}", " as box.v", " as xs[0], log.guard(0) as box.v"))
        self._line(indent, f"with log.guard({self._expression(1)}){target}:")
        self._block(indent + 1, depth, in_loop, in_finally)

    def _match(self, indent: int, depth: int, in_loop: bool, in_finally: bool) -> None:
        self._line(indent, f"match {self._expression(1)}:")
        self._line(indent + 1, f"case {self._random.randint(0, 2)}:")
        self._block(indent + 2, depth, in_loop, in_finally)
        if self._random.random() < 0.6:
            self._line(indent + 1, f"case int({self._name()}) if {self._expression(1)}:")
            self._block(indent + 2, depth, in_loop, in_finally)

    def _expression(self, depth: int) -> str:
        if depth <= 0 or self._random.random() < 0.3:
            return self._atom()
        one, two, three = (self._expression(depth - 1) for _ in range(3))
        choices = (
            f"({one} + {two})",
            f"({one} and {two})",
            f"({one} or {two} or {three})",
            f"(not {one})",
            f"({one} if {two} else {three})",
            f"({one} < {two} <= {three})",
            f"({one} > {two})",
            f"({one} == {two})",
            f"({one} in xs)",
            f"({one} is not {two})",
            f"log({one})",
            f"({self._name()} := {two})",
            f"len(f'{{{self._name()}!r:>{{3}}}}t{{{self._atom()}}}')",
            f"sum([q + {one} for q in range(2)])",
            "sum(xs[:2])",
        )
        return self._random.choice(choices)

    def _atom(self) -> str:
        roll = self._random.random()
        if roll < 0.6:
            return self._name()
        return self._random.choice(("0", "1", "2", "-1", "xs[0]", "box.v", "len(xs)", "max(1, b)"))
