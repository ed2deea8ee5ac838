"""The protocol buffers of the protocol and of its model repository extension, from a table of their fields.

They are in a pool of their own, so that a client's generated messages can be in the same process.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from dy2st_runtime.serving.protocol.datatypes import Given, Result
from dy2st_runtime.serving.protocol.failures import BadRequestError
from dy2st_runtime.serving.protocol.json_messages import Request, timeout_of
from dy2st_runtime.serving.protocol.signature import TensorInfo

SERVICE = "inference.GRPCInferenceService"

_TABLE = """
ServerLiveRequest
ServerLiveResponse live:bool=1
ServerReadyRequest
ServerReadyResponse ready:bool=1
ModelReadyRequest name:string=1 version:string=2
ModelReadyResponse ready:bool=1
ServerMetadataRequest
ServerMetadataResponse name:string=1 version:string=2 extensions:string*=3
ModelMetadataRequest name:string=1 version:string=2
ModelMetadataResponse.TensorMetadata name:string=1 datatype:string=2 shape:int64*=3
ModelMetadataResponse name:string=1 versions:string*=2 platform:string=3 inputs:.TensorMetadata*=4 outputs:.TensorMetadata*=5
InferParameter bool_param:bool?=1 int64_param:int64?=2 string_param:string?=3 double_param:double?=4 uint64_param:uint64?=5
InferTensorContents bool_contents:bool*=1 int_contents:int32*=2 int64_contents:int64*=3 uint_contents:uint32*=4
 uint64_contents:uint64*=5 fp32_contents:float*=6 fp64_contents:double*=7 bytes_contents:bytes*=8
ModelInferRequest.InferInputTensor name:string=1 datatype:string=2 shape:int64*=3 parameters:InferParameter%=4
 contents:InferTensorContents=5
ModelInferRequest.InferRequestedOutputTensor name:string=1 parameters:InferParameter%=2
ModelInferRequest model_name:string=1 model_version:string=2 id:string=3 parameters:InferParameter%=4 inputs:.InferInputTensor*=5
 outputs:.InferRequestedOutputTensor*=6 raw_input_contents:bytes*=7
ModelInferResponse.InferOutputTensor name:string=1 datatype:string=2 shape:int64*=3 parameters:InferParameter%=4
 contents:InferTensorContents=5
ModelInferResponse model_name:string=1 model_version:string=2 id:string=3 parameters:InferParameter%=4
 outputs:.InferOutputTensor*=5 raw_output_contents:bytes*=6
