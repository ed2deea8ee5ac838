"""What a user of the installed packages relies on before calling anything."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOTS = [str(ROOT), str(ROOT / "runtime")]


def modules_after(statement: str) -> set[str]:
    """The modules a fresh process holds after running a statement."""
    program = f"import sys; sys.path[:0] = {ROOTS}; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["dy2st", "runtime/dy2st_runtime"])
def test_each_package_ships_a_py_typed_file(package: str):
    assert (ROOT / package / "py.typed").is_file()


def test_the_runtime_imports_nothing_of_the_front_end():
    found = modules_after("import dy2st_runtime")
    assert "dy2st_runtime" in found
    assert not {"dy2st", "gast", "astor"} & found


def test_every_public_name_exists():
    modules_after("import dy2st; [getattr(dy2st, name) for name in dy2st.__all__]")
    modules_after("import dy2st_runtime; [getattr(dy2st_runtime, name) for name in dy2st_runtime.__all__]")
