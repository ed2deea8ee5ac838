"""Operators of PyTorch in C++: which there are, and what each one becomes.

The shape, dtype and strides of a result are PyTorch's own answer for meta tensors. An operator that gives a view of its argument
becomes no code at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from dy2st_runtime.executors.cpp import numbers
from dy2st_runtime.executors.cpp.pointwise import FLOATING_ONLY, TABLE
from dy2st_runtime.executors.cpp.values import CTYPES, Number, Opaque, Statement, Tensor, Unsupported, Value

if TYPE_CHECKING:
    from dy2st_runtime.executors.cpp.trace import Tracer

_DUMMIES = {bool: True, int: 1, float: 1.0}
"""What stands for a run-time number of each type when PyTorch is asked for a result's dtype."""


@dataclasses.dataclass
class Call:
    """One call of an operator.

    Attributes:
        tracer: what follows it.
        node: where it is.
        target: the operator.
        name: without namespace, overload, and the ``_`` of an in-place one.
        arguments: by name, defaults filled in.
        in_place: whether it writes to its first argument.
    """

    tracer: Tracer
    node: fx.Node
    target: Any
    name: str
    arguments: dict[str, Any]
    in_place: bool

    def __getitem__(self, name: str) -> Any:
        return self.arguments[name]

    def get(self, name: str) -> Any:
        """An argument, or ``None`` where the overload has none of the name."""
        return self.arguments.get(name)

    def constant(self, name: str) -> Any:
        """An argument that must be known now."""
        return self.tracer.constant(self.arguments.get(name))

    def meta(self, **other: Any) -> Any:
        """The result for meta tensors."""
        table = {**self.arguments, **other}
        schema = self.target._schema.arguments
        args = [_as_meta(table[argument.name]) for argument in schema if not argument.kwarg_only]
        kwargs = {argument.name: _as_meta(table[argument.name]) for argument in schema if argument.kwarg_only}
        kwargs = {name: torch.device("meta") if name == "device" and value is not None else value for name, value in kwargs.items()}
        kwargs.pop("pin_memory", None)
        try:
            return self.target(*args, **kwargs)
        except Exception as error:
            raise Unsupported(f"{self.name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}") from error

    def out(self, meta: torch.Tensor, item: Any, index: int | None = None) -> Tensor:
        """The tensor of a new result."""
        return self.tracer.tensor(meta, item, self.node if index is None else (self.node, index))


