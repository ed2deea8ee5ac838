"""Builds the native executor: C++ against the PyTorch that is installed, once for each version of both.

The sources in ``csrc`` are compiled with the user's compiler, each file to an object that is kept by what it is made from, and
linked to an extension module. It is kept in a folder of the user's cache whose name is a hash of the sources, the flags, the
compiler, and the versions of PyTorch and Python. Processes that build at the same time wait for each other.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import hashlib
import importlib.util
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import types
import warnings
from collections.abc import Iterator, Sequence

import torch

from dy2st_runtime.compiled import COMPILED
from dy2st_runtime.errors import BuildError

SOURCES = pathlib.Path(__file__).parents[2] / "csrc"
"""Where the C++ is."""

STANDALONE = SOURCES / "standalone"
"""What comes in the place of Python in ``dy2st-run``."""

_PYTHON = SOURCES / "python"

_NAME = "dy2st_native"
_RUNNER = "dy2st-run"
_MAIN = "main.cpp"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DAT_PER_OPERATOR_HEADERS")

_lock = threading.Lock()
_library: list[types.ModuleType | None] = []


def library() -> types.ModuleType | None:
    """Return the extension module, built if need be.

    Returns:
        The module; ``None`` where it cannot be built, after one warning that says why.
    """
    if not _library:
        with _lock:
            if not _library:
                loaded = _built_or_warned()
                if loaded is not None:
                    COMPILED.load(loaded)
                _library.append(loaded)
    return _library[0]


def _built_or_warned() -> types.ModuleType | None:
    try:
        return _load(build())
    except (BuildError, ImportError, OSError) as error:
        lines = str(error).strip().splitlines()
        tail = "\n".join(lines if len(lines) < 16 else [*lines[:4], "...", *lines[-10:]])
        warnings.warn(
            f"dy2st cannot build its native executor, the python executor runs programs instead: {tail}\n"
            'Install a C++20 compiler and set CXX to it, or ask for backend="python" (DY2ST_BACKEND=python)',
            RuntimeWarning,
            stacklevel=2,
        )
        return None


def build(quiet: bool = False) -> pathlib.Path:
    """Build the extension module, unless it is there already.

    Args:
        quiet: no line on the standard error output that says what takes so long.

    Returns:
        The file of the module.

    Raises:
        BuildError: there is no compiler, or it fails; with what it says.
        OSError: the cache cannot be written.
    """
    name = f"{_NAME}{sysconfig.get_config_var('EXT_SUFFIX') or '.so'}"
    link = ("-shared", *_link_flags(), "-ltorch_python")
    return _built("the native executor", "native", name, find_sources(but=STANDALONE), link, quiet)


def build_runner(quiet: bool = False) -> pathlib.Path:
    """Build ``dy2st-run``, a program that runs saved models without Python, unless it is there already.

    Args:
        quiet: no line on the standard error output that says what takes so long.

    Returns:
        The file of the program. It needs the libraries of the PyTorch that is installed, and nothing else.

    Raises:
        BuildError: there is no compiler, or it fails; with what it says.
        OSError: the cache cannot be written.
    """
    return build_standalone(_RUNNER, STANDALONE / _MAIN, quiet)


def build_standalone(name: str, main: pathlib.Path, quiet: bool = False) -> pathlib.Path:
    """Build a program without Python from what ``dy2st-run`` is made of, unless it is there already.

    Args:
        name: of the program.
        main: the C++ file with its ``main``.
        quiet: no line on the standard error output that says what takes so long.

    Returns:
        The file of the program.

    Raises:
        BuildError: there is no compiler, or it fails; with what it says.
        OSError: the cache cannot be written.
    """
    sources = [source for source in find_sources(but=_PYTHON) if source != STANDALONE / _MAIN]
    return _built(name, name, name, [*sources, main], _link_flags(), quiet)


def find_sources(but: pathlib.Path) -> list[pathlib.Path]:
    """Return the C++ files outside of one folder, those that take longest first."""
    return sorted((source for source in SOURCES.rglob("*.cpp") if but not in source.parents), key=_weight)


def _built(what: str, kind: str, name: str, sources: Sequence[pathlib.Path], link: Sequence[str], quiet: bool) -> pathlib.Path:
    compiler = find_compiler()
    folder = cache_folder() / f"{kind}-{_digest([*_environment(compiler), *_contents(sources)])}"
    file = folder / name
    if file.exists():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(cache_folder() / f"{kind}.lock"):
        if not file.exists():
            _compile(what, compiler, sources, link, file, quiet)
    return file


def cache_folder() -> pathlib.Path:
    """Return where what is built is kept: ``DY2ST_CACHE``, or ``dy2st`` in the user's cache folder."""
    own = os.environ.get("DY2ST_CACHE")
    if own:
        return pathlib.Path(own)
    standard = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(standard) if standard else pathlib.Path.home() / ".cache") / "dy2st"


