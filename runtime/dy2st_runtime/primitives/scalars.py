"""Functions on Python numbers and strings that a program may call, by the name an archive gives them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from dy2st_runtime.primitives import text


def to_int(value: Any) -> int:
    """Return ``int(value)`` of a number or of a tensor with one element."""
    return int(value)


def to_float(value: Any) -> float:
    """Return ``float(value)`` of a number or of a tensor with one element."""
    return float(value)


def to_bool(value: Any) -> bool:
    """Return the truth value of a number, or of a tensor with one element."""
    return bool(value)


def same_size(value: int, expected: int) -> bool:
    """Tell whether a size is what the capture took it to be."""
    return value == expected


def logical_not(value: Any) -> bool:
    """Return ``not value``."""
    return not value


def logical_and(*values: Any) -> bool:
    """Tell whether all are true; every value is already computed."""
    return all(values)


def logical_or(*values: Any) -> bool:
    """Tell whether any is true; every value is already computed."""
    return any(values)


def minimum(*values: Any) -> Any:
    """Return ``min`` of numbers."""
    return min(values)


def maximum(*values: Any) -> Any:
    """Return ``max`` of numbers."""
    return max(values)


def where(condition: Any, if_true: Any, if_false: Any) -> Any:
    """Return one of two numbers."""
    return if_true if condition else if_false


def is_close(a: float, b: float, rel_tol: float, abs_tol: float) -> bool:
    """Return ``math.isclose``."""
    return math.isclose(a, b, rel_tol=rel_tol, abs_tol=abs_tol)


def mantissa(value: float) -> float:
    """Return the first of what ``math.frexp`` gives."""
    return math.frexp(value)[0]


def exponent(value: float) -> int:
    """Return the second of what ``math.frexp`` gives."""
    return math.frexp(value)[1]


def fractional_part(value: float) -> float:
    """Return the first of what ``math.modf`` gives."""
    return math.modf(value)[0]


def whole_part(value: float) -> float:
    """Return the second of what ``math.modf`` gives."""
    return math.modf(value)[1]


def exact_sum(values: Iterable[float]) -> float:
    """Return ``math.fsum``."""
    return math.fsum(values)


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Return ``math.dist``."""
    return math.dist(one, other)


def statistic(name: str, values: Sequence[float]) -> float:
    """Return what a function of ``statistics`` gives of floats."""
    import statistics  # imported only when used

    result: float = getattr(statistics, name)(values)
    return result


_OF_COMPLEX: dict[str, Callable[..., Any]] = {
    "abs": lambda a, b: abs(complex(a, b)),
    "truediv": lambda a, b, c, d: complex(a, b) / complex(c, d),
    "pow": lambda a, b, c, d: complex(a, b) ** complex(c, d),
}


def complex_number(name: str, *parts: float) -> Any:
    """Return what Python's operators and ``cmath`` give of complex numbers.

    Args:
        name: of the operator or function; ``.real`` or ``.imag`` after it asks for that part of a complex result.
        parts: the real and imaginary parts of the operands, one after the other; those of ``rect`` are its arguments.

    Example:
        >>> complex_number("truediv.imag", 1.0, 0.0, 0.0, 1.0)
        -1.0
    """
    import cmath  # imported only when used

    name, _, part = name.partition(".")
    if name in _OF_COMPLEX:
        result = _OF_COMPLEX[name](*parts)
    elif name == "rect":
        result = cmath.rect(*parts)
    else:
        result = getattr(cmath, name)(complex(*parts[:2]), *([complex(*parts[2:])] if len(parts) > 2 else []))
    return getattr(result, part) if part else result


def range_length(start: int, stop: int, step: int) -> int:
    """Return the number of items of ``range(start, stop, step)``."""
    return len(range(start, stop, step))


def is_conj(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is lazily conjugated: the operator of that name conjugates it first where autograd is skipped."""
    return tensor.is_conj()


def is_neg(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor is lazily negated."""
    return tensor.is_neg()


def size_of(*sizes: int) -> torch.Size:
    """Return a ``torch.Size``."""
    return torch.Size(sizes)


def _table() -> dict[str, Callable[..., Any]]:
    own = (
        to_int, to_float, to_bool, same_size, logical_not, logical_and, logical_or, minimum, maximum, where, range_length, size_of,
        is_conj, is_neg, is_close, mantissa, exponent, fractional_part, whole_part, exact_sum, distance, statistic, complex_number,
    )  # fmt: skip
    operators = (
        "add sub mul truediv floordiv mod pow neg pos abs invert and_ or_ xor lshift rshift eq ne lt le gt ge getitem is_ not_"
    )
    maths = (
        "sqrt exp log log2 log10 log1p expm1 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf erfc gamma "
        "floor ceil trunc isnan isinf isfinite pow fmod copysign hypot degrees radians gcd lcm isclose isqrt "
        "lgamma comb perm factorial remainder fabs ldexp ulp nextafter cbrt exp2"
    )
    table: dict[str, Callable[..., Any]] = {f"scalar.{f.__name__}": f for f in own}
    table |= {f"operator.{name}": getattr(operator, name) for name in operators.split()}
    table |= {f"math.{name}": getattr(math, name) for name in maths.split() if hasattr(math, name)}  # some are new in Python 3.11
    table |= {"round": round, "divmod": divmod, "pow": pow, "sym_size": torch.ops.aten.sym_size.int}
    table |= {f"int.{name}": getattr(int, name) for name in ("bit_length", "bit_count")}
    table["slice"] = slice
    return table | text.TARGETS


TARGETS = _table()
"""Every scalar function by name; archives rely on the names."""

NAMES = {function: name for name, function in TARGETS.items()}
"""The inverse of :data:`TARGETS`."""
