"""The transforms of ``torch.func``: the function becomes a block of the program, and the program transforms it when it runs.

    g = torch.func.grad(lambda v: (v * w).sum())(x)    →    g, value = grad with (v = x): yield (v * w).sum()

So the numbers are those of eager, and transforms nest. For ``vmap``, the function is captured with one item of the batch.
"""

from __future__ import annotations

import dataclasses
import functools
from types import CellType, FunctionType
from typing import Any

import torch
from torch._functorch import eager_transforms, vmap
from torch.utils._pytree import TreeSpec, _broadcast_to_and_flatten, tree_flatten, tree_leaves, tree_unflatten

from dy2st import errors
from dy2st.capture.branching.transformed import Call, Captured, Kinds, capture, kind_of, outside, record, with_gradient
from dy2st.capture.library.registry import Handler, handles, handles_made_by, refuses
from dy2st.capture.session.session import Session, current
from dy2st.capture.types import value_types
from dy2st.capture.values.symbolic import RuntimeFunction, TaggedUnion
from dy2st.capture.writes.places import CellPlace
from dy2st_runtime.primitives import control


def _closure(session: Session, function: Any) -> dict[str, Any]:
    """Return what a transform was given when it was made, by its parameters; guarded if that was outside of the capture."""
    table = session.tracker.table
    own = table.held(function, function.__qualname__) if session.tracker.source_of(function) is not None else None
    results = {}
    for index, (name, cell) in enumerate(zip(function.__code__.co_freevars, function.__closure__)):
        if own is not None:
            holder = table.item(table.attribute(own, "__closure__"), index, f"{name}'s cell")
            session.outside.read(CellPlace(cell, name), table.cell(holder, name))
        results[name] = cell.cell_contents
    return results


def _differentiating(
    session: Session, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], forward: bool = False, **options: Any
) -> Call:
    """Return a call of a function whose tensors are all wrapped by the transform; ``forward`` where it has no graph."""
    leaves, spec = tree_flatten((args, kwargs))
    leaves = [session.outside.adopted(leaf) for leaf in leaves]
    kinds = {position: kind_of(leaf) for position, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    if not forward:
        kinds = {position: with_gradient(kind) for position, kind in kinds.items()}
    return Call(name, leaves, spec, kinds, not forward, options)


def _selected(given: Call, argnums: Any) -> tuple[tuple[int, ...], list[Any], TreeSpec]:
    """Return which inputs to differentiate for: their positions among the inputs, the tensors, and their structure."""
    args, _ = tree_unflatten(list(range(len(given.leaves))), given.spec)
    positions, spec = tree_flatten(eager_transforms._slice_argnums(args, argnums, as_tuple=False))
    for position in positions:
        if position not in given.kinds:
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(given.leaves[position])}")
    order = list(given.kinds)
    return tuple(order.index(position) for position in positions), [given.leaves[position] for position in positions], spec


def _for_each_function(handler: Handler) -> Handler:
    """Transform each of the functions that the transformed one may be: which it is, is decided outside of the transform."""

    @functools.wraps(handler)
    def handle(session: Session, function: Any, *args: Any, **kwargs: Any) -> Any:
        transformed = _closure(session, function).get("func")
        if not isinstance(transformed, TaggedUnion):
            return handler(session, function, *args, **kwargs)
        return session.over(transformed, lambda one: handler(session, _of(function, one), *args, **kwargs))

    return handle


