import concurrent.futures
import hashlib
import io
import json
import os
import pickletools
import random
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import safetensors.torch
import torch

from dy2st_runtime import LoadError, SaveError, load, save_programs
from dy2st_runtime.archive import container
from tests.runtime.build import Net, net_program, net_state, simple

ROOT = Path(__file__).parents[2]
MEMBERS = ["manifest.json", "program.json", "signature.json", "weights.safetensors"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.dy2st"


def save_net(path, net=None, modes=(True, False)):
    net = net or Net()
    programs = [net_program(mode) for mode in modes]
    save_programs(path, programs, [net_state(net, made) for made in programs], net)
    return net


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, **changes):
    """Write the members again, changed, with a manifest that fits them."""
    found = members(path) | {name.replace("_", "."): data for name, data in changes.items()}
    found = {name: data for name, data in found.items() if data is not None}
    if "manifest_json" not in changes:
        manifest = json.loads(found["manifest.json"])
        for name, data in found.items():
            if name != "manifest.json":
                manifest["members"][name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        found["manifest.json"] = json.dumps(manifest).encode()
    with open(path, "wb") as file:
        container.write(file, found)


def test_members_hold_the_weights_and_the_signature(path):
    net = save_net(path)
    found = members(path)
    assert list(found) == MEMBERS
    weights = safetensors.torch.load(found["weights.safetensors"])
    assert torch.equal(weights["norm.running_var"], net.norm.running_var)
    assert "second.weight" not in weights and "calls" not in weights
    signature = json.loads(found["signature.json"])
    assert signature["programs"][0]["inputs"][0] == {"name": "x", "dtype": "float32", "shape": ["n", 4]}
    assert {"name": "h", "kind": "attribute", "dtype": "float32", "shape": [4]} in signature["state"]


def test_the_same_model_gives_the_same_bytes(path, tmp_path):
    net = save_net(path)
    save_net(tmp_path / "other", net)
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


def test_an_archive_holds_no_pickle(path):
    save_net(path)
    for data in (path.read_bytes(), *members(path).values()):
        with pytest.raises(Exception):
            list(pickletools.genops(data))


SCRIPT = """
import sys, torch
import dy2st_runtime
model = dy2st_runtime.load(sys.argv[1]).eval()
x = torch.load(sys.argv[2], weights_only=True)
out, stacked = model(x)
out["y"].sum().backward()
torch.save([out["y"].detach(), stacked.detach(), model.first.weight.grad], sys.argv[2])
assert not {"dy2st", "gast", "astor", "tests"} & set(sys.modules), "the front end was imported"
"""


def test_runs_in_a_process_that_has_the_runtime_alone(path, tmp_path):
    net = save_net(path).eval()
    torch.save(torch.randn(5, 4), tmp_path / "x")
    out, stacked = net(torch.load(tmp_path / "x"))
    out["y"].sum().backward()
    command = [sys.executable, "-c", SCRIPT, str(path), str(tmp_path / "x")]
    subprocess.run(command, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT / "runtime")})
    for found, expected in zip(torch.load(tmp_path / "x"), [out["y"], stacked, net.first.weight.grad], strict=True):
        assert torch.equal(found, expected)


def test_a_path_may_be_relative_long_or_a_link(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("relative", tmp_path / "with spaces é.dy2st", str(tmp_path / ("n" * 250))):
        save_programs(path, [simple()], [[]])
        assert torch.equal(load(path)(torch.zeros(1, 4)), torch.ones(1, 4))
    os.symlink("relative", "link")
    save_programs("link", [simple()], [[]])
    assert os.path.islink("link") and load("link")


def test_rights_are_those_of_other_new_files(path, tmp_path):
    save_programs(path, [simple()], [[]])
    (tmp_path / "plain").write_bytes(b"")
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_loads_in_many_threads(path):
    save_net(path)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        found = {str(model.program) for model in pool.map(load, [path] * 32)}
    assert found == {str(net_program(True))}


# ---- files that are refused


def test_a_missing_file_or_a_directory_raises_as_open_does(path):
    with pytest.raises(FileNotFoundError):
        load(path)
    with pytest.raises(IsADirectoryError):
        load(path.parent)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "cannot load .*model.dy2st: it is empty"),
        (b"# a text", "cannot load .*model.dy2st: it is not a dy2st archive"),
        (b"PK\x03\x04" + bytes(500), "it was cut short, or is a zip file of another kind"),
    ],
)
def test_a_file_of_another_kind_is_refused(path, data, message):
    path.write_bytes(data)
    with pytest.raises(LoadError, match=message):
        load(path)


def test_a_file_of_torch_save(path):
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    with pytest.raises(LoadError, match="a zip file of another kind"):
        load(path)


def test_every_length_that_was_cut_short(path):
    save_programs(path, [simple()], [[]])
    data = path.read_bytes()
    for length in range(len(data) - 1, -1, -1):
        os.truncate(path, length)
        with pytest.raises(LoadError):
            load(path)


