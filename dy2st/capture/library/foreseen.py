"""Operations that fail by what their arguments hold, in a ``try`` statement that catches that: the program looks first.

    try:                                       →   factor, info = torch.linalg.cholesky_ex(a)
        factor = torch.linalg.cholesky(a)          if (info == 0).all():
    except torch.linalg.LinAlgError as error:          …
        …                                          else: raise torch.linalg.LinAlgError(…)

What such an operation raises is then an exception that a tensor decides, like any other. Its words are those of the operation
itself: it is made to fail once while the function is captured, with numbers in it that are looked for in what it says.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st.capture.branching.branch import capture_if
from dy2st.capture.looping.truth import condition, logical_not
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text
from dy2st.capture.values.kinds import number_kind

_aten = torch.ops.aten
_LAPACK = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_LinAlgError = torch.linalg.LinAlgError  # type: ignore[attr-defined]  # an alias


class Foreseen:
    """What a capture does for an operation that may fail when the program runs.

    Args:
        session: the capture.
    """

    def __init__(self, session: Session) -> None:
        self._session = session

    def operation(self, func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Test whether an operation of torch fails.

        Returns:
            Its result, if the test has given that; ``NotImplemented`` if it is still to be recorded.
        """
        rule = _OPERATIONS.get(func)
        if rule is None:
            return NotImplemented
        with self._session.recording():
            return rule(self, *args, **kwargs)

    def number(self, target: Any, args: Sequence[Any]) -> None:
        """Test whether a function of numbers fails."""
        rules = _NUMBERS.get(target, ())
        if not any(isinstance(arg, _SYMBOLIC) for arg in args):
            return
        for kind, holds in rules:
            if self.is_caught(kind):
                with self._session.recording():
                    self.test(holds(*args), functools.partial(_of_number, target, args))

    def subscript(self) -> int | None:
        """Return the part of the user's subscript that an item's number stands in."""
        location = self._session.position.locate()
        return None if location is None else location.subscript

    def is_caught(self, kind: type[Exception]) -> bool:
        """Tell whether the code is in a ``try`` statement that is for exceptions of a kind."""
        return any(step.catches(kind()) for step in self._session.in_flight.pending)

    def check_dtype(self, act: Callable[[], Any], tensor: torch.Tensor) -> None:
        """Raise what an operation does for any tensor on the CPU of its dtype, which abstract values may not tell."""
        if tensor.dtype in _LAPACK or tensor.device.type != "cpu":
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

        def fail() -> None:
            raise raised(self._asked(error))

        if holds is False:
            fail()
        capture_if(holds, _go_on, fail, ())

    def _asked(self, error: Callable[[], Exception]) -> Exception:
        """Return an exception whose words are put together with operations that do not fail."""
        in_flight = self._session.in_flight
        pending, in_flight.pending = in_flight.pending, []
        try:
            return error()
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
        if not foreseen.is_caught(_LinAlgError):
            return NotImplemented
        matrix = args[0]
        foreseen.check_dtype(lambda: operation(_eye_like(matrix), *map(_eye_like, args[1:]), **kwargs), matrix)
        *results, info = checked(*args, **kwargs)
        foreseen.test((info == 0).all(), functools.partial(_of_info, name, info))
        return tuple(results) if len(results) > 1 else results[0]

    _OPERATIONS[operation] = rule


def _eye_like(matrix: torch.Tensor) -> torch.Tensor:
    return torch.eye(1, dtype=matrix.dtype)


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
    if foreseen.is_caught(_LinAlgError):
        info = torch.linalg.cholesky_ex(matrix.detach(), upper=upper).info
        foreseen.test((info == 0).all(), functools.partial(_of_info, "cholesky", info))
    return NotImplemented


_OPERATIONS[_aten.cholesky.default] = _cholesky
_POSITION, _ORDER = 1009, 7919


def _of_info(name: str, info: torch.Tensor) -> Exception:
    """Return what an operation raises for the first matrix of a batch that it cannot do its work for."""
    with _disable_current_modes():
        given = torch.zeros(_POSITION + 1, dtype=torch.int32)
        given[-1] = _ORDER
        sample = _raised(lambda: _aten._linalg_check_errors(given if info.dim() else given[-1], name, is_matrix=not info.dim()))
    values = {}
    if info.dim():
        info = info.reshape(-1)
        position = (info != 0).int().argmax()
        values[str(_POSITION)] = position.item()
        info = info.gather(0, position[None])
    values[str(_ORDER)] = info.item()
    return _with_values(sample, values)