def _of(function: FunctionType, transformed: Any) -> FunctionType:
    """Return what a transform makes of another function."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or ())
    closure = tuple(CellType(transformed) if name == "func" else cell for name, cell in cells)
    return FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, closure)


# -- gradients -----------------------------------------------------------------------------------------------------------


def _gradient(session: Session, function: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any, Any]:
    made_with = _closure(session, function)
    given = _differentiating(session, "grad", args, kwargs)
    given.options["argnums"], inputs, spec = _selected(given, made_with["argnums"])
    captured = capture(session, made_with["func"], given, made_with["has_aux"])
    if captured.spec.num_leaves != 1 or not captured.spec.is_leaf():
        raise RuntimeError("grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got a container")
    kinds = [
        *(outside(session, kind_of(tensor), captured.has_gradient) for tensor in inputs), *captured.outputs, *captured.aux
    ]  # fmt: skip
    result = record(session, given, captured, kinds, aux=len(captured.aux))
    gradients = tree_unflatten(result[: len(inputs)], spec)
    value, aux = result[len(inputs)], tree_unflatten(result[len(inputs) + 1 :], captured.aux_spec)
    return gradients, value, (aux,) if made_with["has_aux"] else ()


def _probe(value: Any) -> Any:
    """Return any function, to see what a transform makes of it."""


@handles_made_by(torch.func.grad(_probe))
@_for_each_function
def _grad(session: Session, function: Any, *args: Any, **kwargs: Any) -> Any:
    gradients, _, aux = _gradient(session, function, *args, **kwargs)
    return (gradients, *aux) if aux else gradients


@handles_made_by(torch.func.grad_and_value(_probe))
@_for_each_function
def _grad_and_value(session: Session, function: Any, *args: Any, **kwargs: Any) -> Any:
    gradients, value, aux = _gradient(session, function, *args, **kwargs)
    return gradients, (value, *aux) if aux else value


def _jacobian(session: Session, name: str, function: Any, args: tuple[Any, ...], option: str) -> Any:
    made_with = _closure(session, function)
    given = _differentiating(session, name, args, {}, name == "jacfwd", **{option: made_with[option]})
    given.options["argnums"], inputs, spec = _selected(given, made_with["argnums"])
    captured = capture(session, made_with["func"], given, made_with["has_aux"])
    kinds = [outside(session, kind_of(tensor), captured.has_gradient) for tensor in inputs]
    rows = [dataclasses.replace(row, sizes=(*row.sizes, *kind.sizes)) for row in captured.outputs for kind in kinds]
    value = record(session, given, captured, [*rows, *captured.aux], aux=len(captured.aux))
    results = [tree_unflatten(value[start : start + len(kinds)], spec) for start in range(0, len(rows), len(kinds))]
    result = tree_unflatten(results, captured.spec)
    return (result, tree_unflatten(value[len(rows) :], captured.aux_spec)) if made_with["has_aux"] else result


@handles_made_by(torch.func.jacrev(_probe))
@_for_each_function
def _jacrev(session: Session, function: Any, *args: Any) -> Any:
    return _jacobian(session, "jacrev", function, args, "chunk_size")


@handles_made_by(torch.func.jacfwd(_probe))
@_for_each_function
def _jacfwd(session: Session, function: Any, *args: Any) -> Any:
    argnums = _closure(session, function)["argnums"]
    if any(number < 0 for number in (argnums if isinstance(argnums, tuple) else (argnums,))):
        raise errors.CaptureError(
            f"torch.func.jacfwd (and hessian) with argnums={argnums}, for which torch gives zeros",
            session.here(),
            fix="count the argument from the front",
        )
    return _jacobian(session, "jacfwd", function, args, "randomness")


_JVP = "jvp(f, primals, tangents)"


@handles(torch.func.jvp)
def _jvp(session: Session, func: Any, primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    if not isinstance(primals, tuple):
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals)."
        )
    directions, spec = tree_flatten(tangents)
    if spec != tree_flatten(primals)[1]:
        raise RuntimeError(f"{_JVP}: Expected primals and tangents to have the same python structure.")
    for leaf in (*tree_leaves(primals), *directions):
        if not isinstance(leaf, torch.Tensor):
            raise RuntimeError(f"{_JVP}: Expected tensors, got unsupported type {type(leaf)}")
    given = _differentiating(session, "jvp", primals, {}, forward=True, tangents=tuple(directions), strict=strict)
    captured = capture(session, func, given, has_aux)
    has_gradient = captured.has_gradient or any(tensor.requires_grad for tensor in directions)
    outputs = [with_gradient(kind, has_gradient) for kind in captured.outputs]
    kinds = [*captured.outputs, *outputs, *captured.aux]
    result = record(session, given, captured, kinds, aux=len(captured.aux))
    count = len(outputs)
    results = tuple(tree_unflatten(part, captured.spec) for part in (result[:count], result[count : 2 * count]))
    return (*results, tree_unflatten(result[2 * count :], captured.aux_spec)) if has_aux else results


@handles(torch.func.vjp)
def _vjp(session: Session, func: Any, *primals: Any, has_aux: bool = False) -> Any:
    for leaf in tree_leaves(primals):
        if not isinstance(leaf, torch.Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(leaf)}")
    given = _differentiating(session, "vjp", primals, {})
    captured = capture(session, func, given, has_aux)
    back = RuntimeFunction()
    result = record(session, given, captured, [*captured.outputs, *captured.aux], (back,), aux=len(captured.aux))
    count = len(captured.outputs)
    function = VjpFunction(
        back, captured, [outside(session, kind_of(tensor), captured.has_gradient) for tensor in given.inputs], primals
    )
    session.allocations.created[id(function)] = function
    results = tree_unflatten(result[:count], captured.spec), function
    return (*results, tree_unflatten(result[count:], captured.aux_spec)) if has_aux else results


class VjpFunction:
    """What ``torch.func.vjp`` gives: called, it records an operation that calls the function of the program."""

    def __init__(self, back: RuntimeFunction, captured: Captured, kinds: Kinds, primals: tuple[Any, ...]) -> None:
        self._back, self._captured, self._kinds = back, captured, kinds
        self._spec = tree_flatten(primals)[1]

    def __call__(self, cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        session = current()
        if session is None or not session.builder.knows(self._back):
            raise errors.CaptureError(
                "what torch.func.vjp gave is called outside of the block of the program that made it",
                session.here() if session is not None else None,
                fix="call it in the branch, loop or function where torch.func.vjp is called",
            )
        given, spec = tree_flatten(cotangents)
        if spec != self._captured.spec:
            raise RuntimeError(
                "Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function."
            )
        given = [session.outside.adopted(leaf) for leaf in given]
        again = torch.is_grad_enabled() if create_graph is None else create_graph
        has_gradient = again and (self._captured.has_gradient or any(leaf.requires_grad for leaf in given))
        results = [session.new_value(with_gradient(kind, has_gradient)) for kind in self._kinds]
        options = {"retain_graph": retain_graph, "create_graph": create_graph}
        session.builder.call(control.apply_, (self._back, tuple(given)), options, tuple(results))
        return tree_unflatten(results, self._spec)


# -- batches -------------------------------------------------------------------------------------------------------------


@handles_made_by(torch.func.vmap(_probe))
@_for_each_function
def _vmap(session: Session, function: Any, *args: Any, **kwargs: Any) -> Any:
    made_with = _closure(session, function)
    size, in_dims, _, _ = vmap._process_batched_inputs(made_with["in_dims"], args, made_with["func"])
    leaves, spec = tree_flatten((args, kwargs))
    leaves = [session.outside.adopted(leaf) for leaf in leaves]
    batched = {position: dim for position, dim in enumerate(in_dims) if dim is not None}
    kinds = {position: _without(kind_of(leaves[position]), dim) for position, dim in batched.items()}
    options = {"in_dims": tuple(batched.values()), **{name: made_with[name] for name in ("randomness", "chunk_size")}}
    given = Call("vmap", leaves, spec, kinds, False, options)
    captured = capture(session, made_with["func"], given)
    out_dims = _out_dims(made_with["out_dims"], captured.spec)
    batch = value_types.size_of(size)
    results = [_with(kind, dim, batch) for kind, dim in zip(captured.outputs, out_dims)]
    result = record(session, given, captured, results, out_dims=out_dims)
    return tree_unflatten(result, captured.spec)


def _without(kind: value_types.TensorType, dim: int) -> value_types.TensorType:
    """Return the type of one item of a batch."""
    strides = None if kind.strides is None else (*kind.strides[:dim], *kind.strides[dim + 1 :])
    return dataclasses.replace(kind, sizes=(*kind.sizes[:dim], *kind.sizes[dim + 1 :]), strides=strides)


def _with(kind: value_types.TensorType, dim: int | None, size: Any) -> value_types.TensorType:
    """Return the type of a batch of items."""
    if dim is None:
        return kind
    place = dim % (len(kind.sizes) + 1)
    return dataclasses.replace(kind, sizes=(*kind.sizes[:place], size, *kind.sizes[place:]))


def _out_dims(out_dims: Any, spec: TreeSpec) -> tuple[int | None, ...]:
    """Return the dimension of the batch in each result, as torch spreads ``out_dims`` over them."""
    if spec.is_leaf() and isinstance(out_dims, tuple) and len(out_dims) == 1:
        return out_dims
    result = _broadcast_to_and_flatten(out_dims, spec)
    if result is None:
        raise ValueError(f"vmap: out_dims is not compatible with the structure of `outputs`: {out_dims} and {spec}")
    return tuple(result)


# -- what is left ----------------------------------------------------------------------------------------------------------


for _function in (torch.func.linearize, torch.func.functionalize):
    refuses(
        _function,
        message=f"torch.func.{_function.__name__} cannot be used inside a captured function",
        fix="use torch.func.jvp or torch.func.vjp, or call it outside of the static function",
    )
