"""The ``.dy2st`` file: what is in it, and how it is written and read.

| member | contents |
|---|---|
| ``manifest.json`` | format and version; size and SHA-256 of every other member |
| ``program.json`` | the programs of each method and the table of state |
| ``signature.json`` | what people and tools want to know: names, dtypes, shapes, state, documentation; nothing that runs needs it |
| ``weights.safetensors`` | the tensors of the state |
| ``examples.safetensors`` | the tensors of example arguments, where there are some |

No member holds code: operators are named, and only those of :mod:`dy2st_runtime.ir.operators` are accepted.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import secrets
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from dy2st_runtime.archive import container, serialize, state, weights
from dy2st_runtime.archive.state import State, StateValue
from dy2st_runtime.call import effects
from dy2st_runtime.call.binding import Binder
from dy2st_runtime.call.on_raise import with_recordings, writing
from dy2st_runtime.errors import LoadError, SaveError
from dy2st_runtime.ir import structure_json
from dy2st_runtime.ir.constants import dtype_name
from dy2st_runtime.ir.document import Json, dump, parse
from dy2st_runtime.ir.flattening import flatten
from dy2st_runtime.ir.program import InputSlot, Program, verify
from dy2st_runtime.ir.structure import Leaf, walk
from dy2st_runtime.ir.unflattening import unflatten

Path = str | os.PathLike[str]

Example = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments for a call: those by position and those by name."""

FORWARD = "forward"
"""The method that calling a module runs."""

MANIFEST, PROGRAM, SIGNATURE, WEIGHTS = "manifest.json", "program.json", "signature.json", "weights.safetensors"
EXAMPLES = "examples.safetensors"
_HASHED = (PROGRAM, SIGNATURE, WEIGHTS)
SMALLEST_MAPPED = 1 << 20
"""From how many bytes on weights are used where they lie in the file; fewer are read."""


