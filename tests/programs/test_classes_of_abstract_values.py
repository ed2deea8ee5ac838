"""What represents an object during a capture is of the class that the object is of in eager, whoever asks."""

import collections
import linecache
import types

import pytest
import torch

import dy2st
from tests.oracle import agree


def grown(x, n):
    items = []
    while n > 0:
        n = n - 1
        items.append(x)
    return items


def grown_deque(x, n):
    return collections.deque(grown(x, n))


def yielding(x):
    yield x


def written(source, name):
    """Return the function ``f`` of a piece of source."""
    file = f"<{name}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    names = {
        "torch": torch, "collections": collections, "types": types, "grown": grown, "grown_deque": grown_deque, "yielding": yielding,
    }  # fmt: skip
    exec(compile(source, file, "exec"), names)
    return names["f"]


def same_in_eager(source, name, calls=((torch.ones(3), torch.tensor(2)), (torch.ones(3), torch.tensor(5)))):
    f = written(source, name)
    agree(f, calls, programs=None)


KINDS = {
    "text": "f'{n}'", "number in text": "'a' + str(n)", "list": "grown(x, n)", "numbers": "x[x > 0].tolist()", "range": "range(n)",
    "enumerate": "enumerate(grown(x, n))", "zip": "zip(grown(x, n), grown(x, n))", "map": "map(torch.neg, grown(x, n))",
    "map of known": "map(torch.neg, [x])", "filter": "filter(None, [1])", "reversed": "reversed(grown(x, n))",
    "generator expression": "(i for i in grown(x, n))", "generator": "yielding(x)", "iterator": "iter(grown(x, n))",
    "iterator of range": "iter(range(n))", "deque": "grown_deque(x, n)", "tuple": "tuple(grown(x, n))", "int": "n.item()",
    "float": "x.sum().item()", "bool": "bool(n > 1)", "columns": "zip(*[(x, x) for k in range(n)])",
}  # fmt: skip
ANSWERS = (
    "type(v).__name__", "type(v).__module__", "v.__class__.__name__", "[c.__name__ for c in type(v).__mro__]",
    "getattr(type(v), '__qualname__', '?')", "[hasattr(v, name) for name in ('__len__', '__iter__', '__next__', '__getitem__')]",
    "[hasattr(v, name) for name in ('append', 'upper', 'real', 'send', 'keys', 'shape', '__dict__', '__name__')]", "callable(v)",
    "getattr(v, 'nothing', 5)", "[isinstance(v, kind) for kind in (str, list, tuple, int, float, range, map, zip, filter)]",
    "[isinstance(v, kind) for kind in (types.GeneratorType, types.FunctionType, enumerate, collections.deque)]",
    "[isinstance(v, getattr(collections.abc, name)) for name in ('Iterable', 'Sequence', 'Iterator', 'Sized', 'Generator')]",
    "type(v) is str, type(v) is int, type(v) is types.GeneratorType, type(v) in (map, zip)", "issubclass(type(v), (str, list))",
    "{str: 1, list: 2, int: 3, types.GeneratorType: 4}.get(type(v), 0)", "'append' in dir(v), 'upper' in dir(v)",
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_class_is_that_of_the_object(kind):
    lines = "".join(f"    results.append(({answer},))\n" for answer in ANSWERS)
    same_in_eager(f"def f(x, n):\n    v = {KINDS[kind]}\n    results = []\n{lines}    return results, x\n", f"class of {kind}")


ERRORS = ("v.nothing", "v(x)", "v + collections", "v[types]", "len(v)", "v.nothing = 1", "del v.nothing", "vars(v)")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("text", "number in text", "columns", "tuple")])
def test_errors_name_the_class_of_the_object(kind):
    lines = ""
    for error in ERRORS:
        lines += (
            f"    try:\n        {error}\n    except (TypeError, AttributeError) as error:\n        results.append(str(error))\n"
        )
    same_in_eager(f"def f(x, n):\n    v = {KINDS[kind]}\n    results = []\n{lines}    return results, x\n", f"errors of {kind}")


