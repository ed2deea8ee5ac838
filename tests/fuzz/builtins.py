"""Methods and operators of Python's own types, and functions of its library, with values that only the program knows.

    python -m tests.fuzz.builtins                       about 15,000 small functions, half an hour on one core
    python -m tests.fuzz.builtins --kinds list set --programs 500

Each is one expression or statement in a ``try`` statement that names what Python raises. It has to give what eager gives, leave in the
object what eager leaves, print what eager prints, and enter the clause where eager enters it.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import itertools
import random
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

import dy2st
from dy2st.errors import Dy2stError
from tests.fuzz.oracle import OutOfTimeError, _unload, limited, load

OBJECTS = {
    "int": "n", "float": "n / 2", "bool": "n > 1", "str": "str(n)", "formatted": "f'a{n}b'", "list": "t.tolist()", "mixed list": "[1, n, 3]",
    "tensors": "[t[0], t[1]]", "dict": "{v: i for i, v in enumerate(t.tolist())}", "named": "{'a': n, 'b': 2}", "set": "set(t.tolist())",
    "known set": "{1, 2, 3}", "frozenset": "frozenset([1, 2, 3])", "tuple": "tuple(t.tolist())", "pair": "(n, 2)",
    "deque": "collections.deque(t.tolist(), 5)", "counter": "collections.Counter(t.tolist())",
    "ordered": "collections.OrderedDict((v, i) for i, v in enumerate(t.tolist()))", "range": "range(n)", "stepped": "range(1, n, 2)",
    "complex": "complex(n, 2)", "grown list": "[v for v in t.tolist() if v > 1]", "grown dict": "{v: 1 for v in t.tolist() if v > 1}",
    "grown set": "{v for v in t.tolist() if v > 1}", "slice": "slice(0, n)", "strings": "[str(v) for v in t.tolist()]",
    "nested": "[[v, 1] for v in t.tolist() if v > 0]", "pairs": "list(zip(t.tolist(), t.tolist()[1:]))", "optional": "n if n > 1 else None",
    "chosen": "[1, 2] if n > 1 else [3]", "chosen text": "'ab' if n > 1 else 'cd'", "floats": "t.float().tolist()",
    "bools": "(t > 1).tolist()",
}  # fmt: skip
"""What is tried, by a name for each kind."""

_OPERANDS = (
    "n", "1", "0", "-1", "n - 2", "str(n)", "'a'", "''", "t.tolist()", "[1, 2]", "{1, 2}", "None", "2.5", "t[0]",
    "{v: 1 for v in t.tolist()}", "(1, 2)", "set(t.tolist())", "n / 2", "n > 1",
)  # fmt: skip
_SEVERAL = ("n, 1", "1, n", "'a', 'b'", "str(n), 'z'", "0, n, 2", "n, None", "n, t.tolist()", "n - 1, 5", "lambda v: v")
_SPECIAL = ("__contains__", "__len__", "__getitem__")
_OF_ONE = """
len(o); sorted(o); sum(o); max(o); min(o); list(o); tuple(o); set(o); dict(o); str(o); repr(o); bool(o); int(o); float(o); abs(o); -o; +o; ~o
not o; list(enumerate(o)); list(reversed(o)); any(o); all(o); f'{o}'; f'{o!r}'; '%s' % (o,); '{}'.format(o); [*o]; {*o}; list(map(str, o))
list(filter(None, o)); next(iter(o)); round(o); divmod(o, 2); pow(o, 2); chr(o); ord(o); isinstance(o, int); type(o).__name__; range(o)
math.floor(o); math.sqrt(o); math.prod(o); math.gcd(o, 4); sorted(o, reverse=True); sorted(o, key=lambda v: -v); max(o, default=0); sum(o, 5)
list(zip(o, [1, 2])); list(itertools.chain(o, [1])); list(itertools.accumulate(o)); list(itertools.islice(o, 2)); collections.Counter(o)
functools.reduce(operator.add, o); collections.deque(o, 2); heapq.nlargest(2, o); bisect.bisect(o, 2); statistics.median(o); json.dumps(o)
copy.copy(o); copy.deepcopy(o); torch.tensor(o); np.array(o); t[o]; t + o; '-'.join(o); print(o); dict.fromkeys(o, 1); [v for v in o if v]
(lambda *a: a)(*o); (lambda **k: k)(**o); list(itertools.combinations(o, 2)); list(itertools.product(o, [1])); random.choice(o)
operator.itemgetter(0)(o); list(itertools.takewhile(lambda v: v > 1, o)); 'abcdef'[o]; [7, 8, 9][o]; {1: 'x', 2: 'y'}[o]; o in [1, 2]
"""
_OF_TWO = """
o + a; o - a; o * a; o / a; o // a; o % a; o ** a; o & a; o | a; o ^ a; o << a; o >> a; o == a; o != a; o < a; o <= a; o > a; o >= a; a in o; o[a]
o[a:]; o[:a]; o[::a]; o and a; o or a; a - o; a + o; a * o; min(o, a); max(a, o); round(o, a); divmod(o, a); getattr(o, a, 5); format(o, a)
sum(o, a); list(zip(o, a)); list(map(max, o, a)); math.pow(o, a); math.atan2(o, a); bisect.bisect_left(o, a); heapq.nsmallest(a, o)
list(itertools.islice(o, a)); list(itertools.repeat(o, a)); dict(zip(o, a)); list(enumerate(o, a)); [v + a for v in o]
"""
_STATEMENTS = """
o[a] = 5; del o[a]; o[a:] = [4]; o[:a] = []; o += a; o -= a; o *= a; o |= a; o &= a; o ^= a; o //= a; o **= a; o[a] += 1; r, *o = o; r, o = o
o[0], o[1] = o[1], o[0]; heapq.heappush(o, a); bisect.insort(o, a); random.shuffle(o)
"""
_HEAD = """
import bisect, collections, copy, functools, heapq, itertools, json, math, operator, random, statistics
import numpy as np
import torch

