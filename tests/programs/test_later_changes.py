"""What changes between calls and no name or attribute shows: special methods of classes, names that modules get or lose, imports."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.programs.later_changes import agree

_OBJECT = "class B: pass\nclass C(B): pass\nclass D: pass\nh = D()\nh.c = C()\no = C()\ndef arguments(): return (o, [o])\n"
_WAYS = {"argument": "o", "item": "items[0]", "global": "h.c", "made": "C()"}
_ANSWERS = {
    "truth": ("1 if v else 2", "C.__bool__ = lambda self: False", "del C.__bool__"),
    "truth_of_a_base": ("1 if not v else 2", "B.__len__ = lambda self: 0", "del B.__len__; C.__bool__ = lambda self: False"),
    "equality": ("1 if v == 3 else 2", "C.__eq__ = lambda self, other: True", "C.__eq__ = lambda self, other: False"),
    "membership": ("1 if v in [1, 2] else 2", "C.__eq__ = lambda self, other: True"),
    "hash": ("hash(v) == 1", "C.__hash__ = lambda self: 1", "C.__hash__ = lambda self: 2"),
    "callable": ("callable(v)", "C.__call__ = lambda self: 1"),
    "text": ("str(v) == 'a'", "C.__str__ = lambda self: 'a'", "C.__str__ = lambda self: 'b'"),
    "formatted": ("f'{v}' == 'a'", "C.__repr__ = lambda self: 'a'"),
    "instance": ("isinstance(v, D)", "C.__bases__ = (D,)"),
    "subclass": ("issubclass(type(v), D)", "C.__bases__ = (D,)"),
    "number": ("int(v) if hasattr(v, '__int__') else 3", "C.__int__ = lambda self: 4"),
    "class_attribute": ("hasattr(v, 'k')", "C.k = 1", "del C.k", "B.k = 1"),
    "attribute_or_default": ("getattr(v, 'k', 5)", "B.k = 1", "C.k = 2", "del C.k", "C.k = property(lambda self: 7)"),
    "look_up": ("getattr(v, 'k', 5)", "C.__getattr__ = lambda self, name: 6"),
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("answer", _ANSWERS)
def test_a_class_that_gets_a_method_answers_with_it(tmp_path: Path, way: str, answer: str) -> None:
    expression, *changes = _ANSWERS[answer]
    agree(tmp_path, f"{_OBJECT}def f(x, o, items):\n    v = {_WAYS[way]}\n    return x + ({expression})\n", *changes)


_MODULES = {
    "statements": (
        "class C: pass\nc = C()\ndef f(x):\n    try:\n        with c:\n            return x + len(c) + c() + c[0] + (c < 1)\n"
        "    except (TypeError, AttributeError):\n        return x\n",
        "C.__enter__ = C.__exit__ = lambda *args: None\nC.__len__ = C.__call__ = lambda self: 2",
        "C.__getitem__ = C.__lt__ = lambda self, other: 3",
    ),
    "construction": (
        "class C: pass\ndef f(x):\n    return x + vars(C()).get('k', 3)\n",
        "def init(self): self.k = 8\nC.__init__ = init",
        "def init(self): self.k = 9\nC.__init__ = init",
        "del C.__init__",
        "def new(kind):\n    result = object.__new__(kind)\n    result.k = 5\n    return result\nC.__new__ = new",
    ),
    "dataclass": (
        "@dataclasses.dataclass\nclass C:\n    a: int = 1\ndef f(x):\n    return x + C().a + (C() == C())\n",
        "C.__eq__ = lambda self, other: False",
        "C.__init__ = lambda self: setattr(self, 'a', 5)",
    ),
    "attribute_of_a_made_object": (
        "class C: pass\ndef f(x):\n    c = C()\n    c.k = 1\n    return x + c.k\n",
        "C.k = property(lambda self: 5, lambda self, value: None)",
        "del C.k",
        "C.__getattribute__ = lambda self, name: 7 if name == 'k' else object.__getattribute__(self, name)",
    ),
    "module": (
        "class N(torch.nn.Module):\n    def forward(self, x): return x + 1\nn = N()\ndef f(x):\n    return n(x) if n else x\n",
        "N.__len__ = lambda self: 0",
        "del N.__len__; N.__call__ = lambda self, x: x + 20",
    ),
    "metaclass": (
        "class M(type): pass\nclass C(metaclass=M): pass\ndef f(x):\n    return x + (1 if C else 2) + (C == 3)\n",
        "M.__bool__ = lambda self: False",
        "M.__eq__ = lambda self, other: True",
    ),
    "container": (
        "class L(list): pass\nclass S(str): pass\nclass I(int): pass\nl, s, i = L([3]), S('a'), I(3)\n"
        "def f(x):\n    return x + len(l) + (s == 'a') + (i == 3)\n",
        "L.__len__ = lambda self: 8",
        "S.__eq__ = lambda self, other: False",
        "I.__eq__ = lambda self, other: False",
    ),
    "exception": (
        "class E(Exception): pass\ndef f(x):\n    try:\n        raise E('a')\n    except E as error:\n        return x + len(str(error))\n",
        "E.__str__ = lambda self: 'abc'",
    ),
    "super": (
        "class A:\n    def m(self): return 100\nclass B(A): pass\nclass C(B):\n    def m(self): return super().m() + 1\n"
        "def f(x):\n    return x + C().m()\n",
        "B.m = lambda self: 9",
        "del B.m",
        "A.m = lambda self: 3",
    ),
    "names": (
        "def h(): return 'k' in globals()\n"
        "def f(x):\n    return x + h() + globals().get('k', 3) + len([n for n in globals() if n == 'k']) + "
        "('k' in vars(sys.modules[__name__]))\n",
        "k = 1",
        "k = 2",
        "del k",
    ),
    "item_of_names": (
        "k = 1\ndef f(x):\n    try:\n        return x + globals()['k']\n    except KeyError:\n        return x\n",
        "k = 5",
        "del k",
    ),
    "imported": (
        "m = sys.modules['changing_other'] = types.ModuleType('changing_other')\nm.k = 1\n"
        "def f(x):\n    if x.sum() > 0:\n        from changing_other import k as value\n        x = x + value\n"
        "    try:\n        from changing_other import absent\n    except ImportError:\n        absent = 0\n"
        "    import changing_other as again\n    return x + absent + again.k\n",
        "m.k = 5",
        "m.absent = 3",
        "del m.absent",
        "m = sys.modules['changing_other'] = types.ModuleType('changing_other')\nm.k = 10",
    ),
    "defaults_by_name": (
        "def f(x, *, a=1): return x + a\ng = f\n",
        "g.__kwdefaults__['a'] = 5",
        "g.__kwdefaults__ = {'a': 9}",
        "g.__kwdefaults__['a'] = 2",
    ),
    "imported_functions": (
        "m = sys.modules['changing_other'] = types.ModuleType('changing_other')\nm.g = lambda x: x\n"
        "def f(x):\n    from changing_other import g\n    return g(x)\n",
        "m.g = lambda x: x + 5",
    ),
    "members_that_become_one": (
        "n = torch.nn.Module()\nn.register_buffer('a', torch.ones(2))\nn.register_buffer('b', torch.zeros(2))\n"
        "n.c, n.d = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)\n"
        "def f(x):\n    return x + len(list(n.buffers())), [k for k, _ in n.named_parameters()], len(list(n.modules()))\n",
        "n.a = n.b",
        "n.c.weight = n.d.weight",
        "n.a = torch.ones(2)",
        "n.d = n.c",
        "n.d = torch.nn.Linear(2, 2)",
    ),
    "parts_that_become_one": (
        "n = torch.nn.ModuleDict({k: torch.nn.Linear(2, 2) for k in 'abc'})\n"
        "def f(x):\n    return x + len(list(n.children())), [k for k, _ in n.named_modules()], [k for k, _ in n.named_children()]\n",
        "n['a'] = n['b']",
        "n['b'] = n['c']",
        "n['a'] = torch.nn.Linear(2, 2)",
    ),
    "copies_of_what_becomes_one": (
        "class C: pass\nc = C()\nc.a, c.b, c.d, c.e = torch.ones(2), torch.ones(2), [1], [1]\nimport copy\n"
        "def f(x):\n    new = copy.deepcopy(c)\n    new.a += 1\n    new.d.append(2)\n    return x + new.b, new.a is new.b, len(new.e)\n",
        "c.a = c.b",
        "c.d = c.e",
        "c.a, c.d = torch.ones(2), [1]",
    ),
    "modules_that_are_not_there": (
        "sys.modules.pop('changing_other', None)\ndef f(x):\n    try:\n        import changing_other\n    except ImportError:\n        return x\n"
        "    return x + 1\n",
        "sys.modules['changing_other'] = types.ModuleType('changing_other')",
        "del sys.modules['changing_other']",
    ),
    "parts_of_packages": (
        "p = sys.modules['changing_other'] = types.ModuleType('changing_other')\np.__path__ = []\n"
        "p.part = sys.modules['changing_other.part'] = types.ModuleType('changing_other.part')\np.part.k = 4\n"
        "def f(x):\n    import changing_other.part as part\n    return x + part.k\n",
        "p.part.k = 5",
        "p.part = sys.modules['changing_other.part'] = types.ModuleType('changing_other.part')\np.part.k = 9",
    ),
    "functions_of_python": (
        "import builtins\ndef f(x): return x + abs(-2)\n",
        "kept = builtins.abs\nbuiltins.abs = lambda v: 9",
        "builtins.abs = kept",
    ),
    "a_name_of_python_that_comes_later": (
        "import builtins\ndef f(x):\n    try:\n        return x + later_name\n    except NameError:\n        return x\n",
        "builtins.later_name = 5",
        "del builtins.later_name",
    ),
    "the_code_of_a_property": (
        "class C:\n    @property\n    def p(self): return 1\nc = C()\ndef other(self): return 7\ndef f(x): return x + c.p\n",
        "C.p.fget.__code__ = other.__code__",
    ),
    "attributes_of_members_of_enums": ("class E(enum.Enum):\n    A = 1\nE.A.w = 3\ndef f(x): return x * E.A.w\n", "E.A.w = 5"),
    "attributes_of_numbers_and_strings": (
        "class I(int): pass\nclass S(str): pass\ni, s = I(2), S('a')\ni.k = s.k = 2\ndef f(x): return x * i * i.k + s.k\n",
        "i.k = 5",
        "s.k = 5",
        "s.more = 5",
    ),
    "registered_classes": (
        "class A(abc.ABC): pass\nclass B: pass\nb = B()\n"
        "def f(x): return x + isinstance(b, A) + 2 * issubclass(B, A) + 4 * isinstance(b, types.SimpleNamespace)\n",
        "A.register(B)",
    ),
    "a_class_registered_with_one_of_python": (
        "import collections.abc\nclass B: pass\ndef f(x): return x + isinstance(B(), (int, collections.abc.Sequence))\n",
        "collections.abc.Sequence.register(B)",
    ),
    "the_context_of_decimals": (
        "d = decimal.Decimal(1)\ndef f(x): return x * float(d / 3)\n",
        "decimal.getcontext().prec = 3",
        "decimal.getcontext().prec = 28",
    ),
}


@pytest.mark.parametrize("name", _MODULES)
def test_what_changes_between_calls_is_seen(tmp_path: Path, name: str) -> None:
    agree(tmp_path, *_MODULES[name])
