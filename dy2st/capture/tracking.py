"""Reads of Python values from outside of the captured function: each is remembered with where it came from, and guarded."""

from __future__ import annotations

import enum
import types
from typing import Any

import torch

from dy2st.capture.guards import GuardTable
from dy2st.capture.sources import Source, SourceTable

CONSTANTS = (
    bool, int, float, complex, str, bytes, type(None), type(...), torch.dtype, torch.device, torch.layout, torch.memory_format,
    range, slice, enum.Enum,
)  # fmt: skip
_IDENTITIES = (types.FunctionType, types.BuiltinFunctionType, type, types.ModuleType)
_DEPTH = 6


class Tracker:
    """Remembers, for objects and tensors met during a capture, the source they came from."""

    def __init__(self) -> None:
        self.table = SourceTable()
        self.guards = GuardTable()
        self.dynamic: set[str] = set()
        """Names of sources whose number changes from call to call and is an input of the program."""
        self._objects: dict[int, tuple[Any, Source]] = {}
        self._tensors: dict[int, tuple[torch.Tensor, Source]] = {}
        self._modules_done: set[int] = set()

    def source_of(self, value: Any) -> Source | None:
        """Where an object or tensor came from, if it came from outside."""
        found = self._tensors.get(id(value)) or self._objects.get(id(value))
        return found[1] if found else None

    def root(self, value: Any, source: Source) -> None:
        """An object that is the start of paths."""
        self.read(value, source)

    def read(self, value: Any, source: Source, depth: int = 0) -> None:
        """Code under capture has read ``value`` from ``source``."""
        if isinstance(value, torch.Tensor):
            self._tensor(value, source)
        elif isinstance(value, CONSTANTS):
            if source.name not in self.dynamic:
                self.guards.equal(source, value)
        elif isinstance(value, types.MethodType):
            self.guards.same_function(source, value)
        elif isinstance(value, _IDENTITIES):
            self.guards.same(source, value)
            self._objects.setdefault(id(value), (value, source))
        elif isinstance(value, torch.nn.Module):
            self.module(value, source)
        elif isinstance(value, (list, tuple, dict, set, frozenset)):
            self._container(value, source, depth)
        else:
            self.guards.same_type(source, value)
            self._objects.setdefault(id(value), (value, source))

    def _tensor(self, value: torch.Tensor, source: Source) -> None:
        known = self._tensors.setdefault(id(value), (value, source))[1]
        if known is not source:
            self.guards.same_tensor(source, known)

    def _container(self, value: Any, source: Source, depth: int) -> None:
        if id(value) in self._objects or depth > _DEPTH:
            return
        self._objects[id(value)] = (value, source)
        if isinstance(value, (set, frozenset)):
            snapshot = frozenset(value)
            self.guards.add(source, "set", lambda now: isinstance(now, (set, frozenset)) and now == snapshot, f"== {value!r}")
            return
        self.guards.same_keys(source, value)
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in pairs:
            self.read(item, self.table.item(source, key), depth + 1)

    def module(self, module: torch.nn.Module, source: Source) -> None:
        """A module: its class, children, tensors and hooks; for a module of torch itself its settings too, which its code reads unseen."""
        if id(module) in self._modules_done:
            return
        self._modules_done.add(id(module))
        self._objects.setdefault(id(module), (module, source))
        self.guards.same_module(source, module)
        for kind in ("_parameters", "_buffers"):
            for name, tensor in getattr(module, kind).items():
                if tensor is not None:
                    self._tensor(tensor, self.table.child(source, kind, name))
        for name, child in module._modules.items():
            if child is not None:
                self.module(child, self.table.child(source, "_modules", name))
        if type(module).__module__.startswith("torch."):
            for name, value in module.__dict__.items():
                if isinstance(value, (*CONSTANTS, tuple, types.FunctionType, torch.Tensor)):
                    self.read(value, self.table.attribute(source, name))
