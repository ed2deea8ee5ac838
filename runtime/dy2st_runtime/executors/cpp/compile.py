"""From text to a function: the user's own compiler, and a cache on disk.

The cache lies beside that of other compiled parts: ``$DY2ST_CACHE``, else ``$XDG_CACHE_HOME/dy2st``, else ``~/.cache/dy2st``. The
name of a file is a hash of its text, the compiler, the flags and the processor, since a unit is made for the processor at hand.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from dy2st_runtime.errors import BuildError
from dy2st_runtime.executors.cpp.emit import ENTRY
from dy2st_runtime.executors.native.build import cache_folder, find_compiler

FLAGS = (
    "-O3", "-march=native", "-std=c++17", "-shared", "-fPIC", "-fwrapv", "-ffp-contract=off", "-fno-math-errno",
    "-fno-trapping-math", "-fno-strict-aliasing", "-fno-exceptions", "-fno-rtti", "-fvisibility=default", "-w",
)  # fmt: skip


class CompileError(Exception):
    """There is no compiler, or it failed; the message has its output."""


def cache_directory() -> Path:
    """Return where compiled units are kept."""
    return cache_folder() / "cpp"


def compiler() -> tuple[str, ...]:
    """Return the command of the C++ compiler, as for the native executor.

    Raises:
        CompileError: there is none.
    """
    try:
        return tuple(find_compiler())
    except BuildError as error:
        raise CompileError(f"{error}; install one, or set CXX") from None


@functools.cache
def _identity(command: tuple[str, ...]) -> str:
    """Return what tells one compiler and processor from another."""
    path = os.path.realpath(shutil.which(command[0]) or command[0])
    state = os.stat(path)
    return f"{path} {command[1:]} {state.st_size} {state.st_mtime_ns} {platform.machine()} {_processor()}"


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line for line in file if line.startswith(("model name", "flags", "Features"))]
        return "".join(sorted(set(lines)))
    except OSError:
        return platform.processor()


def load(text: str) -> Callable[..., int]:
    """Return the function of a unit, compiled if it is not in the cache.

    Args:
        text: C++.

    Returns:
        The function. Python's own lock is held when it is called, and it lets go of it.

    Raises:
        CompileError: there is no compiler, it failed, or what it made cannot be loaded.
    """
    command = compiler()
    key = hashlib.sha256("\0".join([text, _identity(command), *FLAGS]).encode()).hexdigest()[:32]
    directory = cache_directory()
    library = directory / f"{key}.so"
    if not library.exists():
        _compile(command, text, directory, library)
    try:
        function = getattr(ctypes.PyDLL(str(library)), ENTRY)
    except (OSError, AttributeError):
        library.unlink(missing_ok=True)  # cut short by a full disk, or for another system
        _compile(command, text, directory, library)
        try:
            function = getattr(ctypes.PyDLL(str(library)), ENTRY)
        except (OSError, AttributeError) as error:
            raise CompileError(f"{library} cannot be loaded: {error}") from error
    function.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p)
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]


def _compile(command: Sequence[str], text: str, directory: Path, library: Path) -> None:
    """Compile into a temporary file, which then takes its name at once: other processes see all of it or nothing."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory(dir=directory) as scratch:
            source, result = Path(scratch) / "unit.cpp", Path(scratch) / "unit.so"
            source.write_text(text)
            done = subprocess.run(
                [*command, *FLAGS, str(source), "-o", str(result), "-lm"], capture_output=True, text=True, timeout=300
            )
            if done.returncode:
                raise CompileError(f"{command[0]} failed ({done.returncode}):\n{done.stderr.strip()[-4000:]}")
            os.replace(result, library)
    except (OSError, subprocess.SubprocessError) as error:
        raise CompileError(f"{command[0]} cannot be run in {directory}: {error}") from error
