"""Rewrite rules from two Python functions: ``dy2st.rewrite``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from dy2st.errors import Dy2stError, RewriteError
from dy2st.frames import plainly
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.analyses.purity import is_pure
from dy2st_runtime.ir.program import Program
from dy2st_runtime.ir.structure import Leaf
from dy2st_runtime.ir.value_types import tensor_type, type_of
from dy2st_runtime.passes.rules import Rule, Scalar, Side, Size, TensorLike, used_inputs

_SIZES = ((11, 3), (13, 4))
"""Two ways to choose sizes, and numbers, that examples did not have: where both give what they chose, it may be anything."""


@plainly
def rewrite(pattern: Callable[..., Any], replacement: Callable[..., Any], *examples: Any) -> Rule:
    """Make a pass that replaces what one function computes by what another computes.

    Both are captured with the examples. The rule holds for tensors of the examples' dtypes and numbers of dimensions. Sizes may be
    any, as long as those are equal that were equal in the examples; an example's size 1 stays 1. Floats among the examples stand
    for any float, and everything else for itself. Where a function computes with a size or float (``width // 2``), it stands for
    itself, too. That the replacement computes the same is checked on the examples, to about three digits.

    A match is replaced in any block of a program, unless it could be seen: where an intermediate result is used elsewhere, or
    memory involved is written in place.

    Args:
        pattern: a Python function of tensors and constants, without control flow on tensors, in-place operations or random
            numbers; it returns one tensor.
        replacement: a function with the same parameters.
        *examples: arguments of both.

    Returns:
        A pass, for ``to_static(passes=[...])``; its ``count(program)`` tells how often it matches.

    Raises:
        RewriteError: one of the functions cannot be part of a rule, or they compute different things.

    Example:
        >>> def composed(x, weight, eps):
        ...     return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight
        >>> def fused(x, weight, eps):
        ...     return torch.rms_norm(x, weight.shape, weight, eps)
        >>> rule = dy2st.rewrite(composed, fused, torch.randn(2, 3, 8), torch.randn(8), 1e-6)
        >>> static = dy2st.to_static(lambda x, weight: composed(x, weight, 1e-6) + 1, passes=[rule])
        >>> rule.count(static.program(torch.randn(4, 8), torch.randn(8)))
        0
    """
    _check_examples(pattern, replacement, examples)
    error: Dy2stError | None = None
    for any_sizes, any_scalars in itertools.product((True, False), repeat=2):
        try:
            sides = [_side(function, examples, any_sizes, any_scalars) for function in (pattern, replacement)]
        except _Computed as computed:
            error = computed
            continue
        except Exception:
            if any_sizes or any_scalars:
                continue
            raise
        return _rule(pattern, replacement, *sides)
    assert error is not None
    raise error


class _Computed(Dy2stError):
    """A function computes with what should be anything."""


def _check_examples(pattern: Any, replacement: Any, examples: Sequence[Any]) -> None:
    if not any(isinstance(example, torch.Tensor) for example in examples):
        raise RewriteError("rewrite takes example arguments after the two functions, at least one of them a tensor")
    with torch.no_grad():
        expected, result = pattern(*examples), replacement(*examples)
    for what, value in (("pattern", expected), ("replacement", result)):
        if not isinstance(value, torch.Tensor):
            raise RewriteError(f"the {what} of a rule must return one tensor, not a {type(value).__name__}")
    if (expected.dtype, expected.shape) != (result.dtype, result.shape):
        given, wanted = (f"{value.dtype}{list(value.shape)}" for value in (result, expected))
        raise RewriteError(f"the replacement returns a {given}, the pattern a {wanted}")
    try:
        torch.testing.assert_close(result, expected, rtol=1e-2, atol=1e-3, equal_nan=True)
    except AssertionError as error:
        raise RewriteError(f"the replacement computes something else than the pattern for the examples: {error}") from None


def _rule(pattern: Any, replacement: Any, before: Side, after: Side) -> Rule:
    unknown = set(used_inputs(after)) - set(used_inputs(before))
    if unknown:
        raise RewriteError(f"the replacement uses tensor argument {min(unknown)} of the examples, which the pattern does not use")
    if type_of(before.result) != type_of(after.result):
        raise RewriteError("the sizes of what pattern and replacement return depend on other sizes of their arguments")
    if before.result.op == "placeholder":
        raise RewriteError("the pattern returns its argument: there is nothing to look for")
    return Rule(f"{pattern.__name__} to {replacement.__name__}", before, after)


def _side(function: Any, examples: Sequence[Any], any_sizes: bool, any_scalars: bool) -> Side:
    """Return one function of a rule, captured in two ways; where those differ, something stands for anything."""
    sizes = sorted({size for example in examples if isinstance(example, torch.Tensor) for size in example.shape if size > 1})
    captured: list[Program] = []
    for start, step in _SIZES:
        chosen = {size: start + step * number for number, size in enumerate(sizes)} if any_sizes else {}
        numbers = [(start + number) / 64 for number in range(len(examples))] if any_scalars else None
        captured.append(_captured(function, [_varied(e, chosen, numbers, i) for i, e in enumerate(examples)]))
    table: dict[tuple[Any, ...], Any] = {}
    for number, _ in enumerate(sizes if any_sizes else ()):
        table[tuple(start + step * number for start, step in _SIZES)] = Size(number)
    for number, _ in enumerate(examples if any_scalars else ()):
        table[tuple((start + number) / 64 for start, _ in _SIZES)] = Scalar(number)
    return _merged(captured[0], captured[1], table)


def _varied(example: Any, sizes: dict[int, int], numbers: list[float] | None, position: int) -> Any:
    if isinstance(example, torch.Tensor):
        shape = [sizes.get(size, size) for size in example.shape]
        return torch.ones(shape, dtype=example.dtype, device=example.device)
    return numbers[position] if numbers is not None and type(example) is float else example


def _captured(function: Any, arguments: Sequence[Any]) -> Program:
    with torch.no_grad():
        program = StaticFunction(function).program(*arguments)
    name = program.name
    if program.states:
        raise RewriteError(f"{name} reads {program.states[0].name}, a tensor from outside; a rule has its tensors as arguments")
    if program.effects:
        raise RewriteError(f"{name} writes {program.effects[0].target}; a rule changes nothing outside")
    if not isinstance(program.out_structure, Leaf) or not isinstance(program.block.outputs[program.out_structure.index], fx.Node):
        raise RewriteError(f"{name} must compute one tensor")
    result = program.block.outputs[program.out_structure.index]
    for node in program.nodes():
        if not is_pure(node):
            raise RewriteError(f"{name} calls {node.target}: a rule holds no effects, random numbers or control flow")
        if not node.users:
            raise RewriteError(f"{name} computes something with {node.target} that its result does not use")
    program.block.graph.output_node().args = ((result,),)
    return program


def _merged(first: Program, second: Program, table: dict[tuple[Any, ...], Any]) -> Side:
    """Return the first program, with what differs in the second as the table says."""
    ours, theirs = list(first.block.graph.nodes), list(second.block.graph.nodes)
    if [node.target for node in ours if node.op == "call_function"] != [n.target for n in theirs if n.op == "call_function"]:
        raise _Computed(f"{first.name} does something else for other sizes")
    counterparts = dict(zip(ours, theirs))
    types = {}
    for node in ours:
        like = _merged_type(node, counterparts[node], table)
        if like is not None:
            types[node] = like
        if node.op == "call_function":
            node.args = tuple(
                _merged_value(first, a, b, counterparts, table) for a, b in _pairs(first, node.args, counterparts[node].args)
            )
            node.kwargs = {
                key: _merged_value(first, a, counterparts[node].kwargs[key], counterparts, table) for key, a in node.kwargs.items()
            }
    return Side(first.block, types)


def _merged_type(node: fx.Node, counterpart: fx.Node, table: dict[tuple[Any, ...], Any]) -> TensorLike | None:
    ours, theirs = tensor_type(node), tensor_type(counterpart)
    if ours is None or theirs is None:
        return None
    sizes: list[str | Size] = []
    for a, b in zip(ours[1], theirs[1]):
        size = a if a == b else table.get((int(a), int(b)))
        if size is None:
            return None
        sizes.append(size)
    return TensorLike(ours[0], tuple(sizes))


def _merged_value(program: Program, a: Any, b: Any, counterparts: dict[fx.Node, fx.Node], table: dict[tuple[Any, ...], Any]) -> Any:
    if isinstance(a, fx.Node):
        if counterparts[a] is not b:
            raise _Computed(f"{program.name} does something else for other sizes")
        return a
    if isinstance(a, (list, tuple)):
        return type(a)(_merged_value(program, x, y, counterparts, table) for x, y in _pairs(program, a, b))
    if type(a) is type(b) and a == b:
        return a
    result = table.get((a, b)) if isinstance(a, (int, float)) else None
    if result is None:
        raise _Computed(f"{program.name} computes with a size or number of its arguments")
    return result


def _pairs(program: Program, a: Any, b: Any) -> Sequence[tuple[Any, Any]]:
    if not isinstance(b, (list, tuple)) or len(a) != len(b):
        raise _Computed(f"{program.name} does something else for other sizes")
    return list(zip(a, b))
