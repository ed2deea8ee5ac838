"""``dy2st doctor``."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
import sys

import torch

from dy2st.cli.output import console
from dy2st_runtime.archive.serialize import VERSION
from dy2st_runtime.executors import DEFAULT, available

_FOR = {
    "numpy": "arrays of archives and of `dy2st run`",
    "gast": "rewriting functions",
    "astor": "printing rewritten functions",
    "safetensors": "",
    "onnx": "export to ONNX",
    "onnxscript": "export to ONNX",
    "onnxruntime": "checking what was exported to ONNX, and backend='onnxruntime'",
}
_NEEDED = ("numpy", "gast", "astor")


def report() -> bool:
    """Print what is there; whether nothing that everything needs is missing."""
    out = console()
    whole = True

    def line(good: bool | None, what: str, text: str) -> None:
        sign = {True: "[green]ok[/]  ", False: "[red]no[/]  ", None: "    "}[good]
        out.print(f"{sign}{what:<16}", end="")
        out.print(text, markup=False, soft_wrap=True)

    line(None, "dy2st", f"{_version('dy2st') or 'from a folder'}, archives of format {VERSION[0]}.{VERSION[1]}")
    line(sys.version_info >= (3, 10), "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    line(True, "torch", f"{torch.__version__}, {torch.get_num_threads()} threads" + _devices())
    for name, purpose in _FOR.items():
        result = _version(name)
        whole = whole and (result is not None or name not in _NEEDED)
        good = True if result else (False if name in _NEEDED else None)
        line(good, name, result or f"not installed{f': needed for {purpose}' if purpose else ''}")
    compiler = next(
        (path for name in (os.environ.get("CXX"), "c++", "g++", "clang++") if name and (path := shutil.which(name))), None
    )
    line(True if compiler else None, "C++ compiler", compiler or "none: the python executor runs everything")
    line(None, "executors", ", ".join(f"{name} (default)" if name == DEFAULT else name for name in available()))
    settings = [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("DY2ST_")]
    line(None, "settings", ", ".join(settings) or "none in the environment")
    return whole


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "there" if importlib.util.find_spec(name) else None


def _devices() -> str:
    if not torch.cuda.is_available():
        return ", CPU only"
    return "".join(f", {torch.cuda.get_device_name(index)}" for index in range(torch.cuda.device_count()))
