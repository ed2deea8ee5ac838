"""Models that come, change and go: loading, unloading, versions, files that are replaced, files that are damaged."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

import dy2st
from dy2st import InputSpec
from dy2st_runtime import signatures
from dy2st_runtime.errors import ServingError
from dy2st_runtime.serving.model import Version, writes_state
from dy2st_runtime.serving.options import Options
from dy2st_runtime.serving.repository import Repository
from tests.serving.clients import Http, results, soon, tensor
from tests.serving.conftest import Serve
from tests.serving.models import Halve

X, LIMIT = tensor("x", torch.tensor([[8.0, 0.0, 0.0]])), tensor("limit", torch.tensor(1.0))


def saved(path: Path, factor: float) -> None:
    """A model that is another one by its factor."""
    dy2st.save(Halve(factor).eval(), path, input_spec=[InputSpec([None, 3]), InputSpec([], "float32")])


def first(http: Http, model: str = "halve") -> float:
    status, answer = http.infer(model, X, LIMIT)
    assert status == 200, answer
    return round(results(answer)["result"][0], 4)


def line(http: Http, name: str = "halve", number: str = "1") -> dict[str, Any]:
    status, index = http.ask("POST", "/v2/repository/index", {})
    assert status == 200
    return next(entry for entry in index if entry["name"] == name and entry["version"] == number)


def control(http: Http, what: str, name: str) -> tuple[int, Any]:
    return http.ask("POST", f"/v2/repository/models/{name}/{what}", {})


def test_a_model_is_unloaded_and_loaded(serve: Serve):
    http = serve("halve", "picky").http()
    assert line(http) == {"name": "halve", "version": "1", "state": "READY", "reason": ""}
    assert control(http, "unload", "halve") == (200, {})
    status, answer = http.infer("halve", X, LIMIT)
    assert status == 503 and "not loaded" in answer["error"]
    assert http.get("/v2/models/halve/ready")[0] == 503 and http.get("/v2/health/ready")[0] == 200
    assert line(http, number="")["state"] == "UNAVAILABLE"
    assert "halve" not in {entry["name"] for entry in http.ask("POST", "/v2/repository/index", {"ready": True})[1]}
    assert http.infer("picky", tensor("x", torch.ones(1)))[0] == 200
    assert control(http, "load", "halve") == (200, {})
    assert first(http) == 1.0


@pytest.mark.parametrize("name", ["nothing", "..%2fhalve", "%2fetc%2fpasswd", "halve.dy2st", "halve.twice"])
def test_only_models_that_are_known_are_loaded(serve: Serve, name):
    http = serve("halve").http()
    for what in ("load", "unload"):
        assert control(http, what, name)[0] == 404
    assert first(http) == 1.0


def test_loading_takes_no_files_and_no_settings(serve: Serve):
    http = serve("halve").http()
    for parameters in ({"file:1/model.dy2st": "AA=="}, {"config": "{}"}):
        status, answer = http.ask("POST", "/v2/repository/models/halve/load", {"parameters": parameters})
        assert status == 400 and "no parameters" in answer["error"]
    for body in ("[]", "{", '{"parameters": 3}'):
        assert http.ask("POST", "/v2/repository/models/halve/load", body)[0] == 400
    assert http.ask("POST", "/v2/repository/index", {"ready": "yes"})[0] == 400


def test_other_methods_are_in_the_index(serve: Serve):
    http = serve("halve").http()
    assert line(http, "halve.twice")["state"] == "READY"


def test_what_is_asked_when_a_model_is_unloaded_is_still_done(serve: Serve):
    server = serve("spin", threads=1)
    found: list[int] = []
    busy = threading.Thread(target=lambda: found.append(server.http().infer("spin", tensor("trips", torch.tensor(300_000)))[0]))
    busy.start()
    http = server.http()
    soon(lambda: http.get("/status")[1]["models"][0]["running"])
    assert control(http, "unload", "spin")[0] == 200
    busy.join()
    assert found == [200]


def test_a_file_that_changes_is_served(serve: Serve, folder: Path):
    path = folder / "halve.dy2st"
    http = serve(models={"halve": str(path)}).http()
    assert first(http) == 1.0
    saved(path, 10.0)
    soon(lambda: first(http) == 8.0 / 10)
    assert line(http)["reason"] == ""


def test_requests_go_on_while_a_file_changes(serve: Serve, folder: Path):
    path = folder / "halve.dy2st"
    server = serve(models={"halve": str(path)})
    stop, found = threading.Event(), set[float]()

    def ask() -> None:
        http = server.http()
        while not stop.is_set():
            found.add(first(http))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for factor in (10.0, 3.0, 16.0):
        saved(path, factor)
        wanted = round(float(Halve(factor)(torch.tensor([8.0]), torch.tensor(1.0))), 4)
        soon(lambda: wanted in found)
    stop.set()
    for thread in threads:
        thread.join()
    assert found == {1.0, 0.8, 0.8889, 0.5}


@pytest.mark.parametrize("damage", ["cut", "altered", "empty", "text"])
def test_a_damaged_file_leaves_the_old_model(serve: Serve, folder: Path, damage, capsys):
    path = folder / "halve.dy2st"
    http = serve(models={"halve": str(path)}).http()
    data = path.read_bytes()
    broken = {
        "cut": data[: len(data) // 2],
        "altered": data[:900] + b"\x00\x01" + data[902:],
        "empty": b"",
        "text": b"not an archive",
    }
    (folder / "new").write_bytes(broken[damage])
    os.replace(folder / "new", path)
    reason = soon(lambda: line(http)["reason"])
    assert line(http)["state"] == "READY" and "the old model goes on" in reason and "cannot load" in reason
    assert first(http) == 1.0
    assert '"event": "cannot load"' in capsys.readouterr().err
    status, answer = control(http, "load", "halve")
    assert status == 400 and "cannot load model 'halve'" in answer["error"]
    assert first(http) == 1.0
    saved(folder / "new", 10.0)
    os.replace(folder / "new", path)
    soon(lambda: first(http) == 8.0 / 10)
    assert line(http)["reason"] == ""


def test_a_file_that_is_gone_leaves_the_old_model(serve: Serve, folder: Path):
    path = folder / "halve.dy2st"
    http = serve(models={"halve": str(path)}).http()
    path.unlink()
    soon(lambda: "its file is gone" in line(http)["reason"])
    assert first(http) == 1.0


def test_versions_are_asked_for_by_number(serve: Serve, tmp_path: Path):
    source = tmp_path / "halve"
    (source / "10").mkdir(parents=True)
    saved(source / "2.dy2st", 2.0)
    saved(source / "10" / "model.dy2st", 10.0)
    (source / "notes.txt").write_text("no version")
    http = serve(models={"halve": str(source)}).http()
    assert http.get("/v2/models/halve")[1]["versions"] == ["2", "10"]
    assert first(http) == first(http, "halve/versions/10") == 8.0 / 10
    assert first(http, "halve/versions/2") == 1.0
    saved(source / "11.dy2st", 16.0)
    soon(lambda: first(http) == 0.5)
    assert http.infer("halve/versions/3", X, LIMIT)[0] == 404


def test_a_repository_serves_what_is_in_it(serve: Serve, folder: Path):
    (folder / "broken.dy2st").write_bytes(b"no archive")
    (folder / ".hidden.dy2st").write_bytes(b"no archive")
    http = serve(repository=str(folder)).http()
    assert {(entry["name"], entry["state"]) for entry in http.ask("POST", "/v2/repository/index")[1]} == {
        ("broken", "UNAVAILABLE"), ("counter", "READY"), ("halve", "READY"), ("halve.twice", "READY"),
    }  # fmt: skip
    assert "cannot load" in line(http, "broken")["reason"] and http.get("/v2/health/ready")[0] == 503
    shutil.copy(folder / "halve.dy2st", folder / "other.dy2st")
    assert line(http, "other", "")["state"] == "UNAVAILABLE"
    assert control(http, "load", "other") == (200, {})
    assert first(http, "other") == 1.0
    assert control(http, "load", "broken")[0] == 400
    assert control(http, "unload", "broken")[0] == 200 and http.get("/v2/health/ready")[0] == 200


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "there is nothing to serve"),
        ({"models": {"a/b": "x"}}, "cannot be the name of a model"),
        ({"models": {"net": "missing.dy2st"}}, "there is no archive at missing.dy2st"),
        ({"repository": "missing"}, "cannot look for models in missing"),
    ],
)
def test_what_cannot_be_served_is_told(options, message):
    with pytest.raises(ServingError, match=message):
        Repository(Options(**options)).load_all()


def test_state_is_for_one_worker_alone(archives: Path):
    with pytest.raises(ServingError, match="use --workers 1"):
        Version(str(archives / "counter.dy2st"), Options(workers=2))


def test_models_of_two_default_dtypes_are_not_served_together(archives: Path, tmp_path: Path):
    Version(str(archives / "halve.dy2st"), Options()).scheduler.close()
    torch.set_default_dtype(torch.float64)
    dy2st.save(Halve().eval(), tmp_path / "double.dy2st", input_spec=[InputSpec([None, 3], "float64"), InputSpec([], "float64")])
    torch.set_default_dtype(torch.float32)
    with pytest.raises(ServingError, match="default dtype"):
        Version(str(tmp_path / "double.dy2st"), Options())


def test_a_model_whose_tensors_have_no_datatype_is_refused(tmp_path: Path):
    dy2st.save(lambda x: x, tmp_path / "small.dy2st", input_spec=[InputSpec([2], "float8_e4m3fn")])
    with pytest.raises(ServingError, match="float8_e4m3fn as x, which the Open Inference Protocol has no datatype for"):
        Version(str(tmp_path / "small.dy2st"), Options())


class InPlace(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x):
        x[x < 0] = 0
        return x + self.seen

    def count(self, x):
        self.seen += x
        return x


def test_writing_into_arguments_is_no_state_and_into_buffers_is(tmp_path: Path):
    dy2st.save(InPlace().eval(), tmp_path / "m.dy2st", methods={name: [InputSpec([3])] for name in ("forward", "count")})
    model = dy2st.load(tmp_path / "m.dy2st")
    assert not writes_state(model.programs_of("forward")[0]) and writes_state(model.programs_of("count")[0])


class Descent(torch.nn.Module):
    def forward(self, x):
        x = x.detach().requires_grad_(True)
        (gradient,) = torch.autograd.grad((x**2).sum(), x)
        return x - 0.5 * gradient


def test_a_model_that_computes_gradients_does(serve: Serve, tmp_path: Path):
    dy2st.save(Descent(), tmp_path / "descent.dy2st", input_spec=[InputSpec([2])])
    http = serve(models={"descent": str(tmp_path / "descent.dy2st")}).http()
    assert results(http.infer("descent", tensor("x", torch.tensor([3.0, 4.0])))[1]) == {"result": [0.0, 0.0]}


def test_only_what_is_signed_is_served(serve: Serve, folder: Path, tmp_path: Path):
    pytest.importorskip("model_signing")
    private, public = tmp_path / "private.pem", tmp_path / "public.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", private], check=True)
    subprocess.run(["openssl", "ec", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    path = folder / "halve.dy2st"
    options = {"models": {"halve": str(path)}, "require_signature": str(public)}
    with pytest.raises(ServingError, match="cannot be accepted"):
        serve(**options)
    signatures.sign(path, private)
    http = serve(**options).http()
    assert first(http) == 1.0
    saved(path, 10.0)
    assert "cannot be accepted" in soon(lambda: line(http)["reason"]) and first(http) == 1.0
    signatures.sign(path, private)
    soon(lambda: first(http) == 0.8)
    assert line(http)["reason"] == ""
