"""Operators that are no operation on elements: reductions, products of matrices, rows, gathering, joining.

Each becomes a piece of C++ whose sizes and strides are constants. ``$0`` in its text is a pointer to the first operand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp.operators.call import Call, register
from dy2st_runtime.executors.cpp.operators.elementwise import elements
from dy2st_runtime.executors.cpp.operators.new_tensors import constant_elements
from dy2st_runtime.executors.cpp.values import CTYPES, Number, Tensor, Unsupported, Value

MAX_PRODUCT = 1 << 19
"""Multiplications in one product of matrices; the library that PyTorch calls is faster for larger ones."""


# -- reductions --------------------------------------------------------------------------------------------------------

_REDUCTIONS = {
    "sum": ("Sum", "{}"),
    "mean": ("Sum", "{} / {count}"),
    "prod": ("Product", "{}"),
    "amax": ("Largest", "{}"),
    "max": ("Largest", "{}"),
    "amin": ("Smallest", "{}"),
    "min": ("Smallest", "{}"),
    "any": ("Any", "{}"),
    "all": ("All", "{}"),
}


@register("sum", "mean", "prod", "amax", "amin", "any", "all")
def _reduction(call: Call) -> Value:
    operation, finish = _REDUCTIONS[call.name]
    return _reduced(call, operation, finish, call.constant("dim"))


@register("max", "min")
def _extreme(call: Call) -> Value:
    if call.get("other") is not None:
        return elements(call, "f_max({0}, {1})" if call.name == "max" else "f_min({0}, {1})", [call["self"], call["other"]])
    if call.get("dim") is not None:
        return _extreme_and_place(call)
    return _reduction(call)


@register("linalg_vector_norm", "norm")
def _norm(call: Call) -> Value:
    order = call.constant("ord") if call.name == "linalg_vector_norm" else call.constant("p")
    order = 2 if order is None else order
    known = {2: ("Squares", "f_sqrt({})"), 1: ("Sizes", "{}"), math.inf: ("LargestSize", "{}")}
    if order not in known or not call["self"].buffer.dtype.is_floating_point or call.get("dtype") is not None:
        raise Unsupported(f"the norm of order {order}")
    return _reduced(call, *known[order], call.constant("dim"))


def _dims(value: Tensor, dim: Any) -> list[int]:
    rank = len(value.shape)
    if dim is None or dim == []:
        return list(range(rank))
    return sorted({(one + rank if one < 0 else one) for one in (dim if isinstance(dim, (list, tuple)) else [dim])})


def _reduced(call: Call, operation: str, finish: str, dim: Any) -> Value:
    value: Tensor = call["self"]
    meta = call.meta()
    dims = _dims(value, dim)
    count = math.prod(value.shape[one] for one in dims)
    if operation in ("Largest", "Smallest") and count == 0:
        raise Unsupported("the largest of no elements")
    if meta.dtype not in CTYPES:
        raise Unsupported(f"{meta.dtype} has no C++ here")
    wide = "double" if meta.dtype.is_floating_point and operation not in ("Largest", "Smallest", "LargestSize") else ""
    element = CTYPES[meta.dtype] if operation not in ("Any", "All") else value.ctype
    accumulator = wide or ("bool" if operation in ("Any", "All") else element)
    kept = [one for one in range(len(value.shape)) if one not in dims]
    out_stride = [meta.stride()[one] for one in kept] if len(meta.shape) == len(value.shape) else list(meta.stride())
    stride = value.meta.stride()
    text = _loops("i", [value.shape[one] for one in kept])
    source = _index("i", [stride[one] for one in kept])
    runs, rest = _run([(value.shape[one], stride[one]) for one in dims])
    text += f" {{ {accumulator} acc = {operation}::first<{accumulator}>(); "
    text += _loops("k", [size for size, _ in rest])
    place = f"$0 + {source} + {_index('k', [step for _, step in rest])}"
    cast = f"{accumulator}, {element}, {value.ctype}"
    text += f" acc = {operation}::join(acc, reduce<{operation}, {cast}, {runs[0]}, {runs[1]}>({place}));"
    result = finish.format("acc", count=f"({accumulator}){count}")
    made_meta = meta
    outcome = call.out(made_meta, call.builder.given)
    text += f" $1[{_index('i', out_stride)}] = ({outcome.ctype})({result}); }}"
    outcome.item = call.builder.kernel(text, (call.builder.used(value), outcome))
    return outcome


def _run(dims: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], list[tuple[int, int]]]:
    """Return the innermost elements with one distance, as many as there are, and the sizes and strides around them."""
    rest = [pair for pair in dims if pair[0] != 1]
    if not rest:
        return (1, 1), []
    size, step = rest.pop()
    while rest and rest[-1][1] == size * step:
        size *= rest.pop()[0]
    return (size, step), rest


def _loops(name: str, sizes: Sequence[int]) -> str:
    return " ".join(f"for (int64_t {name}{i} = 0; {name}{i} < {size}; {name}{i}++)" for i, size in enumerate(sizes))


def _index(name: str, strides: Sequence[int]) -> str:
    return " + ".join(f"{name}{i} * {step}" for i, step in enumerate(strides)) or "0"


@register("argmax", "argmin")
def _place(call: Call) -> Value:
    value: Tensor = call["self"]
    dim = call.constant("dim")
    if dim is None:
        if not value.meta.is_contiguous():
            raise Unsupported("argmax of a tensor that is not contiguous")
        dims = list(range(len(value.shape)))
    else:
        dims = _dims(value, dim)
    return _places(call, value, dims, call.meta(), "argmax" in call.name)[1]


def _extreme_and_place(call: Call) -> Value:
    value: Tensor = call["self"]
    return tuple(_places(call, value, _dims(value, call.constant("dim")), call.meta()[1], call.name == "max", with_value=True))


def _places(
    call: Call, value: Tensor, dims: Sequence[int], meta: torch.Tensor, largest: bool, with_value: bool = False
) -> tuple[Tensor, Tensor]:
    if not math.prod(value.shape[one] for one in dims):
        raise Unsupported("the largest of no elements")
    kept = [one for one in range(len(value.shape)) if one not in dims]
    stride = value.meta.stride()
    (size, step), rest = _run([(value.shape[one], stride[one]) for one in dims])
    if rest:
        raise Unsupported("the place of the largest element over strided dimensions")
    out = [meta.stride()[one] for one in kept] if len(meta.shape) == len(value.shape) else list(meta.stride())
    place = call.out(meta, call.builder.given, 1)
    values = call.out(
        torch.empty_strided(meta.shape, meta.stride(), dtype=value.buffer.dtype, device="meta"), call.builder.given, 0
    )
    ctype, at = value.ctype, _index("i", out)
    start = _index("i", [stride[one] for one in kept])
    text = f"{_loops('i', [value.shape[one] for one in kept])} {{ const {ctype}* p = $0 + {start}; {ctype} best = p[0];"
    text += f" int64_t at = 0; for (int64_t k = 1; k < {size}; k++) {{ const {ctype} x = p[k * {step}];"
    text += f" if (best == best && (x {'>' if largest else '<'} best || x != x)) {{ best = x; at = k; }} }}"
    text += f" $1[{at}] = at; $2[{at}] = best; }}"
    result = call.builder.kernel(text, (call.builder.used(value), place, values))
    place.item = values.item = result
    return values, place


# -- products ----------------------------------------------------------------------------------------------------------


@register("mm", "matmul", "bmm", "mv", "dot", "linear", "addmm", "addmv", "baddbmm")
def _product(call: Call) -> Value:
    meta = call.meta()
    add: Tensor | None = None
    if call.name == "linear":
        one, other, add = call["input"], call["weight"], call["bias"]
    elif call.name in ("addmm", "addmv", "baddbmm"):
        names = {"addmm": ("mat1", "mat2"), "addmv": ("mat", "vec"), "baddbmm": ("batch1", "batch2")}[call.name]
        one, other, add = call[names[0]], call[names[1]], call["self"]
        if call["alpha"] != 1 or call["beta"] != 1 or isinstance(call["alpha"], Number) or isinstance(call["beta"], Number):
            raise Unsupported(f"{call.name} with alpha or beta")
    else:
        one = call["self"]
        other = call[next(name for name in ("mat2", "other", "vec", "tensor") if name in call.arguments)]
    if meta.dtype is torch.bool or one.buffer.dtype != other.buffer.dtype or meta.dtype != one.buffer.dtype:
        raise Unsupported("a product of matrices of these dtypes")
    return _gemm(call, one, other.meta.t() if call.name == "linear" and other.meta.dim() == 2 else other.meta, other, add, meta)


def _gemm(call: Call, one: Tensor, right: torch.Tensor, other: Tensor, add: Tensor | None, meta: torch.Tensor) -> Value:
    left = one.meta if one.meta.dim() > 1 else one.meta.unsqueeze(0)
    right = right if right.dim() > 1 else right.unsqueeze(1)
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    batch = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    if math.prod(batch) * rows * inner * columns > MAX_PRODUCT:
        raise Unsupported(f"a product of matrices of {rows}x{inner} and {inner}x{columns} is large; PyTorch's own is faster")
    if not meta.is_contiguous():
        raise Unsupported("a product of matrices with a result that is not contiguous")
    left, right = left.expand(*batch, *left.shape[-2:]), right.expand(*batch, *right.shape[-2:])
    result = call.out(meta, call.builder.given)
    operands = [call.builder.used(one), call.builder.used(other), result]
    strides = [left.stride()[:-2], right.stride()[:-2], _steps(batch, rows * columns)]
    added = "$0"
    add_stride: tuple[int, ...] = (0, 0)
    if add is not None:
        if add.buffer.dtype != meta.dtype:
            raise Unsupported("a product of matrices of these dtypes")
        whole = add.meta.expand(meta.shape)
        whole = whole if one.meta.dim() > 1 else whole.unsqueeze(0)
        whole = whole.unsqueeze(-1) if call.name == "addmv" else whole
        add_stride = tuple(whole.stride()[-2:])
        operands.append(call.builder.used(add))
        added = f"$3 + {_index('i', whole.stride()[:-2])}"
    sizes = (
        f"{result.ctype}, {rows}, {columns}, {inner}, {left.stride(-2)}, {left.stride(-1)}, {right.stride(-2)}, {right.stride(-1)}"
    )
    text = f"{_loops('i', batch)} gemm<{sizes}, {add_stride[0]}, {add_stride[1]}, {'true' if add is not None else 'false'}>("
    text += f"$0 + {_index('i', strides[0])}, $1 + {_index('i', strides[1])}, {added}, $2 + {_index('i', strides[2])});"
    result.item = call.builder.kernel(text, operands)
    return result


def _steps(batch: Sequence[int], size: int) -> list[int]:
    results: list[int] = []
    for extent in reversed(batch):
        results.insert(0, size)
        size *= extent
    return results


# -- rows --------------------------------------------------------------------------------------------------------------


@register("softmax", "_softmax", "log_softmax", "_log_softmax")
def _softmax(call: Call) -> Value:
    value: Tensor = call["self"]
    if call.get("dtype") is not None or not value.buffer.dtype.is_floating_point or not value.shape:
        raise Unsupported("a softmax in another dtype")
    dim = call.constant("dim") % len(value.shape)
    result = call.out(call.meta(), call.builder.given)
    kept = [one for one in range(len(value.shape)) if one != dim]
    stride, out = value.meta.stride(), result.meta.stride()
    function = "log_softmax_row" if "log" in call.name else "softmax_row"
    text = (
        f"{_loops('i', [value.shape[k] for k in kept])} {function}<{value.ctype}, {value.shape[dim]}, {stride[dim]}, {out[dim]}>("
    )
    text += f"$0 + {_index('i', [stride[k] for k in kept])}, $1 + {_index('i', [out[k] for k in kept])});"
    result.item = call.builder.kernel(text, (call.builder.used(value), result))
    return result


@register("layer_norm", "rms_norm")
def _row_norm(call: Call) -> Value:
    value: Tensor = call["input"]
    shape = list(call.constant("normalized_shape"))
    size = math.prod(shape)
    weight, bias = call.get("weight"), call.get("bias")
    parts = [part for part in (weight, bias) if part is not None]
    eps = call.constant("eps")
    meta = call.meta()
    if eps is None:
        eps = torch.finfo(value.buffer.dtype).eps
    if not value.buffer.dtype.is_floating_point or not all(part.meta.is_contiguous() for part in (value, *parts)) or not size:
        raise Unsupported("a norm over rows that are not contiguous")
    if any(part.buffer.dtype != value.buffer.dtype for part in parts) or not meta.is_contiguous():
        raise Unsupported("a norm whose weights have another dtype")
    result = call.out(meta, call.builder.given)
    flags = ", ".join("true" if part is not None else "false" for part in (weight, bias))
    text = f"for (int64_t i = 0; i < {value.meta.numel() // size}; i++) {call.name}_row<{value.ctype}, {size}, {flags}>"
    pointers = [f"$0 + i * {size}", f"$1 + i * {size}"]
    pointers += [f"${2 + parts.index(part)}" if part is not None else "$0" for part in (weight, bias)]
    text += f"({', '.join(pointers)}, {float(eps).hex()});"
    result.item = call.builder.kernel(text, (call.builder.used(value), result, *(call.builder.used(part) for part in parts)))
    return result


# -- gathering and joining ---------------------------------------------------------------------------------------------


@register("embedding", "index_select")
def _rows(call: Call) -> Value:
    if call.name == "embedding":
        table, index, dim = call["weight"], call["indices"], 0
    else:
        table, index, dim = call["self"], call["index"], call.constant("dim")
        if len(index.shape) != 1 or not table.shape:
            raise Unsupported("index_select of or by a tensor without dimensions")
        dim %= len(table.shape)
    if index.buffer.dtype not in (torch.int64, torch.int32):
        raise Unsupported("indices of this dtype")
    result = call.out(call.meta(), call.builder.given)
    shape, out, rank = result.shape, result.meta.stride(), len(index.shape)
    steps = [0 if axis in range(dim, dim + rank) else table.meta.stride()[axis if axis < dim else axis - rank + 1]
             for axis in range(len(shape))]  # fmt: skip
    at = [index.meta.stride()[axis - dim] if axis in range(dim, dim + rank) else 0 for axis in range(len(shape))]
    text = f"{_loops('i', shape)} {{ int64_t at = $1[{_index('i', at)}]; if (at < 0 || at >= {table.shape[dim]}) return GIVE_UP;"
    text += f" $2[{_index('i', out)}] = $0[{_index('i', steps)} + at * {table.meta.stride()[dim]}]; }}"
    result.item = call.builder.kernel(text, (call.builder.used(table), call.builder.used(index), result))
    return result


@register("gather")
def _gather(call: Call) -> Value:
    table, index = call["self"], call["index"]
    if not table.shape or not index.shape:
        raise Unsupported("gather of a tensor without dimensions")
    dim = call.constant("dim") % len(table.shape)
    result = call.out(call.meta(), call.builder.given)
    steps = [0 if axis == dim else step for axis, step in enumerate(table.meta.stride())]
    text = f"{_loops('i', result.shape)} {{ int64_t at = $1[{_index('i', index.meta.stride())}];"
    text += f" if (at < 0 || at >= {table.shape[dim]}) return GIVE_UP;"
    text += f" $2[{_index('i', result.meta.stride())}] = $0[{_index('i', steps)} + at * {table.meta.stride()[dim]}]; }}"
    result.item = call.builder.kernel(text, (call.builder.used(table), call.builder.used(index), result))
    return result


@register("cat", "stack")
def _joined(call: Call) -> Value:
    parts: list[Tensor] = list(call["tensors"])
    if not all(isinstance(part, Tensor) for part in parts):
        raise Unsupported("a list that is not known ahead of time")
    result = call.out(call.meta(), call.builder.given)
    dim = call.constant("dim") % max(len(result.shape), 1)
    if any(part.buffer.dtype != result.buffer.dtype for part in parts):
        raise Unsupported("tensors of several dtypes joined")
    out, text, offset = result.meta.stride(), "", 0
    for position, part in enumerate(parts):
        meta = part.meta.unsqueeze(dim) if call.name == "stack" else part.meta
        if meta.dim() != len(result.shape):
            continue  # an empty tensor of one dimension joins with anything
        target, source = f"$0[{offset * out[dim]} + {_index('i', out)}]", f"${position + 1}[{_index('i', meta.stride())}]"
        text += f"{{ {_loops('i', meta.shape)} {target} = {source}; }} "
        offset += meta.shape[dim]
    result.item = call.builder.kernel(text, (result, *(call.builder.used(part) for part in parts)))
    return result


@register("arange")
def _arange(call: Call) -> Value:
    start, step = call.constant("start") or 0, call.constant("step")
    call.constant("end")
    step = 1 if step is None else step
    meta = call.meta()
    if meta.dtype.is_floating_point or not isinstance(start, int) or not isinstance(step, int):
        raise Unsupported("arange of floats")
    result = constant_elements(call, 0)
    del result.item.statements[-1]  # type: ignore[attr-defined]  # the group it was put in
    result.variable = ""
    result.item = call.builder.kernel(
        f"for (int64_t i = 0; i < {meta.numel()}; i++) $0[i] = ({result.ctype})({start} + i * {step});", (result,)
    )
    return result
