"""Random training steps: ``python -m tests.fuzz.training --programs 200 --seed 0``.

A step puts gradients to zero, computes losses on ways that tensors decide, runs backward passes, looks at gradients and changes them,
and updates; as it is written and as a program it must leave the same weights, gradients, states and results, bit for bit.
"""

from __future__ import annotations

import argparse
import collections
import copy
import linecache
import random
import time
import types
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves

import dy2st

CALLS = 7
OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "SGD": lambda params: torch.optim.SGD(params, lr=0.1),
    "momentum": lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9),
    "Adam": lambda params: torch.optim.Adam(params, lr=0.05),
    "AdamW": lambda params: torch.optim.AdamW(params, lr=0.05),
    "RMSprop": lambda params: torch.optim.RMSprop(params, lr=0.05),
    "Adagrad": lambda params: torch.optim.Adagrad(params, lr=0.05),
}
_TESTS = ("x.mean() > 0", "x[0, 0] > 0.3", "net.a.weight.sum() > 0")
_ZEROS = (
    ["opt.zero_grad()"],
    ["opt.zero_grad(set_to_none=False)"],
    ["net.zero_grad()"],
    ["for p in net.parameters():", "    p.grad = None"],
    [],
)
_OF_ARGUMENT = "loss = ((net.head(h) - y) * w).pow(2).mean()"
_LOSSES = (
    "loss = (net.head(h) - y).pow(2).mean()",
    "loss = F.mse_loss(net.head(h), y)",
    "loss = (net.head(h) * net.scale - y).abs().sum()",
    _OF_ARGUMENT,
)
_PASSES = (
    "loss.backward()",
    "loss.backward()",
    "(loss * 2).backward()",
    "torch.autograd.backward([loss])",
    "loss.backward(torch.ones_like(loss))",
    "loss.backward(retain_graph=True)",
)
_AT_ARGUMENT = ("out.append(w.grad)", "out.append(w.grad.sum())", "w.grad.mul_(0.5)", "w.grad = w.grad + x.mean()")


