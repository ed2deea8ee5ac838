"""Operations that fail by what their arguments hold, in a ``try`` statement that catches that: the program looks first.

    try:                                       →   factor, info = torch.linalg.cholesky_ex(a)
        factor = torch.linalg.cholesky(a)          if (info == 0).all():
    except torch.linalg.LinAlgError as error:          …
        …                                          else: raise torch.linalg.LinAlgError(…)

What such an operation raises is then an exception that a tensor decides, like any other. Its words are those of the operation
itself: it is made to fail once while the function is captured, with numbers in it that are looked for in what it says.

Where nothing tells beforehand, the program attempts the operation, which then gives the number of the exception that it has raised,
and its text, besides its results (see :mod:`dy2st_runtime.primitives.transforms`).
"""

from __future__ import annotations

import contextlib
import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st.capture.branching.branch import capture_if
from dy2st.capture.library import foreseen_errors
from dy2st.capture.looping.truth import condition, logical_not
from dy2st.capture.operands.refused_sizes import OF_SIZES
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording import failing
from dy2st.capture.recording.block import align_operands
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.values.symbolic import MAY_BE_ABSENT
from dy2st.capture.values.texts import RuntimeString, Text
from dy2st.errors import CaptureError
from dy2st_runtime.ir.operators import present
from dy2st_runtime.primitives import control
from dy2st_runtime.primitives.transforms import EXCEPTIONS

_aten = torch.ops.aten
_LAPACK = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # an alias

Kinds = Sequence[type[Exception]]


