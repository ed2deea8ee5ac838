"""A saved model that is loaded: a module that runs programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch import nn

from dy2st_runtime import archive, effects
from dy2st_runtime.archive import Path
from dy2st_runtime.binding import Binder
from dy2st_runtime.effects import container
from dy2st_runtime.executors import python
from dy2st_runtime.passes.devices import move_to_device
from dy2st_runtime.program import Program
from dy2st_runtime.state import State, StateValue
from dy2st_runtime.structure import unflatten


def load(path: Path, *, namespaces: Collection[str] = ()) -> LoadedModule:
    """Load a saved model. Nothing in the file is executed by loading it, and a damaged file is refused.

    Args:
        path: a file that ``dy2st.save`` wrote.
        namespaces: namespaces of operators, besides PyTorch's own, that the model may call (``["torchvision"]``).

    Returns:
        A module on the CPU with the parameters, buffers and ``state_dict`` keys of the one that was saved.

    Raises:
        LoadError: it is not an archive, is damaged, or asks for what this version does not have.
        OSError: the file is missing or cannot be read.

    Example:
        >>> model = load("model.dy2st")  # doctest: +SKIP
        >>> model(torch.randn(3, 8))  # doctest: +SKIP
    """
    return LoadedModule(*archive.read(path, namespaces))


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A program of a module with what is prepared for it; never changes, so copies of the module share it.

    Attributes:
        program: as it was captured.
        moved: the same for the device that the module is on.
        binder: takes the arguments of a call apart.
        paths: where on the module the state is.
    """

    program: Program
    moved: Program
    binder: Binder
    paths: tuple[tuple[str, ...], ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Entry:
        return self


class LoadedModule(nn.Module):
    """A module made of programs and their state.

    ``train()`` and ``eval()`` choose the program that was captured in that mode, where there is one. Parameters and
    buffers have the names of the saved module; constants of the programs are no part of the ``state_dict``, follow the
    module to another device and keep their dtype.

    Args:
        programs: at least one; the first decides the mode to start in.
        state: the values of all their state slots.
    """

    def __init__(self, programs: Sequence[Program], state: State) -> None:
        super().__init__()
        self._dy2st_constants: dict[str, torch.Tensor] = {}
        self._dy2st_state = [
            entry if entry.kind == "module" else dataclasses.replace(entry, value=None) for entry in state
        ]
        self._dy2st_device = torch.device("cpu")
        self._dy2st_entries = [_prepare(program) for program in programs]
        for entry in state:
            self._place(entry)
        self.train(programs[0].training)

    def _place(self, entry: StateValue) -> None:
        *parents, name = entry.name.split(".")
        if entry.kind == "constant":
            self._dy2st_constants[entry.name] = entry.value
            return
        owner = container(self, parents)
        if entry.kind == "module":
            owner._modules[name] = container(self, entry.value.split("."))
        elif entry.kind == "parameter":
            owner._parameters[name] = entry.value
        elif entry.kind == "buffer":
            owner._buffers[name] = entry.value
            if not entry.persistent:
                owner._non_persistent_buffers_set.add(name)
        else:
            owner.__dict__[name] = entry.value

    @property
    def program(self) -> Program:
        """The program that a call runs now."""
        return self._entry().program

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs."""
        return tuple(entry.program for entry in self._dy2st_entries)

    def _entry(self) -> _Entry:
        entries = self._dy2st_entries
        return next((entry for entry in entries if entry.program.training == self.training), entries[0])

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program of the current mode.

        Raises:
            SignatureError: the arguments do not fit it.
        """
        entry = self._entry()
        state = [self._value(path) for path in entry.paths]
        leaves = entry.binder.bind(args, kwargs, lambda: _casts(entry.program, state))
        outputs = python.run(entry.moved, [*leaves, *state])
        effects.apply(self, entry.program, outputs)
        return unflatten(entry.program.out_structure, outputs)

    def _value(self, path: tuple[str, ...]) -> Any:
        constant = self._dy2st_constants.get(".".join(path))
        if constant is not None:
            return constant
        owner: nn.Module = self
        for name in path[:-1]:
            owner = owner._modules[name]  # type: ignore[assignment]  # placed by _place
        for table in (owner._parameters, owner._buffers, owner.__dict__):
            if path[-1] in table:
                return table[path[-1]]
        return getattr(owner, path[-1])  # what a parametrization computes

    def _apply(self, fn: Callable[[torch.Tensor], torch.Tensor], recurse: bool = True) -> LoadedModule:
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]  # torch has no annotations here
        device = fn(torch.empty(0, device=self._dy2st_device)).device
        if device != self._dy2st_device:
            self._dy2st_device = device
            self._dy2st_entries = [
                dataclasses.replace(entry, moved=move_to_device(entry.program, device)) for entry in self._dy2st_entries
            ]
            self._dy2st_constants = {
                name: constant.detach().to(device).requires_grad_(constant.requires_grad)
                for name, constant in self._dy2st_constants.items()
            }
        return self

    def save(self, path: Path) -> None:
        """Write the module with its state as it is now.

        Raises:
            SaveError: the file cannot be written.
        """
        values = tuple(
            entry
            if entry.kind == "module"
            else dataclasses.replace(entry, value=self._value(tuple(entry.name.split("."))))
            for entry in self._dy2st_state
        )
        archive.write(path, self.programs, values)

    def extra_repr(self) -> str:
        """The heads of the programs, for ``print(module)``."""
        return "\n".join(str(program).partition("\n")[0] for program in self.programs)


def _prepare(program: Program) -> _Entry:
    paths = tuple(tuple(slot.name.split(".")) for slot in program.states)
    return _Entry(program, move_to_device(program, torch.device("cpu")), Binder(program), paths)


def _casts(program: Program, values: Sequence[Any]) -> set[tuple[torch.dtype, torch.dtype]]:
    """The dtypes of parameters and buffers with those that ``module.half()`` and the like have put in their place."""
    slots = zip(program.states, values, strict=True)
    return {
        (slot.dtype, value.dtype)
        for slot, value in slots
        if slot.dtype is not None and slot.kind in ("parameter", "buffer")
    }