ModelRepositoryParameter bool_param:bool?=1 int64_param:int64?=2 string_param:string?=3 bytes_param:bytes?=4
RepositoryIndexRequest repository_name:string=1 ready:bool=2
RepositoryIndexResponse.ModelIndex name:string=1 version:string=2 state:string=3 reason:string=4
RepositoryIndexResponse models:.ModelIndex*=1
RepositoryModelLoadRequest repository_name:string=1 model_name:string=2 parameters:ModelRepositoryParameter%=3
RepositoryModelLoadResponse
RepositoryModelUnloadRequest repository_name:string=1 model_name:string=2 parameters:ModelRepositoryParameter%=3
RepositoryModelUnloadResponse
""".replace("\n ", " ")
"""A message a line, and those inside before it; ``*`` is repeated, ``%`` a map from names, ``?`` one of several."""

_FIELD = descriptor_pb2.FieldDescriptorProto


@functools.cache
def messages() -> dict[str, Any]:
    """Return the classes of the messages by their names.

    Example:
        >>> messages()["ServerLiveResponse"](live=True).live
        True
    """
    file = descriptor_pb2.FileDescriptorProto(name="dy2st_open_inference.proto", package="inference", syntax="proto3")
    made: dict[str, Any] = {}
    for line in _TABLE.split("\n"):
        if line:
            path, *fields = line.split(" ")
            outer, _, name = path.rpartition(".")
            if outer and outer not in made:
                made[outer] = file.message_type.add(name=outer)
            message = made[outer].nested_type.add(name=name) if outer else made.get(path) or file.message_type.add(name=path)
            made[path] = message
            for field in fields:
                _add_field(message, path, field)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {path: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"inference.{path}")) for path in made}


def _add_field(message: Any, path: str, text: str) -> None:
    name, _, rest = text.partition(":")
    kind, _, number = rest.partition("=")
    is_list, is_map, is_choice = (kind.endswith(sign) for sign in "*%?")
    kind = kind.rstrip("*%?")
    label = _FIELD.LABEL_REPEATED if is_list or is_map else _FIELD.LABEL_OPTIONAL
    field = message.field.add(name=name, number=int(number), label=label)
    if is_map:
        entry = message.nested_type.add(name="".join(part.capitalize() for part in name.split("_")) + "Entry")
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, label=_FIELD.LABEL_OPTIONAL, type=_FIELD.TYPE_STRING)
        _set_type(entry.field.add(name="value", number=2, label=_FIELD.LABEL_OPTIONAL), kind, path)
        field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".inference.{path}.{entry.name}"
        return
    _set_type(field, kind, path)
    if is_choice:
        if not message.oneof_decl:
            message.oneof_decl.add(name="parameter_choice")
        field.oneof_index = 0


def _set_type(field: Any, kind: str, path: str) -> None:
    own = getattr(_FIELD, f"TYPE_{kind.upper()}", None)
    field.type = _FIELD.TYPE_MESSAGE if own is None else own
    if own is None:
        field.type_name = f".inference.{path}{kind}" if kind.startswith(".") else f".inference.{kind}"


_CONTENTS = {
    "BOOL": "bool_contents",
    "INT8": "int_contents",
    "INT16": "int_contents",
    "INT32": "int_contents",
    "INT64": "int64_contents",
    "UINT8": "uint_contents",
    "UINT16": "uint_contents",
    "UINT32": "uint_contents",
    "UINT64": "uint64_contents",
    "FP32": "fp32_contents",
    "FP64": "fp64_contents",
    "BYTES": "bytes_contents",
}
"""The field that has the numbers of a datatype; FP16 and BF16 have none, and come as bytes."""


def parse(message: Any) -> Request:
    """Return the request in a message ``ModelInferRequest``.

    Raises:
        BadRequestError: it is not what the protocol says.
    """
    raw = message.raw_input_contents
    if raw and len(raw) != len(message.inputs):
        raise BadRequestError(f"raw_input_contents has {len(raw)} tensors, and there are {len(message.inputs)} inputs")
    inputs = []
    for number, item in enumerate(message.inputs):
        shape = tuple(item.shape)
        if any(size < 0 for size in shape):
            raise BadRequestError(f"inputs[{number}].shape is a list of sizes from 0 on")
        if raw and item.HasField("contents"):
            raise BadRequestError(f"inputs[{number}] has contents, and raw_input_contents is there")
        inputs.append(Given(item.name, item.datatype, shape, raw[number] if raw else _contents(item, shape)))
    outputs = tuple(item.name for item in message.outputs) or None
    if outputs is not None and len(set(outputs)) < len(outputs):
        raise BadRequestError("outputs names one twice")
    return Request(tuple(inputs), outputs, message.id, _timeout(message.parameters), all_binary=bool(raw))


def _contents(item: Any, shape: tuple[int, ...]) -> Sequence[Any]:
    field = _CONTENTS.get(item.datatype)
    if field is None and item.datatype in ("FP16", "BF16"):
        if math.prod(shape):
            raise BadRequestError(f"{item.datatype} comes in raw_input_contents")
        return []
    return list(getattr(item.contents, field)) if field is not None else []


def _timeout(parameters: Any) -> float | None:
    if "timeout" not in parameters:
        return None
    value = parameters["timeout"]
    return timeout_of(getattr(value, value.WhichOneof("parameter_choice") or "", 0))


def response(name: str, number: str, request: Request, results: Sequence[Result]) -> Any:
    """Return the message ``ModelInferResponse``: with bytes where the request had them, or a result has no field of its own.

    Args:
        name: of the model.
        number: of its version.
        request: what was asked.
        results: what the model gave.
    """
    message = messages()["ModelInferResponse"](model_name=name, model_version=number, id=request.id)
    is_raw = request.all_binary or not request.inputs or any(result.datatype not in _CONTENTS for result in results)
    for result in results:
        item = message.outputs.add(name=result.name, datatype=result.datatype, shape=result.shape)
        if is_raw:
            message.raw_output_contents.append(result.raw())
        else:
            values = result.values()
            if isinstance(result.value, str):
                values = [text.encode(errors="surrogatepass") for text in values]
            getattr(item.contents, _CONTENTS[result.datatype]).extend(values)
    return message


def metadata(name: str, numbers: Sequence[str], platform: str, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> Any:
    """Return the message ``ModelMetadataResponse``."""
    message = messages()["ModelMetadataResponse"](name=name, versions=numbers, platform=platform)
    for field, items in ((message.inputs, inputs), (message.outputs, outputs)):
        for item in items:
            field.add(**item.described())
    return message
