"""The judge: an entry in eager and as a program, call by call, in a process of its own."""

from __future__ import annotations

import collections
import contextlib
import copy
import hashlib
import io
import multiprocessing
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

import dy2st
import dy2st_runtime
from tests.corpus.registry import Entry, Subject, load

_MANY = 4096
"""From how many elements on a tensor is described by a digest."""

SAME, REFUSED, WRONG, INTERNAL, TIMEOUT, ABSENT = "same", "refused", "wrong", "internal error", "timeout", "not installed"


def judge(name: str, limit: float) -> dict[str, Any]:
    """Judge one entry in a child process.

    Args:
        name: of the entry.
        limit: seconds.

    Returns:
        The verdict with its message, times and number of programs.
    """
    entry = load()[name]
    if not entry.installed:
        return {"name": name, "verdict": ABSENT}
    return in_a_process(name, lambda: child(entry), limit)


def in_a_process(name: str, judged: Callable[[], dict[str, Any]], limit: float) -> dict[str, Any]:
    """Judge in a child process.

    Args:
        name: of what is judged.
        judged: gives the verdict.
        limit: seconds.

    Returns:
        The verdict, or how the process ended.
    """
    forking = multiprocessing.get_context("fork")  # what is imported already need not be imported again
    receive, send = forking.Pipe(duplex=False)
    process = forking.Process(target=lambda: send.send(judged()))
    process.start()
    send.close()
    try:
        if not receive.poll(limit):
            return {"name": name, "verdict": TIMEOUT, "message": f"more than {limit:g} s"}
        verdict: dict[str, Any] = receive.recv()
        return verdict
    except EOFError:
        process.join()
        return {"name": name, "verdict": INTERNAL, "message": f"the process ended with status {process.exitcode}"}
    finally:
        process.kill()
        process.join()


