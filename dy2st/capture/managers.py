"""Context managers: methods that the user wrote are converted, and inference mode is recorded as the grad mode that it implies."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import torch

from dy2st import errors
from dy2st.capture.regions import Signal, Unreachable
from dy2st.capture.session import Session, current
from dy2st.capture.unwinding import refused

_patch_lock = threading.Lock()
_patched_by = 0
_KEPT = "__dy2st_grad_mode__"
_enter_inference, _exit_inference = torch.inference_mode.__enter__, torch.inference_mode.__exit__


def managed(manager: Any) -> Any:
    """A context manager as converted code uses it."""
    session = current()
    kind = type(manager)
    by_user = any(isinstance(getattr(kind, name, None), FunctionType) for name in ("__enter__", "__exit__"))
    library = kind.__module__.partition(".")[0] in ("torch", "contextlib", "dy2st")
    return manager if session is None or library or not by_user else _Managed(session, manager)


class _Managed:
    """Calls the methods of a manager as converted code calls any other."""

    def __init__(self, session: Session, manager: Any) -> None:
        self.session, self.manager, self.kind = session, manager, type(manager)

    def __enter__(self) -> Any:
        self.exit = self.kind.__exit__
        entered = self.session.call(self.kind.__enter__, self.manager)
        self.session.pending.append(self)
        return entered

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> Any:
        self.session.pending.pop()
        if isinstance(error, Unreachable):
            return False  # the blocks that raise have called it
        if isinstance(error, (Signal, errors.Dy2stError)):
            self.exit(self.manager, kind, error, traceback)
            return False
        return self.session.call(self.exit, self.manager, kind, error, traceback)

    def catches(self, error: BaseException) -> bool:
        """Nobody knows before it is asked."""
        return False

    def unwind(self, session: Session, error: BaseException) -> None:
        """Leave the manager in the block that an exception leaves."""
        if session.call(self.exit, self.manager, type(error), error, error.__traceback__) not in (None, False):
            raise refused(session, error, f"the context manager {self.kind.__name__}") from error


def _enter(mode: torch.inference_mode) -> None:
    if current() is None:
        return _enter_inference(mode)
    setattr(mode, _KEPT, torch.is_grad_enabled())
    torch._C._set_grad_enabled(not mode.mode)
    return None


def _exit(mode: torch.inference_mode, *error: Any) -> None:
    if not hasattr(mode, _KEPT):
        return _exit_inference(mode, *error)
    torch._C._set_grad_enabled(mode.__dict__.pop(_KEPT))
    return None


@contextlib.contextmanager
def inference_mode_recorded() -> Iterator[None]:
    """``torch.inference_mode`` in a capture switches the grad mode: tensors of the program are ordinary ones."""
    global _patched_by
    with _patch_lock:
        _patched_by += 1
        torch.inference_mode.__enter__, torch.inference_mode.__exit__ = _enter, _exit  # type: ignore[method-assign]
    try:
        yield
    finally:
        with _patch_lock:
            _patched_by -= 1
            if not _patched_by:
                torch.inference_mode.__enter__ = _enter_inference  # type: ignore[method-assign]
                torch.inference_mode.__exit__ = _exit_inference  # type: ignore[method-assign]