def function(t):
    n = int(t[0])
    r = None
    try:
        o = {value}
        {statement}
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, ArithmeticError, StopIteration, RuntimeError) as error:
        return "caught", type(error).__name__
    return list(r) if hasattr(r, "__next__") else r, o
"""
CALLS = tuple(torch.tensor(row) for row in ([3, 1, 3], [1, 2, 3], [2, 2, 2], [0, 1, 2], [-1, 4, 1]))


def _parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split("; ")]


def statements(kind: str) -> Iterator[str]:
    """Yield what is tried with an object of a kind, ``o``; a result is ``r``."""
    names = module_of(kind, "r = dir(o)").function(CALLS[0])[0]
    for name in names:
        if not name.startswith("_") or name in _SPECIAL:
            for operands in ("", *_OPERANDS, *_SEVERAL):
                yield f"r = o.{name}({operands})"
    yield from (f"r = {text}" for text in _parts(_OF_ONE))
    for text, operand in itertools.product(_parts(_OF_TWO), _OPERANDS):
        yield f"a = {operand}; r = {text}"
    for text, operand in itertools.product(_parts(_STATEMENTS), _OPERANDS):
        yield f"a = {operand}; {text}"


def module_of(kind: str, statement: str) -> types.ModuleType:
    """Return a module with the function for one of :data:`OBJECTS`.

    Raises:
        SyntaxError: it is not Python.
    """
    return load(_HEAD.format(value=OBJECTS[kind], statement=statement))


def judge(function: Callable[..., Any], backend: str) -> tuple[str, str]:
    """Return a verdict (``same``, ``refused``, ``WRONG``, ``no case``), and what differs."""
    expected = [_observed(function, t) for t in CALLS]
    if all(kind == "raises" or _is_caught(value) for kind, value, _ in expected):
        return "no case", ""
    static = dy2st.to_static(function, backend=backend)
    for t, one in zip(CALLS, expected):
        found = _observed(static, t)
        if found[0] == "refused":
            return "refused", str(found[1])
        if _shown(one) != _shown(found):
            return "WRONG", f"of {t.tolist()}: {one} in eager, but {found}"
    return "same", ""


def _is_caught(value: Any) -> bool:
    return isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], str) and value[0] == "caught"


def _observed(function: Callable[..., Any], t: torch.Tensor) -> tuple[str, Any, str]:
    random.seed(0)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            return "gives", function(t.clone()), printed.getvalue()
        except Dy2stError as error:
            return "refused", f"{type(error).__name__}: {error}", ""
        except Exception as error:
            return "raises", (type(error).__name__,), ""


def _shown(value: Any) -> Any:
    """Return a value that can be compared, with the types of all parts."""
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return type(value).__name__, str(value.dtype), repr(value.tolist())
    if isinstance(value, dict):
        return type(value).__name__, [(_shown(key), _shown(item)) for key, item in value.items()]
    if isinstance(value, (set, frozenset)):
        return type(value).__name__, sorted(repr(_shown(item)) for item in value)
    if isinstance(value, (list, tuple, collections.deque)):
        return type(value).__name__, [_shown(item) for item in value]
    return type(value).__name__, "" if callable(value) or "iterator" in type(value).__name__ else repr(value)


def programs(kinds: Sequence[str], seed: int, most: int | None) -> list[tuple[str, str]]:
    """Return kinds of objects with what is tried, in an order that a seed decides."""
    results = [(kind, statement) for kind in kinds for statement in statements(kind)]
    random.Random(seed).shuffle(results)
    return results[:most]


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.builtins", description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=OBJECTS, default=list(OBJECTS))
    parser.add_argument("--programs", type=int, default=None, help="so many; all, if it is left out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", default="python")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    counts: collections.Counter[str] = collections.Counter()
    for kind, statement in programs(options.kinds, options.seed, options.programs):
        try:
            module = module_of(kind, statement)
        except SyntaxError:
            continue
        try:
            with limited(20):
                verdict, detail = judge(module.function, options.backend)
        except OutOfTimeError:
            verdict, detail = "time-out", ""
        finally:
            _unload(module)
        counts[verdict] += 1
        if verdict in ("WRONG", "time-out"):
            print(f"{verdict}: {kind}: {statement}: {detail[:400]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


if __name__ == "__main__":
    main()
