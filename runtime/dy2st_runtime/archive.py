"""The ``.dy2st`` file: what is in it, and how it is written and read.

| member | contents |
|---|---|
| ``manifest.json`` | format and version; size and SHA-256 of every other member |
| ``program.json`` | the programs and the table of state |
| ``signature.json`` | what people and tools want to know: names, dtypes, shapes, state; not read by :func:`read` |
| ``weights.safetensors`` | the tensors of the state |

No member holds code: operators are named, and only those of :mod:`dy2st_runtime.operators` are accepted.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dy2st_runtime import container, effects, serialize, state, weights
from dy2st_runtime.binding import Binder
from dy2st_runtime.constants import dtype_name
from dy2st_runtime.document import Json, dump, parse
from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.program import InputSlot, Program, verify
from dy2st_runtime.state import State, StateValue

Path = str | os.PathLike[str]

MANIFEST, PROGRAM, SIGNATURE, WEIGHTS = "manifest.json", "program.json", "signature.json", "weights.safetensors"
_HASHED = (PROGRAM, SIGNATURE, WEIGHTS)
SMALLEST_MAPPED = 1 << 20
"""From how many bytes on weights are used where they lie in the file; fewer are read."""


def save_programs(
    path: Path,
    programs: Sequence[Program],
    values: Sequence[Sequence[Any]],
    module: nn.Module | None = None,
    attributes: Sequence[StateValue] = (),
) -> None:
    """Write programs of one function with their state.

    Args:
        path: the file; an existing one is replaced only once the new one is complete.
        programs: one for each mode of the module (``training``), the one to start with first.
        values: for each program, the live values of its state slots, in order.
        module: the module whose parameters and buffers are saved, those that no program uses as well.
        attributes: see :func:`~dy2st_runtime.state.collect`.

    Raises:
        SaveError: something in them only exists in this process, or the file cannot be written.
    """
    named, gathered = state.collect(programs, values, module, attributes)
    write(path, named, gathered)


def write(path: Path, programs: Sequence[Program], values: State) -> None:
    """Write an archive; the same programs and values give the same bytes.

    Raises:
        SaveError: see :func:`save_programs`.
    """
    for made in programs:
        verify(made)
        effects.check(made)
    table, tensors = state.to_json(values)
    document = serialize.stamp() | {"torch": torch.__version__, "state": table}
    members: dict[str, container.Contents] = {
        PROGRAM: (program := dump(document | {"programs": [serialize.to_json(program) for program in programs]})),
        SIGNATURE: dump(serialize.stamp() | _describe(programs, values), indent=2),
        WEIGHTS: weights.save(tensors),
    }
    _check_readable(program, programs, tensors)
    _replace(path, {MANIFEST: _manifest(members), **members})


def _check_readable(encoded: bytes, programs: Sequence[Program], tensors: Mapping[str, torch.Tensor]) -> None:
    """What is written can be read: better an error now than a file that cannot be loaded."""
    own = {name.split("::")[0] for program in programs for node in program.nodes() if (name := _operator_name(node))}
    try:
        _read_document(parse(encoded, PROGRAM), tensors, own)
    except LoadError as error:
        raise SaveError(f"the archive could not be read again: {error}") from error


def _operator_name(node: torch.fx.Node) -> str:
    return node.target.name() if isinstance(node.target, torch._ops.OpOverload) else ""


def _manifest(members: Mapping[str, container.Contents]) -> bytes:
    described = {name: _measure(contents) for name, contents in members.items()}
    return dump(serialize.stamp() | {"members": described}, indent=2)


def _measure(contents: container.Contents) -> dict[str, Any]:
    digest = hashlib.sha256()
    for part in container.parts(contents):
        digest.update(part)
    return {"size": sum(map(len, container.parts(contents))), "sha256": digest.hexdigest()}


def _describe(programs: Sequence[Program], values: State) -> dict[str, Any]:
    return {
        "programs": [
            {
                "name": program.name,
                "modes": list(program.modes),
                "inputs": [_describe_input(slot) for slot in program.inputs],
                "outputs": [_describe_output(value) for value in program.block.outputs],
            }
            for program in programs
        ],
        "state": [_describe_value(entry) for entry in values],
    }


def _describe_input(slot: InputSlot) -> dict[str, Any]:
    if slot.dtype is None:
        return {"name": slot.name, "number": slot.number}
    return {"name": slot.name, "dtype": dtype_name(slot.dtype), "shape": list(slot.shape)}


def _describe_output(value: Any) -> str:
    if isinstance(value, torch.fx.Node):
        return str(value.meta.get("type", ""))
    return type(value).__name__


def _describe_value(entry: StateValue) -> dict[str, Any]:
    made: dict[str, Any] = {"name": entry.name, "kind": entry.kind}
    if isinstance(entry.value, torch.Tensor):
        return made | {"dtype": dtype_name(entry.value.dtype), "shape": list(entry.value.shape)}
    return made


def _replace(path: Path, members: Mapping[str, container.Contents]) -> None:
    """Write to a new file beside the old one, then put it in its place; on any failure the old one stays."""
    target = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".dy2st-{secrets.token_hex(8)}.tmp")
    try:
        try:
            with open(temporary, "xb") as file:
                container.write(file, members)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        _sync_folder(folder)
    except OSError as error:
        raise SaveError(f"cannot write {os.fspath(path)}: {error.strerror or error}") from error


def _sync_folder(folder: str) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path, namespaces: Collection[str] = ()) -> tuple[tuple[Program, ...], State]:
    """Read an archive.

    Args:
        path: the file.
        namespaces: namespaces of operators that are allowed besides PyTorch's own.

    Returns:
        The programs and the state.

    Raises:
        LoadError: it is not an archive, is damaged, or asks for what this version does not have.
        OSError: the file is missing or cannot be read.
    """
    with open(path, "rb") as file:
        try:
            return _read(container.Container(file), namespaces)
        except RecursionError:
            raise LoadError(f"cannot load {os.fspath(path)}: its program is nested too deeply") from None
        except LoadError as error:
            raise LoadError(f"cannot load {os.fspath(path)}: {error}") from None


def _read(archive: container.Container, namespaces: Collection[str]) -> tuple[tuple[Program, ...], State]:
    manifest = parse(archive.read(MANIFEST), MANIFEST)
    serialize.check_stamp(manifest)
    if (unexpected := set(archive.members) - {MANIFEST, *_HASHED}) != set():
        raise LoadError(f"it has a member {min(unexpected)!r}, which archives do not have")
    archive.check()
    described = manifest.field("members")
    program, _, tensors = (_read_checked(archive, name, described.field(name)) for name in _HASHED)
    copy = len(tensors) < SMALLEST_MAPPED or not isinstance(tensors, memoryview)
    stored = weights.load(memoryview(tensors), WEIGHTS, copy=copy)
    return _read_document(parse(bytes(program), PROGRAM), stored, namespaces)


def _read_checked(archive: container.Container, name: str, described: Json) -> container.Part:
    size, sha256 = described.field("size").integer(0), described.field("sha256").text()
    mapped = archive.map(name) if name == WEIGHTS and size >= SMALLEST_MAPPED else None
    data = archive.read(name) if mapped is None else mapped
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise LoadError(f"its member {name} was altered: the SHA-256 differs")
    return data


def _read_document(
    json: Json, tensors: Mapping[str, torch.Tensor], namespaces: Collection[str]
) -> tuple[tuple[Program, ...], State]:
    serialize.check_stamp(json)
    programs = tuple(serialize.from_json(item, namespaces) for item in json.field("programs").array())
    if not programs:
        json.field("programs").fail("at least one program")
    for program in programs:
        _check_signature(program)
    values = state.from_json(json.field("state"), tensors)
    state.check_slots(programs, values)
    return programs, values


def _check_signature(program: Program) -> None:
    try:
        Binder(program)
    except (TypeError, ValueError) as error:
        raise LoadError(f"{PROGRAM}: the signature of {program.name} is wrong: {error}") from None
