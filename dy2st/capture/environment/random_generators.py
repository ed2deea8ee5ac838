"""What torch has in C for the state of random numbers, in Python: it is converted like the user's code.

A generator that captured code makes is the tensor of its state, so that it is chosen, carried and copied as tensors are.
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch

DEFAULT_SEED = 67280421310721
"""What a new generator begins with (``c10::detail::default_rng_seed_val``)."""


def _recorded(*args: Any) -> NoReturn:
    raise AssertionError("recorded by its handler")


def seeded(seed: Any, device: torch.device) -> Any:
    """Return the state of a generator that has been given a seed."""
    _recorded(seed, device)


def seeded_anew(device: torch.device) -> Any:
    """Return the state of a generator that has chosen a seed itself."""
    _recorded(device)


def checked(state: Any, device: torch.device) -> Any:
    """Return a copy of a state."""
    _recorded(state, device)


def seed_of(state: Any, device: torch.device) -> Any:
    """Return the seed that a state began with."""
    _recorded(state, device)


class Generator:
    """A ``torch.Generator`` that captured code makes."""

    def __init__(self, device: Any = "cpu") -> None:
        self.device = torch.device(device)
        self.state = seeded(DEFAULT_SEED, self.device)

    def manual_seed(self, seed: Any) -> Generator:
        """Begin anew with a seed."""
        self.state = seeded(seed, self.device)
        return self

    def seed(self) -> Any:
        """Begin anew with a seed that differs from call to call."""
        self.state = seeded_anew(self.device)
        return seed_of(self.state, self.device)

    def initial_seed(self) -> Any:
        """Return the seed that it began with."""
        return seed_of(self.state, self.device)

    def get_state(self) -> Any:
        """Return a copy of the state."""
        return self.state.clone()

    def set_state(self, new_state: Any) -> None:
        """Go on from a state."""
        self.state = checked(new_state, self.device)

    def clone_state(self) -> Generator:
        """Return another generator in the same state."""
        result = Generator(self.device)
        result.state = self.state
        return result


class ForkedState:
    """``torch.random.fork_rng`` of the generator that draws by default."""

    def __init__(self, is_enabled: Any) -> None:
        self.is_enabled = is_enabled
        self.state: Any = torch.get_rng_state() if is_enabled else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        if self.is_enabled:
            torch.set_rng_state(self.state)