class Net(nn.Module):
    """What the steps train: they reach some of its weights on some ways."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in range(3))
        self.head, self.scale = nn.Linear(4, 2), nn.Parameter(torch.tensor(1.1))


def _forward(choose: random.Random) -> list[str]:
    test = choose.choice(_TESTS)
    ways = (
        ["h = net.a(x)"],
        [f"h = net.a(x) if {test} else net.b(x)"],
        ["h = x", f"if {test}:", "    h = torch.tanh(net.a(h)) * net.scale"],
        ["h, i = x, 0", "while h.mean() > -0.1 and i < 3:", "    h, i = torch.tanh(net.b(h)), i + 1"],
        [
            "h = x",
            "for layer in (net.a, net.b, net.c):",
            "    h = torch.tanh(layer(h))",
            "    if h.mean() > 0.1:",
            "        break",
        ],
        ["h = net.c(net.b(x).relu())"],
    )
    way, step_back = choose.choice(ways), choose.choice(_PASSES)
    if choose.random() < 0.35:  # an argument has its gradient from before the call, from this pass, or both
        return [*way, _OF_ARGUMENT, step_back, choose.choice(_AT_ARGUMENT)]
    return [*way, choose.choice(_LOSSES), step_back]


def _looking(choose: random.Random) -> list[str]:
    test = choose.choice((*_TESTS, "loss > 0.5"))
    each = choose.choice(("p.grad.mul_(0.5)", "p.grad = p.grad + 0.01 * p.detach()", "out.append(p.grad.sum())"))
    ways = (
        ["nn.utils.clip_grad_norm_(net.parameters(), 0.5)"],
        ["nn.utils.clip_grad_value_(net.parameters(), 0.1)"],
        [f"if {test}:", "    net.a.weight.grad = None"],
        ["for p in net.parameters():", "    if p.grad is not None:", f"        {each}"],
        ["g = net.head.weight.grad", "out.append(None if g is None else g.norm())"],
        [f"if {test}:", "    net.scale.grad = torch.ones_like(net.scale)"],
        ["with torch.no_grad():", "    net.scale.mul_(0.9)"],
        ["out.append(net.b.weight.grad is None)"],
        ["g = net.head.bias.grad", "out.append(g is net.head.bias.grad)"],
        ["out.append(w.grad)"],
        ["out.append(None if w.grad is None else w.grad * 2)"],
        [f"if {test}:", "    w.grad = None"],
    )
    return choose.choice(ways)


def write(seed: str) -> tuple[str, str]:
    """Return the source of a step, and the name of the optimizer that it is for."""
    choose = random.Random(seed)
    lines = [*choose.choice(_ZEROS)]
    for _ in range(choose.choice((1, 1, 2))):
        lines += _forward(choose)
        for _ in range(choose.randrange(3)):
            lines += _looking(choose)
    lines += [f"if {choose.choice(_TESTS)}:", "    opt.step()"] if choose.random() < 0.3 else ["opt.step()"]
    lines += ["out.append(loss.detach())", *(_looking(choose) if choose.random() < 0.3 else [])]
    if choose.random() < 0.3:
        lines = ["for _ in range(n):", *(f"    {line}" for line in lines)]
    body = "\n".join(f"    {line}" for line in ("out = []", *lines, "return out"))
    return f"def step(net, opt, x, y, n, w):\n{body}\n", choose.choice(sorted(OPTIMIZERS))


def function_of(source: str, name: str) -> Callable[..., Any]:
    """Return the step of a source."""
    file = f"<training step {name}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    module = types.ModuleType("training_step")
    vars(module).update(torch=torch, nn=nn, F=F)
    exec(compile(source, file, "exec"), vars(module))
    step: Callable[..., Any] = vars(module)["step"]
    return step


def _run(step: Callable[..., Any], optimizer: str, repeats: bool) -> list[Any]:
    torch.manual_seed(0)
    net, random_numbers = Net(), torch.Generator().manual_seed(5)
    opt, results = OPTIMIZERS[optimizer](net.parameters()), []
    for call in range(CALLS):
        x = torch.randn(3, 4, generator=random_numbers) + (call % 3 - 1) * 0.6
        y = torch.randn(3, 2, generator=random_numbers)
        w = torch.randn(2, generator=random_numbers).requires_grad_()  # an argument, whose gradient may be there already
        w.grad = torch.randn(2, generator=random_numbers) if call % 4 > 1 else None
        given = step(net, opt, x, y, torch.tensor((2, 0, 3)[call % 3]) if repeats else 0, w)
        results.append([value.detach().clone() if isinstance(value, torch.Tensor) else value for value in given])
        left = (*net.parameters(), w)
        results.append([(p.detach().clone(), None if p.grad is None else p.grad.clone()) for p in left])
    return [results, copy.deepcopy(opt.state_dict())]


def judge(seed: str) -> str:
    """Return ``"same"``, ``"refused: …"``, ``"invalid"`` where eager fails, or what is wrong."""
    source, optimizer = write(seed)
    step, repeats = function_of(source, seed), "range(n)" in source
    try:
        expected = _run(step, optimizer, repeats)
    except Exception:
        return "invalid"
    try:
        result = _run(dy2st.to_static(step), optimizer, repeats)
    except dy2st.errors.CaptureError as error:
        return f"refused: {str(error).splitlines()[0]}"
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error).splitlines()[0]}"
    return "same" if _alike(result, expected) else "wrong"


def _alike(one: Any, other: Any) -> bool:
    parts: Sequence[list[Any]] = [tree_leaves(value, is_leaf=lambda part: part is None) for value in (one, other)]
    return len(parts[0]) == len(parts[1]) and all(_same(a, b) for a, b in zip(*parts))


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        return one.dtype is other.dtype and torch.allclose(one, other, 0, 0, equal_nan=True)
    return type(one) is type(other) and bool(one == other)


def main() -> None:
    """Judge many steps, and say how many were what."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=100)
    parser.add_argument("--seed", default="0")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    verdicts: collections.Counter[str] = collections.Counter()
    for number in range(options.programs):
        begun = time.perf_counter()
        verdict = judge(f"{options.seed}-{number}")
        verdicts[verdict] += 1
        print(f"{options.seed}-{number}: {verdict} ({time.perf_counter() - begun:.1f} s)", flush=True)
        if not verdict.startswith(("same", "refused", "invalid")):
            print(write(f"{options.seed}-{number}")[0], flush=True)
    for verdict, count in verdicts.most_common():
        print(f"{count:6} {verdict}")


if __name__ == "__main__":
    main()
