"""What code does with the world around the program: files, processes, threads, the environment, streams, settings.

What it does there it does at each call, or it is refused: it would be done once, at capture. What it reads and what seldom changes
(the environment, the working directory, whether a file is there, settings of torch) is read at capture and checked at each call.
"""

from __future__ import annotations

import functools
import inspect
import io
import logging
import os
import pathlib
import random
import re
import threading
import time
import types
from collections.abc import Callable
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.environment.plain_values import CONSTANTS
from dy2st.capture.environment.users_code import is_skipped
from dy2st.capture.library.effects import at_each_call
from dy2st.capture.library.generators import generator_method
from dy2st.capture.library.randomness import drawn
from dy2st.capture.library.registry import handles
from dy2st.capture.session.session import Session
from dy2st.capture.texts import text, wording
from dy2st.capture.values import storage
from dy2st_runtime.primitives import control

_WHOLE_MODULES = (
    "subprocess", "shutil", "socket", "_socket", "tempfile", "glob", "secrets", "multiprocessing", "_multiprocessing",
    "concurrent.futures", "urllib.request", "http.client", "sqlite3", "_sqlite3", "asyncio", "select", "atexit", "mmap", "signal",
    "_posixsubprocess", "smtplib", "ftplib", "webbrowser", "getpass", "fileinput",
)  # fmt: skip
_SYSTEM = ("os", "posix", "nt")
_HARMLESS = frozenset(
    ("fspath", "fsencode", "fsdecode", "getpid", "getppid", "cpu_count", "sched_getaffinity", "strerror", "get_exec_path",
     "_path_normpath", "__getitem__", "__contains__", "__iter__", "__len__", "__fspath__")
)  # fmt: skip
"""What functions of the operating system say that stays."""
_NAMES: dict[str, frozenset[str]] = {
    "io": frozenset({"open", "open_code"}),
    "_io": frozenset({"open", "open_code", "FileIO"}),
    "builtins": frozenset({"input"}),
    "time": frozenset({"strftime", "ctime", "asctime", "localtime", "gmtime", "clock_gettime", "clock_gettime_ns"}),
    "datetime": frozenset({"now", "utcnow", "today"}),
    "uuid": frozenset({"uuid1", "uuid4"}),
    "queue": frozenset({"put", "get", "put_nowait", "get_nowait", "task_done", "join", "qsize", "empty", "full"}),
    "_queue": frozenset({"put", "get", "put_nowait", "get_nowait", "qsize", "empty"}),
    "threading": frozenset(
        {"start", "join", "acquire", "release", "wait", "wait_for", "notify", "notify_all", "set", "clear", "is_set", "is_alive",
         "__enter__", "__exit__"}
    ),
    "_thread": frozenset({"acquire", "release", "locked", "__enter__", "start_new_thread"}),
    "numpy": frozenset({"save", "savez", "savez_compressed", "savetxt", "load", "loadtxt", "genfromtxt", "fromfile", "memmap"}),
    "torch.serialization": frozenset({"load"}),
    "pathlib": frozenset(set(vars(pathlib.Path)) - set(vars(pathlib.PurePath))) - {"exists", "is_file", "is_dir"},
    "torch": frozenset(
        {"set_num_interop_threads", "set_default_device", "set_default_tensor_type", "set_flush_denormal"}
    ),
    "torch._tensor_str": frozenset({"set_printoptions"}),
}  # fmt: skip
_MANAGERS = {
    "_thread": ("lock", "RLock"),
    "contextlib": ("redirect_stdout", "redirect_stderr", "chdir"),
}
_FIX = "do it outside of the static function, and pass in what it gives as an argument"


