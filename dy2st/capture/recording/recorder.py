"""The dispatch mode that records: every torch operation becomes a node, before autograd takes it apart.

It sits at the PreDispatch key, so ``linear``, ``batch_norm`` or ``dropout`` stay whole, and running the node under autograd gives
exactly what eager gives. The operation itself then runs on fake tensors, for the shapes of its results.

Arithmetic on symbolic ints is not recorded: it stays in the expression and becomes operations when it is used. Arithmetic
on floats is recorded operation by operation, because algebra would round differently.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, UnsupportedOperatorException
from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from dy2st.capture.operands import sparse_parts
from dy2st.capture.operands.eager_errors import of_dtypes, of_eager, symbols_of_operands, without_abstract
from dy2st.capture.operands.overlap import refused_overlap
from dy2st.capture.operands.refused_sizes import OF_SIZES, may_refuse
from dy2st.capture.recording import failing, shapes_of_results
from dy2st.capture.recording.capturing import Capturing
from dy2st.capture.recording.fake_values import quiet
from dy2st.capture.recording.shapes import CaptureShapes
from dy2st.capture.recording.shapes_of_results import Learned, learned, of_any_number
from dy2st.capture.recording.stale_views import StaleViews, is_stale, without_autograd
from dy2st.capture.types import geometry, tensor_traits
from dy2st.capture.values.symbolic import SYMBOLIC_NUMBERS
from dy2st.capture.writes.gradient_slots import note_history
from dy2st.capture.writes.shape_facts import Facts
from dy2st.errors import CaptureError
from dy2st_runtime.ir.operators import present
from dy2st_runtime.primitives import scalars

ACTS_FOR_USER = False

_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
_WITHOUT_GRADIENT = frozenset(present("data.default", "detach.default", "detach_.default", "_version.default"))
_NOT_RECORDED = {torch.ops.prim.device.default, *present(
    "size.default", "sym_size.default", "sym_size.int", "sym_stride.default", "sym_stride.int", "sym_numel.default",
    "sym_storage_offset.default", "is_contiguous.default", "is_contiguous.memory_format", "dim.default", "is_same_size.default",
    "is_floating_point.default",
)}  # fmt: skip
_STRETCHING = frozenset(present("expand.default", "expand_as.default", "broadcast_to.default"))
_DROPPING = frozenset(
    present("dropout.default", "feature_dropout.default", "alpha_dropout.default", "feature_alpha_dropout.default")
)
"""What gives its operand itself where nothing is dropped."""
_QUANTIZING = frozenset(present(
    "quantize_per_tensor", "quantize_per_tensor_dynamic", "quantize_per_channel", "_make_per_tensor_quantized_tensor",
    "_empty_affine_quantized",
))  # fmt: skip
"""Their abstract values are plain tensors, and what is computed with these differs."""
_COPYING = {torch.ops.aten.lift_fresh.default: torch.ops.aten.lift_fresh_copy.default}
_MEMOS = ("_item_memo", "_nonzero_memo", "_unique_memo", "_unique_consecutive_memo")
_TARGETS: dict[Any, Callable[..., Any]] = {
    torch.sym_float: scalars.to_float,
    torch.sym_int: scalars.to_int,
    torch.sym_max: scalars.maximum,
    torch.sym_min: scalars.minimum,
    torch.sym_not: scalars.logical_not,
    torch.sym_ite: scalars.where,
    **{
        getattr(torch, f"_sym_{name}"): getattr(math, name)
        for name in ["sqrt", "cos", "cosh", "sin", "sinh", "tan", "tanh", "asin", "acos", "atan", "log2"]
    },
}
_COMPARISONS = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}


class Recorder(ProxyTorchDispatchMode):
    """Records into the block that the session is building now."""

    def __init__(self, session: Capturing) -> None:
        super().__init__(None, "symbolic", pre_dispatch=True)  # type: ignore[arg-type]
        self.session = session
        self.is_running = False
        """Whether an operation runs: what Python does for it is the operation's own, and is not recorded."""
        self._learned: Learned | None = None
        """What the real kernel has shown of the operation's result, where the fake one does not give it."""
        self.instead: tuple[Any, Any, Any] | None = None
        """The operator and operands that are recorded for one that runs with numbers that are made up."""
        self._stale_views = StaleViews()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operation on fake tensors and record it."""
        kwargs = kwargs or {}
        if func.overloadpacket in _QUANTIZING:
            raise CaptureError(
                f"{func.overloadpacket.__name__} makes a quantized tensor, which cannot be captured",
                self.session.here(),
                fix="use torch.fake_quantize_per_tensor_affine or torch.fake_quantize_per_channel_affine",
            )
        if func.namespace == "c10d":
            raise CaptureError(
                f"code that was not converted starts the collective {func.overloadpacket.__name__}, and may not wait for it",
                self.session.here(),
                fix="call the function of torch.distributed in converted code, or use torch.distributed._functional_collectives",
            )
        func = _COPYING.get(func, func)
        args, kwargs = tree_map_only(torch.Tensor, self._abstract, (args, kwargs))
        foreseen = self.session.in_flight.foreseen
        if foreseen is not None and self.session.in_flight.pending:
            known = foreseen.operation(func, args, kwargs)
            if known is not NotImplemented:
                return known
        shapes = self.session.shapes
        self.session.fakes.mode.cache_enabled = not _has_numbers(args, kwargs)
        shapes.operation_start = shapes.unbacked_symint_counter
        shapes.operands = symbols_of_operands(func, args, kwargs)
        shapes.gives_view = func in _STRETCHING
        shapes.refuses_less_than_one = func.name().startswith("aten::fft_")
        histories = self._histories(func, args)
        before, lying = tensor_traits.before(self.session, func, args), geometry.before(func, args)
        facts = self._facts_before()
        shapes.notes_stretching, shapes.written_sizes = facts is not None, _written_sizes(func, args)
        try:
            result = self._with_graph(func, (args, kwargs), self._run(func, args, kwargs))
            self._check_overlap(func, args)
            refused = of_dtypes(func, args, kwargs)
            if refused is not None:
                raise refused
        except Exception as error:
            self.session.in_flight.failed = (error, func, args, kwargs)
            raise
        finally:
            shapes.operation_start, shapes.refuses_less_than_one = None, False
        self.session.gradients.note_changed(histories)
        may_fail = facts is not None and (self.session.checks.may_fail() or may_refuse(shapes.known, func, args, kwargs))
        if facts is not None and may_fail and _can_be_attempted(func, args, result):
            return self._attempted(func, args, kwargs, facts)
        geometry.check(self.session, func, lying)
        self._stale_views.note(func, args, self.session.builder)
        tensor_traits.follow(self.session, func, (args, kwargs), result, before)
        if func in _NOT_RECORDED:
            return result
        if func in _DROPPING and (not args[2] or args[1] == 0):  # the abstract value's result is another one than its operand
            return args[0]
        return self._recorded(func, args, kwargs, result)

    def _histories(self, func: Any, args: Any) -> list[Any]:
        """Return where the histories of older tensors begin that an operation in a branch or loop changes in place."""
        builder = self.session.builder
        if builder.parent is None or not func._schema.is_mutable or not torch.is_grad_enabled():
            return []
        written = [value for given, value in zip(func._schema.arguments, args) if _is_written(given)]
        tensors = (one for one in tree_leaves(written) if isinstance(one, torch.Tensor))
        return self.session.gradients.histories(
            one for one in tensors if builder.is_operand(one if one._base is None else one._base)
        )

    def _with_graph(self, func: Any, operands: Any, result: Any) -> Any:
        """Return the result of an operation; one made of others has a gradient where its operands have, whatever made its shape."""
        if not torch.is_grad_enabled() or not func.has_kernel_for_dispatch_key(_COMPOSITE) or func in _WITHOUT_GRADIENT:
            return result
        first = operands[0][0] if operands[0] else None
        if isinstance(first, (list, tuple)) and isinstance(result, (list, tuple)) and len(first) == len(result):
            return type(result)(self._attached(value, [operand]) for value, operand in zip(result, first))  # each is of its own
        return tree_map_only(torch.Tensor, lambda value: self._attached(value, tree_leaves(operands)), result)

    def _attached(self, value: Any, operands: Any) -> Any:
        """Return a result that has a gradient where one of some operands has."""
        given = [leaf for leaf in operands if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
        if not given or value.requires_grad or not (value.is_floating_point() or value.is_complex()):
            return value
        with quiet():
            leaf = value.detach().requires_grad_()
            value = leaf.view_as(value)
        note_history(value, leaf)
        self.session.gradients.link(value, [given])
        return value

    def _recorded(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        tree_map_only(FakeTensor, self._check_result, result)
        if self.instead is not None and self.instead[0] is func:
            (_, args, kwargs), self.instead = self.instead, None
        self.session.in_flight.has_acted |= self._acts_outside(func, args)
        self.session.builder.call(func, args, kwargs, result)
        self.session.gradients.note_sparse(func, args, kwargs)
        self._check_learned(func)
        self.session.checks.emit()
        return result

    def _acts_outside(self, func: Any, args: Any) -> bool:
        """Tell whether an operation is known to change a tensor from outside, or to draw random numbers.

        Of what a loop carries it is not known.
        """
        if self.session.in_flight.has_acted or not func._schema.is_mutable:
            return torch.Tag.nondeterministic_seeded in func.tags
        written = [args[index] for index, given in enumerate(func._schema.arguments[: len(args)]) if _is_written(given)]
        strided = (one for one in tree_leaves(written) if isinstance(one, torch.Tensor) and one.layout == torch.strided)
        return any(map(self.session.outside.is_in_memory, strided))

    def _facts_before(self) -> Facts | None:
        """Return what is known of sizes, where an ``except`` clause is for operations whose sizes do not fit."""
        foreseen = self.session.in_flight.foreseen
        is_caught = self.session.in_flight.pending and foreseen is not None and any(map(foreseen.is_caught, OF_SIZES))
        return self.session.shapes.facts() if is_caught else None

    def _attempted(self, func: Any, args: Any, kwargs: Any, facts: Facts) -> Any:
        """Have the program find out whether sizes fit: where they do not, nothing that the operation relies on is known."""
        foreseen, shapes = self.session.in_flight.foreseen, self.session.shapes
        assert foreseen is not None
        shapes.forget_since(facts)
        self.session.checks.forget()
        with self.session.recording():
            return foreseen.sizes(func, args, kwargs)

    def _check_learned(self, func: Any) -> None:
        """Record the checks of sizes that the real kernel has shown; those of torch's own operators follow from the operands."""
        if self._learned is not None and func.namespace != "aten":
            self._learned.check(self.session)

    def _run(self, func: Any, args: Any, kwargs: Any) -> Any:
        result = shapes_of_results.of_recurrent(func, args, kwargs)
        for known in (shapes_of_results.of_attention, shapes_of_results.of_contraction, shapes_of_results.of_checked):
            result = known(self.session, func, args, kwargs) if result is None else result
        self._learned = None
        if result is not None:
            return result
        outer, self.is_running = self.is_running, True
        func, kwargs = _without_generator(func, kwargs)
        try:
            return self._with_all_items(func, args, sparse_parts.unchecked(func, args)(*args, **kwargs))
        except (AssertionError, UnsupportedOperatorException, RuntimeError, ValueError, IndexError, TypeError) as error:
            of_numbers = of_any_number(func, args, kwargs, error, bool(self.session.in_flight.pending))
            if of_numbers is not NotImplemented:
                return of_numbers
            if not is_stale(error):  # of operands that are made up none is a view
                self._learned = learned(self.session, func, args, kwargs, error)
            if self._learned is not None:
                return self._learned.result
            return self._refuse(func, args, kwargs, error)
        finally:
            self.is_running = outer

    def _with_all_items(self, func: Any, args: Any, result: Any) -> Any:
        """Return the result of an operation; a part of a sparse tensor has as many items as only the program knows."""
        dim = sparse_parts.open_dimension(func, args[0] if args else None)
        if dim is None:
            return result
        sizes = list(result.shape)
        sizes[dim] = self.session.shapes.fresh_int(size=True)
        part = result.new_empty(sizes)
        return part.requires_grad_().clone() if result.requires_grad else part

    def _refuse(self, func: Any, args: Any, kwargs: Any, error: Exception) -> Any:
        """Raise what eager raises for an operation, or why it cannot be captured; return the result if only autograd refuses."""
        try:
            raise error
        except AssertionError:  # of torch's Python code for abstract values; the operations themselves raise no such
            raise of_eager(func, args, kwargs, RuntimeError(*error.args)) from None
        except UnsupportedOperatorException:
            raise without_abstract(func) from None
        except (RuntimeError, ValueError, IndexError, TypeError):
            if not self._stale_views.may_pass(error, (args, kwargs), self.session.builder):
                raise of_eager(func, args, kwargs, error) from None
            if self.session.in_flight.pending:
                raise CaptureError(
                    "torch may refuse a view here, which some ways to here make stale, and a try or with statement would see it",
                    self.session.here(),
                    seen=str(error),
                    fix="use the view before the tensor is modified, or modify a clone of it",
                ) from None
            self.session.in_flight.before_raise()
            self.session.traits.graph_is_partial = self.session.traits.has_lost_graph = True
            return without_autograd(func, args, kwargs)

    def _check_overlap(self, func: Any, args: Any) -> None:
        message = refused_overlap(func, args)
        if message is not None:
            self.session.traits.asks_strides = True  # it is so for arguments that lie in memory as these do
            raise RuntimeError(message)

    def _abstract(self, tensor: torch.Tensor) -> torch.Tensor:
        if not isinstance(tensor, FakeTensor):
            return self.session.outside.adopt(tensor)
        for memo in _MEMOS:  # an in-place change inside a block that runs again makes what was remembered wrong
            setattr(tensor, memo, None)
        return tensor

    def _check_result(self, tensor: FakeTensor) -> FakeTensor:
        if tensor.layout == torch.strided:  # sparse ones live inside of a program
            self.session.outside.check_kind(tensor)
        tensor.constant = None  # the value known at capture is not the value of a later iteration or call
        return tensor

    def __sym_dispatch__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Arithmetic on symbolic numbers: recorded where floats take part."""
        target = _TARGETS.get(func, func)
        float_result = target in (operator.truediv, scalars.to_float) or getattr(target, "__module__", "") == "math"
        if not float_result and not any(isinstance(a, (float, torch.SymFloat)) for a in args):
            _check_number(self.session, target, args)
            return func(*args, **kwargs)
        return record_number(self.session, target, args, "bool" if target in _COMPARISONS else _result_kind(target, args))


def _has_numbers(args: Any, kwargs: Any) -> bool:
    """Tell whether an operand is, or has, a number of the program: torch, which keeps results, would ask whether that is 1."""

    def is_symbolic(leaf: Any) -> bool:
        return leaf._has_symbolic_sizes_strides if isinstance(leaf, torch.Tensor) else isinstance(leaf, SYMBOLIC_NUMBERS)

    return any(map(is_symbolic, tree_leaves((args, kwargs))))


def _is_written(argument: Any) -> bool:
    """Tell whether an operator writes to an argument, as its schema says."""
    return argument.alias_info is not None and argument.alias_info.is_write


def _written_sizes(func: Any, args: Any) -> frozenset[Any]:
    """Return the sizes that only the program knows of what an operation writes."""
    if not func._schema.is_mutable or not args or not isinstance(args[0], torch.Tensor):
        return frozenset()
    sizes: Sequence[Any] = args[0].shape
    return frozenset(size.node.expr for size in sizes if isinstance(size, torch.SymInt))


def _without_generator(func: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """Return an operator that draws numbers as torch has it for abstract values: in Python, where nothing is drawn."""
    if "generator" not in kwargs:  # an overload that takes one does so where ``None`` is given, too
        return func, kwargs
    name = func._schema.overload_name
    if not name.endswith("generator"):
        return func, {**kwargs, "generator": None}
    return getattr(func.overloadpacket, name.removesuffix("generator").rstrip("_") or "default"), {
        name: value for name, value in kwargs.items() if name != "generator"
    }


def _can_be_attempted(func: Any, args: Any, result: Any) -> bool:
    """Tell whether an operation of torch gives tensors alone, and writes none but its first operand."""
    results = result if isinstance(result, (tuple, list)) else (result,)
    in_place = bool(args) and result is args[0]
    only_tensors = func.namespace == "aten" and all(isinstance(one, torch.Tensor) for one in results)
    return only_tensors and (in_place or not func._schema.is_mutable)


def _result_kind(target: Any, args: Any) -> str:
    if target in (math.ceil, math.floor, math.trunc, scalars.to_int) or (target is round and len(args) == 1):
        return "int"
    return "bool" if target is scalars.logical_not else "float"


def record_number(session: Capturing, target: Callable[..., Any], args: tuple[Any, ...], kind: str) -> Any:
    """Record a function of numbers (or of a tensor with one element) and give a new symbolic number for its result.

    Args:
        target: one of :data:`dy2st_runtime.primitives.scalars.TARGETS`.
        args: numbers, symbolic numbers, tensors.
        kind: ``"int"``, ``"float"`` or ``"bool"``, the type of the result.
    """
    known = _compared(session, target, args) if target in _COMPARISONS else None
    if known is not None:
        return known
    _check_number(session, target, args)
    number = fresh_number(session.shapes, kind)
    key = _comparison(target, args)
    if key is not None:
        session.shapes.compared[key] = number
    if target is scalars.to_int and isinstance(args[0], torch.SymBool):
        session.shapes.one_of(number, 0, 1)
    session.builder.call(target, tuple(args), {}, number)
    return number


def _compared(session: Capturing, target: Any, args: tuple[Any, ...]) -> Any:
    """Return what floats have been compared to before, or a constant where the block that is recorded tells; else ``None``."""
    opposite = {operator.eq: operator.ne, operator.ne: operator.eq}.get(target)
    other = None if opposite is None else _kept(session, opposite, args)
    answer = None if other is None else session.shapes.known(other)
    if answer is not None:
        return not answer
    return _kept(session, target, args)


def _kept(session: Capturing, target: Any, args: tuple[Any, ...]) -> Any:
    key = _comparison(target, args)
    number = None if key is None else session.shapes.compared.get(key)
    return number if number is not None and session.builder.node_of_number(number.node.expr) is not None else None


def _comparison(target: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return what tells a comparison of a float with a number from others; ``None`` for what is something else."""
    kinds = {type(arg) for arg in args}
    if target not in _COMPARISONS or torch.SymFloat not in kinds or not kinds <= {torch.SymFloat, int, float, bool}:
        return None
    return target, *(arg.node.expr if isinstance(arg, torch.SymFloat) else (type(arg), repr(arg)) for arg in args)


def _check_number(session: Capturing, target: Any, args: Any) -> None:
    """Test whether a function of numbers fails, where the user's code would catch that, or refuse it."""
    if session.in_flight.pending:
        failing.check_number(session, target, args)
        if session.in_flight.foreseen is not None:
            session.in_flight.foreseen.number(target, args)


def fresh_number(shapes: CaptureShapes, kind: str) -> Any:
    """Return a new symbolic number."""
    return {"int": shapes.fresh_int, "float": shapes.fresh_float, "bool": shapes.fresh_bool}[kind]()
