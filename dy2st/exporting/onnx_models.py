"""ONNX models, by PyTorch's exporter, with the ONNX checker, run by onnxruntime."""

from __future__ import annotations

import contextlib
import importlib.util
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy
import torch
from torch.utils import _pytree as pytree

from dy2st.errors import ExportError
from dy2st.exporting.inputs import distinct, parameter_names
from dy2st.exporting.targets import Runner, quietly
from dy2st.lowering import sequences
from dy2st.lowering.context import brief, place
from dy2st.lowering.export import Lowered
from dy2st_runtime.ir.program import Program

NEEDED = ("onnx", "onnxscript", "onnxruntime")
"""Packages of the extra ``onnx``."""

_LARGEST = 1_900_000_000
"""One file holds 2 GB; a larger model has its weights in a second one."""

_OPSET = 20
"""The version of operators that PyTorch's exporter writes unless told otherwise."""

_SUBGRAPHS = "pkg.torch.__subgraph__"
_OPERATOR = re.compile(r"op='(\w+)\.(\w+)', overload='(\w+)'")


def require() -> None:
    """Check that the packages are there.

    Raises:
        ExportError: one is not.
    """
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ExportError(f"exporting to ONNX needs {', '.join(missing)}: pip install 'dy2st[onnx]'")


def write(lowered: Lowered, program: Program, path: str, opset: int | None) -> None:
    """Write an ``.onnx`` file.

    Raises:
        ExportError: an operator of it has no translation.
    """
    import onnx

    from dy2st.exporting import onnx_integers  # imports onnx_ir, which comes with the extra
    from dy2st.exporting.onnx_loops import simplify_loops  # as well

    with quietly(), _one_version_of_subgraphs():
        try:
            inputs = parameter_names(program)
            nodes = [node for part in lowered.exported.graph_module.modules() for node in _nodes(part)]
            has_lists = any(map(_is_of_lists, nodes))
            has_integers = any(tensor.dtype is torch.int8 for tensor in _constants(lowered.exported))
            result = torch.onnx.export(
                lowered.exported,
                input_names=inputs,
                output_names=result_names(lowered.exported, inputs),
                opset_version=opset,
                dynamo=True,
                verbose=False,
                optimize=not (has_lists or has_integers),
                custom_translation_table=_translations(opset or _OPSET, has_lists),
            )
            if has_lists and result is not None:
                sequences.give_types(result.model)
            if has_integers and result is not None:
                onnx_integers.dequantize(result.model)
            if (has_lists or has_integers) and result is not None:
                result.optimize()
                onnx_integers.scale(result.model)
        except Exception as error:
            raise _translated(error, program) from error
        assert result is not None
        simplify_loops(result.model)
        size = sum(tensor.numel() * tensor.element_size() for tensor in lowered.exported.state_dict.values())
        result.save(path, external_data=size > _LARGEST)
    onnx.checker.check_model(path, full_check=size <= _LARGEST)


def _translations(opset: int, has_lists: bool) -> dict[Any, Any]:
    """Return what the exporter puts in the place of operators that it does not know."""
    import onnxscript

    op: Any = getattr(onnxscript, f"opset{opset}")
    own = {torch.ops.aten._int_mm.default: lambda self, mat2: op.MatMulInteger(self, mat2)}
    return own | sequences.translations(opset) if has_lists else own


def _constants(exported: torch.export.ExportedProgram) -> Iterator[torch.Tensor]:
    for value in (*exported.state_dict.values(), *exported.constants.values()):
        if isinstance(value, torch.Tensor):
            yield value


def _nodes(part: torch.nn.Module) -> Sequence[Any]:
    return list(part.graph.nodes) if isinstance(part, torch.fx.GraphModule) else ()


def _is_of_lists(node: Any) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == sequences.EMPTY.namespace


def result_names(exported: torch.export.ExportedProgram, taken: Sequence[str]) -> list[str]:
    """Return the names of the tensors among the results: the way to each, as ``scores`` or ``boxes_0``; ``output`` where there is
    none.

    An exporter that names them itself gives a result that is an argument the name of the argument, which no ONNX model can have.

    Args:
        exported: what is written.
        taken: the names of the arguments.
    """
    outputs = exported.graph_signature.user_outputs
    structure = exported.call_spec.out_spec
    assert structure is not None
    paths, _ = pytree.tree_flatten_with_path(pytree.tree_unflatten(list(range(len(outputs))), structure))
    results = list(taken)
    for path, number in paths:
        if isinstance(outputs[number], str):
            steps = [str(getattr(step, "key", getattr(step, "name", getattr(step, "idx", "")))) for step in path]
            named = bool(steps) and not steps[0][:1].isdigit()
            results.append(distinct("_".join(steps if named else ["output", *steps]), results))
    return results[len(taken) :]


def _translated(error: BaseException, program: Program) -> ExportError:
    """Return the error for an operator that has no translation, with the user's line."""
    root = error
    while root.__cause__ is not None:
        root = root.__cause__
    result = _OPERATOR.search(str(root))
    if result is None:
        return ExportError(f"{program.name} cannot be told in ONNX: {type(root).__name__}: {brief(root)}", program.origin)
    operator = result[2]
    nodes = [node for node in program.nodes() if isinstance(node.target, torch._ops.OpOverload)]
    using = [node for node in nodes if _stem(node) == operator] or [node for node in nodes if operator in _stem(node)]
    where = place(using[0]) if using else f"{program.origin}: {program.name}: "
    return ExportError(f"{where}{result[1]}.{operator}.{result[3]} has no translation to ONNX; write it with other operators")


def _stem(node: Any) -> str:
    name: str = node.target._schema.name
    return name.rpartition("::")[2]


@contextlib.contextmanager
def _one_version_of_subgraphs() -> Iterator[None]:
    """Give PyTorch's domain of subgraphs one version.

    Its exporter gives the domain the opset's number in models and functions that call a subgraph, and 1 in the subgraph itself,
    so that a branch inside of a loop cannot be inlined. Where the exporter has no such pass any more, nothing is done.
    """
    from torch.onnx._internal.exporter import _ir_passes as passes

    original = getattr(passes, "add_opset_imports", None)
    if original is None:
        yield
        return

    def add_opset_imports(model: Any) -> None:
        original(model)
        for holder in (model, *model.functions.values()):
            if _SUBGRAPHS in holder.opset_imports:
                holder.opset_imports[_SUBGRAPHS] = 1

    passes.add_opset_imports = add_opset_imports
    try:
        yield
    finally:
        passes.add_opset_imports = original


def read(path: str) -> Runner:
    """Return what runs an ``.onnx`` file in onnxruntime, on the CPU."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [slot.name for slot in session.get_inputs()]

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[torch.Tensor]:
        given = [leaf.detach().numpy() for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        result = session.run(None, dict(zip(names, given, strict=True)))
        items = [item for value in result for item in (value if isinstance(value, list) else [value])]
        return [torch.from_numpy(numpy.asarray(item)) for item in items]

    return Runner(run)
