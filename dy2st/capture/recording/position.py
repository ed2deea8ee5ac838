"""Which line of the user's runs now."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from types import CodeType

import torch

from dy2st import errors
from dy2st_runtime.ir.program import Location

_PACKAGE = os.path.join(os.path.dirname(errors.__file__), "")
_GRAD_MODE = torch.no_grad.__enter__.__code__.co_filename
_TORCH = os.path.join(os.path.dirname(torch.__file__), "")


class Position:
    """Where a capture is in the user's code.

    Attributes:
        user_files: the files that have converted code.
        entry_code: the code of the function that started the capture; the user's frames are above it.
    """

    def __init__(self) -> None:
        self.user_files: set[str] = set()
        self.entry_code: CodeType | None = None
        self._location: Location | None = None
        self.handled: Callable[[BaseException], Callable[[], BaseException] | None] = lambda error: None
        """Gives what makes an exception that is being handled, if the user's code has raised it."""

    def locate(self) -> Location | None:
        """Return the user's line that runs now: the innermost frame of converted code or of a file that has some."""
        if self._location is not None:
            return self._location
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            if code is self.entry_code:
                return None
            if code.co_filename in self.user_files:
                error = sys.exc_info()[1]
                behind = None if error is None else self.handled(error)
                return Location(code.co_filename, frame.f_lineno, code.co_name, behind=behind)
            frame = frame.f_back  # type: ignore[assignment]
        return None

    def here(self) -> errors.Location | None:
        """Return the user's line that runs now, for an error."""
        location = self.locate()
        return errors.Location(location.file, location.line, location.function) if location else None

    @contextlib.contextmanager
    def located(self, location: Location | None) -> Iterator[None]:
        """Record what is inside as of another line of the user's than the one that runs."""
        outer, self._location = self._location, location
        try:
            yield
        finally:
            self._location = outer

    def asked_by_user_code(self) -> bool:
        """Tell whether the call of torch that is handled now was made by the user's code, or by code that is called as it is."""
        frame = sys._getframe(1)
        while frame.f_code.co_name != "__torch_function__" and frame.f_back is not None:
            frame = frame.f_back
        code = (frame.f_back or frame).f_code
        return code.co_name == "_call_plain" or not code.co_filename.startswith(_PACKAGE)

    def leaves_grad_mode(self) -> bool:
        """Tell whether the grad mode that is switched now is put back by a context manager of torch at its end."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        while frame.f_code.co_filename == _GRAD_MODE and frame.f_back is not None:
            if frame.f_code.co_name == "__exit__":
                return True
            frame = frame.f_back
        return False

    def asked_by_torch(self) -> bool:
        """Tell whether what is asked now is asked by code of torch: it chooses between operators that give the same."""
        frame = sys._getframe(1)
        while frame.f_code.co_filename.startswith(_PACKAGE) and frame.f_back is not None:
            frame = frame.f_back
        return frame.f_code.co_filename.startswith(_TORCH)