def _raised(act: Callable[[], Any]) -> Exception:
    """Return what is raised."""
    try:
        act()
    except Exception as error:
        return error
    raise AssertionError("this was to fail")


def _with_values(sample: Exception, values: dict[str, Any]) -> Exception:
    """Return an exception that says the same as another with other values in it."""
    parts = re.split("|".join(map(re.escape, values)), str(sample)) if values else [str(sample)]
    found = re.findall("|".join(map(re.escape, values)), str(sample)) if values else []
    pieces: list[Any] = [parts[0]]
    for name, part in zip(found, parts[1:]):
        pieces += [(values[name], None, ""), part]
    return type(sample)(text.fstring(*pieces))


# -- items of tensors ------------------------------------------------------------------------------------------------------


def _select(foreseen: Foreseen, tensor: torch.Tensor, dim: int, index: Any) -> Any:
    """Test whether there is an item with a number."""
    size = tensor.shape[dim] if -tensor.dim() <= dim < tensor.dim() else 0
    if foreseen.is_caught(IndexError) and (isinstance(index, torch.SymInt) or isinstance(size, torch.SymInt)):
        error = functools.partial(_of_item, foreseen.subscript(), tensor.shape, dim % tensor.dim(), index)
        foreseen.test(index < size, error)
        foreseen.test(index >= -size, error)
    return NotImplemented


def _of_item(subscript: int | None, sizes: Sequence[Any], dim: int, index: Any) -> Exception:
    number = (index, None, "")
    if subscript is not None:
        where = f" is out of bounds for dimension {subscript} with size "
        return IndexError(text.fstring("index ", number, where, (sizes[dim], None, "")))
    shown = [part for size in sizes for part in (", ", (size, None, ""))][1:]
    where = f"] at dimension {dim}"
    return IndexError(text.fstring("select(): index ", number, " out of range for tensor of size [", *shown, where))


_OPERATIONS[_aten.select.int] = _select

# -- numbers ---------------------------------------------------------------------------------------------------------------


_SAMPLES: dict[Any, float] = {}
"""For functions of a number, one that they are not defined for."""


def _of_number(target: Any, args: Sequence[Any]) -> Exception:
    """Return what a function raises for numbers of the same kinds that it is not defined for."""
    if target in _SAMPLES:
        return _with_values(_raised(lambda: target(_SAMPLES[target], *args[1:])), {repr(_SAMPLES[target]): args[0]})
    kinds = {"int": 1, "float": 1.0, "bool": True}
    samples = [kinds[number_kind(arg)] if isinstance(arg, _SYMBOLIC) else arg for arg in args]
    samples[-1] = type(samples[-1])(0)
    return _raised(lambda: target(*samples))


def _is_divisor(*args: Any) -> Any:
    return args[-1] != 0


for _target in (operator.truediv, operator.floordiv, operator.mod):
    _NUMBERS[_target] = ((ZeroDivisionError, _is_divisor),)


def _defined(sample: float, functions: Sequence[Any], *holds: Callable[[Any], Any]) -> None:
    for function in functions:
        _SAMPLES[function] = sample
        _NUMBERS[function] = tuple((ValueError, lambda number, *rest, one=one: one(number)) for one in holds)


_defined(-7919.5, [math.sqrt], lambda number: logical_not(number < 0))  # which NaN is not
_defined(-7919.5, [math.log, math.log2, math.log10], lambda number: logical_not(number <= 0))
_defined(-7919.5, [math.log1p], lambda number: logical_not(number <= -1))
_defined(7919.5, [math.acos, math.asin], lambda number: logical_not(number > 1), lambda number: logical_not(number < -1))
_defined(-7919.5, [math.acosh], lambda number: logical_not(number < 1))
_defined(7919.5, [math.atanh], lambda number: logical_not(number >= 1), lambda number: logical_not(number <= -1))
