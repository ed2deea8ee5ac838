"""Generators of random numbers and their states: made, seeded, taken and set when the program runs, in order with what draws."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from dy2st import errors
from dy2st.capture.environment import written_out
from dy2st.capture.library.registry import handles
from dy2st.capture.raising.exceptions import raised
from dy2st.capture.recording import failing
from dy2st.capture.recording.recorder import fresh_number
from dy2st.capture.session.session import Session
from dy2st.capture.types import value_types
from dy2st_runtime.primitives import control, random_state

_CPU = torch.device("cpu")


def new_state(session: Session, device: torch.device) -> torch.Tensor:
    """Return the abstract value of the state of a generator."""
    with session.suspended(), _disable_current_modes():
        length = torch.Generator(device).get_state().shape[0]
    return session.fakes.tensor(value_types.TensorType(torch.uint8, torch.device("cpu"), (length,), None, False))


@handles(torch.Generator)
def _generator(session: Session, *args: Any, **kwargs: Any) -> Any:
    with session.suspended():
        device = torch.Generator(*args, **kwargs).device  # raises what eager raises
    return session.call(written_out.Generator, device)


def _as_seed(session: Session, seed: Any, setter: Callable[[Any], Any]) -> Any:
    """Return a seed as operators take it; ``setter`` raises what eager raises for what is none."""
    if isinstance(seed, torch.SymInt):
        return seed
    if isinstance(seed, torch.SymBool):
        return session.call(int, seed)
    example = torch.zeros(()) if isinstance(seed, torch.Tensor) else 0.5 if isinstance(seed, torch.SymFloat) else seed
    try:
        with session.suspended():
            setter(example)
    except Exception as error:
        raise raised(error) from None
    return random_state.signed(int(seed))


@handles(written_out.seeded)
def _seeded(session: Session, seed: Any, device: torch.device) -> Any:
    seed = _as_seed(session, seed, torch.Generator(device).manual_seed)
    return _state(session, random_state.seeded, device, seed, device)


@handles(written_out.seeded_anew)
def _seeded_anew(session: Session, device: torch.device) -> Any:
    return _state(session, random_state.seeded_anew, device, device)


@handles(written_out.checked)
def _checked(session: Session, state: Any, device: torch.device) -> Any:
    _check_state(session, state, torch.Generator(device).set_state)
    return _state(session, random_state.checked, device, state, device)


@handles(written_out.seed_of)
def _seed_of(session: Session, state: Any, device: torch.device) -> Any:
    return _number(session, random_state.seed_of, state, device)


def _state(session: Session, operator: Any, device: torch.device, *args: Any) -> Any:
    result = new_state(session, device)
    session.builder.call(operator, args, {}, result)
    return result


def _number(session: Session, operator: Any, *args: Any) -> Any:
    result = fresh_number(session.shapes, "int")
    session.builder.call(operator, args, {}, result)
    return result


def _check_state(session: Session, state: Any, setter: Callable[[Any], Any]) -> None:
    """Raise what eager raises for what is no state of bytes; whether its bytes are one shows when the program runs."""
    if isinstance(state, torch.Tensor) and state.dtype is torch.uint8:
        return failing.refuse_if_named(
            session, RuntimeError(), "setting a state of random numbers", "set it outside of the try statement"
        )
    with session.suspended():
        setter(torch.zeros(1, dtype=state.dtype) if isinstance(state, torch.Tensor) else state)


# -- the generator that draws by default ---------------------------------------------------------------------------------------


@handles(torch.manual_seed)
def _manual_seed(session: Session, seed: Any) -> Any:
    seed = session.call(int, seed)
    session.builder.call(random_state.manual_seed, (_as_seed(session, seed, torch.Generator().manual_seed),))
    return torch.default_generator


@handles(torch.seed)
def _seed(session: Session) -> Any:
    return _number(session, random_state.seed)


@handles(torch.initial_seed)
def _initial_seed(session: Session) -> Any:
    return _number(session, random_state.initial_seed)


@handles(torch.get_rng_state)
def _get_rng_state(session: Session) -> Any:
    return _state(session, random_state.get_rng_state, _CPU)


@handles(torch.set_rng_state)
def _set_rng_state(session: Session, new_state: Any) -> None:
    _check_state(session, new_state, torch.Generator().set_state)
    session.builder.call(random_state.set_rng_state, (new_state,))


@handles(torch.random.fork_rng)
def _fork_rng(
    session: Session, devices: Any = None, enabled: bool = True, *args: Any, device_type: Any = "cuda", **kwargs: Any
) -> Any:
    if enabled is False:
        return contextlib.nullcontext()
    kind = torch.device(device_type).type
    if kind == "meta":
        return contextlib.nullcontext()
    module = torch.get_device_module(kind)
    if devices is None:
        devices = range(module.device_count())
    return session.call(written_out.ForkedState, enabled, [_device(kind, device) for device in devices])


def _device(kind: str, given: Any = None) -> torch.device:
    """Return an accelerator as functions such as ``torch.cuda.get_rng_state`` take it."""
    device = torch.device(kind, given) if isinstance(given, int) else torch.device(given or kind)
    return torch.device(kind, torch.get_device_module(kind).current_device()) if device.index is None else device


# -- those of an accelerator ---------------------------------------------------------------------------------------------------


@handles(written_out.state_of_device)
def _state_of_device(session: Session, device: torch.device) -> Any:
    return _state(session, random_state.get_device_rng_state, device, device)


@handles(written_out.set_state_of_device)
def _set_state_of_device(session: Session, new_state: Any, device: torch.device) -> None:
    _check_state(session, new_state, torch.Generator(device).set_state)
    session.builder.call(random_state.set_device_rng_state, (new_state, device))


@handles(torch.cuda.get_rng_state)
def _get_cuda_state(session: Session, device: Any = "cuda") -> Any:
    return _state_of_device(session, _device("cuda", device))


@handles(torch.cuda.get_rng_state_all)
def _get_cuda_states(session: Session) -> Any:
    return [_state_of_device(session, _device("cuda", index)) for index in range(torch.cuda.device_count())]


@handles(torch.cuda.set_rng_state)
def _set_cuda_state(session: Session, new_state: Any, device: Any = "cuda") -> None:
    _set_state_of_device(session, new_state, _device("cuda", device))


@handles(torch.cuda.set_rng_state_all)
def _set_cuda_states(session: Session, new_states: Any) -> None:
    for index, new_state in enumerate(new_states):
        _set_state_of_device(session, new_state, _device("cuda", index))


@handles(torch.cuda.manual_seed)
def _seed_cuda(session: Session, seed: Any) -> None:
    if torch.cuda.is_available():
        _seed_device(session, seed, _device("cuda"))


@handles(torch.cuda.manual_seed_all)
def _seed_all_of_cuda(session: Session, seed: Any) -> None:
    for index in range(torch.cuda.device_count()):
        _seed_device(session, seed, _device("cuda", index))


def _seed_device(session: Session, seed: Any, device: torch.device) -> None:
    seed = _as_seed(session, session.call(int, seed), torch.Generator(device).manual_seed)
    session.builder.call(random_state.seed_device, (seed, device))


# -- generators that were there before -----------------------------------------------------------------------------------------


def generator_method(session: Session, owner: torch.Generator, method: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return a method of a generator from outside: the program calls it."""
    name = method.__name__
    if name not in _METHODS:
        raise errors.CaptureError(
            f"Generator.{name}() cannot be used inside a captured function",
            session.here(),
            fix="call it before the static function",
        )
    session.tracker.identity(owner)
    return _METHODS[name](session, owner, *args, **kwargs)


def _call(session: Session, owner: torch.Generator, name: str, *args: Any, result: Any = None) -> Any:
    session.builder.call(control.call_, (getattr(owner, name), args, {}), {}, result)
    return result


def _seed_owner(session: Session, owner: torch.Generator, seed: Any) -> torch.Generator:
    _call(session, owner, "manual_seed", _as_seed(session, seed, torch.Generator(owner.device).manual_seed))
    return owner


def _set_owner(session: Session, owner: torch.Generator, new_state: Any) -> torch.Generator:
    _check_state(session, new_state, torch.Generator(owner.device).set_state)
    _call(session, owner, "set_state", new_state)
    return owner


def _number_of(name: str, session: Session, owner: torch.Generator) -> Any:
    return _call(session, owner, name, result=fresh_number(session.shapes, "int"))


_METHODS: dict[str, Callable[..., Any]] = {
    "manual_seed": _seed_owner,
    "set_state": _set_owner,
    "get_state": lambda session, owner: _call(session, owner, "get_state", result=new_state(session, owner.device)),
    "seed": functools.partial(_number_of, "seed"),
    "initial_seed": functools.partial(_number_of, "initial_seed"),
}
