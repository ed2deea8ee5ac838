"""Statements that change a world, by theme."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.stateful.paths import Paths

Form = Callable[[Paths], list[str]]


def _one(*forms: Callable[[Paths], str]) -> Form:
    return lambda p: [p.choices.pick(forms)(p)]


def _guarded(p: Paths, test: str, *lines: str) -> list[str]:
    return [f"if {test}:", *(f"    {line}" for line in lines)]


def _kept(p: Paths, made: str, place: str) -> list[str]:
    """Something is made, and kept on some ways."""
    return [f"w = {made}", *_guarded(p, p.test(), f"{place} = w"), f"j = int({place} is w)"]


def lists(p: Paths) -> list[str]:
    """A list is changed, replaced, shared, swapped."""
    one, two, t = p.list(), p.place("L"), p.tensor()
    return p.choices.pick(
        [
            [f"{one}.append({t})"], [f"{one}.append({t})"], [f"{one}.extend([{t}, {p.tensor()}])"], [f"{one}.clear()"], [f"{one}.insert(0, {t})"],
            _guarded(p, one, f"{one}.pop()"), _guarded(p, one, f"{one}[0] = {t}"), _guarded(p, one, f"{one}[-1] = {one}[-1] + x"), [f"del {one}[:1]"],
            [f"{two} = {one}"], [f"{two} = {one}"], [f"{two} = [{t}]"], [f"{two} = []"], [f"{two} = list({one})"], [f"{two} = {one} + [{t}]"], [f"{two} += [{t}]"],
            [f"{two}, {one} = {one}, {two}" if "[" not in one else f"{two} = {one}"], [f"{one}[:] = [{t}]"], [f"{one}.reverse()"], [f"{two} = {one}[1:]"],
            [f"{two} = {one} if {p.test()} else {p.list()}"], [f"{one}[-2:] = [{t}]"], [f"{two} = {one}.copy()"],
            [f"z, *w = [x, *{one}]", "j = len(w)"], [f"for k, v in zip('pqrs', {one}):", "    y = y + v"], [f"for v in itertools.chain({one}, [x]):", "    y = y + v"],
            [f"y = functools.reduce(lambda a, b: a + b, {one}, y)"], ["try:", f"    y = y + {one}[int(n)]", "except IndexError:", "    j = 4"],
            _kept(p, f"copy.deepcopy({one})", two), _kept(p, f"{one}[:]", two),
        ]
    )  # fmt: skip


def dicts(p: Paths) -> list[str]:
    """A dict is changed, replaced, shared, swapped; a key may be one that a tensor has chosen."""
    one, two, t, k = p.dict(), p.place("D"), p.tensor(), p.key()
    return p.choices.pick(
        [
            [f"{one}[{k}] = {t}"], [f"{one}[{k}] = {t}"], [f"{one}[{k}] = {one}.get({k}, x) + x"], [f"{one}.pop({k}, None)"], [f"{one}.setdefault({k}, {t})"],
            [f"{one}.clear()"], [f"{two} = {one}"], [f"{two} = {one}"], [f"{two} = {{{k}: {t}}}"], [f"{two} = {{}}"], [f"{two} = {{**{one}, {k}: {t}}}"],
            [f"{two} = {one} | {{{k}: {t}}}"], [f"{two} |= {{{k}: {t}}}"], [f"{two} = dict([({k}, {t})])"], _guarded(p, f"{k} in {one}", f"del {one}[{k}]"),
            [f"{one}.update({{{k}: {t}}})"], [f"{one}.update(b={t})"], [f"{two} = dict({one})"], [f"{two}, {one} = {one}, {two}" if "[" not in one else f"{two} = {one}"],
            [f"{two} = {one} if {p.test()} else {p.dict()}"], [f"y = {one}.setdefault({k}, {t})"], [f"y = {one}.get({k}, {t})"], [f"y = {one}[{k}]"],
            [f"for key, v in {one}.items():", "    y = y + v"], [f"y = {one}.pop({k}, {t})"], [f"{two} = {{key: v + 1 for key, v in {one}.items()}}"],
            _guarded(p, one, f"y = y + {t}"), _guarded(p, f"not {one}", f"{one}[{k}] = {t}"), [f"j = 1 if {one} else 2"],
            _guarded(p, f"{k} in {one}", f"{one}[{k}] += 1"), [f"j = len([*{one}])"], [f"{two} = dict(reversed(list({one}.items())))"],
            [f"{two} = {one}.copy()"], [f"{two} = dict.fromkeys({one}, {t})"], _kept(p, f"{one}.copy()", two), _kept(p, f"copy.deepcopy({one})", two),
            _kept(p, f"dict.fromkeys({one}, {t})", two), *_views(p, one, k), *_steps(p, one),
        ]
    )  # fmt: skip


def _views(p: Paths, table: str, key: str) -> list[list[str]]:
    """Views of keys are sets; tensors are found in them by their identity."""
    t = p.tensor()
    return [
        [f"j = len({table}.keys() & {{{key}}})"],
        [f"j = len({table}.keys() - {p.dict()})"],
        [f"j = int({table}.keys().isdisjoint([{key}, 'z']))"],
        [f"j = int({table}.keys() <= {p.dict()}.keys())"],
        [f"j = len({{x: 1, {p.tensor()}: 2}}.keys() & [{t} if {p.test()} else x])"],
    ]


def _steps(p: Paths, table: str) -> list[list[str]]:
    """What goes through a dict, by way of an iterator over another one; the dict changes meanwhile."""
    return [
        [f"for j, (key, v) in enumerate({table}.items()):", "    y = y + v * j"],
        [f"for j, (key, v) in enumerate({table}.items()):", f"    if {p.test()}:", f"        del {table}[key]", "        break"],
        [f"for key in itertools.chain({table}, ['z']):", "    j = j + len(str(key))"],
        [f"for w, v in zip(range(3), {table}.values()):", "    y = y + v * w"],
        [f"w = next((key for key, v in {table}.items() if v.sum() > 0), None)", "j = int(w is None)"],
    ]


def objects(p: Paths) -> list[str]:
    """Attributes are written, deleted, shared; objects are replaced."""
    o, q, t = p.object(), p.object(), p.tensor()
    simple = [name for name in p.roots("O") if name not in ("self", "program")]
    forms = [
        [f"{o}.h = {t}"], [f"{o}.h = {t}"], [f"{o}.h = {o}.init"], [f"{o}.init = {q}.h"], [f"{o}.c += 1"], [f"{o}.c = {p.number()}"], [f"{o}.opt = {t}"], [f"{o}.opt = None"],
        [f"{o}.h.add_(1)"], [f"{o}.h = {q}.h"], [f"{o}.items = {q}.items"], [f"{o}.table = {q}.table"], [f"{o}.h, {q}.h = {q}.h, {o}.h"],
        [f"{o}.items, {q}.items = {q}.items, {o}.items"], _guarded(p, f"{o}.opt is not None", f"y = y + {o}.opt", f"{o}.opt = None"),
        [f"if {o}.opt is None:", f"    {o}.opt = x", "else:", f"    {o}.opt = {o}.opt + x"],
    ]  # fmt: skip
    if p.world.kind != "module":
        forms += [[f"{o}.other = {q}"], [f"{o}.other = Box({t})"]]
    if p.world.kind != "slots":
        forms += [
            [f"{o}.extra = {t}"],
            [f'{o}.__dict__["extra"] = {t}'],
            _guarded(p, f'"extra" in vars({o})', f"del {o}.extra"),
            [f'y = getattr({o}, "extra", y)'],
            ["try:", f"    del {o}.extra", "except AttributeError:", "    j = 7"],
        ]
    if "subclass of dict" in p.world.extras:
        forms += [[f"tab[{p.key()}] = {t}"], [f"y = tab[{p.key()}]"], [f"tab.pop({p.key()}, None)"], ["y = y + len(tab)"]]
        forms += [
            _guarded(p, f"{p.key()} in tab", f"tab.pop({p.key()}, None)"),
            _guarded(p, "'a' in tab", "del tab['a']"),
            ["j = 1 if tab else 2"],
        ]
    if "subclass of list" in p.world.extras:
        forms += [
            [f"rows[0] = {t}"],
            ["y = y + rows[-1]"],
            ["y = y + len(rows)"],
            ["for v in rows:", "    y = y + v"],
            [f"rows[1] = {o}.opt"],
        ]
        forms += [
            ["j = int(rows == [j, 0])"],
            ["j = 1 if rows else 2"],
            ["j = len([*rows])"],
            ["rows[0], rows[1] = rows[1], rows[0]"],
        ]
    if p.local["O"]:
        forms += [[f"o = {q}"], [f"o = {q} if {p.test()} else {p.object()}"], [f"o = Box({t})"]]
    if simple:
        forms.append([f"{p.choices.pick(simple)} = {q}"])
    return p.choices.pick(forms)


def classes(p: Paths) -> list[str]:
    """What the class has a say in: methods, properties, class attributes, hooks of attribute access."""
    names = [name for name in p.world.names("O") or p.local["O"]]
    o, t, members = p.choices.pick(names), p.tensor(), p.world.members
    forms = [[f"y = {o}.step({t})"], [f"{o}.step({t})"]]
    forms += [
        [f"j = int((j, {t}) == (7, 0))"],
        [f"j = int({{'a': j, 'b': {o}.h}} == {{'a': 7, 'b': 0}})"],
    ]  # which may raise, or not
    if "put" in members:
        forms += [[f"{o}.put({t}).put(x)"], [f"{p.choices.pick(p.roots('O'))}.opt = {o}.put({t}).h"]]
    if "property" in members:
        forms += [[f"y = {o}.twice"], [f"{o}.twice = {t}"], [f"{o}.twice += 1"]]
    if "getattr" in members:
        forms += [[f"j = {o}.missing"], [f"{o}.missing = 1"], _guarded(p, f'"missing" in vars({o})', f"del {o}.missing")]
    if "enter" in members:
        forms += [[f"with {o} as w:", f"    w.h = {t}", f"    w.items.append({t})"]]
    if "getitem" in members:
        forms += [[f"{o}[{p.key()}] = {t}"], [f'y = {o}["a"]']]
    if "reset" in members:
        forms += [[f"{o}.reset()"], [f"{o}.reset().append({t})"]]
    if "class method" in members:
        forms += [[f"j = {o}.count()"], ["j = Box.count()"]]
    if p.world.kind in ("plain", "module", "subclass"):
        forms += [
            [f"{o}.shared.append({t})"],
            [f"{o}.shared = [{t}]"],
            [f"{o}.z = 7"],
            ["j = vars(Box).get('z', 0)"],
            [f"j = int('z' in vars(type({o})))"],
            [f"j = {o}.z"],
            [f"{o}.z += 1"],
            ["Box.z = j"],
            ["Box.shared = []"],
            [f"y = y * {o}.z"],
        ]
    return p.choices.pick(forms)


def keys(p: Paths) -> list[str]:
    """Keys that tensors choose."""
    o, t, k = p.object(), p.tensor(), "k"
    forms = [
        [f'k = "a" if {p.test()} else "b"'], [f'k = {p.choices.pick(["None", "1", "Mode.UP", "(1, 2)"])} if {p.test()} else "a"'], ['k = f"{k}_x"'],
        [f'setattr({o}, "h" if {p.test()} else "init", {t})'], [f'y = getattr({o}, "h" if {p.test()} else "init")'], [f"y = named(**{{'a' if {p.test()} else 'b': {t}}})"],
        [f"{p.place('D')} = {{{k}: {t}, 'a': x}}"], [f"y = named(**{p.dict()})"],
    ]  # fmt: skip
    if p.world.names("S"):
        forms += [
            ["seen.add(k)"],
            ["seen.discard(k)"],
            ["seen |= {k}"],
            ["j = len(seen | {k})"],
            ["j = int(k in seen)"],
            ["j = len({k, 'a'})"],
        ]
    if p.world.names("C"):
        forms += [
            ["cnt[k] += 1"],
            ["cnt[k] += 1"],
            ["cnt[f'b{int(n) % 3}'] += 1"],
            ["cnt.update([k, 'a'])"],
            ["j = cnt[k]"],
            ["j = cnt.most_common(1)[0][1] if cnt else 0"],
        ]
    if p.world.names("V"):
        forms += [
            [f"dd[k].append({t})"],
            [f"dd[k].append({t})"],
            ["j = len(dd[k])"],
            [f"dd[k] = {p.place('L')}"],
            ["y = sum(dd[k], y)"],
            ["dd.pop(k, None)"],
        ]
    if p.world.names("E"):
        forms += [["nest[0] += 1"], [f'nest[1]["h"] = {t}'], [f"nest[1] = {p.dict()}"]]
    return p.choices.pick(forms)


def modules(p: Paths) -> list[str]:
    """A module's tensors are written, replaced, shared."""
    if p.world.form != "module":
        return objects(p)
    m, t = "self", p.tensor()
    return p.choices.pick(
        [
            [f"{m}.b = ({t}).detach()"], [f"{m}.b.add_(1)"], [f"{m}.b.copy_(x)"], [f"{m}.h = {m}.init"], [f"y = {m}.lin(y)"], [f"{m}.shared.append({t})"], [f"{m}.shared = []"],
            ["with torch.no_grad():", f"    {m}.w.mul_(0.5)"], [f"{m}.w.data = {m}.w.data + 1"], [f"y = y * {m}.w"], [f"{m}.h = {m}.b"], [f"y = {m}.w if {p.test()} else {m}.b"],
            [f"if {m}.training:", f"    {m}.c += 1"], [f"{m}.z = {m}.z + 1"], [f"{m}.register_buffer('b', x + 1)"], [f"y = torch.nn.functional.linear(y, {m}.lin.weight)"],
            [f"{m}.lin.scale = {t}"], [f"{m}.lin.bias.data.add_(1)"], [f"{m}.eval()"], [f"{m}.train({p.test()} and True)"], [f"{m}.lin.requires_grad_(False)"],
            [f"{m}._buffers['b'] = {t}"], [f"{m}.add_module('other', {m}.lin)"], [f"y = y + len([*{m}._modules])"], [f"{m}.register_buffer('late', {t})"],
            [f"{m}.late = torch.nn.Parameter({t})"], [f"if hasattr({m}, 'late'):", f"    y = y + {m}.late"],
        ]
    )  # fmt: skip


