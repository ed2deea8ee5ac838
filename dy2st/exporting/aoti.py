"""AOTInductor packages: machine code that runs without Python."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree

from dy2st.errors import ExportError
from dy2st.exporting.targets import Runner, quietly
from dy2st.lowering.context import brief
from dy2st.lowering.export import Lowered
from dy2st_runtime.executors.inductor.graph_passes import ChainedPass
from dy2st_runtime.executors.inductor.guards import guarded
from dy2st_runtime.ir.program import Program


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
    with tempfile.TemporaryDirectory() as folder, quietly(), torch.no_grad(), products_of_any_size(), guarded():
        package = os.path.join(folder, "model.pt2")
        try:
            torch._inductor.aoti_compile_and_package(lowered.exported, package_path=package)
        except Exception as error:
            raise ExportError(
                f"Inductor cannot compile {program.name}: {type(error).__name__}: {brief(error)}", program.origin
            ) from error
        shutil.copyfile(package, path)


@contextlib.contextmanager
def products_of_any_size() -> Iterator[None]:
    """Let Inductor compile products of batches of matrices whose sizes are known only when they run.

    Its ``bmm`` asks on the CPU whether such a size is 1, which nobody can say then; its ``baddbmm`` does not, and gives the same
    numbers where nothing is added. A pass of the user's own runs before.
    """
    settings: Any = torch._inductor.config
    products = ChainedPass(_open_products, "dy2st products of any size", settings.post_grad_custom_pre_pass)
    with settings.patch(post_grad_custom_pre_pass=products):
        yield


def _open_products(graph: fx.Graph) -> None:
    """Put ``baddbmm`` in the place of ``bmm`` where a size is not a number."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.bmm.default and not all(map(_has_known_sizes, node.all_input_nodes)):
            _replace_product(graph, node)


def _has_known_sizes(node: fx.Node) -> bool:
    return all(isinstance(size, int) for size in node.meta["val"].shape)


def _replace_product(graph: fx.Graph, node: fx.Node) -> None:
    value = node.meta["val"]
    with graph.inserting_before(node):
        options = {"dtype": value.dtype, "device": value.device, "pin_memory": False}
        nothing = graph.call_function(torch.ops.aten.full.default, ([1, 1, 1], 0), options)
        nothing.meta["val"] = value.new_zeros((1, 1, 1))
        result = graph.call_function(torch.ops.aten.baddbmm.default, (nothing, *node.args), {"beta": 0})
    result.meta.update(node.meta)
    node.replace_all_uses_with(result)
    graph.erase_node(node)


def read(path: str) -> Runner:
    """Return what runs a package that was just written here; loading one runs the machine code in it."""
    with quietly():
        package = torch._inductor.aoti_load_package(path)

    def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Sequence[torch.Tensor]:
        with torch.no_grad():
            return [leaf for leaf in pytree.tree_leaves(package(*args, **kwargs)) if isinstance(leaf, torch.Tensor)]

    return Runner(run)
