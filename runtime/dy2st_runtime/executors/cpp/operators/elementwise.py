"""Operations on elements: one statement for each element of the result, or of a tensor that is written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp.builder import Builder
from dy2st_runtime.executors.cpp.operators.call import Call, as_meta, register
from dy2st_runtime.executors.cpp.operators.pointwise import FLOATING_ONLY, TABLE
from dy2st_runtime.executors.cpp.values import CTYPES, Number, Statement, Tensor, Unsupported, Value


def pointwise(call: Call) -> Value:
    """Return an operation of the table."""
    known = TABLE[call.name]
    others = set(call.arguments) - {*known.operands, "memory_format"}
    if others:  # another overload does more: ``round(decimals=1)``
        raise Unsupported(f"{call.name} with {', '.join(sorted(others))} has no C++")
    operands = [call[name] for name in known.operands]
    kind = known.kind
    if call.name in FLOATING_ONLY and not _first_dtype(operands).is_floating_point:
        raise Unsupported(f"{call.name} of whole numbers has no C++")
    return elements(call, known.text, operands, kind)


def _first_dtype(operands: Sequence[Any]) -> torch.dtype:
    return next(value.buffer.dtype for value in operands if isinstance(value, Tensor))


def elements(call: Call, text: str, operands: Sequence[Any], kind: str = "same", compute: torch.dtype | None = None) -> Tensor:
    """Return one statement for each element of the result.

    Args:
        call: the operator.
        text: C++ with ``{0}``, … for the operands, which are cast to the type it computes in.
        operands: tensors and numbers; they broadcast.
        kind: see :class:`~dy2st_runtime.executors.cpp.pointwise.Pointwise`.
        compute: the dtype it computes in, where that does not follow from the operands.
    """
    builder = call.builder
    meta = call["self"].meta if call.in_place else call.meta()
    dtype = compute or _compute_dtype(operands, kind)
    if dtype not in CTYPES:
        raise Unsupported(f"{dtype} has no C++ here")
    ctype = CTYPES[dtype]
    scalars = [_shaped(builder, value, meta) for value in operands]
    code = tuple(builder.code(value) for value in scalars)
    casts = [f"({ctype})({{{index}}})" for index in range(len(code))]
    value = text.replace("T(", f"{ctype}(").format(*(f"({cast})" for cast in casts))
    if kind == "bool" or meta.dtype is torch.bool:
        value = f"({value}) != 0" if kind != "bool" else value
    if call.in_place:
        return _written(call, value, code, scalars)
    group = builder.group(tuple(meta.shape), [v for v in scalars if isinstance(v, (Tensor, Number))])
    result = call.out(meta, group)
    result.variable = builder.fresh("v")
    group.statements.append(Statement(f"({result.ctype})({value})", code, (result.ctype, result.variable), result))
    return result


def _shaped(builder: Builder, value: Any, meta: torch.Tensor) -> Any:
    """Return an operand as the loop over the result reads it: a tensor of another shape is broadcast."""
    if not isinstance(value, Tensor) or value.shape == tuple(meta.shape) or not value.shape:
        return value
    try:
        expanded = value.meta.expand(meta.shape)
    except RuntimeError as error:
        raise Unsupported(str(error).splitlines()[0]) from error
    return Tensor(value.buffer, expanded, value.item, value.dynamic, identity=value.identity, optional=value.optional)


def _compute_dtype(operands: Sequence[Any], kind: str) -> torch.dtype:
    result = result_type(operands)
    if kind == "float" and not result.is_floating_point:
        return torch.get_default_dtype()
    return result


def result_type(operands: Sequence[Any]) -> torch.dtype:
    """Return the dtype that tensors and numbers have in common."""
    metas = [as_meta(value) for value in operands]
    tensors = [value for value in metas if isinstance(value, torch.Tensor)]
    others = [value for value in metas if not isinstance(value, torch.Tensor)]
    if not tensors:
        raise Unsupported("an operation without a tensor")
    sized = [value for value in tensors if value.dim()] or tensors
    result = sized[0]
    for value in tensors:
        dtype = torch.result_type(result, value)
        result = torch.empty(result.shape if result.dim() or not value.dim() else value.shape, dtype=dtype, device="meta")
    for value in others:
        result = result.to(torch.result_type(result, value))
    return result.dtype


def _written(call: Call, value: str, code: Sequence[Any], operands: Sequence[Any]) -> Tensor:
    """Return an in-place operation: a barrier, since whatever shares the memory sees it."""
    target: Tensor = call["self"]
    builder = call.builder
    builder.used(target)
    for operand in operands:
        if isinstance(operand, Tensor) and operand.buffer is target.buffer and not _same_place(operand, target):
            raise Unsupported("an in-place operation that reads another part of the same memory")
    if not _no_overlap(target.meta):
        raise Unsupported("an in-place operation on a tensor that has one element in several places")
    result = result_type([v for v in (target, *operands) if isinstance(v, Tensor)] or [target])
    if call.name not in ("copy", "fill", "zero", "masked_fill") and not torch.can_cast(result, target.buffer.dtype):
        raise Unsupported("an in-place operation whose result has another kind of dtype")
    if call.name not in ("copy", "fill", "zero"):
        call.meta()  # the shapes must fit
    target.buffer.mutations += 1
    target.buffer.stored = True
    group = builder.group(target.shape, (), alone=True)
    group.statements.append(Statement(f"({target.ctype})({value})", tuple(code), store=target))
    return target


def _same_place(one: Tensor, other: Tensor) -> bool:
    return (
        one.dynamic == other.dynamic
        and one.meta.storage_offset() == other.meta.storage_offset()
        and one.shape == other.shape
        and one.meta.stride() == other.meta.stride()
    )


def _no_overlap(meta: torch.Tensor) -> bool:
    reach = 0
    for size, step in sorted(((n, s) for n, s in zip(meta.shape, meta.stride()) if n > 1), key=lambda pair: pair[1]):
        if step <= reach:
            return False
        reach += (size - 1) * step
    return True


@register("add", "sub", "rsub")
def _sum(call: Call) -> Value:
    one, other, alpha = call["self"], call["other"], call["alpha"]
    if call.name == "rsub":
        one, other = other, one
    sign = "+" if call.name == "add" else "-"
    if alpha == 1 and not isinstance(alpha, Number):
        return elements(call, f"{{0}} {sign} {{1}}", [one, other])
    return elements(call, f"{{0}} {sign} {{2}} * {{1}}", [one, other, alpha], compute=result_type([one, other]))


@register("div", "true_divide", "floor_divide", "remainder", "fmod")
def _division(call: Call) -> Value:
    operands = [call["self"], call["other"]]
    mode = {"floor_divide": "floor", "remainder": "mod", "fmod": "fmod"}.get(call.name, call.get("rounding_mode"))
    if mode is None:
        return elements(call, "{0} / {1}", operands, "float")
    dtype = result_type(operands)
    if not dtype.is_floating_point:
        if isinstance(operands[1], (Tensor, Number)) or operands[1] in (0, -1) or dtype is torch.bool:
            raise Unsupported(f"{call.name} of whole numbers by 0, -1, or a number that is known at run time only")
        return elements(
            call,
            {"floor": "floor_div({0}, {1})", "trunc": "{0} / {1}", "mod": "f_mod({0}, {1})"}.get(mode, "f_fmod({0}, {1})"),
            operands,
        )
    text = {"floor": "floor_div({0}, {1})", "trunc": "f_trunc({0} / {1})", "mod": "f_mod({0}, {1})", "fmod": "f_fmod({0}, {1})"}
    return elements(call, text[mode], operands)


_POWERS = {
    2: "{0} * {0}", 3: "{0} * {0} * {0}", 1: "{0}", 0.5: "f_sqrt({0})", -0.5: "1 / f_sqrt({0})", -1: "1 / {0}",
    -2: "1 / ({0} * {0})",
}  # fmt: skip


@register("pow")
def _power(call: Call) -> Value:
    base, exponent = call["self"], call["exponent"]
    dtype = result_type([base, exponent])
    if dtype.is_floating_point:
        known = None if isinstance(exponent, (Tensor, Number)) else _POWERS.get(exponent)
        return elements(call, known or "f_pow({0}, {1})", [base, exponent])
    if isinstance(exponent, (Tensor, Number)) or exponent < 0 or dtype is torch.bool:
        raise Unsupported("a power of whole numbers whose exponent is known at run time only, or negative")
    return elements(call, f"int_pow({{0}}, {int(exponent)})", [base])


@register("clamp", "clip")
def _clamp(call: Call) -> Value:
    low, high = call["min"], call["max"]
    if low is None or high is None:
        given = low if high is None else high
        return elements(call, "f_max({0}, {1})" if high is None else "f_min({0}, {1})", [call["self"], given])
    return elements(call, "f_clamp({0}, {1}, {2})", [call["self"], low, high])


@register("where")
def _where(call: Call) -> Value:
    if call.get("self") is None:
        raise Unsupported("where with a condition alone")
    dtype = result_type([call["self"], call["other"]])
    if call["condition"].buffer.dtype is not torch.bool:
        raise Unsupported("where with a condition that is not bool")
    builder, condition = call.builder, call["condition"]
    meta = call.meta()
    flag = builder.code(_shaped(builder, condition, meta))
    values = [_shaped(builder, value, meta) for value in (call["self"], call["other"])]
    code = (flag, *(builder.code(value) for value in values))
    group = builder.group(tuple(meta.shape), [v for v in (flag, *values) if isinstance(v, (Tensor, Number))])
    result = call.out(meta, group)
    result.variable = builder.fresh("v")
    ctype = CTYPES[dtype]
    text = f"({{0}} != 0 ? ({ctype})({{1}}) : ({ctype})({{2}}))"
    group.statements.append(Statement(text, code, (result.ctype, result.variable), result))
    return result


@register("masked_fill")
def _masked_fill(call: Call) -> Value:
    if call["mask"].buffer.dtype is not torch.bool:
        raise Unsupported("masked_fill with a mask that is not bool")
    value = call["self"]
    operands = [value, call["mask"], call["value"]]
    return elements(call, f"{{1}} != 0 ? ({value.ctype}){{2}} : {{0}}", operands, compute=value.buffer.dtype)


@register("gelu")
def _gelu(call: Call) -> Value:
    if call["approximate"] == "tanh":
        inner = "T(0.7978845608028654) * ({0} + T(0.044715) * {0} * {0} * {0})"
        return elements(call, f"T(0.5) * {{0}} * (1 + f_tanh({inner}))", [call["self"]], "float")
    return elements(call, "T(0.5) * {0} * (1 + f_erf({0} * T(0.7071067811865476)))", [call["self"]], "float")


@register("_to_copy", "to", "type_as", "float", "double", "long")
def _converted(call: Call) -> Value:
    given = {name: call.get(name) for name in ("layout", "memory_format")}
    if given["layout"] not in (None, torch.strided) or given["memory_format"] not in (None, torch.preserve_format):
        raise Unsupported("a conversion of the memory format")
    device = call.get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a tensor on {device}")
    meta = call.meta()
    if meta is call["self"].meta:
        return call["self"]
    return elements(call, "{0}", [call["self"]])


@register("copy")
def _copy(call: Call) -> Value:
    return elements(call, "{0}", [call["src"]], compute=call["src"].buffer.dtype if isinstance(call["src"], Tensor) else None)


@register("fill", "zero")
def _fill(call: Call) -> Value:
    value = call["value"] if call.name == "fill" else 0
    if isinstance(value, Tensor):
        value = call.builder.as_scalar(value)
    return elements(call, "{0}", [value], compute=call["self"].buffer.dtype)