def answers(p: Paths) -> list[str]:
    """What a tensor or object says of itself."""
    return p.choices.pick(
        [
            [f"if {p.question()}:", "    y = y * 3", "else:", "    y = y + 1"], [f"j = int({p.question()})"], [f"y = y.detach() if {p.test()} else y"], [f"y = {p.tensor()} if {p.test()} else y"],
            [f"y = torch.view_as_real((torch.complex(y, y).conj() if {p.test()} else torch.complex(y, -y)).resolve_conj())[:, 0]"],
            [f"{p.place('O') if p.world.kind != 'module' else p.place('L')} = {p.object() if p.world.kind != 'module' else p.list()}"],
            ["with torch.no_grad():", f"    y = {p.tensor()}", f"    {p.place('T')} = y"], [f"j = int(y.to(torch.float64 if {p.test()} else torch.float32).dtype is torch.float32)"], ["print(y)"], [f"print({p.object()}.c, j)"], [f"y = y.clone().requires_grad_() if {p.test()} and y.is_leaf else y"],
        ]
    )  # fmt: skip


def numbers(p: Paths) -> list[str]:
    """Numbers of Python."""
    return p.choices.pick(
        [
            [f"j = {p.number()}"],
            [f"j = {p.odd_number()}"],
            [f"j = {p.odd_number()}"],
            [f"j = 3 if {p.test()} else 2.5", "y = y * (2 if isinstance(j, int) else 3)", "j = int(j)"],
            [f"{p.object()}.c = {p.number()}"],
            [f"y = y * {p.number()}"],
            ["y = y + x[10**18 * int(n) :].sum()"],
            ["y = [y, x][n]"],
            ["y = [y, x, y][int(n) : 2][0]"],
        ]
    )


