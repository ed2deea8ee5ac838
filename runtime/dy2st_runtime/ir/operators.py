"""Which operators an archive may name: the names of node targets, both ways."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

import torch

from dy2st_runtime.arrays import calls as numpy_calls
from dy2st_runtime.distributed import collectives
from dy2st_runtime.errors import LoadError
from dy2st_runtime.ir.document import Json
from dy2st_runtime.primitives import control, modes, random_state, scalars

NAMESPACES = ("aten", "prims", random_state.NAMESPACE, modes.NAMESPACE, numpy_calls.NAMESPACE, collectives.NAMESPACE)
"""Operators of PyTorch itself, and of this package; a library's own namespace has to be asked for."""

FORBIDDEN = re.compile(
    r"aten::(from_file|_print|set_data|record_stream|_foobar|_test_\w+|_debug_\w+|_cufft_\w+|_cslt_\w+|_mps_\w+|_propagate_xla_data"
    r"|_sparse_\w+_unsafe|_unsafe_masked_index\w*|_wrapped_\w+|_make_dep_token)",
    re.ASCII,
)
"""Operators of these namespaces that reach outside of the program, or trust their arguments without a look."""

_NAMED: dict[str, Callable[..., Any]] = {
    **{name: target for name, target in control.TARGETS.items() if target is not control.call_},
    **scalars.TARGETS,
    **{name: target for target, name in modes.TARGETS.items() if target is not modes.set_},
}
_OPERATOR = re.compile(r"(\w+)\.(\w+)\.(\w+)", re.ASCII)


def present(*names: str) -> tuple[Any, ...]:
    """Return those of some operators that the installed torch has: releases add and remove them.

    Args:
        names: in ``aten``; with an overload (``add.Tensor``), or without for all overloads (``index_put_``).
    """
    found = (_found(*name.split(".")) for name in names)
    return tuple(operator for operator in found if operator is not None)


def _found(name: str, overload: str | None = None) -> Any:
    packet = getattr(torch.ops.aten, name, None)
    return packet if overload is None else getattr(packet, overload, None)


def resolve(json: Json, namespaces: Collection[str] = ()) -> Callable[..., Any]:
    """Return the target of a name.

    Args:
        json: the name as an archive gives it (``if_``, ``operator.add``, ``aten.add.Tensor``).
        namespaces: namespaces of operators that are allowed besides PyTorch's own.

    Raises:
        LoadError: there is no such operator, or it is not allowed.
    """
    name = json.text()
    if name in _NAMED:
        return _NAMED[name]
    parts = _OPERATOR.fullmatch(name)
    if parts is None:
        json.fail("the name of an operator")
    namespace, operator, overload = parts.groups()
    if namespace not in NAMESPACES and namespace not in namespaces:
        raise LoadError(
            f"{json.path} calls {name}, which is not an operator of PyTorch; import the library that defines it and "
            f"pass namespaces=[{namespace!r}] if you trust it"
        )
    if FORBIDDEN.fullmatch(f"{namespace}::{operator}"):
        raise LoadError(f"{json.path} calls {name}, which an archive may not do")
    qualified = f"{namespace}::{operator}" + ("" if overload == "default" else f".{overload}")
    try:
        known = torch._C._dispatch_has_kernel(qualified)
    except RuntimeError:  # no name that an operator could have
        known = False
    if not known:
        raise LoadError(f"{json.path} calls {name}, which torch {torch.__version__} does not have")
    result: Callable[..., Any] = getattr(getattr(getattr(torch.ops, namespace), operator), overload)
    return result
