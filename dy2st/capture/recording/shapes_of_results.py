"""Results of operators whose fake kernel is missing, or refuses what the real one takes: learned from the real kernel.

The kernel runs on small operands that are made up, with the same dtypes and numbers of dimensions, and with two choices of what is
symbolic in their sizes. A size of the result that is the same as one of an operand's in both runs is that one; one that stays is a
constant; any other is a new symbol. Where the operator is not one of torch's own, the program checks the sizes that were learned.

Shapes of torch's recurrent layers are written down here: torch computes them by running the layer step by step, which needs the
number of steps.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only, tree_structure

from dy2st.capture.operands import contractions
from dy2st.capture.recording.capturing import Capturing
from dy2st.capture.values import made_up
from dy2st_runtime.ir.operators import present
from dy2st_runtime.primitives import control

ACTS_FOR_USER = False

_SIZED = ("cdist", "_upsample_", "upsample_linear", "upsample_bi", "upsample_trilinear", "adaptive_avg_pool")
"""How operators begin whose results have sizes that operands or arguments have, whatever torch's code for abstract values asks."""


@dataclasses.dataclass(frozen=True)
class Learned:
    """What an operator gives for abstract operands.

    Attributes:
        result: abstract tensors, alone or in a tuple or list.
        sizes: for each tensor of it, what its dimensions were learned to be; ``None`` for a new symbol.
    """

    result: Any
    sizes: Sequence[Sequence[Any]]

    def check(self, session: Capturing) -> None:
        """Record that the program checks the sizes, of the result that has just been recorded."""
        builder = session.builder
        for tensor, sizes in zip(tree_leaves(self.result), self.sizes, strict=True):
            for dim, size in enumerate(sizes):
                if size is None:
                    continue
                expected = builder.expression_node(size.node.expr) if isinstance(size, torch.SymInt) else size
                actual = builder.call_raw(torch.ops.aten.sym_size.int, (builder.argument(tensor), dim))
                message = f"dimension {dim} of a result has another size than the runs that it was learned from show"
                builder.call_raw(control.assert_, (builder.call_raw(operator.eq, (actual, expected)), RuntimeError, message))


def learned(session: Capturing, func: Any, args: Any, kwargs: Any, error: Exception) -> Learned | None:
    """Return the result of an operator that its real kernel shows; ``None`` where that refuses, too, or cannot be tried.

    Args:
        session: the capture.
        func: the operator.
        args, kwargs: its operands, abstract values among them.
        error: what the operator raises for them.
    """
    asks_for_data = (GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException)
    if (isinstance(error, asks_for_data) and not _is_sized_by_operands(func, args, kwargs)) or not _is_functional(func):
        return None
    leaves = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    numbers = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, (torch.SymFloat, torch.SymBool))]
    if not leaves or numbers or not all(type(leaf) is FakeTensor and leaf.layout == torch.strided for leaf in leaves):
        return None
    told = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.SymInt) and func.__name__.startswith(_SIZED)]
    for choice in made_up.choices(made_up.symbols_of(leaves, told)):
        runs = [_run(func, args, kwargs, *given) for given in choice]
        if all(run is not None for run in runs) and _are_alike(*runs):
            return _as_abstract(session, runs, leaves, [values for values, _ in choice], told)
    return None


def _run(func: Any, args: Any, kwargs: Any, values: made_up.Values, fill: made_up.Fill) -> Any:
    """Return what the real kernel gives for made-up operands; ``None`` where it refuses them, or they would be too large."""
    try:
        result = made_up.run(func, args, kwargs, values, fill)
    except Exception:  # whatever a kernel of anybody's raises: it refuses
        return None
    return result if all(isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in tree_leaves(result)) else None


def _is_sized_by_operands(func: Any, args: Any, kwargs: Any) -> bool:
    """Whether what it asks decides how it computes alone; with the driver of ``lstsq`` that leaves no residuals, too."""
    least_squares = func is torch.ops.aten.linalg_lstsq.default and args[0].is_cpu and kwargs.get("driver") in (None, "gelsy")
    return least_squares or func.__name__.startswith(_SIZED)


def _is_functional(func: Any) -> bool:
    schema = func._schema
    return not any(part.alias_info is not None for part in (*schema.arguments, *schema.returns))


def _are_alike(first: Any, second: Any) -> bool:
    """Tell whether two results differ in sizes only."""
    pairs = list(zip(tree_leaves(first), tree_leaves(second)))
    return tree_structure(first) == tree_structure(second) and all(a.dtype == b.dtype and a.dim() == b.dim() for a, b in pairs)