def nested(p: Paths) -> list[str]:
    """An inner function that writes variables of those around it."""
    name, t = p.choices.pick(["y", "j"]), p.tensor()
    outer = [n for n, way in p.world.ways.items() if way == "cell"]
    write = {"y": f"y = y + {t}", "j": "j = j + 1"}[name]
    lines = ["def inner(v):", f"    nonlocal {name}", f"    {write}"]
    if outer and p.choices.chance(70):
        kind = p.choices.pick(outer)
        change = {
            "acc": "acc = acc + [v]",
            "log": "log = [v]",
            "t": "t = t + v",
            "num": "num += 1",
            "d": "d = {'a': v}",
            "st": "st = Box(v)",
        }.get(kind)
        if change:
            lines = ["def inner(v):", f"    nonlocal {kind}", f"    {change}"]
    elif p.choices.chance(30):
        lines = ["def inner(v):", "    def deeper():", f"        nonlocal {name}", f"        {write}", "    deeper()"]
    call = [f"inner({t})"] if p.choices.chance(50) else [f"if {p.test()}:", f"    inner({t})"]
    return [*lines, *call]


def helpers(p: Paths) -> list[str]:
    """Functions around that have variables of their own."""
    if p.world.form != "closure":
        return numbers(p)
    return p.choices.pick([[f"y = count({p.key()}, {p.tensor()})"], ["count('b', x)"], ["turn(1.5)"], ["j = known.get('a', 0)"]])


