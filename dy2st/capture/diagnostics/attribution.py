"""Whose fault an exception is: the user's program, or the capture that runs it on abstract values.

Eager Python raises the first kind too, if it gets there, so it becomes a part of the program. The second kind must come out at
capture: it says that something cannot be captured, or that dy2st has a bug.
"""

from __future__ import annotations

import os
import re
import types

import sympy
import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves

import dy2st_runtime
from dy2st import errors
from dy2st.capture.environment.users_code import module_of
from dy2st.capture.session.session import Session
from dy2st.capture.values.roles import Role, has
from dy2st.capture.values.symbolic import CAPTURE_VALUES
from dy2st.capture.values.texts import Text
from dy2st.frames import MACHINERY
from dy2st_runtime.call.tracebacks import steps

ACTS_FOR_USER = False

TRACING_ERRORS = (
    GuardOnDataDependentSymNode, DataDependentOutputException, DynamicOutputShapeException, UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)  # fmt: skip
"""Errors with which torch's tracing gives up."""
_OWN = os.path.dirname(errors.__file__) + os.sep
_NOT_OURS = tuple(os.path.dirname(module.__file__ or "") + os.sep for module in (dy2st_runtime, sympy))
"""What the capture calls, and no code of the user's."""
_CHECK_OF_NAMES = ("ld", "access.py")
"""The function that raises what Python raises for a name of the user's that is unbound, and its file."""
_TENSOR = torch._tensor.__file__
_TORCH = os.path.dirname(torch.__file__) + os.sep
_TRACING = (
    "_dynamo", "_dispatch", "_functorch", "_higher_order_ops", "_inductor", "_library", "_ops.py", "_prims", "_refs", "_decomp",
    "_meta_registrations.py", "_subclasses", "fx", "overrides.py", "utils/_", "_guards.py", "_export", "export",
)  # fmt: skip
_NAMES = "|".join(kind.__name__ for kind in CAPTURE_VALUES if kind.__name__ == kind.__qualname__)  # others have a name of Python's
_WITHOUT_DATA = (
    r"for tensor subclasses|data is not allocated yet|Not available for 'meta' device type"
    r"|^ufunc '\w+' not supported for the input types|ndarray of type numpy\.object_"
)
"""What torch says of tensors without data, and numpy and torch of arrays of other objects than numbers."""
_CAPTURE_WORDS = re.compile(rf"\b({_NAMES}|fake tensor|FakeTensorMode|symbolic sizes)\b|{_WITHOUT_DATA}")
"""What only an error that abstract values cause speaks of."""
_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_KINDS_OF_NUMBERS = re.compile(r"\bSym(Int|Float|Bool)\b")
_NUMBER, _OTHER = (
    "'(?:int|float|bool)'",
    "'(?:NoneType|str|bytes|list|tuple|dict|set|frozenset|function|type|ellipsis|range|slice|module|method|generator|map|zip|filter"
    "|enumerate|builtin_function_or_method|collections.deque)'",
)
_NO_NUMBER = re.compile(
    rf"unsupported operand type\(s\) for [^:]+: (?:{_NUMBER} and {_OTHER}|{_OTHER} and {_NUMBER})"
    rf"|'[<>]=?' not supported between instances of (?:{_NUMBER} and {_OTHER}|{_OTHER} and {_NUMBER})"
    rf"|can only concatenate (?:str|list|tuple) \(not \"\w+\"\) to \w+"
    rf"|{_NUMBER} object is not (?:subscriptable|iterable|callable)|cannot unpack non-iterable \w+ object"
    rf"|{_NUMBER} object does not support item (?:assignment|deletion)|object of type {_NUMBER} has no len\(\)"
)
"""What Python says of operands that go with no number, whatever it is."""
_CYCLE = 50
"""How many frames at the end of a traceback show what an endless recursion goes through."""
_GENERATED = "<string>"
"""The file of the methods that ``dataclasses`` writes."""
_NEVER = (errors.Dy2stError, RecursionError, MemoryError, SystemError, *TRACING_ERRORS)