def child(entry: Entry) -> dict[str, Any]:
    """Judge one entry here.

    Args:
        entry: the entry.

    Returns:
        What :func:`judge` gives.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return verdict_of(entry)


def row(verdict: dict[str, Any]) -> str:
    """Return a verdict as lines of a table.

    Args:
        verdict: what :func:`judge` gives.
    """
    text = f"{verdict['name']:<36} {verdict['verdict']:<14}"
    if "programs" in verdict:
        capture, call, eager = (verdict.get(f"{name}_s", 0.0) for name in ("capture", "call", "eager"))
        text += f" capture {capture:6.1f} s  call {call * 1e3:8.1f} ms  eager {eager * 1e3:8.1f} ms  programs {verdict['programs']}"
    message = " ".join(verdict.get("message", "").split())
    return text + (f"\n    {message[:400]}" if message else "")


def totals(verdicts: list[dict[str, Any]]) -> str:
    """Return how many verdicts of each kind there are."""
    kinds = [verdict["verdict"] for verdict in verdicts]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def verdict_of(entry: Entry) -> dict[str, Any]:
    """Judge one entry here; see :func:`child`."""
    verdict: dict[str, Any] = {"name": entry.name, "verdict": SAME, "message": ""}
    try:
        entry.make()  # what a package keeps for the process from the first time on, such as code that it generates for a class
    except ImportError as error:
        return verdict | {"verdict": ABSENT, "message": f"the package cannot be imported: {error}"}
    torch.manual_seed(0)
    eager = entry.make()
    torch.manual_seed(0)
    subject = entry.make()
    static = dy2st.to_static(subject.function)
    times: dict[str, float] = collections.defaultdict(float)
    for number in range(2 * len(eager.calls)):
        expected, spent = observe(eager.function, eager, number // 2)
        times["eager"] += spent * (number % 2)
        found, spent = observe(static, subject, number // 2)
        times["call" if number % 2 else "capture"] += spent
        kind, message, trace = compare(expected, found)
        if kind != SAME:
            verdict |= {"verdict": kind, "message": f"call {number}: {message}", "traceback": trace}
            break
    cache = (static.forward if isinstance(static, torch.nn.Module) else static).program_cache
    verdict |= {"programs": len(cache), **{f"{name}_s": spent for name, spent in times.items()}}
    if verdict["verdict"] == SAME and entry.saves:
        verdict |= _saved(entry)
    return verdict


def _saved(entry: Entry) -> dict[str, Any]:
    """Save what the first call captures, load it, and compare all calls."""
    torch.manual_seed(0)
    eager = entry.make()
    torch.manual_seed(0)
    subject = entry.make()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entry.dy2st"
        try:
            dy2st.save(subject.function, path, input_spec=list(subject.calls[0]))
            loaded = dy2st_runtime.load(path)
        except dy2st.Dy2stError as error:
            return {"verdict": REFUSED, "message": f"save: {_line(error)}", "traceback": traceback.format_exc()}
        for number in range(len(eager.calls)):
            expected, _ = observe(eager.function, eager, number, eager.function)
            kind, message, trace = compare(expected, observe(loaded, subject, number, loaded)[0])
            if kind != SAME:
                return {"verdict": kind, "message": f"loaded, call {number}: {message}", "traceback": trace}
    return {}


def observe(function: Any, subject: Subject, number: int, root: Any = None) -> tuple[dict[str, Any], float]:
    """Call a function once with copies of the arguments, and describe what can be seen afterwards.

    Args:
        function: in eager, static, or loaded from a file.
        subject: has the calls.
        number: of the call.
        root: a loaded program, whose parameters are the ones that count.

    Returns:
        What can be seen, and the seconds of the call.
    """
    args = _fresh(subject.calls[number])
    torch.manual_seed(number)
    result, error = None, None
    begun = time.perf_counter()
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            result = function(**args) if isinstance(args, dict) else function(*args)
    except Exception as raised:
        error = raised
    spent = time.perf_counter() - begun
    seen = {
        "error": error,
        "result": described(result),
        "arguments": described(args),
        "random state": torch.get_rng_state().tolist(),
        "state": None if root is not None else described([_state(subject.function), *subject.roots]),
        "printed": printed.getvalue(),
    }
    if error is None:
        seen["gradients"] = _gradients(result, args, subject.function if root is None else root)
    return seen, spent


def _state(function: Any) -> Any:
    return function if isinstance(function, torch.nn.Module) else None


def _fresh(args: Any) -> Any:
    def copied(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().clone().requires_grad_(leaf.requires_grad)
        return copy.deepcopy(leaf)

    return tree_map(copied, args)


def _gradients(result: Any, args: Any, function: Any) -> Any:
    """The gradients of all tensors in the result, weighted, for all leaves that want one."""
    outputs = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    outputs = [leaf for leaf in outputs if leaf.is_floating_point()]
    wanted = [leaf for leaf in tree_leaves(args) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if isinstance(function, torch.nn.Module):
        wanted += [p for p in function.parameters() if p.requires_grad]
    if not outputs or not wanted:
        return None
    total = sum((out * torch.linspace(0.5, 1.5, out.numel(), dtype=out.dtype).view_as(out)).sum() for out in outputs)
    try:
        return [described(grad) for grad in torch.autograd.grad(total, wanted, allow_unused=True)]
    except RuntimeError as error:
        return type(error).__name__


def described(value: Any) -> Any:
    """A value with all it holds as plain data, tensors bit for bit.

    Args:
        value: anything.

    Returns:
        Data that is equal for values that are.
    """
    numbers: dict[int, int] = {}
    kept: list[Any] = []

    def visit(value: Any) -> Any:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, type, torch.dtype, torch.device)):
            return type(value).__name__, repr(value)
        if id(value) in numbers:
            return "seen", numbers[id(value)]
        kept.append(value)
        numbers[id(value)] = number = len(numbers)
        return type(value).__name__, number, parts(value)

    def parts(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return str(value.dtype), tuple(value.shape), _numbers(value.detach()), value.requires_grad
        if isinstance(value, dict):
            return [(visit(key), visit(item)) for key, item in value.items()]
        if isinstance(value, (set, frozenset)):
            return sorted(map(repr, value))
        if isinstance(value, (list, tuple, collections.deque)):
            return [visit(item) for item in value]
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)):
            return None
        return attributes(value)

    def attributes(value: Any) -> Any:
        shown = getattr(value, "__dict__", {}).items()
        hidden = {"forward"} if isinstance(value, torch.nn.Module) else set()
        return [(name, visit(part)) for name, part in shown if name not in hidden and not _is_code(part)]

    return visit(value)


def _numbers(value: torch.Tensor) -> str:
    """The elements of a tensor, or what stands for many."""
    if value.numel() < _MANY or value.layout is not torch.strided:
        return repr(value.tolist())
    flat = value.resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8)
    shown = f"{value.double().sum().item()!r} in all, " if value.is_floating_point() else ""
    return f"{shown}SHA-1 {hashlib.sha1(flat.numpy().tobytes()).hexdigest()}"


def _is_code(value: Any) -> bool:
    return callable(value) and not isinstance(value, (torch.nn.Module, type)) and not getattr(value, "__dict__", None)


def compare(expected: dict[str, Any], found: dict[str, Any]) -> tuple[str, str, str]:
    """Compare what was seen of two calls.

    Args:
        expected: of eager, from :func:`observe`.
        found: of the program.

    Returns:
        The verdict, its message, and a traceback.
    """
    wanted, raised = expected["error"], found["error"]
    if raised is not None and (type(raised), str(raised)) != (type(wanted), str(wanted)):
        kind = REFUSED if isinstance(raised, dy2st.Dy2stError) else WRONG if wanted is not None else INTERNAL
        return kind, _line(raised), "".join(traceback.format_exception(raised))
    if wanted is not None and raised is None:
        return WRONG, f"did not raise {wanted!r}", ""
    for part in expected:
        if part != "error" and expected[part] != found[part]:
            return WRONG, f"{part}: {_difference(expected[part], found[part])}", ""
    return SAME, "", ""


def _difference(a: Any, b: Any) -> str:
    """The innermost parts that differ."""
    while isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        pairs = [(x, y) for x, y in zip(a, b) if x != y]
        if not pairs:
            break
        a, b = pairs[0]
    return f"{str(a)[:300]} | {str(b)[:300]}"


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