OF_NUMBERS = (
    "real", "imag", "numerator", "denominator", "conjugate()", "bit_length()", "bit_count()", "nothing", "__class__", "__doc__[:5]",
    "real + 1", "node", "expr", "__add__(1)", "__bool__()", "__abs__()", "__int__()", "__float__()", "__str__()", "__format__('')",
    "__index__()", "__round__()", "__trunc__()", "__floor__()", "__divmod__(2)", "__rdivmod__(7)", "from_bytes(b'a', 'big')",
    "fromhex('0x1p3')", "is_symbolic",
)  # fmt: skip


@pytest.mark.parametrize("number", ["n.item()", "x.sum().item()", "bool(n > 1)"])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_have_the_attributes_of_pythons(number, name):
    body = f"    v = {number}\n    try:\n        return v.{name}, getattr(v, {name.partition('(')[0]!r}, 3) is None\n"
    same_in_eager(f"def f(x, n):\n{body}    except AttributeError as error:\n        return str(error)\n", f"{number}.{name}")


def test_the_length_in_bits_is_an_operation_of_the_program(tmp_path):
    def f(x, n):
        size = 1 << (int(n) - 1).bit_length()
        return torch.nn.functional.pad(x, (0, size)), int.bit_count(int(n))

    calls = [(torch.ones(3), torch.tensor(n)) for n in (1, 2, 5, 1000)]
    static = agree(f, calls)
    dy2st.save(static, tmp_path / "f", [torch.ones(3), torch.tensor(2)])
    loaded = dy2st.load(tmp_path / "f")
    for args in calls:
        torch.testing.assert_close(loaded(*args), f(*args))


SEQUENCES = ("grown(x, n)", "grown_deque(x, n)", "range(n)", "tuple(grown(x, n))", "x[x > 0].tolist()")
INDICES = (
    "'a'",
    "1.0",
    "None",
    "x",
    "types",
    "(0, 1)",
    "...",
    "x.sum().item()",
    "torch.tensor(1)",
    "True",
    "bool(n > 1)",
    "n",
    "-1",
    "9",
)
WRITES = ("v['a'] = x", "del v['a']", "v.pop('a')", "v.insert('a', x)", "v.append()", "v * 'a'", "v.index(types)", "v['a':]")


def _fits(sequence, step):
    """Deques have other methods, and tuples none that write."""
    return (
        sequence not in ("grown_deque(x, n)", "tuple(grown(x, n))") or "(" not in step and "= x" not in step and "del" not in step
    )


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_what_is_no_index_is_refused_as_in_eager(sequence):
    steps = [f"results.append(v[{index}])" for index in INDICES]
    steps += [step for step in WRITES if _fits(sequence, step)]
    lines = ""
    for step in steps:
        lines += f"    try:\n        {step}\n    except Exception as error:\n        results.append((type(error).__name__, str(error)))\n"
    for number, step in enumerate(lines.split("    try:\n")[1:]):
        source = f"def f(x, n):\n    v = {sequence}\n    results = []\n    try:\n{step}    return results, len(v)\n"
        same_in_eager(source, f"{sequence} {number}")


AMBIGUOUS = (
    "x if x == 5 else 1", "5 in [x]", "[x] == [x + 1]", "[x, x].index(5)", "max(x, x)", "any([x, x])", "(x, 1) == (x + 1, 2)",
    "{1: x} == {1: x + 1}", "[x, x].count(5)", "grown(x, n).remove(5)", "x[x > 1] or 3", "not x[x > 2]", "bool(x[x > n])",
)  # fmt: skip


@pytest.mark.parametrize("asked", AMBIGUOUS)
def test_the_error_of_a_tensor_without_a_truth_value_reaches_handlers(asked):
    body = f"    try:\n        return {asked}, 1\n    except RuntimeError as error:\n        return str(error), x\n"
    calls = [(torch.tensor(values), torch.tensor(1)) for values in ([1.0, 2, 3], [0.0, 0, 1.5], [0.0, -1, 0.5], [4.0, 0, 5])]
    same_in_eager(f"def f(x, n):\n{body}", f"truth of {asked}", calls)
