"""Which code is the user's: it is converted, and everything else is called as it is.

Some methods of the user's are replaced while a capture runs (:mod:`.operator_methods`); what a class defines is asked for here, so
that nobody sees the replacement.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import sysconfig
import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

from dy2st.capture.environment import standard_library, written_out
from dy2st.capture.environment.same_contents import PATCH_MARK

SKIPPED_PACKAGES = {
    "torch", "numpy", "scipy", "einops", "dy2st", "dy2st_runtime", "gast", "astor", "safetensors", "sympy", "typing", "builtins",
}  # fmt: skip
"""Packages whose functions are called as they are; :func:`dy2st.ignore_module` adds to them."""

_TABLES = tuple(f"dy2st.capture.collections.runtime_{name}" for name in ("tables", "counters", "sets"))
"""Have the methods of dicts and sets, whose classes are taken as the user's are."""

CONVERTED_MODULES = (
    "torch.distributions", "torch.nn.modules.batchnorm", "torch.nn.modules.container", "torch.nn.utils.clip_grad", "torch.optim",
    "torch.amp.grad_scaler", "torch.ao.quantization.fake_quantize", "torch.ao.quantization._learnable_fake_quantize",
    "torch.ao.quantization.observer", "torch.ao.quantization.utils", "torch.nn.utils.parametrize", "torch.nn.utils.prune",
    "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "dy2st.training",
    "dy2st.capture.library.members_written_out", "dy2st.capture.library.bars_written_out",
    "dy2st.capture.library.steps_written_out", written_out.__name__, *_TABLES,
)  # fmt: skip
"""Parts of those packages that look at the values of tensors, or call code of the user's: they are converted like user code."""

_OF_MODULES = frozenset(
    f"Module.{name}"
    for name in (
        "train", "eval", "apply", "requires_grad_", "zero_grad", "add_module", "register_module", "register_parameter",
        "register_buffer", "set_submodule",
    )
)  # fmt: skip
"""Methods of ``nn.Module`` that change it, or have the user's code do it: what they write is noted as in the user's code."""

_OF_FUNCTIONAL = frozenset((
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "batch_norm", "instance_norm", "group_norm", "_verify_batch_size",
    "_verify_spatial_size", "local_response_norm",
))  # fmt: skip
"""Functions of ``torch.nn.functional`` that compare sizes, which only the call may know."""

_STANDARD_LIBRARY = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
_GENERATED = frozenset({"<string>", dataclasses.__file__})
"""Where the code of methods is that ``dataclasses`` has written."""
_SITE_PACKAGES = ("site-packages", "dist-packages")


def is_skipped(function: Any) -> bool:
    """Tell whether a function is called as it is: of torch, numpy, the standard library, or of an ignored module."""
    if is_in_skipped_package(function):
        module = function.__module__
        if module == "torch.nn.modules.module":
            return function.__qualname__ not in _OF_MODULES
        if module == "torch.nn.functional":
            return function.__qualname__ not in _OF_FUNCTIONAL
        return not _is_in(module, CONVERTED_MODULES)
    file = getattr(getattr(function, "__code__", None), "co_filename", "")
    in_library = any(file.startswith(path) for path in _STANDARD_LIBRARY) and not any(s in file for s in _SITE_PACKAGES)
    if not in_library and not file.startswith("<frozen"):
        return file == "<string>"
    if standard_library.is_followed(function):
        return False
    wrapped = getattr(function, "__wrapped__", None)  # a decorator of the standard library runs the function that it decorates
    return wrapped is None or is_skipped(wrapped)


def is_in_skipped_package(function: Any) -> bool:
    """Tell whether a function is of one of :data:`SKIPPED_PACKAGES`, those parts that are converted as well."""
    return _is_in(module_of(function), SKIPPED_PACKAGES)


def module_of(function: Any) -> str:
    """Return the module of a function or class: ``functools.wraps`` gives the module of what is decorated to a user's function."""
    named = getattr(function, "__module__", None)
    name = named if isinstance(named, str) else ""
    code = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(code, types.FunctionType) or not _is_in(name, SKIPPED_PACKAGES):
        return name
    own = code.__globals__.get("__name__")
    return own if isinstance(own, str) and not _decorates(own) else name


def _decorates(module: str) -> bool:
    """Tell whether a module has decorators with which libraries decorate their own functions."""
    return is_library(module) or module == "typing_extensions"


def is_part_of_library(function: Any) -> bool:
    """Tell whether a function, converted or not, is one of those whose lines mean nothing to the user."""
    return is_in_skipped_package(function) or standard_library.is_followed(function)


def is_library(module: str) -> bool:
    """Tell whether a module is of one of :data:`SKIPPED_PACKAGES`, or of the standard library."""
    if not isinstance(module, str):
        return True  # Cython's class of functions has a descriptor there, for the modules of the functions
    return _is_in(module, SKIPPED_PACKAGES) or (module.partition(".")[0] in sys.stdlib_module_names and module != "__main__")


def is_converted_module(module: str) -> bool:
    """Tell whether a module is one of :data:`CONVERTED_MODULES`, or in one."""
    return _is_in(module, CONVERTED_MODULES)


def is_heap_type(kind: type) -> bool:
    """Tell whether a class is made when a program runs, as a ``class`` statement does (CPython's ``Py_TPFLAGS_HEAPTYPE``)."""
    return bool(kind.__flags__ & (1 << 9))


def is_generated(method: Any) -> bool:
    """Tell whether ``dataclasses`` has written a method: it reads all fields."""
    return isinstance(method, types.FunctionType) and method.__code__.co_filename in _GENERATED


def is_users_function(function: Any) -> bool:
    """Tell whether the user has written a function, or one that takes the place of what is in C."""
    if not isinstance(function, types.FunctionType):
        return False
    return function.__module__ in _TABLES or (not is_in_skipped_package(function) and not is_skipped(function))


def has_own(value: Any, name: str) -> bool:
    """Tell whether a class answers with a method of its own in Python, where Python's containers and ours answer themselves."""
    method = getattr(type(value), name, None)
    if not isinstance(method, types.FunctionType) or method.__module__ == "collections":
        return False
    return not _is_in(method.__module__, ("dy2st",)) or is_converted_module(method.__module__)


def _is_in(module: str, packages: Iterable[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in packages)


# -- methods that a capture has replaced ---------------------------------------------------------------------------------------


def as_written(function: Any) -> Any:
    """Return the user's method that another one stands in for; any other function as it is."""
    written = getattr(function, PATCH_MARK, None) if isinstance(function, types.FunctionType) else None
    return written if isinstance(written, types.FunctionType) else function


def user_method(kind: type, name: str) -> Callable[..., Any] | None:
    """Return the user's method in a class that is followed; ``None`` for any other."""
    result: Callable[..., Any] | None = getattr(inspect.getattr_static(kind, name, None), PATCH_MARK, None)
    return result


class Definition:
    """What a class defines under a name, whether captures have it replaced or not."""

    def __init__(self, kind: type, name: str) -> None:
        self._kind, self._name = weakref.ref(kind), name

    @property
    def method(self) -> Any:
        """The function of the user's."""
        return as_written(getattr(self._kind(), self._name, None))


_definitions: weakref.WeakKeyDictionary[type, dict[str, Definition]] = weakref.WeakKeyDictionary()


def definition(kind: type, name: str) -> Definition:
    """Return the one :class:`Definition` of a name in a class: guards tell them apart by identity."""
    known = _definitions.setdefault(kind, {})
    return known.setdefault(name, Definition(kind, name))