@dataclasses.dataclass(frozen=True)
class Model:
    """What an archive holds.

    Attributes:
        methods: for each method its programs, one for each mode of the module; the first decides the mode to start in.
        state: the values that they share.
        about: what people and tools want to know, as texts.
        examples: for some methods, arguments that fit, as ``(args, kwargs)``.
    """

    methods: Mapping[str, Sequence[Program]]
    state: State
    about: Mapping[str, str] = dataclasses.field(default_factory=dict)
    examples: Mapping[str, Example] = dataclasses.field(default_factory=dict)

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of all methods."""
        return tuple(program for programs in self.methods.values() for program in programs)


def save_programs(
    path: Path,
    programs: Sequence[Program],
    values: Sequence[Sequence[Any]],
    module: nn.Module | None = None,
    attributes: Sequence[StateValue] = (),
    *,
    methods: Sequence[str] | None = None,
    about: Mapping[str, str] | None = None,
    examples: Mapping[str, Example] | None = None,
) -> None:
    """Write programs with their state.

    Args:
        path: the file; an existing one is replaced only once the new one is complete.
        programs: one for each method and mode of the module (``training``), the one to start with first.
        values: for each program, the live values of its state slots, in order, then those of its recording's.
        module: the module whose parameters and buffers are saved, those that no program uses as well.
        attributes: see :func:`~dy2st_runtime.archive.state.collect`.
        methods: for each program, the method it is of; left out, all are of ``forward``.
        about: texts for people and tools.
        examples: by method, arguments that fit, as ``(args, kwargs)``.

    Raises:
        SaveError: something in them only exists in this process, or the file cannot be written.

    Example:
        >>> program = dy2st.to_static(lambda x: x * 2).program(torch.ones(1))
        >>> save_programs("double.dy2st", [program], [()])
        >>> dy2st.load("double.dy2st")(torch.ones(1))
        tensor([2.])
    """
    named, gathered = state.collect(programs, values, module, attributes)
    names = [FORWARD] * len(named) if methods is None else methods
    table = {name: tuple(result for result, of in zip(named, names, strict=True) if of == name) for name in names}
    write(path, Model(table, gathered, about or {}, examples or {}))


def write(path: Path, model: Model) -> None:
    """Write an archive; the same model gives the same bytes.

    Raises:
        SaveError: see :func:`save_programs`.
    """
    for item in with_recordings(model.programs):
        verify(item)
    for item in writing(model.programs):
        effects.check(item)
    table, tensors = state.to_json(model.state)
    programs = {name: [serialize.to_json(item) for item in some] for name, some in model.methods.items()}
    document = serialize.stamp() | {"torch": torch.__version__, "state": table, "programs": programs.pop(FORWARD, [])}
    document |= {"methods": programs} if programs else {}
    described, leaves = _examples_to_json(model.examples)
    document |= {"examples": described} if described else {}
    program = dump(document)
    members: dict[str, container.Contents] = {
        PROGRAM: program,
        SIGNATURE: dump(serialize.stamp() | _describe(model), indent=2),
        WEIGHTS: weights.save(tensors),
    }
    if leaves:
        members[EXAMPLES] = weights.save(leaves)
    _check_readable(program, model.programs, tensors, leaves)
    _replace(path, {MANIFEST: _manifest(members), **members})


def _examples_to_json(examples: Mapping[str, Example]) -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    leaves: list[Any] = []
    described = {}
    for name, example in examples.items():
        _, made_of = flatten(example, lambda value: isinstance(value, torch.Tensor), leaves)
        described[name] = structure_json.to_json(made_of)
    return described, {str(index): leaf.detach().cpu().contiguous() for index, leaf in enumerate(leaves)}


def _check_readable(
    encoded: bytes, programs: Sequence[Program], tensors: Mapping[str, torch.Tensor], leaves: Mapping[str, torch.Tensor]
) -> None:
    """Do what is written can be read: better an error now than a file that cannot be loaded."""
    own = {
        name.split("::")[0] for program in with_recordings(programs) for node in program.nodes() if (name := _operator_name(node))
    }
    try:
        _read_document(parse(encoded, PROGRAM), tensors, leaves, own)
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


def _describe(model: Model) -> dict[str, Any]:
    described = {name: [_describe_program(program) for program in programs] for name, programs in model.methods.items()}
    results = {"programs": described.pop(FORWARD, []), "state": [_describe_value(entry) for entry in model.state]}
    return results | ({"methods": described} if described else {}) | ({"about": dict(model.about)} if model.about else {})


def _describe_program(program: Program) -> dict[str, Any]:
    return {
        "name": program.name,
        "modes": list(program.modes),
        "inputs": [_describe_input(slot) for slot in program.inputs],
        "outputs": [_describe_output(value) for value in program.block.outputs],
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
    results: dict[str, Any] = {"name": entry.name, "kind": entry.kind}
    if isinstance(entry.value, torch.Tensor):
        return results | {"dtype": dtype_name(entry.value.dtype), "shape": list(entry.value.shape)}
    return results


def _replace(path: Path, members: Mapping[str, container.Contents]) -> None:
    """Write to a new file beside the old one, then put it in its place; on any failure the old one stays."""
    target = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".dy2st-{secrets.token_hex(8)}.tmp")
    try:
        check_target(target)
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


def check_target(path: str) -> None:
    """Check that a new file may take the place of what is at a path: devices and pipes are written to, not replaced.

    Raises:
        OSError: it may not.
    """
    if os.path.lexists(path) and not os.path.isfile(path) and not os.path.isdir(path):
        raise OSError(errno.EINVAL, "it is a device, a pipe or a socket, and no file", path)


def _sync_folder(folder: str) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: Path, namespaces: Collection[str] = ()) -> tuple[tuple[Program, ...], State]:
    """Read the programs of an archive that a call of the module runs, and the state; otherwise as :func:`read_model`.

    Raises:
        LoadError: see there; or the archive has no ``forward``.
    """
    model = read_model(path, namespaces)
    if FORWARD not in model.methods:
        raise LoadError(f"{os.fspath(path)} has no {FORWARD}; it has {', '.join(model.methods)}")
    return tuple(model.methods[FORWARD]), model.state


def read_model(path: Path, namespaces: Collection[str] = ()) -> Model:
    """Read an archive.

    Args:
        path: the file.
        namespaces: namespaces of operators that are allowed besides PyTorch's own.

    Returns:
        What it holds.

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


