"""What Python and its libraries do in C, in Python: it is converted like the user's code, so that a tensor may decide."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import torch
from torch.utils import checkpoint


def attempted(step: Callable[[], Any], kinds: Any, otherwise: Callable[[], Any]) -> Any:
    """Return what a step gives, or another one where it raises.

    ``getattr`` with a default, and what else catches exceptions itself.
    """
    try:
        return step()
    except kinds:
        return otherwise()


def first(values: Iterable[Any]) -> Any:
    """Return ``next`` of an iterator of which nothing has been taken."""
    for value in values:
        return value
    raise StopIteration


def first_or(values: Iterable[Any], default: Any) -> Any:
    """Return the same with a default."""
    for value in values:
        return value
    return default


def list_text(items: Any, shown: Callable[[Any], str]) -> str:
    """Return ``repr(items)`` or ``ascii(items)`` of a list."""
    return "[" + ", ".join([shown(item) for item in items]) + "]"


def first_items(values: Iterable[Any], count: int) -> list[Any]:
    """Return the first items, or all if there are fewer."""
    taken = []
    for value in values:
        taken.append(value)
        if len(taken) == count:
            break
    return taken


def extended(items: list[Any], values: Iterable[Any]) -> None:
    """Do ``items.extend(values)``, one item after the other."""
    for value in values:
        items.append(value)


def extended_left(items: Any, values: Iterable[Any]) -> None:
    """Do ``items.extendleft(values)`` of a deque, one item after the other."""
    for value in values:
        items.appendleft(value)


def index_between(items: list[Any], value: Any, start: int, stop: int = sys.maxsize) -> int:
    """Return ``items.index(value, start, stop)``."""
    first = start if start >= 0 else max(start + len(items), 0)
    return first + items[start:stop].index(value)


def is_among(value: Any, iterator: Iterator[Any]) -> bool:
    """Return ``value in iterator``."""
    for item in iterator:  # noqa: SIM110 -- it is converted
        if item is value or item == value:
            return True
    return False


def character(text: str, index: int) -> str:
    """Return ``text[index]``."""
    start = index + len(text) if index < 0 else index
    if start < 0 or start >= len(text):
        raise IndexError("string index out of range")
    return text[start : start + 1]


class Items:
    """The iterator of a list or tuple that a branch makes, of which a tensor decides which items are left."""

    def __init__(self, items: Any) -> None:
        self.items, self.position, self.has_ended = items, 0, False

    def __iter__(self) -> Items:
        return self

    def __next__(self) -> Any:
        if self.has_ended or self.position >= len(self.items):
            self.has_ended = True  # also when the list grows
            raise StopIteration
        self.position += 1
        return self.items[self.position - 1]


def equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return ``torch.equal``."""
    if one.shape == other.shape:
        return bool((one == other).all().item())
    return False


def numbers_of(tensor: torch.Tensor) -> list[Any]:
    """Return ``tensor.tolist()``."""
    return [row.tolist() for row in tensor]


def split(tensor: torch.Tensor, sizes: Iterable[int], dim: int) -> tuple[torch.Tensor, ...]:
    """Return ``tensor.split_with_sizes(sizes, dim)``."""
    pieces, start = [], 0
    whole = tensor.shape[dim]
    for size in sizes:
        if size < 0:
            raise RuntimeError(f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={sizes}")
        if start + size <= whole:
            _, piece, _ = tensor.split_with_sizes([start, size, whole - start - size], dim)  # one of several views, as in eager
            pieces.append(piece)
        start = start + size
    if start != whole:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {whole} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={sizes}"
        )
    return tuple(pieces)


def check_dimension(dim: int, low: int, high: int) -> None:
    """Raise what torch raises for a dimension that is not from ``low`` to ``high``."""
    if dim < low or dim > high:
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {high}], but got {dim})")


def check_is_new(module: torch.nn.Module, name: str, is_registered: bool) -> None:
    """Raise what a module raises where it is to register something under the name of another attribute."""
    if hasattr(module, name) and not is_registered:
        raise KeyError(f"attribute '{name}' already exists")


def note_persistence(module: torch.nn.Module, name: str, is_persistent: bool) -> None:
    """Have a module know whether a buffer is one of its ``state_dict``."""
    if is_persistent:
        module._non_persistent_buffers_set.discard(name)
    else:
        module._non_persistent_buffers_set.add(name)


def translated(text: str, table: Any) -> str:
    """Return ``text.translate(table)``."""
    pieces = []
    for character in text:
        piece = table.get(ord(character), character)
        if isinstance(piece, int):
            piece = chr(piece)
        if piece is not None:
            pieces.append(piece)
    return "".join(pieces)


