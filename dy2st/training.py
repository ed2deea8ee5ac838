"""What training needs that torch does not have: gradients of long iterations in little memory.

It is converted like the user's code.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dy2st.errors import SignatureError

_Function = Callable[[torch.Tensor], torch.Tensor]


def fixed_point(f: _Function, x0: torch.Tensor, tol: float, max_steps: int = 1000, *, strict: bool = True) -> torch.Tensor:
    """Return the ``x`` with ``x = f(x)`` that ``x0, f(x0), f(f(x0)), …`` comes to.

    The gradients are those of the solution, by the implicit function theorem: the backward pass solves ``u = g + (df/dx)ᵀ u``
    in the same way, so that memory does not depend on the number of steps, and ``x0`` has no gradient. They reach everything
    that ``f`` reads: parameters, and tensors around it. They cannot be differentiated again.

    ``f`` is called once per step without gradients, and, where gradients are wanted, twice more at the solution; it should be the
    same function each time (no dropout). This works in static functions, where the steps are a loop of the program, and in eager.

    Args:
        f: takes a tensor like ``x0`` and gives one.
        x0: where to begin.
        tol: a step of at most ``tol * (1 + norm of x)`` is the last one, here and in the backward pass.
        max_steps: how many steps there are at most.
        strict: whether to raise where the last step was longer; without, ``x`` and the gradients are what they are by then.

    Raises:
        RuntimeError: there is no fixed point within ``max_steps`` steps, here or in the backward pass.

    Source: Bai, Kolter and Koltun, Deep equilibrium models, 2019.

    Example:
        >>> a = torch.tensor(2.0, requires_grad=True)
        >>> root = dy2st.fixed_point(lambda x: (x + a / x) / 2, torch.tensor(1.0), tol=1e-6)
        >>> root.backward()
        >>> root.item(), a.grad.item()  # the derivative of the square root is 1 / (2 * root)
        (1.4142..., 0.3535...)
    """
    if not isinstance(x0, torch.Tensor) or not (x0.is_floating_point() or x0.is_complex()):
        raise TypeError(f"fixed_point takes a tensor of floating point numbers to begin with, not {_kind(x0)}")
    with torch.no_grad():
        solution = _iterated(f, x0.detach(), tol, max_steps, strict)
    if not torch.is_grad_enabled() or not f(solution).requires_grad:
        return solution
    unknown = solution.detach().requires_grad_()
    result: torch.Tensor = _Implicit.apply(f(unknown), unknown, tol, max_steps, strict)  # type: ignore[no-untyped-call]
    return result


def _kind(value: Any) -> str:
    return f"one of {value.dtype}" if isinstance(value, torch.Tensor) else f"a {type(value).__name__}"


def _iterated(f: _Function, x: torch.Tensor, tol: float, max_steps: int, strict: bool) -> torch.Tensor:
    """Return where repeated application leads from ``x``."""
    steps = 0
    is_there = False
    while not is_there and steps < max_steps:
        value = f(x)
        if not isinstance(value, torch.Tensor):
            raise TypeError(f"f gives a tensor, not a {type(value).__name__}")
        if value.shape != x.shape or value.dtype != x.dtype:
            given = f"one of {tuple(x.shape)} and {x.dtype}"
            raise ValueError(f"f gives a tensor of shape {tuple(value.shape)} and {value.dtype} for {given}")
        is_there = bool((value - x).norm() <= tol * (1 + value.norm()))
        x = value
        steps += 1
    if strict and not is_there:
        raise RuntimeError(f"no fixed point within {max_steps} steps of a tolerance of {tol}; does f bring points closer together?")
    return x


class _Implicit(torch.autograd.Function):
    """Gives a fixed point; its gradient is solved for and flows into ``f`` of the fixed point."""

    @staticmethod
    def forward(ctx: Any, value: torch.Tensor, unknown: torch.Tensor, tol: float, max_steps: int, strict: bool) -> torch.Tensor:
        ctx.save_for_backward(value, unknown)
        ctx.settings = tol, max_steps, strict
        return unknown.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:
        if torch.is_grad_enabled():  # the system that is solved depends on everything around f, of which nothing is known here
            raise RuntimeError("gradients of fixed_point cannot be differentiated: call it without create_graph=True")
        value, unknown = ctx.saved_tensors
        tol, max_steps, strict = ctx.settings

        def step(u: torch.Tensor) -> torch.Tensor:
            product: torch.Tensor = torch.autograd.grad(value, unknown, u, retain_graph=True)[0]
            return torch.add(gradient, product)

        return _iterated(step, gradient, tol, max_steps, strict), None, None, None, None


# -- loops that keep snapshots -----------------------------------------------------------------------------------------------

_asked: contextvars.ContextVar[int | None] = contextvars.ContextVar("snapshots", default=None)


class checkpointed:
    """Loops inside keep snapshots of what they carry, and do the rest again in the backward pass.

    For loops in static functions whose number of iterations only the data knows; :func:`dy2st.to_static` with ``loop_checkpoints``
    does it for all of them. Memory is that of ``snapshots`` iterations and a few more, instead of all; time is that of
    one more forward pass (of two for more than ``2 * snapshots ** 2`` iterations, and so on). Values, gradients and random
    numbers are the same. The gradients cannot be differentiated again. Outside of static functions it does nothing.

    Args:
        snapshots: how many to keep at most.

    Source: Stumm and Walther, New algorithms for optimal online checkpointing, 2010.

    Example:
        >>> @dy2st.to_static
        ... def settle(x, w):
        ...     with dy2st.checkpointed(10):
        ...         while x.norm() > 0.1:
        ...             x = torch.tanh(x * w)
        ...     return x
        >>> w = torch.tensor(0.99, requires_grad=True)
        >>> settle(torch.ones(3), w).sum().backward()
    """

    def __init__(self, snapshots: int) -> None:
        self.snapshots = check_snapshots(snapshots, "checkpointed")
        self._before: list[contextvars.Token[int | None]] = []

    def __enter__(self) -> None:
        self._before.append(_asked.set(self.snapshots))

    def __exit__(self, *error: object) -> None:
        _asked.reset(self._before.pop())


def snapshots_asked() -> int | None:
    """Return how many snapshots the code around asks for."""
    return _asked.get()


@contextlib.contextmanager
def no_snapshots() -> Iterator[None]:
    """Let what is around count for nothing: a program does not depend on it."""
    before = _asked.set(None)
    try:
        yield
    finally:
        _asked.reset(before)


def check_snapshots(number: Any, name: str) -> int:
    """Return a number of snapshots.

    Raises:
        SignatureError: it is none.
    """
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise SignatureError(f"{name} takes a number of snapshots, 1 or more, not {number!r}")
    return number
