"""Reads of Python values from outside of the captured function: each is remembered with where it came from, and guarded."""

from __future__ import annotations

import array
import collections.abc
import copy
import os
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from dy2st.capture.environment import plain_values
from dy2st.capture.environment.abstracts import AbstractObjects
from dy2st.capture.environment.arrays_met import ArraysMet
from dy2st.capture.environment.guards import GuardTable
from dy2st.capture.environment.plain_values import CONSTANTS, SHARDED, check_code, gives_once, held, is_counter, is_tuple, tables
from dy2st.capture.environment.same_contents import MAPPINGS, PATCH_MARK
from dy2st.capture.environment.sources import PROXIES, Source, SourceTable
from dy2st.capture.values import storage
from dy2st.capture.values.abstract_objects import AbstractTable
from dy2st.capture.values.kinds import is_spread
from dy2st.capture.values.symbolic import CAPTURE_VALUES, SYMBOLIC_NUMBERS
from dy2st.capture.writes.places import ItemPlace, Place

ACTS_FOR_USER = False

_LONG = 32
"""Longer containers of constants are compared as a whole."""


class Tracker:
    """Remembers, for objects and tensors met during a capture, the source they came from.

    Args:
        abstracts: what puts abstract values into the places that hold what is read.
    """

    def __init__(self, abstracts: AbstractObjects) -> None:
        self._abstract_objects = abstracts
        self.table = SourceTable()
        self.guards = GuardTable()
        self.dynamic: set[str] = set()
        """Names of sources whose number changes from call to call and is an input of the program; and of what holds many."""
        self.met: Callable[[type], object] = id
        """Told the class of each object that code under capture reads or makes."""
        self._objects: dict[int, tuple[Any, Source]] = {}
        self._counters: dict[int, tuple[Any, Source]] = {}
        self._abstracts: dict[int, Any] = {}
        """What some objects stand for, by their identity."""
        self.given: dict[int, tuple[Any, Any]] = {}
        """The caller's lists, dicts and dataclasses, with what stands for each among the arguments."""
        self._tensors: dict[int, tuple[torch.Tensor, Source]] = {}
        self.arrays = ArraysMet()
        self._modules: dict[int, tuple[torch.nn.Module, list[dict[str, Any]]]] = {}
        """Modules, with copies of their tables of parameters, buffers and attributes."""
        self._keys: set[int] = set()
        """The identities of modules that are keys of dicts, or members of sets, which hold them."""
        self.lent: set[int] = set()
        """The identities of what stands in modules for parameters that the program gathers itself."""

    def known(self) -> tuple[Any, ...]:
        """Return what has been met and is guarded by now, for :meth:`forget_since`."""
        return tuple(map(dict, (self._objects, self._abstracts, self._tensors, self._modules))), self.guards.copied()

    def forget_since(self, known: tuple[Any, ...]) -> None:
        """Forget what has been met since: nobody has looked at it, as it turns out."""
        (self._objects, self._abstracts, self._tensors, self._modules), guards = known
        self.guards.replace(guards)

    def source_of(self, value: Any) -> Source | None:
        """Return where an object or tensor came from, if it came from outside."""
        result = self._tensors.get(id(value)) or self._objects.get(id(value))
        return result[1] if result else None

    def tensors(self) -> list[tuple[torch.Tensor, Source]]:
        """Return the tensors from outside that the capture has met."""
        return [*self._tensors.values()]

    def objects(self) -> list[tuple[Any, Source]]:
        """Return the objects from outside that the capture has met."""
        return [(self._abstracts.get(key, value), source) for key, (value, source) in self._objects.items()]

    def is_fresh(self, value: Any) -> bool:
        """Tell whether a library has made a value in the capture that changes, or a user's function that holds abstract values."""
        if self.source_of(value) is not None:
            return False
        if isinstance(value, types.FunctionType):
            return any(isinstance(held, (FakeTensor, *CAPTURE_VALUES)) for held in map(held, value.__closure__ or ()))
        return isinstance(value, (np.ndarray, torch._C.Future)) or gives_once(value)

    def step_at_capture(self, value: Any) -> None:
        """Note that something may take numbers from a counter at capture, if a value is one: then the program is right once."""
        _, source = self._counters.pop(id(value), (None, None))
        if source is not None:
            self.guards.never(source)

    def stand_for(self, obj: Any, value: Any, source: Source) -> None:
        """Something stands for a set or deque during the capture."""
        self._abstracts[id(obj)] = value
        self.know(obj, source)

    def know_argument(self, given: Any, value: Any, source: Source) -> None:
        """Remember what stands for a container of the caller's among the arguments."""
        self.given[id(given)] = given, value
        if isinstance(given, np.ndarray):
            self.arrays.meet(given, source, is_input=True)
        self.know(given, source)
        self.stand_for(value, given, source)

    def stands_in(self, value: Any) -> bool:
        """Tell whether a value is there for the capture only, in the place of an object from outside."""
        return id(value) in self._abstracts

    def are_same_argument(self, left: Any, right: Any) -> bool:
        """Tell whether two stand for one object of the caller's that is given twice."""
        known = [self._abstracts.get(id(value)) for value in (left, right)]
        if known[0] is None or known[0] is not known[1]:
            return False
        self.guards.same_object(self._objects[id(left)][1], self._objects[id(right)][1])
        return True

    def relatives(self, value: Any) -> list[Source]:
        """Return the sources of all other objects from outside that could come to be this one: those of its class."""
        kind = type(self._abstracts.get(id(value), value)) if isinstance(value, AbstractTable) else type(value)
        alike = [(other, source) for other, source in (*self._objects.values(),) if type(other) is kind or other is value]
        real = {id(self._abstracts.get(id(other), other)): source for other, source in alike}
        real.pop(id(self._abstracts.get(id(value), value)), None)
        results = [source for source in real.values() if source.key[0] != "held"]
        return list({source.index: source for source in results}.values())

    def know(self, value: Any, source: Source) -> None:
        """Remember where an object came from, without a guard."""
        self._objects.setdefault(id(value), (value, source))

    def read(self, value: Any, source: Source, place: Place | None = None) -> None:
        """Note that code under capture has read ``value`` from ``source``.

        ``place`` is where an input of the program can stand for it.
        """
        if isinstance(value, SYMBOLIC_NUMBERS) or (isinstance(value, type) and self._abstract_objects.is_of_call(value)):
            return  # the field of a named tuple: the item that it is has been read; or a class that this call makes
        if type(value) in PROXIES:
            self._other(value, source, place)
        elif isinstance(value, torch.Tensor):
            self._tensor(value, source)
        elif isinstance(value, CONSTANTS):
            self._constant(value, source, place)
        elif isinstance(value, (types.MethodType, *plain_values.BUILTINS)):
            self._method(value, source)
        elif isinstance(value, plain_values.IDENTITIES) or type(value) in plain_values.DESCRIBING:
            self._identity(value, source)
        elif self._stands_in_its_place(value, source):
            self._collection(value, source, place)
        elif not self._is_input(value, source, place):
            self._other(value, source, place)

    def _is_input(self, value: Any, source: Source, place: Place | None) -> bool:
        """Tell whether a list or object is an input of the program, and make it one."""
        if type(value) is list and self._abstract_objects.is_growing(value, source):
            if not self._is_known(value, source):  # by another name, at which it may have been read as it is
                self.guards.same_type(source, value)
                self._abstract_objects.growing(value, source)
            return True
        if place is None or not self._abstract_objects.is_object_input(value, source):
            return False
        self.guards.same_type(source, value)
        self._abstract_objects.object_input(value, source, place)
        return True

    def _stands_in_its_place(self, value: Any, source: Source) -> bool:
        """Tell whether something may stand for a value in the place that holds it."""
        is_given = id(value) in self.given
        return is_given or type(value) in (set, collections.deque, np.ndarray) or self._abstract_objects.is_table(value, source)

    def _collection(self, value: Any, source: Source, place: Place | None) -> None:
        if not self._is_known(value, source):
            if self._abstract_objects.is_table(value, source):
                self._objects[id(value)] = (value, source)
                if isinstance(value, collections.defaultdict):
                    self.guards.same_making(source, value)
            elif isinstance(value, np.ndarray):
                self._array(value, source, place)
            elif self._abstract_objects.is_growing(value, source):
                self._objects[id(value)] = (value, source)
                self.guards.same_making(source, value)
            else:
                self._container(value, source)
        self._abstract_objects.collection(value, place)

    def _identity(self, value: Any, source: Source) -> None:
        written = getattr(value, PATCH_MARK, None) if isinstance(value, types.FunctionType) else None
        if written is not True:  # a capture's own stands in its place
            self.guards.same(source, value if written is None else written)
        self._objects.setdefault(id(value), (value, source))
        if isinstance(value, type) and type(value) is not type:
            self.met(type(value))

    def _other(self, value: Any, source: Source, place: Place | None) -> None:
        if self._is_known(value, source):
            return
        if place is not None and is_tuple(value) and self._is_dynamic(value, source):
            self._abstract_objects.stand_at(place, self._with_numbers(value, source))
            return
        if isinstance(value, torch.nn.Module) and type(value) not in PROXIES:
            self.module(value, source)
        elif plain_values.is_container(value, source):
            self._container(value, source)
        else:
            self._object(value, source)

    def _constant(self, value: Any, source: Source, place: Place | None) -> None:
        if source.name in self.dynamic and type(value) in (bool, int, float) and place is not None:
            self._abstract_objects.stand_at(place, self._abstract_objects.dynamic_number(source, value))
        else:
            self.guards.equal(source, value)
            if type(value) not in CONSTANTS:
                self.met(type(value))
                if hasattr(value, "__dict__"):  # it may get others
                    self.know(value, source)

    def _is_dynamic(self, value: tuple[Any, ...], source: Source) -> bool:
        """Tell whether a tuple holds a number that is an input of the program."""
        steps = [(item, self.table.item(source, key)) for key, item in enumerate(storage.plain(value))]
        return any(
            self._is_dynamic(item, step) if is_tuple(item) else type(item) in (int, float) and step.name in self.dynamic
            for item, step in steps
        )

    def _with_numbers(self, value: tuple[Any, ...], source: Source) -> tuple[Any, ...]:
        """Return what stands for a tuple that holds numbers which are inputs of the program: nothing can be put into it itself."""
        self._objects[id(value)] = (value, source)
        self.guards.same_keys(source, value)
        items = list(value)
        for key, item in enumerate(value):
            step = self.table.item(source, key)
            if type(item) in (int, float) and step.name in self.dynamic:
                items[key] = self._abstract_objects.dynamic_number(step, item)
            elif is_tuple(item) and self._is_dynamic(item, step):
                items[key] = self._with_numbers(item, step)
            else:
                self.read(item, step)
        result: tuple[Any, ...] = getattr(value, "_make", tuple)(items)
        self.stand_for(result, value, source)
        return result

    def _method(self, value: Any, source: Source) -> None:
        if self._is_kept(value, source):
            if self._is_known(value, source):
                return
            self.know(value, source)
        if not isinstance(value, types.MethodType):
            return self._builtin(value, source)
        if not hasattr(value.__func__, PATCH_MARK):
            self.guards.same_function(source, value)
        self._owner(value.__self__, source)

    def _is_kept(self, method: Any, source: Source) -> bool:
        """Tell whether a bound method is one object at each access, and not made by it."""
        if source.parent is None or source.key[0] != "attribute":
            return True
        owner = getattr(method, "__self__", None)
        return source.key[2] in (storage.table_of(owner) or ())

    def answer(self, function: Callable[..., Any], args: tuple[Any, ...], name: str) -> Any:
        """Return what a function of a library answers that seldom changes: asked now, and guarded."""
        value = function(*args)
        self.guards.same_answer(self.table.answer(function, args, name), value)
        return value

    def identity(self, value: Any) -> None:
        """Note that code under capture has asked which object a value is."""
        source = self.source_of(value)
        if source is None and isinstance(value, (types.MethodType, *plain_values.BUILTINS)):
            value = value.__self__  # its function is guarded already
            source = self.source_of(value)
        if source is not None and not isinstance(value, torch.Tensor):
            self.guards.same(source, self._abstracts.get(id(value), value))

    def compared(self, left: Any, right: Any) -> None:
        """Note that code under capture has asked whether two values are one object.

        Of one object that is reached in two ways that is guarded already, and its class is, too.
        """
        one, other = self.source_of(left), self.source_of(right)
        if left is right or isinstance(left, CONSTANTS) or isinstance(right, CONSTANTS):
            return
        if one is not None and other is not None:
            if type(left) is type(right):
                self.guards.distinct(one, [other])
            return
        self.identity(left)
        self.identity(right)

    def _is_known(self, value: Any, source: Source) -> bool:
        """Tell whether an object has been met already; by another way, both ways must go on leading to one object."""
        known = self._objects.get(id(value))
        if known is None:
            return False
        if known[1] is not source:
            self.guards.same_object(source, known[1])
        return True

    def _owner(self, owner: Any, source: Source) -> None:
        """Note the object that a method is bound to, unless it is the one that the method was read from."""
        known = self.source_of(owner)
        if source.parent is not None and known is source.parent:
            return
        step = self.table.attribute(source, "__self__")
        self.read(owner, step)
        if known is None and isinstance(owner, plain_values.CONTAINERS):
            self.guards.apart(step, type(owner))  # methods of equal containers are not equal

    def _builtin(self, value: Any, source: Source) -> None:
        owner = value.__self__
        if owner is None or isinstance(owner, (type, types.ModuleType)):
            self.guards.same_value(source, value)
            return
        self.read(value.__name__, self.table.attribute(source, "__name__"))
        self._owner(owner, source)

    def _object(self, value: Any, source: Source) -> None:
        """Track any other object: what code under capture reads of it is guarded then; what other code may read of it, here."""
        self.met(type(value))
        self._objects[id(value)] = (value, source)
        parts = plain_values.parts_of(value)
        if parts:
            self.guards.same_type(source, value)
            for part, step in parts.items():
                held = getattr(value, part) if step is None else step(value)
                self.read(held, self.table.attribute(source, part) if step is None else self.table.referent(source, step))
        elif is_counter(value):
            self.guards.same(source, value)
            self._counters[id(value)] = value, source
        elif gives_once(value) or plain_values.changes_unseen(value):
            self.guards.never(source)
        elif isinstance(value, np.ndarray):  # one of a class of its own
            self.guards.same_array(source, value)
        elif isinstance(value, (bytearray, array.array)) or plain_values.is_plain_value(value):
            self.guards.same_value(source, copy.copy(value) if isinstance(value, (bytearray, array.array)) else value)
        elif value is os.environ:
            self.guards.same_environment(source)
        elif plain_values.says_nothing(value):
            self.guards.same(source, value)
        else:
            self.guards.same_type(source, value)
            self.guards.apart(source, type(value))

    def _array(self, value: np.ndarray[Any, Any], source: Source, place: Place | None) -> None:
        """Track an array of NumPy, which is a constant as long as nobody changes it; with it, those in the same memory.

        One that is held where nothing can stand for it, as in a tuple, stays one.
        """
        self._objects[id(value)] = (value, source)
        is_input = place is not None and self._abstract_objects.is_input(value, source)
        self.arrays.meet(value, source, is_input, place is not None, [tensor for tensor, _ in self.tensors()])
        if plain_values.changes_unseen(value):
            self.guards.never(source)
        elif not is_input:
            self.guards.same_array(source, value)

    def _tensor(self, value: torch.Tensor, source: Source) -> None:
        if id(value) in self.lent:
            return
        is_new = id(value) not in self._tensors
        known = self._tensors.setdefault(id(value), (value, source))[1]
        if is_new and is_traceable_wrapper_subclass(value):
            self.guards.same_parts(source, value)
            for name in value.__tensor_flatten__()[0]:
                self.read(getattr(value, name), self.table.attribute(source, name))
        self.arrays.meet_tensor(value)
        if known is not source:
            self.guards.same_object(source, known)

    def _container(self, value: Any, source: Source) -> None:
        self._objects[id(value)] = (value, source)
        self.met(type(value))
        if isinstance(value, (collections.deque, collections.defaultdict)):
            self.guards.same_making(source, value)
        held = storage.plain(value)
        is_table = isinstance(value, MAPPINGS)
        items = list(held.values()) if is_table else list(held)
        whole = len(items) > _LONG and source.name not in self.dynamic and all(isinstance(i, CONSTANTS) for i in items)
        if isinstance(value, (set, frozenset)) or whole:
            self.guards.same_contents(source, value)
            self._members(held, source)
            return
        self.guards.same_keys(source, value)
        self._members(held if is_table else (), source)
        is_written = not isinstance(value, (tuple, types.MappingProxyType))
        for key, item in list(held.items() if is_table else enumerate(held)):
            self.read(item, self.table.item(source, key), ItemPlace(value, key) if is_written else None)

    def _members(self, members: Any, source: Source) -> None:
        """Track the objects in a set, or among the keys of a dict: what code under capture reads of them is guarded then."""
        for member in members:
            if isinstance(member, tuple):
                self._members(storage.plain(member), source)
            elif isinstance(member, torch.nn.Module):
                self._key(member, source)
            elif not isinstance(member, (*CONSTANTS, *plain_values.IDENTITIES, torch.Tensor)):
                self.read(member, self.table.held(member, f"a member of {source.name}"))

    def _tell_apart(self, module: torch.nn.Module, source: Source) -> None:
        if source.parent is None and "torch.distributed.fsdp" in sys.modules:
            mark = self.table.item(self.table.attribute(source, "__dict__"), SHARDED, "sharding")
            (self.guards.present if SHARDED in module.__dict__ else self.guards.missing)(mark)
        if id(module) in self._keys:
            self.guards.same(source, module)
        elif source.key[0] != "_modules":
            self.guards.apart(source, type(module))

    def _key(self, module: torch.nn.Module, source: Source) -> None:
        """Note a module in a set, or among the keys of a dict: the modules that are looked up there have to be it, or others."""
        self._keys.add(id(module))
        if id(module) in self._modules:
            self.identity(module)
        else:
            self.guards.apart(self.table.held(module, f"a member of {source.name}"), type(module))

    def module(self, module: torch.nn.Module, source: Source) -> None:
        """Guard a module: its class, children, tensors and hooks; of torch's own modules the settings too, read unseen."""
        if id(module) in self._modules:
            return
        check_code(module, source.name)
        self.met(type(module))
        self._modules[id(module)] = module, [dict(table) for table in tables(module)]
        self._objects.setdefault(id(module), (module, source))
        self.guards.same_module(source, module)
        self._tell_apart(module, source)
        for kind in ("_parameters", "_buffers"):
            for name, tensor in getattr(module, kind).items():
                if tensor is not None and not (SHARDED in module.__dict__ and is_spread(tensor)):
                    self._tensor(tensor, self.table.child(source, kind, name))
        for name, child in module._modules.items():
            if child is not None:
                self.read(child, self.table.child(source, "_modules", name))
        if type(module).__module__.startswith("torch."):
            for name, value in module.__dict__.items():
                if isinstance(value, (*CONSTANTS, tuple, types.FunctionType, torch.Tensor)):
                    self.read(value, self.table.attribute(source, name))

    def put_back(self, is_abstract: Callable[[torch.Tensor], bool]) -> str | None:
        """Take abstract values out of the modules again, see :func:`~dy2st.capture.environment.plain_values.put_back`."""
        return plain_values.put_back(self._modules.values(), is_abstract)