def test_an_archive_with_a_flipped_bit_is_refused(path):
    save_net(path)
    data = path.read_bytes()
    choose = random.Random(0)
    for _ in range(500):
        changed = bytearray(data)
        changed[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
        path.write_bytes(changed)
        with pytest.raises(LoadError, match="^cannot load"):
            load(path)


def test_overwritten_and_swapped_parts(path):
    save_net(path)
    data = path.read_bytes()
    choose = random.Random(0)
    for _ in range(200):
        start, other, length = choose.randrange(len(data)), choose.randrange(len(data)), choose.randrange(1, 64)
        changed = bytearray(data)
        changed[start : start + length] = data[other : other + length]
        if changed == data:
            continue
        path.write_bytes(changed)
        with pytest.raises(LoadError):
            load(path)


@pytest.mark.parametrize("name", MEMBERS)
def test_a_member_that_is_missing(path, name):
    save_net(path)
    rewrite(path, **{name.replace(".", "_"): None} | ({"manifest_json": None} if name == "manifest.json" else {}))
    with pytest.raises(LoadError, match=f"it has no member {name}"):
        load(path)


def test_a_member_too_many(path):
    save_net(path)
    rewrite(path, evil_pkl=b"\x80\x04.")
    with pytest.raises(LoadError, match="it has a member 'evil.pkl', which archives do not have"):
        load(path)


def test_a_hash_that_differs(path):
    save_net(path)
    found = members(path)
    changed = found["program.json"].replace(b'"impossible"', b'"improbable"')
    rewrite(path, manifest_json=found["manifest.json"], program_json=changed)
    with pytest.raises(LoadError, match="its member program.json was altered: the SHA-256 differs"):
        load(path)


def test_a_newer_version_of_the_format_is_refused(path):
    save_net(path)
    manifest = json.loads(members(path)["manifest.json"]) | {"version": [2, 1]}
    rewrite(path, manifest_json=json.dumps(manifest).encode(), program_json=b"")
    with pytest.raises(LoadError, match="the file has format version 2.1, this version of dy2st_runtime reads 1.x; upgrade"):
        load(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"program_json": b"{"}, "program.json is not valid JSON"),
        ({"program_json": b"[]"}, "program.json: is"),
        ({"weights_safetensors": b"{}"}, "weights.safetensors is not a safetensors file"),
        ({"weights_safetensors": safetensors.torch.save({})}, "the name of a stored tensor"),
        ({"weights_safetensors": (1 << 62).to_bytes(8, "little") + b"{}"}, "weights.safetensors is not"),
        ({"manifest_json": b"nothing"}, "manifest.json is not valid JSON"),
    ],
)
def test_members_that_are_wrong_inside(path, changes, message):
    save_net(path)
    rewrite(path, **changes)
    with pytest.raises(LoadError, match=message):
        load(path)


def test_a_signature_that_python_does_not_have(path):
    save_net(path)
    document = json.loads(members(path)["program.json"])
    document["programs"][0]["parameters"][1]["name"] = "x"
    rewrite(path, program_json=json.dumps(document).encode())
    with pytest.raises(LoadError, match="the signature of Net.forward is wrong: duplicate parameter name"):
        load(path)


def test_blocks_nested_too_deeply(path):
    save_programs(path, [simple()], [[]])
    document = json.loads(members(path)["program.json"])
    made = document["programs"][0]
    empty = {"inputs": [], "nodes": [], "outputs": []}
    made["blocks"] = []
    for level in range(5000):
        arguments = [True, {"block": 2 * level + 1}, {"block": 2 * level + 2}, {"tuple": []}]
        made["blocks"] += [empty | {"nodes": [{"name": "a", "target": "if_", "args": arguments}]}, empty]
    made["blocks"].append(empty)
    made |= {"inputs": [], "in_structure": {"tuple": [{"tuple": []}, {"dict": []}]}, "out_structure": {"const": None}}
    rewrite(path, program_json=json.dumps(document).encode())
    with pytest.raises(LoadError, match="nested too deeply"):
        load(path)


# ---- writes that fail


def test_a_failed_write_leaves_the_old_file(path, monkeypatch):
    save_net(path)
    old = path.read_bytes()

    class Full(io.FileIO):
        def write(self, data):
            raise OSError(28, "No space left on device")

    for name, broken in {
        "fsync": lambda _: (_ for _ in ()).throw(OSError(5, "Input/output error")),
        "replace": lambda *_: (_ for _ in ()).throw(OSError(13, "Permission denied")),
    }.items():
        with monkeypatch.context() as patch:
            patch.setattr(f"os.{name}", broken)
            with pytest.raises(SaveError, match=r"cannot write .*model.dy2st: (Input/output error|Permission denied)"):
                save_net(path)
        assert os.listdir(path.parent) == ["model.dy2st"] and path.read_bytes() == old
    with monkeypatch.context() as patch:
        patch.setattr("dy2st_runtime.archive.container.write", lambda file, members: Full(file.fileno(), closefd=False).write(b""))
        with pytest.raises(SaveError, match="No space left on device"):
            save_net(path)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            save_net(path)
    assert os.listdir(path.parent) == ["model.dy2st"] and path.read_bytes() == old


def test_a_folder_that_does_not_exist(tmp_path):
    with pytest.raises(SaveError, match="cannot write .*: No such file or directory"):
        save_net(tmp_path / "no" / "model.dy2st")


def test_what_could_not_be_loaded_is_not_written(path):
    made = simple()
    node = next(made.nodes())
    node.target = torch.ops.aten.from_file.default
    with pytest.raises(SaveError, match=r"could not be read again: .*aten.from_file.default, which an archive may not do"):
        save_programs(path, [made], [[]])
    assert not os.listdir(path.parent)
