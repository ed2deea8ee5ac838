"""Calls that change a mode that operations run in: grad mode, autocast, settings of torch.

A setting of torch (which kernels it may take, how exact they are) is changed by the operator ``set(name, arguments)``, which calls
the setter of that name with arguments that are written as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import torch

from dy2st_runtime.errors import ProgramError

NAMESPACE = "dy2st_settings"


_PAIRS = {
    "_set_blas_preferred_backend": "_get_blas_preferred_backend",
    "_set_check_sparse_tensor_invariants": "_check_sparse_tensor_invariants",
    "_set_cpu_allow_fp16_reduced_precision_reduction": "_get_cpu_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_bf16_reduced_precision_reduction": "_get_cublas_allow_bf16_reduced_precision_reduction",
    "_set_cublas_allow_fp16_accumulation": "_get_cublas_allow_fp16_accumulation",
    "_set_cublas_allow_fp16_reduced_precision_reduction": "_get_cublas_allow_fp16_reduced_precision_reduction",
    "_set_cublas_allow_tf32": "_get_cublas_allow_tf32",
    "_set_cudnn_allow_tf32": "_get_cudnn_allow_tf32",
    "_set_cudnn_benchmark": "_get_cudnn_benchmark",
    "_set_cudnn_deterministic": "_get_cudnn_deterministic",
    "_set_cudnn_enabled": "_get_cudnn_enabled",
    "_set_default_dtype": "",
    "_set_deterministic_algorithms": "_get_deterministic_algorithms",
    "_set_deterministic_fill_uninitialized_memory": "_get_deterministic_fill_uninitialized_memory",
    "_set_float32_matmul_precision": "_get_float32_matmul_precision",
    "_set_linalg_preferred_backend": "_get_linalg_preferred_backend",
    "_set_math_sdp_allow_fp16_bf16_reduction": "_get_math_sdp_allow_fp16_bf16_reduction",
    "_set_mkldnn_deterministic": "_get_mkldnn_deterministic",
    "_set_mkldnn_enabled": "_get_mkldnn_enabled",
    "_set_multithreading_enabled": "_is_multithreading_enabled",
    "_set_nnpack_enabled": "_get_nnpack_enabled",
    "_set_onednn_allow_tf32": "_get_onednn_allow_tf32",
    "_set_sdp_priority_order": "_get_sdp_priority_order",
    "_set_sdp_use_cudnn": "_get_cudnn_sdp_enabled",
    "_set_sdp_use_fa3": "_get_fa3_sdp_enabled",
    "_set_sdp_use_flash": "_get_flash_sdp_enabled",
    "_set_sdp_use_math": "_get_math_sdp_enabled",
    "_set_sdp_use_mem_efficient": "_get_mem_efficient_sdp_enabled",
    "_set_sdp_use_overrideable": "_get_overrideable_sdp_enabled",
    "_set_warnAlways": "_get_warnAlways",
    "set_anomaly_enabled": "is_anomaly_enabled",
    "set_num_threads": "get_num_threads",
}
"""Setters and getters in ``torch._C``."""
NAMES = frozenset(name for name, getter in _PAIRS.items() if hasattr(torch._C, name) and hasattr(torch._C, getter or name))
"""The names of the setters; not every release of torch has each. Archives rely on them."""


def setter_of(name: str) -> Callable[..., Any]:
    """Return what changes a setting."""
    return _FUNCTIONS[name][0]


def getter_of(name: str) -> Callable[[], Any]:
    """Return what says how a setting is."""
    return _FUNCTIONS[name][1]


_FUNCTIONS: dict[str, tuple[Callable[..., Any], Callable[[], Any]]] = {
    name: (getattr(torch._C, name), getattr(torch._C, getter) if getter else torch.get_default_dtype)
    for name, getter in _PAIRS.items()
    if name in NAMES
}


def values_of(name: str) -> tuple[Any, ...]:
    """Return the arguments with which the setter of a setting leaves it as it is."""
    if name == "_set_deterministic_algorithms":
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    if name == "set_anomaly_enabled":
        return torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    result = getter_of(name)()
    return result if isinstance(result, tuple) else (result,)


def change(name: str, arguments: tuple[Any, ...]) -> None:
    """Call the setter of a setting."""
    if name == "_set_deterministic_algorithms":
        setter_of(name)(arguments[0], warn_only=bool(arguments[1:] and arguments[1]))
    else:
        setter_of(name)(*arguments)


def written(arguments: tuple[Any, ...]) -> str:
    """Return arguments of a setter as an operator takes them.

    Raises:
        TypeError: they are no constants that an archive holds.
    """
    return json.dumps(arguments, default=_as_document)


def _as_document(value: Any) -> Any:
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    raise TypeError(f"a setting of torch is set to a {type(value).__name__}")


def _set(name: str, arguments: str) -> None:
    try:
        given = json.loads(arguments)
        setting = tuple(getattr(torch, value["dtype"]) if isinstance(value, dict) else value for value in given)
        change(name, setting)
    except (KeyError, ValueError, TypeError, AttributeError) as error:  # of a damaged file
        raise ProgramError(f"a program calls {name}{arguments} of torch, which is no setting that it may change") from error


_library = torch.library.Library(NAMESPACE, "DEF")
_library.define("set(str name, str arguments) -> ()", tags=(torch.Tag.nondeterministic_seeded,))
_library.impl("set", _set, "CompositeImplicitAutograd")
set_ = torch.ops.dy2st_settings.set.default

TARGETS: dict[Any, str] = {
    torch._C._set_grad_enabled: "set_grad_enabled",
    torch.amp.autocast_mode._enter_autocast: "enter_autocast",
    torch.amp.autocast_mode._exit_autocast: "exit_autocast",
    set_: f"{NAMESPACE}.set.default",
}
"""The calls and their names in an archive."""
