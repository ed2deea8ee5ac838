"""AOTInductor packages: machine code that runs without Python."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from dy2st.errors import ExportError
from dy2st.lowering.context import brief
from dy2st.lowering.doors import Runner, quietly
from dy2st.lowering.module import Lowered
from dy2st_runtime.program import Program


def require() -> None:
    """Check that there is a compiler.

    Raises:
        ExportError: there is none.
    """
    compiler = os.environ.get("CXX", "g++")
    if shutil.which(compiler) is None and shutil.which("clang++") is None:
        raise ExportError(
            f"an AOTInductor package is compiled here, and there is no C++ compiler ({compiler}); install one or set CXX"
        )


def write(lowered: Lowered, program: Program, path: str) -> None:
    """Compile the program and write the package.

    Raises:
        ExportError: it cannot be compiled.
    """
    with tempfile.TemporaryDirectory() as folder, quietly(), torch.no_grad():
        package = os.path.join(folder, "model.pt2")
        try:
            torch._inductor.aoti_compile_and_package(lowered.exported, package_path=package)
        except Exception as error:
            raise ExportError(
                f"{program.origin}: Inductor cannot compile {program.name}: {type(error).__name__}: {brief(error)}"
            ) from error
        shutil.copyfile(package, path)


def read(path: str) -> Runner:
    """What runs a package that was just written here; loading one runs the machine code in it."""
    with quietly():
        package = torch._inductor.aoti_load_package(path)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return [leaf for leaf in pytree.tree_leaves(package(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]

    return Runner(run)