def _as_abstract(
    session: Capturing, runs: Any, leaves: Sequence[torch.Tensor], symbols: Sequence[dict[sympy.Symbol, int]], told: Sequence[Any]
) -> Learned:
    known = [*told, *(size for leaf in leaves for size in leaf.shape if isinstance(size, torch.SymInt) or size in symbols[0])]
    values = [[made_up.taken(size, run) for size in known] for run in symbols]
    learned_sizes: list[list[Any]] = []
    results = iter(tree_leaves(runs[1]))

    def abstract(first: torch.Tensor) -> torch.Tensor:
        second = next(results)
        dims = [size_shown(pair, known, values) for pair in zip(first.shape, second.shape, strict=True)]
        learned_sizes.append(dims)
        shape = [session.shapes.fresh_int(size=True) if size is None else size for size in dims]
        strides = strides_like(first, shape)
        result = leaves[0].new_empty_strided(shape, strides, dtype=first.dtype)
        return result.requires_grad_().clone() if first.requires_grad else result

    result = tree_map_only(torch.Tensor, abstract, runs[0])
    return Learned(result, learned_sizes)


def _key(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def strides_like(tensor: torch.Tensor, shape: Sequence[Any]) -> list[Any]:
    """Return strides for a shape whose dimensions lie in memory in the order of a tensor's, one after the other."""
    real_strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda dim: -real_strides[dim])
    strides: list[Any] = [1] * tensor.dim()
    for outer, inner in zip(reversed(order[:-1]), reversed(order[1:])):
        strides[outer] = strides[inner] * shape[inner]
    return strides


def size_shown(shown: tuple[int, ...], known: Sequence[Any], values: Sequence[Sequence[int]]) -> Any:
    """Return the size that runs show: a constant, one of an operand's, or ``None``."""
    fitting = {_key(known[at]): known[at] for at in range(len(known)) if tuple(run[at] for run in values) == shown}
    if len(fitting) == 1:
        return next(iter(fitting.values()))
    return shown[0] if len(set(shown)) == 1 and not fitting else None


# -- recurrent layers ------------------------------------------------------------------------------------------------------


def _lstm(x: Any, states: Any, parameters: Any, biases: bool, layers: int, *rest: Any) -> tuple[torch.Tensor, ...]:
    hidden, cell = states
    return (_output(x, hidden, layers), torch.empty_like(hidden), torch.empty_like(cell))


def _plain(x: Any, hidden: Any, parameters: Any, biases: bool, layers: int, *rest: Any) -> tuple[torch.Tensor, ...]:
    return (_output(x, hidden, layers), torch.empty_like(hidden))


def _output(x: torch.Tensor, hidden: torch.Tensor, layers: int) -> torch.Tensor:
    directions = hidden.shape[0] // layers
    return hidden.new_empty([*x.shape[:-1], directions * hidden.shape[-1]])


_FUNCTIONS: dict[Any, Callable[..., tuple[torch.Tensor, ...]]] = {
    **dict.fromkeys(present("lstm.input"), _lstm),
    **dict.fromkeys(present("gru.input", "rnn_tanh.input", "rnn_relu.input"), _plain),
}


