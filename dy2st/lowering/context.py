"""What the parts of lowering share: the run of a block, shape tracing, notes, and refusals that name the user's line."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing

from dy2st.errors import ExportError
from dy2st.lowering.aliasing import facts
from dy2st.lowering.values import ListValue, Unbound
from dy2st_runtime.ir.program import Block, Location


class Context(abc.ABC):
    """One lowering of one program.

    Args:
        checks: whether assertions and exceptions become assertions of the result.
        max_growth: by how many entries a value may grow in a loop where no bound is known.
        in_place: whether the program changes tensors in place, so that it matters what shares memory with what.
    """

    def __init__(self, checks: bool, max_growth: int | None, in_place: bool = True) -> None:
        self.checks, self.max_growth, self.in_place = checks, max_growth, in_place
        self.notes: dict[str, None] = {}
        self.shape_tracing_depth = 0

    @abc.abstractmethod
    def run_block(self, block: Block, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs of a block."""

    def note(self, node: fx.Node, text: str) -> None:
        """Something that the result does otherwise than the program, for the report."""
        self.notes.setdefault(f"{place(node)}{text}")

    @contextlib.contextmanager
    def shape_tracing(self) -> Iterator[None]:
        """Leave no trace in the graph of what runs inside: it tells what a block gives."""
        mode = detect_fake_mode()
        self.shape_tracing_depth += 1
        try:
            with contextlib.ExitStack() as stack:
                stack.enter_context(disable_proxy_modes_tracing())
                if mode is not None and mode.shape_env is not None:
                    stack.enter_context(mode.shape_env.ignore_fresh_unbacked_symbols())
                yield
        finally:
            self.shape_tracing_depth -= 1

    def assert_true(self, node: fx.Node, condition: torch.Tensor, text: str) -> None:
        """Stop with a message when a condition is false."""
        if not self.checks:
            self.note(node, f"not checked: {text}")
        elif not self.shape_tracing_depth:
            torch.ops.aten._assert_async.msg(condition, f"{place(node)}{text}")


_is_alias_of: Callable[[torch.Tensor, torch.Tensor], bool] = getattr(torch._C, "_is_alias_of")  # noqa: B009  # not in its stubs


def location(node: fx.Node) -> Location | None:
    """Return the user's line of a node."""
    result: Location | None = node.meta.get("location")
    return result


def place(node: fx.Node) -> str:
    """Return the same as the beginning of a message."""
    result = location(node)
    return f"{result}: " if result is not None else ""


def refuse(node: fx.Node, what: str, fix: str = "") -> ExportError:
    """Return the error for what the formats outside cannot express."""
    return ExportError(f"{what}; {fix}" if fix else what, location(node))


def brief(error: BaseException) -> str:
    """Return the beginning of a message that may go on for pages."""
    lines = [" ".join(line.split()) for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:4])[:600]


def check_hazards(block: Block, node: fx.Node | None = None) -> None:
    """Refuse a block that writes a tensor which somebody may see under a name that ``torch.cond`` cuts off.

    Args:
        block: the block.
        node: where it belongs; ``None`` for the whole program.

    Raises:
        ExportError: it does.
    """
    result = facts(block).hazard
    if result is not None:
        raise refuse(
            result if node is None else node,
            "a tensor is changed in place that may be one of several, depending on the way that was taken; which one else sees the "
            "change cannot be exported",
            "change a clone of it",
        )


def own_copies(node: fx.Node, block: Block, inputs: Sequence[Any]) -> list[Any]:
    """Return the inputs of a block with copies of the tensors that it changes.

    Raises:
        ExportError: it changes tensors that are in a list.
    """
    result = facts(block)
    copies: dict[int, Any] = {}
    for position in result.tensors:
        value = inputs[position]
        if isinstance(value, (ListValue, tuple, Unbound)):
            raise refuse(node, "a branch or loop changes in place a tensor that is in a list", "assign a new tensor to its place")
        if isinstance(value, torch.Tensor):
            copies[id(value)] = value.clone()
    return [copies.get(id(value), value) if isinstance(value, torch.Tensor) else value for value in inputs]


def check_aliases(node: fx.Node, values: Sequence[Any], written: Sequence[torch.Tensor]) -> None:
    """Refuse blocks that write a tensor which they also see through another one.

    Raises:
        ExportError: they do.
    """
    for tensor in written:
        for value in values:
            inner = value.tensor if isinstance(value, Unbound) else value
            if isinstance(inner, torch.Tensor) and inner is not tensor and _is_alias_of(inner, tensor):
                raise refuse(
                    node,
                    "a branch or loop changes a tensor in place and uses a view of it that was made before",
                    "make the view inside, or change a clone",
                )


def apart(tensors: Sequence[Any]) -> list[Any]:
    """Return tensors that share no memory: those that do with an earlier one are copied.

    What torch makes of branches and loops may take no two tensors that do, a row of a matrix and the matrix for one.
    """
    seen: set[int] = set()
    results = []
    for value in tensors:
        if isinstance(value, torch.Tensor):
            memory = value.untyped_storage()._cdata
            value = value.clone() if memory in seen else value
            seen.add(memory)
        results.append(value)
    return results
