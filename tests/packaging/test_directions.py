"""The directions of imports, read from the source: nothing can hide behind the order of imports, or in types for annotations."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"dy2st": ROOT / "dy2st", "dy2st_runtime": ROOT / "runtime" / "dy2st_runtime"}

ROOMS = """
dy2st.__main__
dy2st.cli
dy2st.compressing
dy2st.__init__
dy2st.translator
dy2st.distributed
dy2st.api
dy2st.batching
dy2st.onnx_backend
dy2st.exporting
dy2st.lowering
dy2st.saving
dy2st.static
dy2st.static.matching
dy2st.static.calls
dy2st.static.distributed
dy2st.constructs
dy2st.capture.__init__
dy2st.capture.trace
dy2st.capture.arguments
dy2st.capture.on_raise
dy2st.capture.outputs
dy2st.capture.calls
dy2st.capture.distributed
dy2st.capture.unconverted
dy2st.capture.arrays
dy2st.capture.library
dy2st.capture.collections
dy2st.capture.operators
dy2st.capture.looping
dy2st.capture.iterables
dy2st.capture.attributes
dy2st.capture.containers
dy2st.capture.branching
dy2st.capture.raising
dy2st.capture.texts
dy2st.capture.objects
dy2st.capture.diagnostics
dy2st.capture.torch_functions
dy2st.capture.session
dy2st.capture.environment
dy2st.capture.recording
dy2st.capture.operands
dy2st.capture.types
dy2st.capture.writes
dy2st.capture.values
dy2st.analysis
dy2st.source
dy2st.frames
dy2st.collecting
dy2st.options
dy2st.input_spec
dy2st.training
dy2st.code_names
dy2st.errors
dy2st.names
dy2st.config
dy2st.logs
dy2st_runtime.serving
dy2st_runtime.serving.protocol
dy2st_runtime.signatures
dy2st_runtime.__init__
dy2st_runtime.profiling
dy2st_runtime.batching
dy2st_runtime.module
dy2st_runtime.inference
dy2st_runtime.executors.__init__
dy2st_runtime.executors.inductor
dy2st_runtime.executors.cpp
dy2st_runtime.executors.native
dy2st_runtime.executors.python
dy2st_runtime.executors.loops
dy2st_runtime.executors.parts_of_loops
dy2st_runtime.executors.whole
dy2st_runtime.executors.plain_values
dy2st_runtime.passes
dy2st_runtime.archive
dy2st_runtime.call
dy2st_runtime.analyses
dy2st_runtime.ir
dy2st_runtime.primitives
dy2st_runtime.distributed
dy2st_runtime.arrays
dy2st_runtime.torch_versions
dy2st_runtime.compiled
dy2st_runtime.errors
""".split()
"""A room, a folder or a single module, imports from rooms further down alone. One that is missing here must be given its place."""

TABLE = {room: place for place, room in enumerate(ROOMS)}

# What a part, or a whole package, never imports.
FORBIDDEN = {
    "dy2st_runtime": ("dy2st", "gast", "astor"),
    "dy2st.source": ("torch", "dy2st_runtime", "dy2st.config"),
    "dy2st.analysis": ("torch", "dy2st_runtime", "dy2st.capture"),
    "dy2st.capture": ("gast", "astor", "dy2st.source", "dy2st.analysis"),
    "dy2st.static.conversion": ("dy2st.capture",),
    "dy2st.lowering": (
        "gast",
        "astor",
        "dy2st.source",
        "dy2st.analysis",
        "dy2st.constructs",
        "dy2st.static",
    ),
}

MOST_FILES = {"dy2st.constructs": 40, "dy2st.capture.library": 40}
"""How many files a folder of registered members may have; other rooms have 15 with their own."""


def find_modules() -> dict[str, Path]:
    """Every module of both packages by its dotted name; a package's own file keeps its `.__init__`."""
    return {
        ".".join((package, *path.relative_to(folder).with_suffix("").parts)): path
        for package, folder in PACKAGES.items()
        for path in sorted(folder.rglob("*.py"))
    }


MODULES = find_modules()


def resolve(name: str) -> str:
    return name if name in MODULES or f"{name}.__init__" not in MODULES else f"{name}.__init__"


def imports(module: str, *, for_types: bool = True) -> Iterator[str]:
    """The full name of everything a module imports, at its top or inside a function.

    Args:
        module: its name.
        for_types: whether with what only annotations need.
    """
    tree = ast.parse(MODULES[module].read_text())
    of_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in of_types and not for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (resolve(alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module, f"{module}:{node.lineno}: relative import"
            for alias in node.names:
                member = resolve(f"{node.module}.{alias.name}")
                yield member if member in MODULES else resolve(node.module)


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def room(module: str) -> str | None:
    """The room that a module is in, or is."""
    while module and module not in TABLE:
        module = module.rpartition(".")[0]
    return module or None


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_what_it_must_not(module: str):
    banned = [name for owner, names in FORBIDDEN.items() if within(module, owner) for name in names]
    found = [name for name in imports(module) for ban in banned if within(name, ban)]
    assert not found, f"{module} must not import {found}"


@pytest.mark.parametrize("module", MODULES)
def test_no_module_imports_from_a_layer_above(module: str):
    own = room(module)
    assert own is not None, f"give {module} its place in ROOMS"
    rooms = {name: room(name) for name in imports(module) if name in MODULES and name.partition(".")[0] == own.partition(".")[0]}
    upward = [name for name, other in rooms.items() if other is not None and other != own and TABLE[other] <= TABLE[own]]
    assert not upward, f"{module} is below {upward}"


@pytest.mark.parametrize("name", ROOMS)
def test_every_room_is_there(name: str):
    assert name in MODULES or f"{name}.__init__" in MODULES


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_has_an_import_cycle(package: str):
    graph = {name: {i for i in imports(name) if i in MODULES} for name in MODULES if within(name, package)}
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("folder", sorted({path.parent for path in MODULES.values()}), ids=lambda folder: folder.name)
def test_no_room_is_too_full(folder: Path):
    package = next(name.rpartition(".")[0] for name, path in MODULES.items() if path.parent == folder)
    assert len([*folder.glob("*.py")]) <= MOST_FILES.get(package, 15)
