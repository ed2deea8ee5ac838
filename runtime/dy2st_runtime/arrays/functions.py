"""Which functions of NumPy a program may call, by name: they compute, give new arrays, and act on nothing else.

Functions that give views are not among them: views are operations on the tensor. A method is called by the name ``ndarray.sum``,
an operator by ``operator.add``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_OF_NUMPY = _words(
    """
all allclose amax amin angle any append arange argmax argmin argpartition argsort argwhere around array array_equal
array_equiv average bartlett bincount blackman block bmat choose clip column_stack compress concatenate concat convolve copy
corrcoef correlate count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum delete diag diag_indices diff digitize
dot dsplit dstack ediff1d einsum empty empty_like extract eye fix flatnonzero full full_like geomspace gradient hamming
hanning histogram histogram2d histogram_bin_edges histogramdd hstack hypot i0 identity imag in1d indices inner insert interp
intersect1d isclose isin iscomplex iscomplexobj isneginf isposinf isreal isrealobj isscalar kaiser kron lexsort linspace
logspace max mean median meshgrid min nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin
nanpercentile nanprod nanquantile nanstd nansum nanvar nonzero ones ones_like outer packbits pad partition percentile
permute_dims poly polyadd polyder polyfit polyint polymul polyval prod product ptp quantile ravel_multi_index real_if_close
repeat resize roll roots round round_ row_stack searchsorted select setdiff1d setxor1d sinc sort sort_complex stack std sum
take take_along_axis tensordot tile trace trapezoid trapz tri tril tril_indices tril_indices_from trim_zeros triu
triu_indices triu_indices_from union1d unique unique_counts unique_inverse unique_values unpackbits unravel_index unwrap
vander var vdot vstack where zeros zeros_like
"""
)
_OF_ROOMS = {
    "linalg": "cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power matrix_rank multi_dot norm pinv qr "
    "slogdet solve svd svdvals tensorinv tensorsolve vector_norm",
    "fft": "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn",
}
METHODS = _words(
    """
all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod cumsum dot flatten item
max mean min nonzero prod ptp repeat round searchsorted std sum take tolist trace var is_integer as_integer_ratio bit_count
bit_length __getitem__ __contains__ __float__ __int__ __complex__ __bool__ __index__ __round__ __trunc__ __floor__ __ceil__
"""
)
"""Methods of arrays and of NumPy's numbers that give something new."""
WRITING_METHODS = ("fill", "partition", "put", "sort")
"""Methods of arrays that change them, and give nothing."""
WRITING_FUNCTIONS = ("copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask")
"""Functions of NumPy that change their first argument, and give nothing."""
DRAWING = _words(
    """
random random_sample rand randn uniform normal standard_normal exponential standard_exponential beta gamma laplace lognormal
triangular randint poisson binomial geometric choice permutation
"""
)
"""Functions of ``np.random`` that draw of NumPy's own generator."""
OPERATORS = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lshift", "rshift", "neg", "pos",
    "abs", "invert", "lt", "le", "eq", "ne", "ge", "gt",
)  # fmt: skip
IN_PLACE = ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "ilshift", "irshift", "imatmul")
_KINDS = _words(
    """
bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 intc uintc intp uintp longlong ulonglong half single double float16
float32 float64 csingle cdouble complex64 complex128
"""
)
"""Classes of NumPy's numbers, which make one of another number."""


def _method(name: str) -> Callable[..., Any]:
    return lambda owner, *args, **kwargs: getattr(owner, name)(*args, **kwargs)


def _set_item(target: Any, key: Any, value: Any) -> None:
    target[key] = value


def _into(ufunc: Any, target: Any, *args: Any, **kwargs: Any) -> None:
    ufunc(*args, out=target, **kwargs)


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """Return what a program may call, by name, of the NumPy that is installed."""
    ufuncs = [function for function in vars(np).values() if isinstance(function, np.ufunc)]
    results: dict[str, Any] = {function.__name__: function for function in ufuncs}
    for function in ufuncs:
        if function.nin == 2 and function.nout == 1 and function.signature is None:
            results |= {f"{function.__name__}.{name}": getattr(function, name) for name in ("reduce", "accumulate", "outer")}
    results |= {name: getattr(np, name) for name in _OF_NUMPY + _KINDS if name in vars(np)}
    for room, names in _OF_ROOMS.items():
        module = getattr(np, room)
        results |= {f"{room}.{name}": getattr(module, name) for name in names.split() if hasattr(module, name)}
    results |= {f"ndarray.{name}": _method(name) for name in METHODS}
    results |= {f"operator.{name}": getattr(operator, name) for name in OPERATORS}
    return results | {"divmod": divmod}


@functools.cache
def writing_functions() -> dict[str, Callable[..., Any]]:
    """Return what a program may have change an array, by name."""
    results: dict[str, Any] = {name: getattr(np, name) for name in WRITING_FUNCTIONS if name in vars(np)}
    results |= {f"ndarray.{name}": _method(name) for name in WRITING_METHODS}
    results |= {f"operator.{name}": getattr(operator, name) for name in IN_PLACE}
    for function in vars(np).values():
        if isinstance(function, np.ufunc) and function.nout == 1:
            results[f"{function.__name__}(out)"] = functools.partial(_into, function)
            results[f"{function.__name__}.at"] = function.at
    return results | {"operator.setitem": _set_item}


@functools.cache
def drawing_functions() -> dict[str, Callable[..., Any]]:
    """Return what a program may draw with, by name."""
    return {f"random.{name}": getattr(np.random, name) for name in DRAWING}


@functools.cache
def names() -> dict[Any, str]:
    """Return the names of NumPy's own functions, of which aliases have one."""
    named = {name: function for name, function in functions().items() if not name.startswith(("ndarray.", "operator."))}
    return {function: name for name, function in named.items() if isinstance(function, Hashable)}
