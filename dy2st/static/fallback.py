"""`full_graph=False`: calls that cannot be captured run as they are written, and say so."""

from __future__ import annotations

import dataclasses
import random
import threading
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from dy2st.capture.session.session import current
from dy2st.capture.unconverted import learned
from dy2st.errors import ConversionError, Dy2stError
from dy2st.frames import level_outside
from dy2st_runtime.primitives import random_state

_MANY = 8
"""After so many calls that run in eager to learn what an island gives, a warning says so."""


@dataclasses.dataclass(frozen=True)
class EagerCalls:
    """Calls of one signature that run as the function is written.

    Attributes:
        reason: why they cannot be captured: the error, with the user's file and line.
        calls: how many there were.
    """

    reason: str
    calls: int


class EagerWarning(UserWarning):
    """A function with ``full_graph=False`` runs as it is written, since it cannot be captured."""


class Fallback:
    """The signatures of a function that run as it is written.

    Args:
        name: the function.
        unconvertible: why the function cannot be rewritten at all, if so.
    """

    def __init__(self, name: str, unconvertible: ConversionError | None = None) -> None:
        self.name = name
        self.unconvertible = unconvertible
        self._refused: dict[Any, Exception] = {}
        self._counts: dict[str, int] = {}
        self._islands: set[tuple[str, int, str, int]] = set()
        self._lock = threading.Lock()

    def error_of(self, key: Any) -> Exception | None:
        """Return why the calls with this key are not captured; ``None`` if they are, or it is not known yet."""
        return self.unconvertible or self._refused.get(key)

    def note(self, key: Any, error: Exception) -> None:
        """Note that a call runs as it is written, like all with its key from now on; the first for a reason warns."""
        error.__traceback__ = error.__context__ = error.__cause__ = None  # they keep the values of the call alive
        self._refused.setdefault(key, error)
        reason = reason_of(error)
        with self._lock:
            self._counts[reason] = calls = self._counts.get(reason, 0) + 1
        if calls == 1:
            warnings.warn(f"dy2st runs {self.name} as it is written: {reason}", EagerWarning, level_outside())

    def warn_of_islands(self, islands: Mapping[tuple[str, int, str, int], str]) -> None:
        """Say once of each function that it runs as Python in programs that are captured around it.

        Args:
            islands: the functions, with the reasons.
        """
        with self._lock:
            new = {key: reason for key, reason in islands.items() if key not in self._islands}
            self._islands |= new.keys()
        for (_, _, function, _), reason in new.items():
            warnings.warn(f"dy2st runs {function} as Python in {self.name}: {reason}", EagerWarning, level_outside())

    def report(self) -> tuple[EagerCalls, ...]:
        """Return the reasons so far."""
        return tuple(EagerCalls(reason, calls) for reason, calls in self._counts.items())


def reason_of(error: Exception) -> str:
    """Return an error in words, with the user's place."""
    if isinstance(error, ConversionError):
        place = f'\n  File "{error.filename}", line {error.lineno}' if error.lineno else ""
        return f"{error.msg}{place}" + (f"\n    {error.text.strip()}" if error.text and error.text.strip() else "")
    return str(error) if isinstance(error, Dy2stError) else f"{type(error).__name__}: {error}"


def random_states() -> tuple[Any, ...]:
    """Return the states of the random number generators that code under capture may draw from while nothing is recorded."""
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), random_state.device_states()


def set_random_states(states: tuple[Any, ...]) -> None:
    """Go back to where the generators were."""
    of_python, of_numpy, of_torch, of_devices = states
    random.setstate(of_python)
    np.random.set_state(of_numpy)
    torch.set_rng_state(of_torch)
    random_state.set_device_states(of_devices)


class Learning:
    """Calls that run in eager to see what the functions give that are to run as Python in the program.

    Args:
        name: of the static function.
    """

    def __init__(self, name: str) -> None:
        self._name, self._calls = name, 0

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], unknown: Exception) -> Any:
        """Run one; after many, a warning says so.

        Args:
            function: what is static, as the user wrote it.
            args, kwargs: of the call.
            unknown: what is not known yet.
        """
        self._calls += 1
        if self._calls == _MANY:
            told = f"dy2st has run {self._name} as it is written {_MANY} times: {unknown}"
            warnings.warn(told, EagerWarning, level_outside())
        with learned.learning(lambda: current() is not None):
            return function(*args, **kwargs)