def named(p: Paths) -> list[str]:
    """A helper that takes and changes arguments of its own."""
    return p.choices.pick(
        [
            [f"y = gathered({p.tensor()}, {p.tensor()}, a={p.tensor()})"], [f"y = gathered(*{p.list()}, b={p.tensor()})"], [f"y = gathered(x, **{p.dict()})"],
            ["y = default(x)"], [f"y = default(x, {p.place('L')})"], [f"y = changed(x, {p.object()})"], [f"{p.place('L')} = chosen(x, {p.place('L')}, {p.place('L')})"],
            [f"chosen(x, {p.place('L')}, {p.place('L')}).append({p.tensor()})"],
        ]
    )  # fmt: skip


def errors(p: Paths) -> list[str]:
    """Exceptions in the middle of writes."""
    first, second = (p.choices.pick([lists, dicts, objects])(p) for _ in range(2))
    raising = p.choices.pick([[f"if {p.test()}:", "    raise ValueError(j)"], ["y = y @ torch.ones(3)" if p.choices.chance(20) else f"y = {p.dict()}[{p.key()}]"], [f"assert {p.test()}, 'no'"], [f"y = {p.list()}[0]"], [f"y = {p.list()}.pop()"]])  # fmt: skip
    if p.choices.chance(45):
        return [*first, *raising]
    caught = p.choices.pick(
        ["except (ValueError, KeyError, IndexError, AssertionError):", "except Exception as error:", "finally:"]
    )
    return [
        "try:",
        *(f"    {line}" for line in [*first, *raising, *second]),
        caught,
        *(f"    {line}" for line in p.choices.pick([["j = 5"], second, ["y = x"]])),
    ]


THEMES: dict[str, tuple[Form, frozenset[str]]] = {
    "lists": (lists, frozenset("L")),
    "dicts": (dicts, frozenset("DE")),
    "objects": (objects, frozenset("O")),
    "classes": (classes, frozenset("O")),
    "keys": (keys, frozenset("DSCVE")),
    "modules": (modules, frozenset("T")),
    "answers": (answers, frozenset("T")),
    "numbers": (numbers, frozenset("N")),
    "nested": (nested, frozenset("LTN")),
    "named": (named, frozenset("LD")),
    "helpers": (helpers, frozenset("N")),
    "errors": (errors, frozenset("LD")),
}
"""For each theme what writes a statement, and the kinds of objects that it is about."""
