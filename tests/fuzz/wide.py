"""The grammar with more of the language: containers that grow and shrink, iterators, exceptions that are caught, random numbers,
generator functions, globals, dicts that are state of an object, recursion, decorated and callable things.

It is for long runs by hand (``--wide``); its programs are refused more often.
"""

from __future__ import annotations

import contextlib
import dataclasses

from tests.fuzz.choices import Choices
from tests.fuzz.grammar import Grammar, Program, _Place

_IMPORTS = """\
import collections
import dataclasses
import functools

import torch

from tests.fuzz.classes import Note, Point, Scale, Stop, down, scaled

G = torch.tensor(0.5, dtype=torch.float64)


"""
_MORE = {"s": "set", "e": "deque", "p": "object"}
"""Names that only this grammar binds, to a set of words, a deque of floats, an object with a float and an int."""


class Wide(Grammar):
    """Writes one program."""

    def __init__(self, choices: Choices, size: int) -> None:
        super().__init__(choices, size)
        self._generators: list[str] = []

    def program(self) -> Program:
        """A program."""
        made = super().program()
        return dataclasses.replace(made, source=made.source.replace("import torch\n", _IMPORTS, 1))

    def _helper(self, name: str) -> None:
        """A helper, and maybe a generator function beside it."""
        super()._helper(name)
        if self.choices.chance(50):
            self._generator(f"made{len(self._generators)}")

    def _generator(self, name: str) -> None:
        self._scope("x", "i", "v", "n")
        self._line(f"def {name}(x, i, v, n):")
        with self._deeper():
            budget, self._budget = self._budget, 0
            self._line("box = Box(x, i)")
            for _ in range(self.choices.count(1, 3)):
                self._simple()
                form = self.choices.pick(["plain", "plain", "for", "if", "from", "try"])
                if form == "from" and self._generators:
                    self._line(f"yield from {self.choices.pick(self._generators)}({self.of('F', 1)}, i, v, n)")
                    continue
                heads = {"for": ["for k in range(2):"], "if": ["if len(v) > 2:"], "try": ["try:"]}.get(form, [])
                for head in heads:
                    self._line(head)
                with self._deeper() if heads else contextlib.nullcontext():
                    self._line(f"yield {self.of('F', 1)}")
                    self._line(f"x = {self.of('F', 1)}")
                if form == "try":
                    self._line("finally:")
                    with self._deeper():
                        self._line("x = x * 2")
            self._budget = budget
        self._line("")
        self._generators.append(name)

    def _made(self) -> str | None:
        """A call of a generator function."""
        if not self._generators:
            return None
        return f"{self.choices.pick(self._generators)}({self.plain('F', 1)}, {super().of('I', 0)}, v, n)"

    def _main(self) -> None:
        before = len(self._lines)
        super()._main()
        if any(line.lstrip().startswith("G =") for line in self._lines[before:]):
            start = next(
                k for k in range(before, len(self._lines)) if self._lines[k].lstrip().startswith(("def forward", "def program"))
            )
            indent = len(self._lines[start]) - len(self._lines[start].lstrip()) + 4
            self._lines.insert(start + 1, " " * indent + "global G")

    def _for(self, place: _Place) -> None:
        made = self._made()
        if made is None or "z" in self.frozen or self.choices.chance(70):
            return super()._for(place)
        self._line(f"for z in {made}:")
        kept = set(self.bound)
        self._bind("z")
        self._branch(dataclasses.replace(place, loop=not place.final))
        self.bound = kept
        self._orelse(place)

    def of(self, kind: str, depth: int = 2) -> str:
        """An expression of a type."""
        if depth > 0 and self.choices.chance(15):
            forms = {"F": self._floats, "V": self._vectors, "N": self._integers, "I": self._indices, "P": self._numbers}.get(kind)
            if forms is not None:
                return self.choices.pick(forms(depth))
        return super().of(kind, depth)

    def test(self, depth: int = 2) -> str:
        """Something to test."""
        forms = self._questions()
        return self.choices.pick(forms) if forms and self.choices.chance(15) else super().test(depth)

    def _result(self) -> str:
        more = [name for name in _MORE if name in self.bound and self.choices.chance(60)]
        return ", ".join([super()._result(), *more])

    # -- expressions -----------------------------------------------------------------------------------------------------------

    def _floats(self, depth: int) -> list[str]:
        one = super().of("F", depth - 1)
        forms = [
            "torch.rand((), dtype=x.dtype)", f"torch.nn.functional.dropout({one}, 0.5)", f"{one}.clone().uniform_()", f"({one} % 2)",
            f"{one}.clone().add_(x)", f"torch.rand_like({one})", f"({one} ** 2)",
        ]  # fmt: skip
        forms += [
            "G", f"down({one}, {self.choices.pick('123')})", f"scaled({one}, by=0.5)", f"Scale({super().of('P', 0)})({one})",
            f"functools.reduce(lambda p, q: p + q, {super().of('V', 0)}, {one})", f"sum(map(lambda q: q * 2, {super().of('V', 0)}))",
            f"(lambda *p, **q: p[0] + q['a'])({one}, a=x)", f"{{k: q * 2 for k, q in dict(a={self.plain('F', depth - 1)}, b=x).items()}}['a']",
            f"[q for q in reversed([{self.plain('F', depth - 1)}, x])][0]", f"sorted([{one}, x])[0]", f"next(iter([{one}]), x)",
        ]  # fmt: skip
        made = self._made()
        if made is not None:
            forms += [f"sum({made}, {one})", f"list({made})[0]", f"next({made})", f"sum([q * 2 for q in {made}])"]
        if "m" in self.bound:
            forms += ["box.m['a']", "sum(box.m.values())", f"box.m.get('b', {one})"]
        held = {
            "d": ["d['a']", "sum(d.values())", "max(d.values())", "d['c']"], "p": ["p.a", "p.total()"], "e": ["e[0]", "e[-1]", "sum(e)"],
            "xs": ["xs[0]", "torch.stack(xs).sum()", "sum(xs)", "max(xs)"],
        }  # fmt: skip
        return forms + [form for name, some in held.items() if name in self.bound for form in some]

    def _vectors(self, depth: int) -> list[str]:
        one = super().of("V", depth - 1)
        return [
            "torch.rand(3, dtype=x.dtype)",
            f"torch.stack({one}.unbind())",
            f"{one}.clone().mul_(x)",
            f"{one}[torch.randperm(3)]",
        ]

    def _integers(self, depth: int) -> list[str]:
        return ["torch.randint(0, 4, ())", f"({super().of('N', depth - 1)} & 3)"]

    def _indices(self, depth: int) -> list[str]:
        one, number = super().of("I", depth - 1), super().of("P", depth - 1)
        forms = [f"round({number})", f"({one} // 2)", f"({one} ** 2 % 5)", f"divmod({one}, 3)[1]", f"int({number})"]
        return (
            forms
            + [f"len({name})" for name in ("ys", "d", "s", "e") if name in self.bound]
            + (["p.b"] if "p" in self.bound else [])
        )

    def _numbers(self, depth: int) -> list[str]:
        one = super().of("P", depth - 1)
        return [f"({one} // 1)", f"({one} % 2)", f"float({super().test(depth - 1)})", f"round({one}, 1)"]

    def _questions(self) -> list[str]:
        held = {
            "d": ["'c' in d", "'a' not in d", "len(d) > 2", "d.get('c') is None"], "s": ["'a' in s", "s", "s == {'b'}", "s < {'a', 'b'}"],
            "e": ["e", "len(e) > 1"], "p": ["p.b > 1", "p.a > p.b"],
        }  # fmt: skip
        return [form for name, some in held.items() if name in self.bound for form in some]

    # -- statements ------------------------------------------------------------------------------------------------------------

    def _simple(self) -> None:
        if not self.choices.chance(35):
            return super()._simple()
        writers = [
            self._new,
            self._new,
            self._dict_change,
            self._list_change,
            self._set_change,
            self._deque_change,
            self._point_change,
        ]
        text = self.choices.pick(
            [*writers, self._iterator_change, self._view, self._global_change, self._table_change, self._table_change]
        )()
        if self.choices.chance(8):
            self._raise()
        elif text is None:
            super()._simple()
        else:
            self._line(text)

    def _new(self) -> str | None:
        name = self.choices.pick(list(_MORE))
        if name in self.frozen:
            return None
        one = self.of("F", 1)
        made = {
            "s": self.choices.pick(["set()", "{'a'}", "{'a', 'b'}"]),
            "e": f"collections.deque([{one}, x]{self.choices.pick(['', ', maxlen=2'])})",
            "p": f"Point({one}, {self.of('I', 1)})",
        }
        self._bind(name)
        return f"{name} = {made[name]}"

    def _dict_change(self) -> str | None:
        if "d" not in self.bound or "d" in self.frozen:
            return None
        one = self.of("F", 1)
        return self.choices.pick([
            f"d.update(c={one}, b={self.of('F', 1)})", f"d |= {{'b': {one}}}", "d.pop('c', None)", f"d.setdefault('c', {one})", "d = dict(d)",
            f"d = {{**d, 'c': {one}}}", f"d['b'] = d.pop('c', {one})", "del d['c']", "d.pop('a')", f"d['a'] = {one}", f"d.update(a={one})",
        ])  # fmt: skip

    def _list_change(self) -> str | None:
        name = self.named("L")
        if name is None or name in self.frozen or name not in self.bound:
            return None
        one = self.of("F", 1)
        return self.choices.pick([
            f"{name}[0] = {one}", f"{name}[-1] += {one}", f"{name}.pop()", f"{name}.reverse()", f"del {name}[0]", f"{name}[1:] = [{one}]",
            f"{name}.clear()", f"{name} = {name} * 2", f"{name} = list({name})",
        ])  # fmt: skip

    def _set_change(self) -> str | None:
        if "s" not in self.bound or "s" in self.frozen:
            return None
        word = self.choices.pick(["'a'", "'b'", "1", "(1, 'a')"])
        return self.choices.pick(
            [f"s.add({word})", f"s.add({word})", f"s.discard({word})", f"s |= {{{word}, 'b'}}", f"s = s - {{{word}}}"]
        )

    def _deque_change(self) -> str | None:
        if "e" not in self.bound or "e" in self.frozen:
            return None
        one = self.of("F", 1)
        return self.choices.pick(
            [f"e.append({one})", f"e.appendleft({one})", "e.pop()", "e.rotate(1)", f"e[0] = {one}", "e.popleft()"]
        )

    def _point_change(self) -> str | None:
        if "p" not in self.bound or "p" in self.frozen:
            return None
        one = self.of("F", 1)
        return self.choices.pick([
            f"p.a = {one}", f"p.a += {one}", f"p.b += {self.of('I', 1)}", f"p.a, p.b = {one}, p.b + 1", f"p.a *= {one}",
            f"p = dataclasses.replace(p, a={one})",
        ])  # fmt: skip

    def _global_change(self) -> str | None:
        if self._in_helper or self._indent > 4:
            return None
        return f"G = ({self.of('F', 1)}).detach().double().clone()"

    def _table_change(self) -> str | None:
        """A dict that is an attribute of an object."""
        if self.owner != "box":
            return None
        one = self.of("F", 1)
        if "m" not in self.bound or self.choices.chance(15):
            self.bound.add("m")
            return f"box.m = {{'a': {one}}}"
        return self.choices.pick(
            [f"box.m['a'] = {one}", f"box.m['a'] += {one}", f"box.m['b'] = {one}", "box.m.pop('b', None)", f"box.m.update(a={one})"]
        )

    def _iterator_change(self) -> str | None:
        target = next((name for name in ("y", "z", "a") if name not in self.frozen), None)
        if target is None or "it" in self.frozen:
            return None
        one = self.of("F", 1)
        if "it" not in self.bound or self.choices.chance(30):
            self.bound.add("it")
            return f"it = iter({self.choices.pick([f'[{one}, x]', self.of('V', 1), '(q + 1 for q in [x, x, x])'])})"
        self._bind(target)
        return f"{target} = next(it, {one})" if self.choices.chance(70) else f"{target} = next(it)"

    def _view(self) -> str | None:
        vector = self.named("V")
        forms = [
            ("w", ".view(3, 1)[:, 0]"),
            ("a", ".unbind()[1]"),
            ("z", ".split(1)[2][0]"),
            ("z", f".narrow(0, {self.of('I', 0)} % 3, 1)[0]"),
        ]
        name, view = self.choices.pick(forms)
        if vector is None or name in self.frozen:
            return None
        self._bind(name)
        return f"{name} = {vector}{view}"

    def _raise(self) -> None:
        """A user exception, under a test."""
        bad = f"ValueError(f'bad {{{self.of('F', 0)}}}')"
        self._line(f"if {self.test()}:")
        with self._deeper():
            self._line("raise " + self.choices.pick([bad, "Stop", "KeyError('k')"]))

    def _try(self, place: _Place) -> None:
        kinds = self.choices.pick(["ValueError", "(Stop, KeyError)", "IndexError", "Exception", "LookupError as error"])
        if self.choices.chance(40):
            return super()._try(place)
        self._line("try:")
        tried = self._branch(place)
        self._line(f"except {kinds}:")
        caught = self._branch(place)
        self.bound |= tried & caught
        if self.choices.chance(30):
            self._line("finally:")
            self._branch(dataclasses.replace(place, final=True, loop=False, depth=0))

    def _with(self, place: _Place) -> None:
        if self.owner != "box" or self.choices.chance(60):
            return super()._with(place)
        self._line("with Note(box):")
        self.bound = self._branch(place)
