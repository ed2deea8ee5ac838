"""The directions of imports, read from the source: nothing can hide behind the order of imports."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {"dy2st": ROOT / "dy2st", "dy2st_runtime": ROOT / "runtime" / "dy2st_runtime"}

# A part of dy2st imports parts further down alone. A part missing here must be given its place first.
LAYERS = (
    ("__main__",),
    ("cli",),
    ("__init__",),
    ("translator",),
    ("api",),
    ("exporting", "onnx_backend"),
    ("saving", "lowering", "rewriting"),
    ("state_names",),
    ("attribute_state",),
    ("copying",),
    ("static_function",),
    ("dynamic_state",),
    ("route",),
    ("matching",),
    ("report", "cache", "convert"),
    ("constructs",),
    ("signature", "eager", "leaks"),
    ("capture",),
    ("analysis",),
    ("source",),
    ("frames",),
    ("errors", "names", "config", "logs", "difference"),
)
RANK = {part: -height for height, parts in enumerate(LAYERS) for part in parts}

# What a part, or a whole package, never imports.
FORBIDDEN = {
    "dy2st_runtime": ("dy2st", "gast", "astor"),
    "dy2st.source": ("torch", "dy2st_runtime", "dy2st.config"),
    "dy2st.analysis": ("torch", "dy2st_runtime", "dy2st.capture"),
    "dy2st.capture": ("gast", "astor", "dy2st.source", "dy2st.analysis"),
    "dy2st.convert": ("dy2st.capture",),
    "dy2st.lowering": (
        "gast",
        "astor",
        "dy2st.source",
        "dy2st.analysis",
        "dy2st.constructs",
        "dy2st.convert",
    ),
}


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


def imports(module: str) -> Iterator[str]:
    """The full name of everything a module imports, at its top or inside a function; types for annotations are left out."""
    tree = ast.parse(MODULES[module].read_text())
    for_types = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in for_types:
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


def part(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("module", MODULES)
def test_forbidden_imports(module: str):
    banned = [name for owner, names in FORBIDDEN.items() if within(module, owner) for name in names]
    found = [name for name in imports(module) for ban in banned if within(name, ban)]
    assert not found, f"{module} must not import {found}"


@pytest.mark.parametrize("module", [name for name in MODULES if within(name, "dy2st")])
def test_imports_point_down(module: str):
    assert part(module) in RANK, f"give {part(module)} its place in LAYERS"
    own = (part(module),)
    upward = [
        name
        for name in imports(module)
        if within(name, "dy2st") and part(name) not in own and RANK[part(name)] >= RANK[part(module)]
    ]
    assert not upward, f"{module} is below {upward}"


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_cycle(package: str):
    graph = {name: {i for i in imports(name) if i in MODULES} for name in MODULES if within(name, package)}
    TopologicalSorter(graph).prepare()