class Foreseen:
    """What a capture does for an operation that may fail when the program runs.

    Attributes:
        session: the capture.
    """

    def __init__(self, session: Session) -> None:
        self.session = session

    def operation(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Test whether an operation of torch fails.

        Returns:
            Its result, if the test has given that; ``NotImplemented`` if it is still to be recorded.
        """
        rule = _OPERATIONS.get(func)
        if rule is None:
            if func._schema.is_mutable and func.overloadpacket in _PACKETS:
                name = func.overloadpacket.__name__
                failing.refuse(self.session, _LinAlgError(), name, f"call {name} without out=, and copy what it gives")
            return NotImplemented
        with self.session.recording():
            return rule(self, *args, **kwargs)

    def sizes(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Test whether an operation fails whose sizes may not fit: its result where they do."""
        return _attempted(self, OF_SIZES, func, args, kwargs)

    def number(self, target: Any, args: Sequence[Any]) -> None:
        """Test whether a function of numbers fails."""
        rules = _NUMBERS.get(target, ())
        if not any(isinstance(arg, _SYMBOLIC) for arg in args):
            return
        for kind, holds in rules:
            if self.is_caught(kind):
                with self.session.recording():
                    self.test(holds(*args), functools.partial(foreseen_errors.of_number, target, args))

    def subscript(self) -> int | None:
        """Return the part of the user's subscript that an item's number stands in."""
        location = self.session.position.locate()
        return None if location is None else location.subscript

    def is_caught(self, kind: type[Exception]) -> bool:
        """Tell whether the code is in a ``try`` statement that is for exceptions of a kind."""
        return any(step.catches(kind()) for step in self.session.in_flight.pending)

    def is_seen(self, kind: type[Exception]) -> bool:
        """Tell the same, or whether a ``finally`` clause or a context manager of the user's sees them."""
        return any(step.sees(kind()) for step in self.session.in_flight.pending)

    def is_named(self, kind: type[Exception]) -> bool:
        """Tell whether a clause of it names exceptions of a kind, and is for more than ``Exception``."""
        return any(step.catches(kind()) and not step.catches(Exception()) for step in self.session.in_flight.pending)

    def check_dtype(self, act: Callable[[], Any], tensor: torch.Tensor) -> None:
        """Raise what an operation does for any tensor of its dtype on its device, which abstract values may not tell."""
        if tensor.dtype in _LAPACK or tensor.device.type == "meta":
            return
        with _disable_current_modes():
            try:
                act()
                return
            except Exception as error:
                refused = error
        raise raised(refused.with_traceback(None))

    def test(self, holds: Any, error: Callable[[], Exception]) -> None:
        """Go on where an operation does not fail.

        Args:
            holds: whether that is so.
            error: what it raises otherwise.
        """
        holds = condition(holds)
        if holds is True:
            return

        if self.session.in_flight.in_batch or torch._C._functorch.peek_interpreter_stack() is not None:
            raise CaptureError(
                "a try statement inside of torch.func.vmap is for what an operation raises for one item of the batch",
                self.session.here(),
                fix="put the try statement around vmap",
            )

        def fail() -> None:
            with self.alone():
                failure = error()
            raise raised(failure)

        if holds is False:
            fail()
        capture_if(holds, _go_on, fail, ())

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Open a scope in which nobody catches anything: what it records does not fail, or its failure is known."""
        in_flight = self.session.in_flight
        pending, in_flight.pending = in_flight.pending, []
        try:
            yield
        finally:
            in_flight.pending = pending


def _go_on() -> None:
    """Take the way of an operation that does not fail."""


_OPERATIONS: dict[Any, Callable[..., Any]] = {}
_NUMBERS: dict[Any, tuple[tuple[type[Exception], Callable[..., Any]], ...]] = {}

# -- linear algebra --------------------------------------------------------------------------------------------------------


def _factorized(operation: Any, checked: Any, name: str) -> None:
    """Have an operation fail by what another one tells, which gives the same and does not fail.

    Args:
        operation, checked: the two.
        name: how the operation calls itself.
    """

    def rule(foreseen: Foreseen, *args: Any, **kwargs: Any) -> Any:
        if not foreseen.is_seen(_LinAlgError):
            return NotImplemented
        matrix = args[0]
        foreseen.check_dtype(lambda: operation(_eye_like(matrix), *map(_eye_like, args[1:]), **kwargs), matrix)
        *results, info = checked(*args, **kwargs)
        foreseen.test((info == 0).all(), functools.partial(foreseen_errors.of_info, name, info))
        return tuple(results) if len(results) > 1 else results[0]

    def rule_of_checked(foreseen: Foreseen, *args: Any, check_errors: bool = False, **kwargs: Any) -> Any:
        if not check_errors or not foreseen.is_seen(_LinAlgError):
            return NotImplemented
        *results, info = checked(*args, **kwargs)
        foreseen.test((info == 0).all(), functools.partial(foreseen_errors.of_info, f"{name}_ex", info))
        return (*results, info)

    _OPERATIONS[operation] = rule
    _OPERATIONS[checked] = rule_of_checked


def _eye_like(matrix: torch.Tensor) -> torch.Tensor:
    return torch.eye(1, dtype=matrix.dtype, device=matrix.device)


for _operation, _checked, _name in (
    (_aten.linalg_cholesky, _aten.linalg_cholesky_ex, "linalg.cholesky"),
    (_aten.linalg_inv, _aten.linalg_inv_ex, "linalg.inv"),
    (_aten.inverse, _aten.linalg_inv_ex, "linalg.inv"),
    (_aten.linalg_solve, _aten.linalg_solve_ex, "torch.linalg.solve"),
    (_aten.linalg_lu_factor, _aten.linalg_lu_factor_ex, "torch.linalg.lu_factor"),
    (_aten.linalg_ldl_factor, _aten.linalg_ldl_factor_ex, "torch.linalg.ldl_factor"),
):
    _factorized(_operation.default, _checked.default, _name)


def _cholesky(foreseen: Foreseen, matrix: torch.Tensor, upper: bool = False) -> Any:
    """Look at what the newer operation tells; the gradient of this one is computed in another way."""
    if foreseen.is_seen(_LinAlgError):
        info = torch.linalg.cholesky_ex(matrix.detach(), upper=upper).info
        foreseen.test((info == 0).all(), functools.partial(foreseen_errors.of_info, "cholesky", info))
    return NotImplemented


_OPERATIONS |= dict.fromkeys(present("cholesky.default"), _cholesky)
# -- items of tensors ------------------------------------------------------------------------------------------------------


def _select(foreseen: Foreseen, tensor: torch.Tensor, dim: int, index: Any) -> Any:
    """Test whether there is an item with a number."""
    size = tensor.shape[dim] if -tensor.dim() <= dim < tensor.dim() else 0
    if foreseen.is_caught(IndexError) and (isinstance(index, torch.SymInt) or isinstance(size, torch.SymInt)):
        error = functools.partial(foreseen_errors.of_item, foreseen.subscript(), tensor.shape, dim % tensor.dim(), index)
        foreseen.test(index < size, error)
        foreseen.test(index >= -size, error)
    return NotImplemented


_OPERATIONS[_aten.select.int] = _select

# -- any other operation ---------------------------------------------------------------------------------------------------


def _attempted(foreseen: Foreseen, kinds: Kinds, function: Any, args: Any, kwargs: Any) -> Any:
    """Have the program run an operation and tell whether it has failed; its result where it has not."""
    kinds = [kind for kind in kinds if foreseen.is_caught(kind)]
    if not kinds:
        return NotImplemented
    session = foreseen.session
    with foreseen.alone(), session.checks.held() as emit, session.blocks.nested(()) as region:
        result = function(*args, **kwargs)
        session.checks.emit()
        builder, learned = region.builder, session.shapes.learned_since(region.facts)
    outside = session.shapes.facts()
    in_place = bool(args) and result is args[0]
    results: Sequence[Any] = () if in_place else tuple(result) if isinstance(result, (tuple, list)) else (result,)
    block = builder.finish(tuple(results))
    like = tuple((one.dtype, one.dim()) for one in results)
    names = tuple(_NAMES[kind] for kind in kinds)
    failure, said = fresh_number(session.shapes, "int"), RuntimeString()
    node = session.builder.call_raw(
        control.transform_, ("attempt", block, (), align_operands(builder)), {"kinds": names, "like": like}
    )  # fmt: skip
    for one in results:
        setattr(one, MAY_BE_ABSENT, True)
    session.builder.bind((failure, said, *results), node)
    for number, kind in enumerate(kinds, 1):
        foreseen.test(failure != number, functools.partial(kind, Text.of(said)))
    session.shapes.forget_since(outside)
    session.shapes.learn_again(learned)  # where it has not failed, its sizes fit
    with foreseen.alone():
        emit()
    return result


_NAMES = {kind: name for name, kind in EXCEPTIONS.items()}


def _attempts(rule: Callable[..., Any], kinds: Kinds, *names: str) -> None:
    """Have a rule for the overloads of operations, also for those that write their first operand; eager leaves half of that."""
    for name in names:
        packet = getattr(_aten, name)
        for overload in packet.overloads():
            in_place = getattr(getattr(_aten, f"{name}_", None), overload, None)
            functions = [in_place] if getattr(packet, overload)._schema.is_mutable else [getattr(packet, overload), in_place]
            for function in functions:
                if function is not None:
                    _OPERATIONS[function] = functools.partial(rule, kinds, function)


def _attempt(kinds: Kinds, function: Any, foreseen: Foreseen, *args: Any, **kwargs: Any) -> Any:
    return _attempted(foreseen, kinds, function, args, kwargs)


def _at(kinds: Kinds, function: Any, foreseen: Foreseen, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    """Attempt an operation at indices, where a clause is for what it raises: most ``except Exception`` are for something else."""
    if tensor.device.type != "cpu":
        return NotImplemented  # others end the process
    kinds = [kind for kind in kinds if foreseen.is_named(kind)]
    return _attempted(foreseen, kinds, function, (tensor, *args), kwargs)


def _subscripted(
    kinds: Kinds,
    function: Any,
    foreseen: Foreseen,
    tensor: torch.Tensor,
    indices: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Attempt the same unless there is nothing but masks, which fit."""
    if all(index is None or index.dtype in _MASKS for index in indices):
        return NotImplemented
    return _at(kinds, function, foreseen, tensor, indices, *args, **kwargs)


def _divided(kinds: Kinds, function: Any, foreseen: Foreseen, *args: Any, **kwargs: Any) -> Any:
    """Attempt a division of integers."""
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    if not isinstance(args[1], torch.Tensor) or any(one.dtype.is_floating_point or one.dtype.is_complex for one in tensors):
        return NotImplemented
    return _attempted(foreseen, kinds, function, args, kwargs)


_MASKS = (torch.bool, torch.uint8)
_attempts(
    _attempt, (_LinAlgError, RuntimeError), "linalg_eigh", "linalg_eig", "linalg_eigvalsh", "linalg_eigvals", "linalg_svd",
    "linalg_svdvals", "linalg_lstsq", "linalg_tensorinv", "linalg_tensorsolve", "linalg_pinv", "linalg_matrix_power",
    "linalg_matrix_rank", "linalg_cond", "cholesky_inverse", "svd",
)  # fmt: skip
_attempts(_attempt, (RuntimeError,), "multinomial", "normal", "poisson", "binary_cross_entropy")
_attempts(_subscripted, (IndexError, RuntimeError), "index", "index_put")
_attempts(
    _at, (IndexError, RuntimeError), "gather", "scatter", "scatter_add", "index_select", "index_add", "index_copy", "index_fill",
    "take", "embedding", "nll_loss", "nll_loss_nd", "cross_entropy_loss", "one_hot", "bincount", "repeat_interleave",
)  # fmt: skip
_attempts(_divided, (RuntimeError,), "floor_divide", "div", "remainder", "fmod")

# -- numbers ---------------------------------------------------------------------------------------------------------------


def _is_divisor(*args: Any) -> Any:
    return args[-1] != 0


for _target in (operator.truediv, operator.floordiv, operator.mod):
    _NUMBERS[_target] = ((ZeroDivisionError, _is_divisor),)


def _defined(sample: float, functions: Sequence[Any], *holds: Callable[[Any], Any]) -> None:
    for function in functions:
        foreseen_errors.SAMPLES[function] = sample
        _NUMBERS[function] = tuple((ValueError, lambda number, *rest, one=one: one(number)) for one in holds)


_defined(-7919.5, [math.sqrt], lambda number: logical_not(number < 0))  # which NaN is not
_defined(-7919.5, [math.log, math.log2, math.log10], lambda number: logical_not(number <= 0))
_defined(-7919.5, [math.log1p], lambda number: logical_not(number <= -1))
_defined(7919.5, [math.acos, math.asin], lambda number: logical_not(number > 1), lambda number: logical_not(number < -1))
_defined(-7919.5, [math.acosh], lambda number: logical_not(number < 1))
_defined(7919.5, [math.atanh], lambda number: logical_not(number >= 1), lambda number: logical_not(number <= -1))

_PACKETS = frozenset(operation.overloadpacket for operation in _OPERATIONS if not operation.overloadpacket.__name__.endswith("_ex"))
