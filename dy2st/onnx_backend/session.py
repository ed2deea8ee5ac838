"""One session of onnxruntime: a graph with some of its inputs as constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx
import onnxruntime
import torch
from onnxruntime.capi import onnxruntime_pybind11_state as native

_to_dlpack: Any = torch._C._to_dlpack
_from_dlpack: Any = torch._C._from_dlpack
_BYTES_FOR_TRUTH = tuple(map(int, onnxruntime.__version__.split(".")[:2])) < (1, 32)
"""Whether onnxruntime takes truth values as bytes that are said to be such; later it reads what DLPack says of them."""


class Session:
    """Runs a graph.

    Args:
        model: the ONNX model, with inputs ``input_0``, ``input_1`` and so on.
        constants: the values of those inputs that stay as they are, by position.
        threads: of one operation.
    """

    def __init__(self, model: bytes, constants: Mapping[int, torch.Tensor], threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4  # what fails is told by whoever asked
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        loaded = onnx.load_from_string(model)
        result = self._take(loaded, constants)
        self._kept = [onnxruntime.OrtValue(ort_value(value)) for value in result.values()]
        if result:
            options.add_external_initializers([f"input_{position}" for position in result], self._kept)
        inference_session = onnxruntime.InferenceSession(loaded.SerializeToString(), options, providers=["CPUExecutionProvider"])
        self._session = inference_session._sess
        self._names = {int(given.name.removeprefix("input_")): given.name for given in inference_session.get_inputs()}
        self._outputs = [given.name for given in inference_session.get_outputs()]
        self._run_options = onnxruntime.RunOptions()
        self._run_options.log_severity_level = 4

    @staticmethod
    def _take(model: Any, constants: Mapping[int, torch.Tensor]) -> dict[int, torch.Tensor]:
        """Make constants of inputs; what has no numbers, or is not looked at, stays an input."""
        used = set(_names(model.graph))
        taken: dict[int, torch.Tensor] = {}
        inputs = list(model.graph.input)
        del model.graph.input[:]
        for given in inputs:
            position = int(given.name.removeprefix("input_"))
            value = constants.get(position)
            if value is None or not value.numel() or given.name not in used:
                model.graph.input.append(given)
                continue
            taken[position] = value
            kind = given.type.tensor_type.elem_type
            tensor_proto = onnx.TensorProto(
                name=given.name, data_type=kind, dims=value.shape, data_location=onnx.TensorProto.EXTERNAL
            )
            tensor_proto.external_data.add(key="location", value="memory")
            model.graph.initializer.append(tensor_proto)
        return taken

    def __call__(self, values: Sequence[Any]) -> list[torch.Tensor]:
        """Return the results of the graph, which share no memory with anything; truth values may be bytes.

        Args:
            values: of all inputs of the graph; those of constants are not looked at.

        Raises:
            Exception: onnxruntime cannot compute it.
        """
        feeds = {name: ort_value(values[position]) for position, name in self._names.items()}
        results = self._session.run_with_ort_values(feeds, self._outputs, self._run_options)
        return results.to_dlpacks(_from_dlpack)  # type: ignore[no-any-return]  # onnxruntime has no annotations


def _names(graph: Any) -> Iterator[str]:
    """Yield what the nodes of a graph take, those inside of branches and loops as well."""
    for node in graph.node:
        yield from node.input
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _names(attribute.g)
                yield from (given.name for given in attribute.g.output)


def ort_value(value: Any) -> Any:
    """Return a tensor or number as onnxruntime takes it, without a copy where the tensor lies in one piece."""
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float64 if type(value) is float else None)
    elif value.requires_grad:
        value = value.detach()
    if not value.is_contiguous():
        value = value.contiguous()
    if _BYTES_FOR_TRUTH and value.dtype is torch.bool:
        return native.OrtValue.from_dlpack(_to_dlpack(value.view(torch.uint8)), True)
    return native.OrtValue.from_dlpack(_to_dlpack(value))
