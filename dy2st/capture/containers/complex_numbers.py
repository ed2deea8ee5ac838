"""Complex numbers of the program: two floats, with which it computes what Python computes."""

from __future__ import annotations

import cmath
import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

import torch

from dy2st import errors
from dy2st.capture.recording import failing
from dy2st.capture.session.session import Session, need
from dy2st.capture.values.abstract_objects import AbstractObject
from dy2st.capture.values.kinds import is_number
from dy2st_runtime.primitives import scalars

_OF_TENSORS = {torch.float16: torch.complex32, torch.float32: torch.complex64, torch.float64: torch.complex128}
_GIVE_COMPLEX = "exp log log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh rect"
FUNCTIONS = {
    **dict.fromkeys(_GIVE_COMPLEX.split(), "complex"),
    "phase": "float",
    **dict.fromkeys(("isnan", "isinf", "isfinite"), "bool"),
}
"""The functions of ``cmath`` by name, and what each gives."""


@dataclasses.dataclass(frozen=True, eq=False)
class RuntimeComplex(AbstractObject, example=0j):
    """A complex number that only the program knows; branches and loops join its parts."""

    real: Any
    imag: Any
    __class__ = property(lambda self: complex)  # isinstance() asks for it

    def conjugate(self) -> RuntimeComplex:
        """Return ``self.conjugate()``."""
        return RuntimeComplex(self.real, -self.imag)

    def truth(self) -> Any:
        """Return ``bool(self)``."""
        return need().number(scalars.logical_or, (self.real != 0.0, self.imag != 0.0), "bool")

    def __neg__(self) -> RuntimeComplex:
        return RuntimeComplex(-self.real, -self.imag)

    def __pos__(self) -> RuntimeComplex:
        return self

    def __abs__(self) -> Any:
        return need().number(scalars.complex_number, ("abs", self.real, self.imag), "float")

    def __eq__(self, other: object) -> Any:
        return equal(need(), self, other)

    def __ne__(self, other: object) -> Any:
        result = equal(need(), self, other)
        return not result if isinstance(result, bool) else need().number(scalars.logical_not, (result,), "bool")

    def _refuse(self, *args: Any) -> NoReturn:
        raise errors.CaptureError(
            "a complex number that only the program knows is used by code that was not converted, made text, or is a key",
            need().here(),
            fix="use z.real and z.imag, or a tensor: torch.complex(real, imag)",
        )

    __str__ = __repr__ = __format__ = __hash__ = __bool__ = __complex__ = _refuse


RuntimeComplex.__name__ = "complex"  # Python's errors name a class so


def parts_of(session: Session, value: Any) -> tuple[Any, Any] | None:
    """Return the real and the imaginary part of a number; ``None`` of anything else."""
    if _is_complex(value):
        return value.real, value.imag
    return (session.call(float, value), 0.0) if is_number(value) else None


def made(session: Session, real: Any, *imag: Any) -> RuntimeComplex:
    """Return ``complex(real)``, or ``complex(real, imag)``, of numbers."""
    a, b = _parts(session, real)
    if not imag:
        return RuntimeComplex(a, b)
    c, d = _parts(session, *imag)
    return RuntimeComplex(a - d if _is_complex(*imag) else a, b + c if _is_complex(real) else c)


def _is_complex(value: Any) -> bool:
    return isinstance(value, (complex, RuntimeComplex))


def _parts(session: Session, value: Any) -> tuple[Any, Any]:
    return parts_of(session, value) or (value, 0.0)


def of_tensor(session: Session, tensor: torch.Tensor) -> RuntimeComplex:
    """Return the complex number in a tensor with one element."""
    parts = torch.view_as_real(tensor.resolve_conj().resolve_neg()).reshape(-1)
    return RuntimeComplex(*(session.number(scalars.to_float, (parts[place].item(),), "float") for place in range(2)))


def as_tensor(session: Session, value: RuntimeComplex, dtype: torch.dtype | None = None, device: Any = None) -> torch.Tensor:
    """Return ``torch.tensor(value)``."""
    double = [session.call(torch.tensor, part, dtype=torch.float64, device=device) for part in (value.real, value.imag)]
    default = _OF_TENSORS[torch.get_default_dtype()]
    return torch.complex(*double).to(dtype or default)