def check_surroundings(session: Session, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse a function of a library that does something in the world, and is about to be called once, at capture.

    Raises:
        CaptureError: it is one.
    """
    owner = storage.of_python(function, "__self__")
    if inspect.ismodule(owner):
        owner = None
    if owner is None and args and getattr(type(args[0]), _name(function), None) is function:
        owner = args[0]
    if owner is not None and id(owner) in session.allocations.created and not isinstance(owner, (pathlib.Path, threading.Thread)):
        return
    if _is_stream(owner) or any(
        _is_stream(value) and id(value) not in session.allocations.created for value in (*args, *kwargs.values())
    ):
        raise _refused(session, f"{_name(function)}() reads or writes a file or stream")
    if _acts(_module(function, owner), _name(function)):
        raise _refused(session, f"{_module(function, owner)}.{_name(function)}() reads or changes something outside of the program")


def check_manager(session: Session, manager: Any) -> None:
    """Refuse a context manager of a library that acts on the world where the program does not run."""
    kind = type(manager)
    acts = kind.__name__ in _MANAGERS.get(kind.__module__, ()) or _is_stream(manager)
    if acts and (kind.__module__ == "contextlib" or id(manager) not in session.allocations.created):
        raise _refused(session, f"the context manager {kind.__name__} acts outside of the program")


def _refused(session: Session, what: str) -> errors.CaptureError:
    return errors.CaptureError(f"{what}, and would do so only once, at capture", session.here(), fix=_FIX)


def _is_stream(value: Any) -> bool:
    return isinstance(value, io.IOBase)


def _name(function: Any) -> str:
    name: str = storage.of_python(function, "__name__", type(function).__name__)
    return name


def _module(function: Any, owner: Any) -> str:
    """Return the module of a function, for a method of a C class that of the class."""
    module = getattr(function, "__module__", None)
    if module is None and owner is not None:
        module = (owner if isinstance(owner, type) else type(owner)).__module__
    return module or ""


def _acts(module: str, name: str) -> bool:
    if module in _SYSTEM:
        return name not in _HARMLESS
    if module == "numpy.random" or module.startswith("numpy.random."):
        return not name[:1].isupper()  # a class
    if any(module == whole or module.startswith(whole + ".") for whole in _WHOLE_MODULES):
        return True
    return name in _NAMES.get(module, ()) or name in _NAMES.get(module.partition(".lib")[0], ())


# -- what is read and seldom changes ---------------------------------------------------------------------------------------


def _answer(function: Callable[..., Any], session: Session, *args: Any, **kwargs: Any) -> Any:
    asked = functools.partial(function, **kwargs) if kwargs else function
    return session.tracker.answer(asked, args, f"{_name(function)}()")


for _function in (
    os.getenv, os.getcwd, os.access, os.path.exists, os.path.lexists, os.path.isfile, os.path.isdir, os.path.islink,
    os.path.getsize, os.path.getmtime, os.path.abspath, os.path.realpath, os.path.expanduser, pathlib.Path.exists,
    pathlib.Path.is_file, pathlib.Path.is_dir, torch.get_num_interop_threads,
    torch.get_default_device, logging.Logger.isEnabledFor, logging.Logger.getEffectiveLevel, logging.Logger.hasHandlers,
):  # fmt: skip
    handles(_function)(functools.partial(_answer, _function))

_SETTING = re.compile(r"_?(get|is|are|has|current|active).*|.*_enabled")
"""The names of functions of libraries that tell a setting."""
_PURE = ("builtins", "math", "cmath", "operator", "_operator", "inspect", "keyword", "types")


def note_setting(session: Session, function: Any, args: tuple[Any, ...], result: Any) -> None:
    """Guard what a function of a library has answered that tells a setting: it got constants only, and gave one."""
    if not _SETTING.fullmatch(_name(function)) or isinstance(function, type) or not isinstance(result, CONSTANTS):
        return
    owner = storage.of_python(function, "__self__")
    is_plain = (owner is None or inspect.ismodule(owner)) and all(isinstance(value, CONSTANTS) for value in args)
    is_library = isinstance(function, types.BuiltinFunctionType) or is_skipped(function)
    if is_plain and is_library and _module(function, None) not in _PURE and session.settings.is_as_before(function, args, result):
        session.tracker.guards.same_answer(session.tracker.table.answer(function, args, f"{_name(function)}()"), result)


# -- what is done at each call -----------------------------------------------------------------------------------------------


def _effect(function: Callable[..., Any], session: Session, *args: Any, **kwargs: Any) -> None:
    at_each_call(session, function, *args, **kwargs)


handles(torch.save)(functools.partial(_effect, torch.save))
handles(time.sleep)(functools.partial(_effect, time.sleep))


def surroundings_method(session: Session, owner: Any, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a method of a stream or of a generator of random numbers that was there before."""
    if isinstance(owner, torch.Generator):
        return generator_method(session, owner, method, args, kwargs)
    if isinstance(owner, random.Random):
        return _random_method(session, owner, method.__name__, args, kwargs)
    return _stream_method(session, owner, method, args)


def _stream_method(session: Session, stream: io.IOBase, method: Any, args: tuple[Any, ...]) -> Any:
    """Return a method of a file or stream that was there before: what is written is written at each call."""
    session.tracker.identity(stream)
    if method.__name__ == "flush" and not args:
        return at_each_call(session, method)
    if method.__name__ != "write" or len(args) != 1 or not isinstance(args[0], (str, bytes, text.Text)):
        raise _refused(session, f"{method.__name__}() of a file or stream")
    written = wording.node_value(session, args[0]) if isinstance(args[0], text.Text) else args[0]
    session.builder.call(control.call_, (method, (written,), {}))
    return len(written) if isinstance(written, (str, bytes)) else None


_RANDOM = {"random", "uniform", "gauss", "normalvariate", "expovariate", "betavariate", "triangular"}
_RANDOM_INTS = {"randint", "randrange", "getrandbits"}


def _random_method(session: Session, generator: random.Random, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a number that a generator from outside draws."""
    if name not in _RANDOM | _RANDOM_INTS:
        raise _refused(session, f"{name}() of a random.Random changes its state")
    session.tracker.identity(generator)
    return drawn(session, getattr(generator, name), "float" if name in _RANDOM else "int", args, kwargs)