def find_compiler() -> list[str]:
    """Return the command of the C++ compiler: ``CXX``, or the first of ``c++``, ``g++`` and ``clang++`` that is there.

    Raises:
        BuildError: there is none.
    """
    asked = shlex.split(os.environ.get("CXX", ""))
    for command in [asked] if asked else [["c++"], ["g++"], ["clang++"]]:
        if shutil.which(command[0]):
            return command
    raise BuildError(f"there is no C++ compiler ({asked[0] if asked else 'c++, g++, clang++'} not found)")


def _compile(
    what: str, compiler: Sequence[str], sources: Sequence[pathlib.Path], link: Sequence[str], file: pathlib.Path, quiet: bool
) -> None:
    start = time.perf_counter()
    if not quiet:
        print(f"dy2st: building {what} for torch {torch.__version__}, once ...", end="", file=sys.stderr, flush=True)
    with concurrent.futures.ThreadPoolExecutor(max(1, len(_cores()))) as pool:
        objects = list(pool.map(functools.partial(_object, compiler), sources))
    with renamed(file) as result:
        _run([*compiler, *map(str, objects), "-o", str(result), *link])
        result.chmod(0o755)
    if not quiet:
        print(f" {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


def _weight(source: pathlib.Path) -> tuple[bool, str]:
    """Return the files with the signatures of operators take longest, so they come first."""
    return (not source.name.startswith("typed"), source.name)


def _object(compiler: Sequence[str], source: pathlib.Path) -> pathlib.Path:
    """Return the object of one source file, compiled if need be."""
    parts = [*_environment(compiler), *(file.read_bytes() for file in _with_headers(source))]
    result = cache_folder() / "objects" / f"{source.stem}-{_digest(parts)}.o"
    if not result.exists():
        result.parent.mkdir(parents=True, exist_ok=True)
        with renamed(result) as part:
            _run([*compiler, *_FLAGS, *_include_flags(), "-c", str(source), "-o", str(part)])
    return result


def _with_headers(source: pathlib.Path) -> list[pathlib.Path]:
    """Return a source file and the headers of this package that it includes, also through others."""
    result, waiting = [source], [source]
    while waiting:
        file = waiting.pop()
        for name in re.findall(r'^#include "(.+)"$', file.read_text(encoding="utf-8"), re.MULTILINE):
            header = (file.parent / name).resolve()
            if header not in result and header.exists():
                result.append(header)
                waiting.append(header)
    return [source, *sorted(result[1:])]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    if done.returncode:
        raise BuildError(f"{shlex.join(command)} failed:\n{done.stdout}")


def _include_flags() -> list[str]:
    include = pathlib.Path(torch.__file__).parent / "include"
    folders = [include, include / "torch" / "csrc" / "api" / "include", pathlib.Path(sysconfig.get_paths()["include"])]
    return [flag for folder in folders for flag in ("-isystem", str(folder))]


def _link_flags() -> list[str]:
    libraries = pathlib.Path(torch.__file__).parent / "lib"
    results = [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lc10", "-ltorch_cpu", "-ltorch"]
    return [*results, "-undefined", "dynamic_lookup"] if sys.platform == "darwin" else results


def _cores() -> Sequence[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _contents(sources: Sequence[pathlib.Path]) -> list[bytes]:
    """Return the sources, and the headers that they may include."""
    files = [*sources, *sorted(SOURCES.rglob("*.h"))]
    if not sources:
        raise BuildError(f"the C++ of the native executor is missing from {SOURCES}")
    return [part for file in files for part in (file.name.encode(), file.read_bytes())]


def _environment(compiler: Sequence[str]) -> list[bytes]:
    """Return everything besides the sources that decides what comes out."""
    version = _version(tuple(compiler))
    abi = f"{sysconfig.get_config_var('SOABI')} {sys.version_info}"
    torch_version = f"{torch.__version__} {torch.version.git_version} {pathlib.Path(torch.__file__).parent}"
    return [part.encode() for part in (version, abi, torch_version, *_FLAGS)]


@functools.cache
def _version(compiler: tuple[str, ...]) -> str:
    done = subprocess.run([*compiler, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return f"{compiler} {done.stdout}"


def _digest(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:20]


@contextlib.contextmanager
def renamed(file: pathlib.Path) -> Iterator[pathlib.Path]:
    """Give a name to write to; it becomes the file when all went well."""
    handle, name = tempfile.mkstemp(dir=file.parent, prefix=file.stem, suffix=".part")
    os.close(handle)
    path = pathlib.Path(name)
    try:
        yield path
        path.replace(file)
    finally:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(file: pathlib.Path) -> Iterator[None]:
    """Let one process in at a time."""
    try:
        import fcntl  # not on every system
    except ImportError:
        yield
        return
    with file.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _load(file: pathlib.Path) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(_NAME, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no extension module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