def is_users(session: Session, error: BaseException) -> bool:
    """Tell whether eager Python raises an exception as well, where the program is now."""
    if any(error is known for known in session.in_flight.raised):
        return True
    if not isinstance(error, Exception) or isinstance(error, _NEVER):
        return False
    if is_about_abstracts(session, error):
        return False
    if session.in_flight.failed is not None and session.in_flight.failed[0] is error:
        return not isinstance(error, NotImplementedError)
    return _innermost_is_users(error)


def is_about_abstracts(session: Session, error: Exception) -> bool:
    """Tell whether an error is due to values that Python does not know during a capture."""
    if any(error is known for known in session.in_flight.raised) or is_defect(error):
        return False
    if any(isinstance(value, CAPTURE_VALUES) for value in error.args):
        return True
    if _is_about_kinds(error):
        return False
    message = str(error)
    if _CAPTURE_WORDS.search(message) is not None:
        return True
    names = {*_SYMBOL.findall(message)}
    return bool(names) and any(symbol.name in names for symbol in session.shapes.var_to_range)


def is_defect(error: Exception) -> bool:
    """Tell whether code of this package has gone wrong by itself.

    No code of the user's makes it miss a name, or fail an assertion; where a name of the user's own is unbound, a check says so.
    """
    if not isinstance(error, (AssertionError, NameError)) or isinstance(error, errors.Dy2stError):
        return False
    *_, last = steps(error) if error.__traceback__ is not None else (None,)
    code = None if last is None else last.tb_frame.f_code
    is_check = code is not None and (code.co_name, os.path.basename(code.co_filename)) == _CHECK_OF_NAMES
    return code is not None and not is_check and code.co_filename.startswith((_OWN, *_NOT_OURS))


def _is_about_kinds(error: Exception) -> bool:
    """Tell whether it says that no number takes part in what was asked, whatever its value; it gets the words of eager then."""
    known = _KINDS_OF_NUMBERS.sub(lambda value: value[1].lower(), str(error))
    if not isinstance(error, TypeError) or known == str(error) or _NO_NUMBER.fullmatch(known) is None:
        return False
    error.args = (known,)
    return True


def is_about_texts(error: Exception) -> bool:
    """Tell whether it is due to a string that is made when the program runs."""
    return any(isinstance(value, Text) for value in error.args) or re.search(r"\bText\b", str(error)) is not None


def runs_in_capture(session: Session, error: RecursionError) -> bool:
    """Tell whether it is code of this package that goes too deep, and not the user's."""
    files = [step.tb_frame.f_code.co_filename for step in steps(error)]
    if files[-_CYCLE:] == [_GENERATED] * _CYCLE:  # types that hold themselves are compared: by whom?
        return next(file for file in reversed(files) if file != _GENERATED).startswith((_OWN, *_NOT_OURS))
    files = files[-_CYCLE:]
    return any(file.startswith((_OWN, *_NOT_OURS)) for file in files) and not any(
        file in session.position.user_files for file in files
    )


def _innermost_is_users(error: Exception) -> bool:
    file = module = ""
    frames: list[types.FrameType] = []
    for step in steps(error):
        file, module = step.tb_frame.f_code.co_filename, step.tb_frame.f_globals.get("__name__", "")
        frames = [*frames, step.tb_frame] if _is_plain_torch(file) else []
    if frames and not any(map(_holds_tensor, frames)):
        return True
    if file.startswith(_OWN) and has(module, Role.ACTS):
        return not is_defect(error) and not _is_own(getattr(error, "obj", None))
    return file == _TENSOR or not file.startswith((_OWN, *_NOT_OURS, *MACHINERY))


def _is_plain_torch(file: str) -> bool:
    """Tell whether a file is of torch's Python code, and no part of how it traces."""
    return file.startswith(_TORCH) and not file[len(_TORCH) :].startswith(_TRACING)


def _holds_tensor(frame: types.FrameType) -> bool:
    """Tell whether code that runs has a tensor at hand, so that an error may be due to the one that stands for it."""
    parts = tree_leaves([*frame.f_locals.values()])
    return any(isinstance(part, (torch.Tensor, *CAPTURE_VALUES)) for part in parts)


def _is_own(value: object) -> bool:
    """Tell whether something is of this package, so that a missing attribute is a bug of it."""
    return module_of(type(value)).partition(".")[0] in ("dy2st", "dy2st_runtime")
