"""Files that somebody made to do harm: each is refused, at once, in clear words, and nothing outside of the process is touched."""

import io
import json
import pickle
import stat
import struct
import tracemalloc
import zipfile

import pytest
import torch

import dy2st
from dy2st_runtime import LoadError, StepLimitError, load
from tests.attacks import mutants, references
from tests.runtime.test_archive import MEMBERS


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    return references.write(tmp_path_factory.mktemp("references"))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


class Boom:
    """Says so when it is unpickled."""

    def __reduce__(self):
        return (exec, ("raise SystemError('code of the file ran')",))


PICKLE = pickle.dumps(Boom())


def refused(path, data, message):
    path.write_bytes(data)
    tracemalloc.start()
    try:
        with pytest.raises(LoadError, match=message) as caught:
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert str(caught.value).startswith(f"cannot load {path}: ")
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def zipped(members, change=None, **options):
    """A zip file as any tool makes it; ``change`` may alter the entry of a member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", **options) as archive:
        for name, data in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = options.get("compression", zipfile.ZIP_STORED)
            if change is not None:
                change(info)
            archive.writestr(info, data)
    return file.getvalue()


# ---- the container

SLIPPING = ["../evil", "/etc/evil", "..\\evil", "C:\\evil", "manifest.json/../evil", "a/b", "", ".", "evil\x01", "program.json "]


@pytest.mark.parametrize("name", SLIPPING)
def test_names_that_lead_elsewhere(path, originals, name):
    members = mutants.read(originals["small"])
    refused(path, mutants.written(members | {name: b"evil"}), "which archives do not have")
    refused(path, mutants.sealed(members | {name: b"evil"}), "which archives do not have")
    refused(path, zipped([*members.items(), (name, b"evil")]), "zip file of another kind")


def test_names_that_are_no_ascii(path, originals):
    data = originals["small"]
    for replacement in (b"program.j\xc3\xb6n", b"program.\x00\x00\x00\x00\x00"[:12], b"program.jso\xff"):
        refused(path, data.replace(b"program.json", replacement), "altered|no member|does not have|archives do not have")


def test_links_and_other_files_that_are_none(path, originals):
    for kind in (stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFBLK):

        def change(info, kind=kind):
            info.create_system, info.external_attr = 3, (kind | 0o777) << 16

        refused(path, zipped(mutants.read(originals["small"]).items(), change), "zip file of another kind")
        data = bytearray(originals["small"])
        entry = data.index(b"PK\x01\x02")
        data[entry + 38 : entry + 42] = struct.pack("<I", (kind | 0o777) << 16)
        refused(path, bytes(data), "its directory was altered")


def test_a_compression_bomb_is_refused(path, originals):
    members = dict(mutants.read(originals["small"]))
    bomb = zipped((members | {"weights.safetensors": bytes(1 << 26)}).items(), compression=zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 20
    refused(path, bomb, "zip file of another kind")


def test_members_that_overlap_are_refused(path, originals):
    """Both entries of the directory point at the same data, as a bomb without compression would."""
    data = bytearray(originals["small"])
    first = data.index(b"PK\x01\x02")
    second = data.index(b"PK\x01\x02", first + 4)
    length = second - first
    data[second : second + length] = data[first : first + length]
    refused(path, bytes(data), "twice|altered|reaches beyond|cut short")


def test_a_member_that_comes_twice_is_refused(path, originals):
    class Twice(dict):
        def items(self):
            return [*super().items(), ("program.json", b"{}")]

        def values(self):
            return [*super().values(), b"{}"]

    refused(path, mutants.written(Twice(mutants.read(originals["small"]))), "a member twice")


@pytest.mark.parametrize("size", [2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("field", range(3))
def test_sizes_that_are_too_large(path, originals, size, field):
    """In the directory: both sizes and the place of each member; then in the tail, and in the manifest."""
    data = bytearray(originals["small"])
    entry = data.index(b"PK\x01\x02")
    name = int.from_bytes(data[entry + 28 : entry + 30], "little")
    at = entry + 46 + name + 4 + 8 * field
    data[at : at + 8] = struct.pack("<Q", size)
    refused(path, bytes(data), "larger than itself|altered|beyond its end|cut short")
    tail = bytearray(originals["small"])
    at = tail.index(b"PK\x06\x06") + 24 + 8 * field
    tail[at : at + 8] = struct.pack("<Q", size)
    refused(path, bytes(tail), "cut short|altered|another kind")


@pytest.mark.parametrize("size", [2**63, -1, 1e3, "9", None])
def test_sizes_in_the_manifest(path, originals, size):
    members = mutants.read(originals["loops"])
    manifest = json.loads(members["manifest.json"])
    manifest["members"]["weights.safetensors"]["size"] = size
    refused(path, mutants.written(members | {"manifest.json": json.dumps(manifest).encode()}), "altered|expected an integer")


def test_weights_that_say_they_are_huge(path, originals):
    members = mutants.read(originals["loops"])
    for shape, offsets in (([2**62, 2], [0, 2**63]), ([2**40], [0, 2**42]), ([2**63], [0, 4]), ([1] * 5000 + [2**61], [0, 64])):
        header = json.dumps({"scale": {"dtype": "F32", "shape": shape, "data_offsets": offsets}}).encode()
        weights = len(header).to_bytes(8, "little") + header + bytes(64)
        refused(path, mutants.sealed(members | {"weights.safetensors": weights}), "weights.safetensors")


# ---- documents


@pytest.mark.parametrize("member", ["manifest.json", "program.json"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"a": NaN}', "NaN is not a number of JSON"),
        (b'{"a": -Infinity}', "-Infinity is not a number of JSON"),
        (b'{"a": 1e999}', "1e999 is out of range"),
        (b'{"a": 1, "a": 2}', "an object has a field twice"),
        (b"[" * 100_000, "not valid JSON"),
        (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "not valid JSON|has no field"),
        (b"[" * 10_000 + b"]" * 10_000, "not valid JSON|expected an object"),
        (b"1" * 100_000, "not valid JSON|expected an object"),
        (b"\xff\xfe{}", "not valid JSON"),
        (b'{"a": "\\ud800"}', "has no field"),
        (b"", "not valid JSON"),
        (PICKLE, "not valid JSON"),
    ],
    ids=range(12),
)
def test_a_document_that_is_not_plain_json_is_refused(path, originals, member, text, message):
    members = mutants.read(originals["small"])
    data = mutants.written(members | {member: text}) if member == "manifest.json" else mutants.sealed(members | {member: text})
    refused(path, data, message)


def with_program(data, change):
    """An archive whose document was changed, under hashes that fit."""
    members = mutants.read(data)
    document = json.loads(members["program.json"])
    change(document["programs"][0], document)
    return mutants.sealed(members | {"program.json": json.dumps(document).encode()})


def nested(value, depth):
    for _ in range(depth):
        value = {"tuple": [value]}
    return value


def test_values_nested_10000_deep(path, originals):
    def constant(program, _):
        program["blocks"][0]["nodes"][0]["args"][1] = "@"

    def structure(program, _):
        program["out_structure"] = "@"

    deep = '{"tuple":[' * 10_000 + '{"leaf":0}' + "]}" * 10_000
    for change in (constant, structure):
        members = mutants.read(with_program(originals["small"], change))
        text = members["program.json"].decode().replace('"@"', deep).encode()
        refused(path, mutants.sealed(members | {"program.json": text}), "not valid JSON|at most 64 levels|nested too deeply")
    for change in (constant, structure):
        members = mutants.read(with_program(originals["small"], change))
        text = members["program.json"].decode().replace('"@"', json.dumps(nested({"leaf": 0}, 200))).encode()
        refused(path, mutants.sealed(members | {"program.json": text}), "at most 64 levels")


def test_blocks_in_a_circle(path, originals):
    """A block inside itself, inside one after it, or twice."""
    branch = {"name": "b", "target": "if_", "args": [True, {"block": 0}, {"block": 0}, {"tuple": ["x"]}]}
    for first, second in ((0, 0), (1, 1), (1, 0), (7, 8), (-1, -2)):
        branch["args"][1:3] = [{"block": first}, {"block": second}]

        def change(program, _):
            program["blocks"].append(json.loads(json.dumps(program["blocks"][0])))
            program["blocks"][0]["nodes"].append(branch)
            program["blocks"][1]["nodes"].append(branch)

        refused(path, with_program(originals["small"], change), "expected a block after this one|used once|integer of at least 0")


def test_a_default_that_is_no_constant(path, originals):
    def change(program, _):
        program["parameters"][1]["default"] = {"leaf": 7}

    refused(path, with_program(originals["loops"], change), "a structure of constants")


FORBIDDEN = [
    "aten.from_file.default", "aten._print.default", "os.system", "builtins.exec.default", "call_", "operator.attrgetter",
    "operator.methodcaller", "math.__class__.mro", "aten.__class__.__call__", "aten.add.__class__", "quantized.add.default",
    "torchbind.x.default", "profiler._record_function_enter.default", "aten.add.Tensor.", "aten..Tensor", "", "\x00", "scalar.__import__",
    "debugprims.load_tensor.default", "inductor.accumulate_grad_.default", "aten.set_.source_Storage_storage_offset",
]  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_operators_that_are_unknown_or_forbidden(path, originals, name):
    def change(program, _):
        program["blocks"][0]["nodes"][0]["target"] = name

    refused(path, with_program(originals["small"], change), "operator|may not do|does not have|namespaces=|it takes|does not pass")


@pytest.mark.parametrize("name", ["__class__", "__reduce__", "import", "x; import os", "a b", "x\n", "1", ""])
def test_names_that_would_be_code(path, originals, name):
    """Names become those of Python variables in the executor: they are identifiers, and keywords are renamed."""

    def node(program, _):
        program["blocks"][0]["nodes"][0]["name"] = name
        program["blocks"][0]["outputs"] = [name]

    def given(program, _):
        program["blocks"][0]["nodes"][0]["kwargs"] = {name: 1}

    if name.isidentifier():
        path.write_bytes(with_program(originals["small"], node))
        assert torch.equal(load(path)(torch.zeros(1, 4)), torch.ones(1, 4))
    else:
        refused(path, with_program(originals["small"], node), "expected an identifier")
    refused(path, with_program(originals["small"], given), "which it does not take")


@pytest.mark.parametrize(
    "name", ["train", "state_dict", "_dy2st_entries", "__dict__", "forward", "save", "a..b", ".", "x.__class__"]
)
def test_state_that_would_hide_the_module(path, originals, name):
    def change(_, document):
        document["state"].append({"name": name, "kind": "number", "number": 1})

    path.write_bytes(with_program(originals["small"], change))
    try:
        model = load(path)
    except LoadError:
        return
    assert torch.equal(model(torch.zeros(1, 4)), torch.ones(1, 4)) and callable(model.train) and model.state_dict() == {}


def test_a_loop_without_end(path):
    def endless(x):
        while x.sum() > 0:
            x = x + 1
        return x

    dy2st.save(endless, path, [dy2st.InputSpec([2])])
    model = load(path, max_steps=500)
    assert torch.equal(model(-torch.ones(2)), -torch.ones(2))
    with pytest.raises(StepLimitError, match="more than 500 iterations"):
        model(torch.ones(2))
    assert torch.equal(model(-torch.ones(2)), -torch.ones(2))


# ---- pickle


@pytest.mark.parametrize("member", MEMBERS)
def test_pickle_in_place_of_a_member(path, originals, member):
    members = mutants.read(originals["loops"])
    data = mutants.written(members | {member: PICKLE}) if member == "manifest.json" else mutants.sealed(members | {member: PICKLE})
    if member == "signature.json":  # made for people and tools
        path.write_bytes(data)
        try:
            load(path)
        except LoadError:
            pass
        return
    refused(path, data, "not valid JSON|not a safetensors file")


def test_pickle_in_a_value(path, originals):
    def change(program, document):
        program["name"] = document["torch"] = PICKLE.decode("latin-1")

    refused(path, with_program(originals["small"], change), "without a null character")

    def harmless(program, document):
        program["name"] = document["torch"] = PICKLE.decode("latin-1").replace("\0", "")

    change = harmless
    path.write_bytes(with_program(originals["small"], change))
    assert torch.equal(load(path)(torch.zeros(1, 4)), torch.ones(1, 4))


@pytest.mark.parametrize("data", [PICKLE, b"\x80\x02.", PICKLE + bytes(1000)])
def test_a_pickle_file_is_refused(path, data):
    refused(path, data, "not a dy2st archive")


def test_a_file_of_torch_save_is_refused(path):
    torch.save({"model": Boom()}, path)
    refused(path, path.read_bytes(), "zip file of another kind")
    torch.save({"model": torch.ones(3)}, path, _use_new_zipfile_serialization=False)
    refused(path, path.read_bytes(), "not a dy2st archive")
