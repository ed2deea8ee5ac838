"""Signatures of archives, with the package that makes them."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import dy2st
from dy2st.cli.app import app
from dy2st_runtime import signatures
from dy2st_runtime.errors import LoadError, SaveError


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private key and its public one."""
    pytest.importorskip("model_signing")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("keys")
    private, public, made = folder / "private.pem", folder / "public.pem", ec.generate_private_key(ec.SECP256R1())
    private.write_bytes(made.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()))
    public.write_bytes(made.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo))
    return private, public


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.dy2st"
    dy2st.save(torch.nn.Linear(2, 2).eval(), path, input_spec=[dy2st.InputSpec([2])])
    return path


def test_what_was_signed_is_accepted_under_any_name(keys, model, tmp_path):
    private, public = keys
    before = model.read_bytes()
    assert signatures.sign(model, private) == f"{model}.sig" and model.read_bytes() == before
    signatures.verify(model, public)
    other = model.rename(tmp_path / "other.dy2st")
    signatures.verify(other, public, f"{model}.sig")


def test_a_bit_that_flips_anywhere_is_refused(keys, model):
    private, public = keys
    bundle = Path(signatures.sign(model, private))
    data, chance = model.read_bytes(), random.Random(0)
    for place in [0, len(data) - 1, *(chance.randrange(len(data)) for _ in range(60))]:
        model.write_bytes(data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :])
        with pytest.raises(LoadError, match="the file is another one than was signed"):
            signatures.verify(model, public)
    model.write_bytes(data + b"\0")
    with pytest.raises(LoadError, match="cannot be accepted"):
        signatures.verify(model, public)
    model.write_bytes(data)
    signed = bundle.read_bytes()
    refused = 0
    for place in range(0, len(signed), 7):
        bundle.write_bytes(signed[:place] + bytes([signed[place] ^ 1]) + signed[place + 1 :])
        try:
            signatures.verify(model, public)
        except LoadError:
            refused += 1
    assert refused > len(signed) // 7 * 0.9  # of what is around a signature, a hint says nothing of the file


def test_another_key_and_no_signature_are_refused(keys, model, tmp_path):
    private, public = keys
    with pytest.raises(LoadError, match="there is no file"):
        signatures.verify(model, public)
    signatures.sign(model, private)
    made = tmp_path / "other.pem"
    subprocess.run(["openssl", "ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", tmp_path / "p.pem"], check=True)
    subprocess.run(["openssl", "ec", "-in", tmp_path / "p.pem", "-pubout", "-out", made], check=True, capture_output=True)
    for key in (made, private, model):
        with pytest.raises(LoadError, match="cannot be accepted"):
            signatures.verify(model, key)
    with pytest.raises(SaveError, match="cannot sign"):
        signatures.sign(model, public)


def test_the_commands_tell_and_the_projects_own_command_agrees(keys, model):
    private, public = keys
    run = CliRunner().invoke
    assert run(app, ["sign", str(model), "--key", str(private)]).exit_code == 0
    assert run(app, ["verify", str(model), "--key", str(public)]).exit_code == 0
    words = ["verify", "key", str(model), "--signature", f"{model}.sig", "--public_key", str(public)]
    foreign = [sys.executable, "-m", "model_signing", *words]
    assert subprocess.run(foreign, capture_output=True).returncode == 0
    model.write_bytes(b"PK" + model.read_bytes()[2:-1] + b"x")
    found = run(app, ["verify", str(model), "--key", str(public)])
    assert found.exit_code == 1 and "cannot be accepted" in found.output
    assert subprocess.run(foreign, capture_output=True).returncode != 0


@pytest.mark.slow
def test_a_gigabyte_is_verified_in_about_a_second(keys, tmp_path):
    private, public = keys
    path = tmp_path / "large.dy2st"
    path.write_bytes(bytes(1 << 30))
    signatures.sign(path, private)
    began = time.perf_counter()
    signatures.verify(path, public)
    assert time.perf_counter() - began < 5


def test_the_package_that_is_missing_is_told(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "model_signing", None)
    with pytest.raises(SaveError, match=r"dy2st\[sign\]"):
        signatures.sign(model, model)
