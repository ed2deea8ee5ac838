"""All that can be reached from some objects, as text that is the same for two worlds exactly if nobody can tell them apart.

Objects are numbered in the order in which they are first met, over all calls: so a picture says which places hold one object, and
which hold one that was there before.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import types
from typing import Any

import numpy as np
import torch

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.Size, range, slice, type(Ellipsis))


class Numbers:
    """The numbers of the objects of one world; they are kept alive, so that no identity is used twice."""

    def __init__(self) -> None:
        self._known: dict[Any, tuple[int, Any]] = {}
        self._memories: list[tuple[int, int, int]] = []
        self._keeping: list[Any] = []

    def of(self, value: Any, key: Any = None) -> tuple[int, bool]:
        """The number of an object, and whether it is new."""
        key = id(value) if key is None else key
        new = key not in self._known
        return self._known.setdefault(key, (len(self._known), value))[0], new

    def of_memory(self, start: int, size: int, value: Any) -> int:
        """The number of the memory that has some bytes, kept alive by an object."""
        for position, (first, end, number) in enumerate(self._memories):
            if first < start + size and start < end:
                self._memories[position] = min(first, start), max(end, start + size), number
                self._keeping.append(value)
                return number
        number, _ = self.of(value, ("memory", start))
        self._memories.append((start, start + size, number))
        return number


class Picture:
    """Looks at a world.

    Args:
        numbers: of the objects.
        module: the name of the module whose classes are the user's.
        values: whether values of tensors are part of it, and not only what they are.
        classes: whether the user's classes are.
    """

    def __init__(self, numbers: Numbers, module: str, values: bool = True, classes: bool = True) -> None:
        self.numbers, self.module, self.values, self.classes = numbers, module, values, classes
        self.lines: list[str] = []
        self._shown: set[int] = set()

    def add(self, path: str, value: Any) -> None:
        """Look at a value, and at what it holds."""
        if isinstance(value, _PLAIN) and type(value).__module__ in ("builtins", "torch"):
            self.lines.append(f"{path}: {value!r}")
        elif isinstance(value, torch.Tensor):
            self._tensor(path, value)
        elif isinstance(value, np.ndarray):
            self._array(path, value)
        elif isinstance(value, np.generic):
            self.lines.append(f"{path}: {type(value).__name__} {value!r}")
        elif isinstance(value, tuple):
            self.lines.append(f"{path}: {type(value).__name__} of {len(value)}")
            for index, item in enumerate(value):
                self.add(f"{path}[{index}]", item)
        elif isinstance(value, BaseException):
            self.lines.append(f"{path}: {type(value).__name__}")
        else:
            self._object(path, value)

    def _object(self, path: str, value: Any) -> None:
        name = getattr(value, "__qualname__", "") if isinstance(value, (type, types.FunctionType)) else ""
        if isinstance(value, (types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.ModuleType)):
            self.lines.append(f"{path}: {type(value).__name__} {name}")
            if isinstance(value, types.FunctionType) and value.__module__ == self.module and id(value) not in self._shown:
                self._shown.add(id(value))
                self._variables(path, value)
            return
        if isinstance(value, type) and value.__module__ != self.module or isinstance(value, enum.Enum):
            self.lines.append(f"{path}: {value}")
            return
        number, _ = self.numbers.of(value)
        self.lines.append(f"{path}: {type(value).__name__} {name} #{number}")
        if id(value) in self._shown:
            return
        self._shown.add(id(value))
        self._parts(path, value)

    def _variables(self, path: str, function: types.FunctionType) -> None:
        """The variables that a function shares with the one around it."""
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
            try:
                self.add(f"{path}'s {name}", cell.cell_contents)
            except ValueError:
                self.lines.append(f"{path}'s {name}: empty")

    def _parts(self, path: str, value: Any) -> None:
        if isinstance(value, dict):
            keys = list((collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict).keys(value))
            self.lines.append(f"{path}: keys {keys!r}")
            for key in keys:
                self.add(f"{path}[{key!r}]", dict.__getitem__(value, key))
        elif isinstance(value, (list, collections.deque)):
            count = list.__len__(value) if isinstance(value, list) else len(value)
            self.lines.append(f"{path}: {count} items")
            for index, item in enumerate(list.__iter__(value) if isinstance(value, list) else value):
                self.add(f"{path}[{index}]", item)
        elif isinstance(value, (set, frozenset)):
            self.lines.append(f"{path}: {sorted(map(repr, value))}")
        if isinstance(value, torch.nn.Module):
            self.lines.append(f"{path}: hooks {[len(vars(value).get(name, ())) for name in _HOOKS]}")
        if isinstance(value, type):
            parts = {name: part for name, part in vars(value).items() if _is_data(name, part)}
        else:
            parts = {name: part for name, part in getattr(value, "__dict__", {}).items() if _is_data(name, part)}
            if type(value).__module__ == self.module:
                parts.update(_slots(value))
                for base in type(value).__mro__ if self.classes else ():
                    if base.__module__ == self.module:
                        self.add(f"type({path})" if base is type(value) else f"{path}'s {base.__name__}", base)
        if parts or hasattr(value, "__dict__"):
            self.lines.append(f"{path}: attributes {list(parts)}")
        for name, part in parts.items():
            self.add(f"{path}.{name}", part)

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        number, _ = self.numbers.of(value)
        memory = value.untyped_storage()
        if memory.nbytes():
            storage = self.numbers.of_memory(memory.data_ptr(), memory.nbytes(), memory)
        else:
            storage, _ = self.numbers.of(memory, ("storage", memory._cdata))
        what = f"{type(value).__name__} {str(value.dtype)[6:]}{list(value.shape)} +{value.storage_offset()} {value.stride()}"
        how = f"{'requires grad' if value.requires_grad else ''} {'leaf' if value.is_leaf else ''} {'conj' if value.is_conj() else ''}"
        shown = f" {value.detach().resolve_conj().tolist()}" if self.values else ""
        self.lines.append(f"{path}: {what} {how.strip()} #{number} in #{storage}{shown}")
        if value.is_leaf and value.grad is not None and id(value) not in self._shown:
            self._shown.add(id(value))
            self.add(f"{path}.grad", value.grad)

    def _array(self, path: str, value: np.ndarray[Any, Any]) -> None:
        """Look at an array, with its values: a program may hold it as a constant."""
        number = self.numbers.of(value)[0] if self.values else id(value)
        owner: Any = value
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        memory = self.numbers.of_memory(owner.ctypes.data, owner.nbytes, owner)
        what = f"{type(value).__name__} {value.dtype}{list(value.shape)} {value.strides}"
        how = "writeable" if value.flags.writeable else "read-only"
        self.lines.append(f"{path}: {what} {how} #{number} in #{memory} {value.tolist()}")


def _slots(value: Any) -> dict[str, Any]:
    found = {}
    for base in type(value).__mro__:
        for name in getattr(base, "__slots__", ()) if "__slots__" in vars(base) else ():
            try:
                found[name] = vars(base)[name].__get__(value)
            except (AttributeError, KeyError):
                continue
    return found


def _is_data(name: str, part: Any) -> bool:
    """Whether an attribute is state, and not machinery of Python, torch or a static function."""
    if name.startswith("__") or name in ("forward", "_abc_impl", "_is_full_backward_hook", "_non_persistent_buffers_set"):
        return False
    if name.startswith("_") and name not in ("_parameters", "_buffers", "_modules"):
        return False
    return not isinstance(
        part, (types.FunctionType, classmethod, staticmethod, property, types.MemberDescriptorType)
    ) or dataclasses.is_dataclass(part)