def _read(archive: container.Container, namespaces: Collection[str]) -> Model:
    manifest = parse(archive.read(MANIFEST), MANIFEST)
    serialize.check_stamp(manifest)
    if (unexpected := set(archive.members) - {MANIFEST, *_HASHED, EXAMPLES}) != set():
        raise LoadError(f"it has a member {min(unexpected)!r}, which archives do not have")
    archive.check()
    described = manifest.field("members")
    program, signature, tensors = (_read_checked(archive, name, described.field(name)) for name in _HASHED)
    copy = len(tensors) < SMALLEST_MAPPED or not isinstance(tensors, memoryview)
    stored = weights.load(memoryview(tensors), WEIGHTS, copy=copy)
    leaves = {}
    if EXAMPLES in archive.members:
        leaves = weights.load(memoryview(_read_checked(archive, EXAMPLES, described.field(EXAMPLES))), EXAMPLES, copy=True)
    document = _read_document(parse(bytes(program), PROGRAM), stored, leaves, namespaces)
    about = parse(bytes(signature), SIGNATURE).optional("about")
    return (
        document
        if about is None
        else dataclasses.replace(document, about={key: text.text() for key, text in about.fields().items()})
    )


def _read_checked(archive: container.Container, name: str, described: Json) -> container.Part:
    size, sha256 = described.field("size").integer(0), described.field("sha256").text()
    mapped = archive.map(name) if name == WEIGHTS and size >= SMALLEST_MAPPED else None
    data = archive.read(name) if mapped is None else mapped
    if len(data) != size or hashlib.sha256(data).hexdigest() != sha256:
        raise LoadError(f"its member {name} was altered: the SHA-256 differs")
    return data


def _read_document(
    json: Json, tensors: Mapping[str, torch.Tensor], leaves: Mapping[str, torch.Tensor], namespaces: Collection[str]
) -> Model:
    serialize.check_stamp(json)
    results = {FORWARD: json.field("programs")} if json.field("programs").array() else {}
    if (more := json.optional("methods")) is not None:
        results |= more.fields()
    if not results:
        json.field("programs").fail("at least one program")
    methods = {name: _read_programs(item, namespaces) for name, item in results.items()}
    values = state.from_json(json.field("state"), tensors)
    model = Model(methods, values, examples=_read_examples(json, leaves))
    _check_names(json, model)
    state.check_slots(with_recordings(model.programs), values)
    state.check_places(writing(model.programs), values)
    return model


def _read_programs(json: Json, namespaces: Collection[str]) -> tuple[Program, ...]:
    programs = tuple(serialize.from_json(item, namespaces) for item in json.array())
    if not programs:
        json.fail("at least one program")
    for program in programs:
        _check_signature(program)
    return programs


def _check_names(json: Json, model: Model) -> None:
    taken = {entry.name.split(".")[0].split("[")[0] for entry in model.state}
    for name in model.methods:
        if name != FORWARD and (not name.isidentifier() or name.startswith("_") or name in taken or hasattr(nn.Module, name)):
            raise LoadError(f"{json.path} has a method {name!r}, which would hide another attribute of the module")


def _read_examples(json: Json, leaves: Mapping[str, torch.Tensor]) -> dict[str, Example]:
    described = json.optional("examples")
    values = [leaves.get(str(index)) for index in range(len(leaves))]
    results: dict[str, Example] = {}
    for name, item in {} if described is None else described.fields().items():
        result = structure_json.from_json(item)
        used = [part.index for part in walk(result) if isinstance(part, Leaf)]
        if any(index >= len(values) or values[index] is None for index in used):
            item.fail("arguments whose tensors are there")
        match unflatten(result, values):
            case (tuple() as args, dict() as kwargs):
                results[name] = (args, kwargs)
            case _:
                item.fail("arguments")
    return results


def _check_signature(program: Program) -> None:
    try:
        Binder(program)
    except (TypeError, ValueError) as error:
        raise LoadError(f"{PROGRAM}: the signature of {program.name} is wrong: {error}") from None
