"""Operators for the state of random numbers: a generator that a program makes is the tensor of its state.

A program that draws from such a generator makes a ``torch.Generator`` of the state, hands it to the operation that draws, and
keeps the state that is left. So a generator may be chosen by branches, carried by loops and written to a file as any tensor may.

| operator | gives |
|---|---|
| ``seeded(seed, device)`` | the state of a new generator with this seed |
| ``seeded_anew(device)`` | the same, with a seed that nobody has chosen |
| ``checked(state, device)`` | a copy of a state, if it is one |
| ``generator(state, device)`` | a generator in this state |
| ``state(generator)`` | the state of a generator |
| ``seed_of(state, device)`` | the seed that a state began with |
| ``manual_seed``, ``seed``, ``initial_seed``, ``get_rng_state``, ``set_rng_state`` | what ``torch`` has under these names |
| ``seed_device``, ``get_device_rng_state``, ``set_device_rng_state`` | the same for the default generator of an accelerator |
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

NAMESPACE = "dy2st_random"

_library = torch.library.Library(NAMESPACE, "DEF")
_SIGNED = 1 << 64


def _generator(state: torch.Tensor, device: torch.device) -> torch.Generator:
    result = torch.Generator(device)
    result.set_state(state)
    return result


def _seeded(seed: int, device: torch.device) -> torch.Tensor:
    return torch.Generator(device).manual_seed(seed).get_state()


def _seeded_anew(device: torch.device) -> torch.Tensor:
    result = torch.Generator(device)
    result.seed()
    return result.get_state()


def _of_device(device: torch.device) -> Any:
    return torch.get_device_module(device)


def _seed_device(seed: int, device: torch.device) -> None:
    with _of_device(device).device(device):
        _of_device(device).manual_seed(seed)


def accelerators() -> tuple[torch.device, ...]:
    """Return the accelerators whose generators may have been used: none before the first use of one."""
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or not _of_device(accelerator).is_initialized():
        return ()
    return tuple(torch.device(accelerator.type, index) for index in range(torch.accelerator.device_count()))


def device_states() -> tuple[tuple[torch.device, torch.Tensor], ...]:
    """Return the states of the default generators of the accelerators."""
    return tuple((device, _of_device(device).get_rng_state(device)) for device in accelerators())


def set_device_states(states: tuple[tuple[torch.device, torch.Tensor], ...]) -> None:
    """Set the states of the default generators of accelerators."""
    for device, state in states:
        _of_device(device).set_rng_state(state, device)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Leave the default generators of all devices as they are found."""
    of_torch, of_devices = torch.get_rng_state(), device_states()
    try:
        yield
    finally:
        torch.set_rng_state(of_torch)
        set_device_states(of_devices)


def signed(seed: int) -> int:
    """Return the 64 bits of a seed as operators take them."""
    return seed - _SIGNED if seed >= _SIGNED // 2 else seed


def _define(schema: str, function: Callable[..., Any], is_effect: bool = False) -> Any:
    """Define an operator that does, under autograd too, what a function does."""
    tags = (torch.Tag.nondeterministic_seeded,) if is_effect else ()
    name = schema.partition("(")[0]
    _library.define(schema, tags=tags)
    _library.impl(name, function, "CompositeImplicitAutograd")
    return getattr(getattr(torch.ops, NAMESPACE), name).default


def _manual_seed(seed: int) -> None:
    torch.manual_seed(seed)


seeded = _define("seeded(int seed, Device device) -> Tensor", _seeded)
seeded_anew = _define("seeded_anew(Device device) -> Tensor", _seeded_anew, is_effect=True)
checked = _define("checked(Tensor state, Device device) -> Tensor", lambda state, device: _generator(state, device).get_state())
generator = _define("generator(Tensor state, Device device) -> Generator", _generator)
state = _define("state(Generator generator) -> Tensor", lambda generator: generator.get_state())
seed_of = _define(
    "seed_of(Tensor state, Device device) -> int", lambda state, device: signed(_generator(state, device).initial_seed())
)
manual_seed = _define("manual_seed(int seed) -> ()", _manual_seed, is_effect=True)
seed = _define("seed() -> int", lambda: signed(torch.seed()), is_effect=True)
initial_seed = _define("initial_seed() -> int", lambda: signed(torch.initial_seed()), is_effect=True)
get_rng_state = _define("get_rng_state() -> Tensor", torch.get_rng_state, is_effect=True)
seed_device = _define("seed_device(int seed, Device device) -> ()", _seed_device, is_effect=True)
get_device_rng_state = _define(
    "get_device_rng_state(Device device) -> Tensor", lambda device: _of_device(device).get_rng_state(device), is_effect=True
)
set_device_rng_state = _define(
    "set_device_rng_state(Tensor state, Device device) -> ()",
    lambda state, device: _of_device(device).set_rng_state(state, device),
    is_effect=True,
)
set_rng_state = _define("set_rng_state(Tensor state) -> ()", torch.set_rng_state, is_effect=True)