def beside(session: Session, value: RuntimeComplex, tensor: torch.Tensor) -> torch.Tensor:
    """Return a complex number as the tensor that makes of another what the number makes of it."""
    dtype = tensor.dtype if tensor.is_complex() else _OF_TENSORS.get(tensor.dtype, _OF_TENSORS[torch.get_default_dtype()])
    return as_tensor(session, value, dtype, tensor.device)


def given(session: Session, function: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Return the arguments of a function that knows no complex numbers of the program, with tensors in their places.

    Raises:
        CaptureError: none of the others is a tensor, whose dtype would tell theirs.
    """
    values = (*args, *kwargs.values())
    if getattr(function, "__module__", None) == __name__ or not any(type(value) is RuntimeComplex for value in values):
        return args, kwargs
    tensor = next((value for value in values if isinstance(value, torch.Tensor)), None)
    if tensor is None:
        raise errors.CaptureError(
            f"{getattr(function, '__qualname__', function)}() gets a complex number that is known only at run time",
            session.here(),
            fix="pass a tensor, torch.tensor(z), or z.real and z.imag",
        )
    values = tuple(beside(session, value, tensor) if type(value) is RuntimeComplex else value for value in values)
    return values[: len(args)], dict(zip(kwargs, values[len(args) :], strict=True))


def function(session: Session, name: str, *args: Any) -> Any:
    """Return what a function of ``cmath`` gives."""
    if name == "polar":
        return session.call(abs, args[0]), function(session, "phase", args[0])
    if not any(isinstance(value, (RuntimeComplex, torch.SymFloat, torch.SymInt)) for value in args):
        return getattr(cmath, name)(*args)
    numbers = [part for value in args for part in (parts_of(session, value) or ())]
    if name == "rect":
        numbers = [session.call(float, value) for value in args]
    failing.refuse(session, ValueError(), f"cmath.{name}", "test what goes into it with an if statement")
    kind = FUNCTIONS[name]
    if kind != "complex":
        return session.number(scalars.complex_number, (name, *numbers), kind)
    return _of_parts(session, name, *numbers)


def _of_parts(session: Session, name: str, *numbers: Any) -> RuntimeComplex:
    return RuntimeComplex(
        *(session.number(scalars.complex_number, (f"{name}.{part}", *numbers), "float") for part in ("real", "imag"))
    )


def equal(session: Session, left: Any, right: Any) -> Any:
    """Return ``left == right`` of which one is complex."""
    a, b = parts_of(session, left), parts_of(session, right)
    if a is None or b is None:
        return False
    return session.number(scalars.logical_and, (a[0] == b[0], a[1] == b[1]), "bool")


def _sum(session: Session, a: Any, b: Any, c: Any, d: Any) -> RuntimeComplex:
    return RuntimeComplex(a + c, b + d)


def _difference(session: Session, a: Any, b: Any, c: Any, d: Any) -> RuntimeComplex:
    return RuntimeComplex(a - c, b - d)


def _product(session: Session, a: Any, b: Any, c: Any, d: Any) -> RuntimeComplex:
    return RuntimeComplex(a * c - b * d, a * d + b * c)


def _quotient(session: Session, a: Any, b: Any, c: Any, d: Any) -> RuntimeComplex:
    failing.refuse(session, ZeroDivisionError(), "a division of complex numbers", "test the divisor with an if statement")
    return _of_parts(session, "truediv", a, b, c, d)


def _power(session: Session, a: Any, b: Any, c: Any, d: Any) -> RuntimeComplex:
    failing.refuse(session, ZeroDivisionError(), "a power of complex numbers", "test the base with an if statement")
    return _of_parts(session, "pow", a, b, c, d)


def _operator(name: str, compute: Callable[..., Any], reflected: bool) -> Callable[[RuntimeComplex, Any], Any]:
    def method(self: RuntimeComplex, other: Any) -> Any:
        session = need()
        if isinstance(other, torch.Tensor):
            mine = beside(session, self, other)
            return getattr(mine, f"__{name}__")(other) if not reflected else getattr(other, f"__{name}__")(mine)
        theirs = parts_of(session, other)
        if theirs is None:
            return NotImplemented
        parts = (self.real, self.imag)
        return compute(session, *theirs, *parts) if reflected else compute(session, *parts, *theirs)

    return method


for _name, _compute in (("add", _sum), ("sub", _difference), ("mul", _product), ("truediv", _quotient), ("pow", _power)):
    setattr(RuntimeComplex, f"__{_name}__", _operator(_name, _compute, reflected=False))
    setattr(RuntimeComplex, f"__r{_name}__", _operator(_name, _compute, reflected=True))