def _as_meta(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.meta
    if isinstance(value, Number):
        return _DUMMIES[value.kind]
    if isinstance(value, Opaque):
        raise Unsupported("a value that has no C++")
    if isinstance(value, (list, tuple)):
        return type(value)(_as_meta(item) for item in value)
    return value


def follow(tracer: Tracer, node: fx.Node, target: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Value:
    """Follow one operator."""
    schema = target._schema
    if any(argument.is_out for argument in schema.arguments):
        raise Unsupported(f"{target} writes to out=")
    arguments = {argument.name: argument.default_value for argument in schema.arguments if argument.has_default_value()}
    positional = [argument.name for argument in schema.arguments if not argument.kwarg_only]
    arguments.update(zip(positional, args))
    arguments.update(kwargs)
    name = schema.name.removeprefix("aten::")
    in_place = name.endswith("_") and not name.endswith("__")
    call = Call(tracer, node, target, name.removesuffix("_") if in_place else name, arguments, in_place)
    rule = rule_of(target)
    if rule is None:
        raise Unsupported(f"{target} has no C++")
    for argument in schema.arguments:
        given = arguments.get(argument.name)
        known = Tensor if in_place and argument.name == "self" else (Tensor, Number, bool, int, float)
        if str(argument.type) == "Tensor" and not isinstance(given, known):
            raise Unsupported(f"{target} of something that is no tensor")
    return rule(call)


Rule = Callable[[Call], Value]
RULES: dict[str, Rule] = {}
"""What follows an operator, by its name without overload."""


def rule_of(target: Any) -> Rule | None:
    """What follows an operator; ``None`` where there is no C++ for it."""
    namespace, _, name = target._schema.name.partition("::")
    if namespace != "aten":
        return None
    if name in RULES:
        return RULES[name]
    if name in VIEWS:
        return view
    base = name.removesuffix("_") if name.endswith("_") and not name.endswith("__") else name
    if base in RULES and base in _IN_PLACE:
        return RULES[base]
    return pointwise if base in TABLE else None


def register(*names: str) -> Callable[[Rule], Rule]:
    """Say what follows some operators."""

    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule

    return note


# -- elements ----------------------------------------------------------------------------------------------------------

_IN_PLACE = frozenset({
    "add", "sub", "div", "pow", "clamp", "fill", "zero", "copy", "masked_fill", "remainder", "fmod", "floor_divide",
})  # fmt: skip
"""Operators with a rule of their own whose in-place form it follows, too."""


def pointwise(call: Call) -> Value:
    """An operation of the table."""
    known = TABLE[call.name]
    operands = [call[name] for name in known.operands]
    kind = known.kind
    if call.name in FLOATING_ONLY and not _first_dtype(operands).is_floating_point:
        raise Unsupported(f"{call.name} of whole numbers has no C++")
    return elements(call, known.text, operands, kind)


def _first_dtype(operands: Sequence[Any]) -> torch.dtype:
    return next(value.buffer.dtype for value in operands if isinstance(value, Tensor))


def elements(call: Call, text: str, operands: Sequence[Any], kind: str = "same", compute: torch.dtype | None = None) -> Tensor:
    """One statement for each element of the result.

    Args:
        call: the operator.
        text: C++ with ``{0}``, … for the operands, which are cast to the type it computes in.
        operands: tensors and numbers; they broadcast.
        kind: see :class:`~dy2st_runtime.executors.cpp.pointwise.Pointwise`.
        compute: the dtype it computes in, where that does not follow from the operands.
    """
    tracer = call.tracer
    meta = call["self"].meta if call.in_place else call.meta()
    dtype = compute or _compute_dtype(operands, kind)
    if dtype not in CTYPES:
        raise Unsupported(f"{dtype} has no C++ here")
    ctype = CTYPES[dtype]
    scalars = [_shaped(tracer, value, meta) for value in operands]
    code = tuple(tracer.code(value) for value in scalars)
    casts = [f"({ctype})({{{index}}})" for index in range(len(code))]
    value = text.replace("T(", f"{ctype}(").format(*(f"({cast})" for cast in casts))
    if kind == "bool" or meta.dtype is torch.bool:
        value = f"({value}) != 0" if kind != "bool" else value
    if call.in_place:
        return _written(call, value, code, scalars)
    group = tracer.group(tuple(meta.shape), [v for v in scalars if isinstance(v, (Tensor, Number))])
    made = call.out(meta, group)
    made.variable = tracer.fresh("v")
    group.statements.append(Statement(f"({made.ctype})({value})", code, (made.ctype, made.variable), made))
    return made


def _shaped(tracer: Tracer, value: Any, meta: torch.Tensor) -> Any:
    """An operand as the loop over the result reads it: a tensor of another shape is broadcast."""
    if not isinstance(value, Tensor) or value.shape == tuple(meta.shape) or not value.shape:
        return value
    try:
        expanded = value.meta.expand(meta.shape)
    except RuntimeError as error:
        raise Unsupported(str(error).splitlines()[0]) from error
    return Tensor(value.buffer, expanded, value.item, value.dynamic, identity=value.identity, optional=value.optional)


def _compute_dtype(operands: Sequence[Any], kind: str) -> torch.dtype:
    found = result_type(operands)
    if kind == "float" and not found.is_floating_point:
        return torch.get_default_dtype()
    return found


def result_type(operands: Sequence[Any]) -> torch.dtype:
    """The dtype that tensors and numbers have in common."""
    metas = [_as_meta(value) for value in operands]
    tensors = [value for value in metas if isinstance(value, torch.Tensor)]
    others = [value for value in metas if not isinstance(value, torch.Tensor)]
    if not tensors:
        raise Unsupported("an operation without a tensor")
    sized = [value for value in tensors if value.dim()] or tensors
    found = sized[0]
    for value in tensors:
        dtype = torch.result_type(found, value)
        found = torch.empty(found.shape if found.dim() or not value.dim() else value.shape, dtype=dtype, device="meta")
    for value in others:
        found = found.to(torch.result_type(found, value))
    return found.dtype


def _written(call: Call, value: str, code: Sequence[Any], operands: Sequence[Any]) -> Tensor:
    """An in-place operation: a barrier, since whatever shares the memory sees it."""
    target: Tensor = call["self"]
    tracer = call.tracer
    tracer.used(target)
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
    group = tracer.group(target.shape, (), alone=True)
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
    tracer, condition = call.tracer, call["condition"]
    meta = call.meta()
    flag = tracer.code(_shaped(tracer, condition, meta))
    values = [_shaped(tracer, value, meta) for value in (call["self"], call["other"])]
    code = (flag, *(tracer.code(value) for value in values))
    group = tracer.group(tuple(meta.shape), [v for v in (flag, *values) if isinstance(v, (Tensor, Number))])
    made = call.out(meta, group)
    made.variable = tracer.fresh("v")
    ctype = CTYPES[dtype]
    text = f"({{0}} != 0 ? ({ctype})({{1}}) : ({ctype})({{2}}))"
    group.statements.append(Statement(text, code, (made.ctype, made.variable), made))
    return made


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
        value = call.tracer.as_scalar(value)
    return elements(call, "{0}", [value], compute=call["self"].buffer.dtype)


# -- new tensors -------------------------------------------------------------------------------------------------------


@register("full", "zeros", "ones", "scalar_tensor", "full_like", "zeros_like", "ones_like", "new_zeros", "new_ones", "new_full",
          "empty", "empty_like", "new_empty")  # fmt: skip
def _filled(call: Call) -> Value:
    value = 1 if "ones" in call.name else 0
    if call.name == "scalar_tensor":
        value = call["s"]
    elif "full" in call.name:
        value = call["fill_value"]
    if call.get("size") is not None:
        call.arguments["size"] = call.constant("size")
    device = call.get("device")
    if device is not None and torch.device(device).type != "cpu":
        raise Unsupported(f"a tensor on {device}")
    return constant_elements(call, value)


def constant_elements(call: Call, value: Any) -> Tensor:
    """A new tensor with one value everywhere."""
    tracer, meta = call.tracer, call.meta()
    if meta.dtype not in CTYPES:
        raise Unsupported(f"{meta.dtype} has no C++ here")
    used = [value] if isinstance(value, (Tensor, Number)) else []
    group = tracer.group(tuple(meta.shape), used)
    made = call.out(meta, group)
    made.variable = tracer.fresh("v")
    text = "({}) != 0" if meta.dtype is torch.bool else "{}"
    group.statements.append(Statement(f"({made.ctype})({text})", (tracer.code(value),), (made.ctype, made.variable), made))
    return made


# -- views -------------------------------------------------------------------------------------------------------------

VIEWS = frozenset({
    "view", "reshape", "_unsafe_view", "permute", "transpose", "t", "expand", "expand_as", "unsqueeze", "squeeze", "select",
    "slice", "narrow", "flatten", "unflatten", "alias", "detach", "unbind", "chunk", "split", "split_with_sizes", "view_as",
    "reshape_as", "contiguous", "movedim", "swapaxes", "swapdims", "diagonal", "broadcast_to", "tensor_split", "lift_fresh",
    "unfold",
})  # fmt: skip
"""Operators that give a view, or, where there can be none, a copy."""


def view(call: Call) -> Value:
    """A view; or a copy, where PyTorch makes one."""
    value = call["self"]
    more = None
    if call.name == "select" and isinstance(call["index"], Number):
        more = _selected(call, value, call["index"])
        call.arguments["index"] = 0
    for name, argument in call.arguments.items():
        if name != "self":
            call.arguments[name] = call.tracer.constant(argument) if not isinstance(argument, Tensor) else argument
    result = call.meta()
    if isinstance(result, torch.Tensor):
        return _viewed(call, value, result, more)
    return tuple(_viewed(call, value, meta, None) for meta in result)


def _viewed(call: Call, value: Tensor, meta: torch.Tensor, more: Number | None) -> Tensor:
    if meta is value.meta:
        return value
    if meta.untyped_storage()._cdata == value.meta.untyped_storage()._cdata:
        return call.tracer.view(value, meta, more)
    return copied(call, value, meta)


def copied(call: Call, value: Tensor, meta: torch.Tensor) -> Tensor:
    """A copy of a tensor's elements in order, in another shape."""
    tracer = call.tracer
    flat = Tensor(value.buffer, value.meta, value.item, value.dynamic, optional=value.optional)
    group = tracer.group(value.shape, [flat])
    stride = meta.stride() if meta.shape == value.meta.shape else _contiguous(value.shape)
    shaped = torch.empty_strided(value.shape, stride, dtype=meta.dtype, device="meta")
    made = call.out(shaped, group)
    made.variable = tracer.fresh("v")
    group.statements.append(Statement("{}", (tracer.code(flat),), (made.ctype, made.variable), made))
    if shaped.shape == meta.shape:
        return made
    again = Tensor(made.buffer, shaped.view(meta.shape), made.item, roots=made.roots)
    return again


def _contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(torch.empty(shape, device="meta").stride())


def _selected(call: Call, value: Tensor, index: Number) -> Number:
    """What a run-time index adds to the offset; outside of the tensor, the python executor raises."""
    dim = call.tracer.constant(call["dim"])
    if not value.shape:
        raise Unsupported("select on a tensor without dimensions")
    size, step = value.shape[dim], value.meta.stride()[dim]
    check = f"if ({{0}} < -{size} || {{0}} >= {size}) return GIVE_UP;"
    return call.tracer.number(int, f"({{0}} < 0 ? {{0}} + {size} : {{0}}) * {step}", [index], check)


# -- numbers -----------------------------------------------------------------------------------------------------------


@register("item", "_local_scalar_dense")
def _item(call: Call) -> Value:
    value = call["self"]
    return call.tracer.number(numbers.item_kind(value), "{}", [value])