def total(values: Iterable[Any], start: Any) -> Any:
    """Return ``sum(values, start)``."""
    for value in values:
        start = start + value
    return start


def check_character(number: int) -> None:
    """Raise what ``chr`` raises."""
    if number < 0 or number > 0x10FFFF:
        raise ValueError("chr() arg not in range(0x110000)")


def of_kinds(kinds: Any, function: Callable[[Any], Any], leaf: Any) -> Any:
    """Return what ``tree_map_only`` makes of a leaf, given classes."""
    return function(leaf) if isinstance(leaf, kinds) else leaf


def where(predicate: Callable[[Any], Any], function: Callable[[Any], Any], leaf: Any) -> Any:
    """Return what ``tree_map_only`` makes of a leaf, given a condition."""
    return function(leaf) if predicate(leaf) else leaf


class Context:
    """The ``ctx`` of an ``autograd.Function``."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.dirty_tensors: tuple[Any, ...] = ()
        self.to_save: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """Return what has been saved for the backward pass."""
        return self.to_save

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep what the backward pass would get."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Keep nothing: nobody will ask."""

    def mark_dirty(self, *tensors: Any) -> None:
        """Keep what is changed in place: it is given back as it is."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Note which outputs have no gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Note whether the backward pass gets zeros where an output has no gradient."""
        self.materialize_grads = value


def forward_of(function: Any, args: tuple[Any, ...], needed: tuple[bool, ...], is_separate: bool) -> tuple[Context, Any]:
    """Return what ``forward`` of an ``autograd.Function`` gives, after the context that it has been called with."""
    context = Context(needed)
    with torch.no_grad():
        if is_separate:
            result = function.forward(*args)
            function.setup_context(context, args, result)
        else:
            result = function.forward(context, *args)
    return context, result


def applied(function: Any, args: tuple[Any, ...], needed: tuple[bool, ...], is_separate: bool) -> Any:
    """Return ``autograd.Function.apply`` where no gradient flows."""
    context, result = forward_of(function, args, needed, is_separate)
    with torch.no_grad():
        if isinstance(result, tuple):
            return tuple([_output(context, args, part) for part in result])
        return _output(context, args, result)


def _output(context: Context, args: tuple[Any, ...], value: Any) -> Any:
    """Return an output: one that is an input becomes another tensor, unless it is marked as changed."""
    if not isinstance(value, torch.Tensor) or any(value is dirty for dirty in context.dirty_tensors):
        return value
    if any(value is given for given in args):
        return value.detach() if value.requires_grad else value.view_as(value)
    return value


# -- the state of random numbers: a generator is the tensor of its state, chosen and carried as tensors are ------------


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


def state_of_device(device: torch.device) -> Any:
    """Return the state of the default generator of an accelerator."""
    _recorded(device)


def set_state_of_device(state: Any, device: torch.device) -> None:
    """Set the state of the default generator of an accelerator."""
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
    """``torch.random.fork_rng`` of the generators that draw by default: of the CPU, and of some accelerators."""

    def __init__(self, is_enabled: Any, devices: list[torch.device]) -> None:
        self.is_enabled, self.devices = is_enabled, devices
        self.state: Any = torch.get_rng_state() if is_enabled else None
        self.states: Any = [state_of_device(device) for device in devices] if is_enabled else None

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        if self.is_enabled:
            torch.set_rng_state(self.state)
            for device, state in zip(self.devices, self.states):
                set_state_of_device(state, device)


def loss_of(closure: Callable[[], Any]) -> Any:
    """Return what an optimizer gets of a closure."""
    with torch.enable_grad():
        return closure()


def step_by_parameter(optimizer: Any, step: Callable[[Any], Any], runs: Any) -> None:
    """Do ``step(optimizer)`` for an optimizer that updates each parameter as if there were no others.

    Args:
        optimizer: of whose parameters some may have no gradient, or no state yet.
        step: of its class.
        runs: parts of the parameters of each of its groups: from which to which, and whether its only one may have none of these.
    """
    part = object.__new__(type(optimizer))
    part.__dict__.update(optimizer.__dict__)
    for group, parts in zip(optimizer.param_groups, runs):
        for start, stop, is_unsure in parts:
            params = group["params"][start:stop]
            part.param_groups = [{**group, "params": params}]
            if is_unsure:
                gradient = params[0].grad
                if gradient is not None:
                    at_once = group.get("foreach", False)  # None: of torch's choosing, which on a CPU is one by one
                    if group.get("fused") or at_once or (at_once is None and params[0].device.type != "cpu"):
                        params[0].grad = gradient  # what takes all gradients at once gets a tensor
                    if params[0] in optimizer.state:  # each way without the questions of the other
                        step(part)
                    else:
                        step(part)
            else:
                step(part)
    for name, value in part.__dict__.items():
        if name != "param_groups" and value is not optimizer.__dict__.get(name):
            setattr(optimizer, name, value)