def of_recurrent(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[torch.Tensor, ...] | None:
    """Return the results of a recurrent layer on a sequence of unknown sizes; ``None`` for any other operation."""
    function = _FUNCTIONS.get(func)
    if function is None or kwargs or all(type(size) is int for size in args[0].shape):
        return None
    result = function(*args)
    tensors = [args[0], *args[2], *(args[1] if isinstance(args[1], (tuple, list)) else (args[1],))]
    if not torch.is_grad_enabled() or not any(tensor.requires_grad for tensor in tensors):
        return result
    return tuple(tensor.requires_grad_().clone() for tensor in result)


# -- what asks for contents only to check them ----------------------------------------------------------------------------

_PADDED = present("pad_sequence.default")
_COVARIANCES = present("cov.default", "corrcoef.default")
_CTC_LOSSES = present("ctc_loss.IntList", "ctc_loss.Tensor")
_LENGTHS_AND_MORE = ("targets", "input_lengths", "target_lengths", "blank", "reduction", "zero_infinity")
_MEAN = 1


def of_checked(session: Capturing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operation whose shape no contents decide that it asks for; ``None`` for any other."""
    if func in _PADDED:
        return _padded(session, *args, **kwargs)
    if func in _COVARIANCES:
        matrix = args[0] if args else kwargs["self"]
        if matrix.dim() == 2 and not isinstance(matrix.shape[0], int):  # one row gives no matrix
            return None
        given = ((*args[:2], None, *args[3:]), {**kwargs, **({"fweights": None} if "fweights" in kwargs else {})})
        shown = learned(session, func, given[0][: len(args)], given[1], RuntimeError())  # zeros that are made up are no weights
        return None if shown is None else shown.result
    if func not in _CTC_LOSSES or not args or torch.is_autocast_enabled(args[0].device.type):
        return None
    named = dict(zip(_LENGTHS_AND_MORE, args[1:])) | kwargs
    logits: torch.Tensor = args[0]
    sizes = logits.shape[1:-1] if named.get("reduction", _MEAN) == 0 else ()
    result = logits.new_empty(sizes)
    return result.requires_grad_().clone() if torch.is_grad_enabled() and logits.requires_grad else result


def _padded(
    session: Capturing,
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    side: str = "right",
) -> torch.Tensor | None:
    """Return what ``pad_sequence`` gives for sequences whose lengths cannot be compared; ``None`` where they can."""
    lengths = [sequence.shape[0] for sequence in sequences]
    trailing = sequences[0].shape[1:]
    is_known = all(_are_equal_sizes(session, first, second) is not None for first in lengths for second in lengths)
    fits = all(len(other.shape) == len(trailing) + 1 and tuple(other.shape[1:]) == tuple(trailing) for other in sequences)
    if is_known or not fits or any(not isinstance(size, int) for size in trailing):
        return None
    longest = session.shapes.fresh_int(size=True)
    result = sequences[0].new_empty([*((len(lengths), longest) if batch_first else (longest, len(lengths))), *trailing])
    needs_gradient = torch.is_grad_enabled() and any(sequence.requires_grad for sequence in sequences)
    return result.requires_grad_().clone() if needs_gradient else result


# -- symbolic numbers --------------------------------------------------------------------------------------------------------
#
# The fake kernels of some operators ask which number a symbolic float or bool is, as that of ``sub(a, b, alpha=x)`` does, or of
# ``mask & flag``. They run for two that are made up. Where they give tensors of the same kinds and sizes for both, these are the
# results for every number; the program calls the operator with the number that it has then.

_MADE_UP = ((0.375, False), (2.625, True))
"""No float is what kernels ask for: 0, 1, 2 or a whole number."""
_ODD = ((0.0, False), (-1.5, True), (float("inf"), False), (float("nan"), True))
"""What a kernel may refuse, which handlers of the user's code would have to see."""


def of_any_number(func: Any, args: Any, kwargs: Any, error: Exception, is_caught: bool) -> Any:
    """Return what an operator gives whatever its symbolic floats and bools are; ``NotImplemented`` where that is not known.

    Args:
        func: the operator.
        args, kwargs: its operands, abstract values among them.
        error: what it raises for them.
        is_caught: whether code of the user's may see what the operator raises for some numbers.
    """
    asked = any(isinstance(leaf, (torch.SymFloat, torch.SymBool)) for leaf in tree_leaves((args, kwargs)))
    if not isinstance(error, GuardOnDataDependentSymNode) or not asked:
        return NotImplemented
    if any(argument.alias_info is not None for argument in func._schema.arguments) or _has_option(func, args, kwargs):
        return NotImplemented  # it would write twice, or do another thing
    results = []
    for numbers in (*_MADE_UP, *_ODD) if is_caught else _MADE_UP:
        try:
            given = tree_map(functools.partial(_with, *numbers), (args, kwargs))
            results.append(func(*given[0], **given[1]))
        except (RuntimeError, ValueError):  # it takes some numbers only
            return NotImplemented
    return results[0] if all(_are_of_one_kind(results[0], other) for other in results[1:]) else NotImplemented


def _has_option(func: Any, args: Any, kwargs: Any) -> bool:
    """Tell whether a symbolic bool is no operand, but tells the operator what to do."""
    arguments = func._schema.arguments
    given = [*zip(arguments, args), *((one, kwargs[one.name]) for one in arguments if one.name in kwargs)]
    return any(isinstance(value, torch.SymBool) and str(one.type) not in ("Tensor", "number") for one, value in given)


def _with(number: float, flag: bool, leaf: Any) -> Any:
    return number if isinstance(leaf, torch.SymFloat) else flag if isinstance(leaf, torch.SymBool) else leaf


def _are_of_one_kind(first: Any, second: Any) -> bool:
    pairs = zip(tree_leaves(first), tree_leaves(second))
    return tree_structure(first) == tree_structure(second) and all(
        isinstance(a, FakeTensor) and isinstance(b, FakeTensor) and _kind(a) == _kind(b) for a, b in pairs
    )


def _kind(tensor: torch.Tensor) -> Any:
    sizes = [size.node.expr if isinstance(size, torch.SymInt) else size for size in (*tensor.shape, *tensor.stride())]
    return tensor.dtype, tensor.device, tensor.dim(), tensor.requires_grad, sizes


_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default
_AFTER_VALUE = ("attn_mask", "dropout_p", "is_causal")


def of_attention(session: Capturing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of attention whose sizes, or those of its mask, cannot be compared; ``None`` for any other operation.

    Torch's code for abstract values chooses a kernel by whether the heads of the query are as many as those of the key, and for
    grouped heads by what divides what. The shape of the result does not depend on that, and the program calls the whole operator,
    which asks again.
    """
    if func is not _ATTENTION or len(args) < 3:
        return None
    query, key, value = args[:3]
    dims = query.dim()
    if not (dims == key.dim() == value.dim() >= 3) or not query.dtype == key.dtype == value.dtype:
        return None
    if torch.is_autocast_enabled(query.device.type):
        return None
    named = dict(zip(_AFTER_VALUE, args[3:])) | kwargs
    pairs = [(query.shape[dim], other.shape[dim]) for other in (key, value) for dim in range(dims - 2)]
    masked = _of_mask(named.get("attn_mask"), (*query.shape[: dims - 1], key.shape[dims - 2]))
    if all(_are_equal_sizes(session, *pair) is not None for pair in (*pairs, *masked.values())):
        return None
    outer = _outer_sizes(session, query, (key, value), masked, bool(named.get("enable_gqa", False)))
    result: torch.Tensor = query.new_empty([*outer, query.shape[-2], value.shape[-1]])
    operands = [part for part in (query, key, value, named.get("attn_mask")) if part is not None]
    needs_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in operands)
    if needs_gradient:
        result = result.requires_grad_().clone()
    return result


def of_contraction(session: Capturing, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a product of operands whose sizes may be 1; ``None`` for any other operation."""
    if func not in contractions.CONTRACTIONS or len(args) < 2:
        return None
    operands = contractions.operands(func, args)
    unknown = any(isinstance(size, torch.SymInt) for operand in operands for size in operand.shape)
    first = operands[0]
    if not unknown or len({one.dtype for one in operands}) > 1 or torch.is_autocast_enabled(first.device.type):
        return None
    asked: list[bool] = []

    def together(one: Any, other: Any) -> Any:
        alike = _are_equal_sizes(session, one, other)
        is_one = any(isinstance(size, int) and size == 1 for size in (one, other))
        asked.append(alike is None and not is_one)
        return other if isinstance(one, int) and one == 1 else _broadcast_size(session, one, other)

    sizes = contractions.sizes(func, args, together)
    of_batches = func in contractions.OF_BATCHES
    if sizes is None or (of_batches and not any(asked)):
        return None  # torch asks nothing then
    result = first.new_empty(sizes)
    needs_gradient = torch.is_grad_enabled() and any(part.requires_grad for part in operands)
    return result.requires_grad_().clone() if needs_gradient else result


def _outer_sizes(
    session: Capturing, query: torch.Tensor, others: Sequence[torch.Tensor], masked: Mapping[int, tuple[Any, Any]], grouped: bool
) -> list[Any]:
    """Return the sizes of the result of attention before the last two."""
    dims = query.dim()
    outer = list(query.shape[: dims - 2])
    for other in others:
        for dim in range(dims - 2):
            if not (grouped and dim == dims - 3):
                outer[dim] = _broadcast_size(session, outer[dim], other.shape[dim])
    for dim in range(dims - 2):
        if dim in masked and session.shapes.known(outer[dim] == 1) is not False:
            outer[dim] = _broadcast_size(session, outer[dim], masked[dim][1])
    return outer


def _of_mask(mask: torch.Tensor | None, scores: tuple[Any, ...]) -> dict[int, tuple[Any, Any]]:
    """Return the sizes of the scores and of the mask that is added to them, by dimension; 1 for a known one says nothing."""
    sizes = () if mask is None else tuple(mask.shape)
    first = len(scores) - len(sizes)
    return {
        first + dim: (scores[first + dim], size)
        for dim, size in enumerate(sizes)
        if first + dim >= 0 and not (isinstance(scores[first + dim], int) and isinstance(size, int) and size == 1)
    }


def _are_equal_sizes(session: Capturing, first: Any, second: Any) -> bool | None:
    """Tell whether two sizes are equal; ``None`` where only the program knows."""
    if isinstance(first, int) and isinstance(second, int):
        return first == second
    return session.shapes.known(first == second)


def _broadcast_size(session: Capturing, first: Any, second: Any) -> Any:
    """Return the size that two give together, if they fit: the operator refuses others."""
    if (isinstance(second, int) and second == 1) or _are_equal_sizes(session, first, second):
        return first
    if isinstance(first, int):
        return second if first == 1 else first
    return second if isinstance(second, int) else session.shapes.fresh_int(size=True)