def momenta(optimizer: Any) -> list[Any]:
    """Return the momentum of each group."""
    return [group["momentum"] for group in optimizer.param_groups]


def step_with_or_without_momentum(step: Callable[[Any], Any], optimizer: Any) -> None:
    """Do ``step(optimizer)`` for one with a single group, of which only the call knows whether it has a momentum."""
    if optimizer.param_groups[0]["momentum"] != 0:  # each way without the questions of the other
        step(optimizer)
    else:
        step(optimizer)


def drop_gradients(params: Iterable[torch.Tensor]) -> None:
    """Take the gradients of some tensors away."""
    for param in params:
        param.grad = None


def drop_all_gradients(optimizer: Any) -> None:
    """Do the same for all that an optimizer updates."""
    for group in optimizer.param_groups:
        drop_gradients(group["params"])


def clip_grad_norm(
    params: list[torch.Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: Any = None
) -> torch.Tensor:
    """Return ``clip_grad_norm_`` of parameters of one dtype, of which some may have no gradient."""
    max_norm, norm_type = float(max_norm), float(norm_type)
    norms = []
    for param in params:
        if param.grad is not None:
            norms.append(torch.linalg.vector_norm(param.grad, norm_type))
    if len(norms) == 0:
        return torch.tensor(0.0)
    total_norm: torch.Tensor = torch.linalg.vector_norm(torch.stack(norms), norm_type)
    if error_if_nonfinite and torch.logical_or(total_norm.isnan(), total_norm.isinf()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    factor = torch.clamp(max_norm / (total_norm + 1e-6), max=1.0)
    for param in params:
        if param.grad is not None:
            param.grad.mul_(factor)
    return total_norm


def clip_grad_value(params: list[torch.Tensor], clip_value: float, foreach: Any = None) -> None:
    """Do the same as ``clip_grad_value_``."""
    clip_value = float(clip_value)
    for param in params:
        if param.grad is not None:
            param.grad.clamp_(min=-clip_value, max=clip_value)


def unscale_by_parameter(optimizer: Any, inv_scale: torch.Tensor, found_inf: torch.Tensor, allow_fp16: bool) -> dict[Any, Any]:
    """Do the same as ``GradScaler._unscale_grads_`` for parameters on one device, of which some may have no gradient.

    Where none has one, what ``step`` would raise is raised at once.
    """
    has_any = False
    with torch.no_grad():
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    has_any = True
                    if not allow_fp16 and param.grad.dtype == torch.float16:
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    torch._amp_foreach_non_finite_check_and_unscale_([param.grad], found_inf, inv_scale)
    if not has_any:
        raise AssertionError("No inf checks were recorded for this optimizer.")
    return {inv_scale.device: found_inf}


def update_scale(scaler: Any, update: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Do the same as ``GradScaler.update``, and keep the table of optimizers, emptied as a new one would be."""
    states = scaler._per_optimizer_states
    update(scaler, *args, **kwargs)
    if scaler._enabled:
        states.clear()
        scaler._per_optimizer_states = states


class HookHandle:
    """What registering a hook of a tensor gives: the program takes the hook off when it gets there."""

    def remove(self) -> None:
        """Take the hook off."""
        removed(self)

    def __enter__(self) -> HookHandle:
        return self

    def __exit__(self, *error: Any) -> None:
        self.remove()


def removed(handle: HookHandle) -> NoReturn:
    """Take a hook off; the program does."""
    raise NotImplementedError


def checkpointed_in_vain(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return what a reentrant checkpoint gives of which no argument has a gradient."""
    warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)
    with torch.no_grad():
        return function(*args)


def checkpoint_sequential(
    functions: Any,
    segments: int,
    input: Any,
    use_reentrant: Any = None,
    preserve_rng_state: bool = True,
) -> Any:
    """Return ``torch.utils.checkpoint.checkpoint_sequential``."""

    def run(value: Any, start: int, end: int) -> Any:
        for index in range(start, end):
            value = functions[index](value)
        return value

    if isinstance(functions, torch.nn.Sequential):
        functions = list(functions.children())
    size = len(functions) // segments
    start = 0
    for _ in range(segments - 1):
        part = functools.partial(run, start=start, end=start + size)
        input = checkpoint.checkpoint(part, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
        start += size
    return run(input, start, len(functions))


def picked(items: Any, positions: Any) -> Any:
    """Return the items at some positions."""
    return [items[position] for position in positions]


def rearranged(items: Any, positions: Any) -> None:
    """Put items in another order."""
    for position, item in enumerate(picked(items, positions)):
        items[position] = item
