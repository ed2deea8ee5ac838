"""A function that runs as programs: bind the call, find or capture the program, run it."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import logging
import textwrap
import types
import weakref
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch

from dy2st import config, logs
from dy2st.capture import on_raise
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK
from dy2st.capture.environment.sources import fetch
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.session.session import current
from dy2st.capture.unconverted.island_calls import UnknownIslandError
from dy2st.errors import DivergenceError, Dy2stError, IslandError
from dy2st.frames import hide, plainly
from dy2st.options import Options
from dy2st.static.cache import Entry, Lookup, ProgramCache
from dy2st.static.calls.binding import reference, unbound
from dy2st.static.calls.call import Call
from dy2st.static.calls.signature import CallSignature
from dy2st.static.conversion import check_root, conversion_error, convert_root
from dy2st.static.difference import side_by_side
from dy2st.static.dynamic_state import Dims
from dy2st.static.examples import arguments_like
from dy2st.static.fallback import Fallback, Learning
from dy2st.static.fast_path import find as find_route
from dy2st.static.fast_path import prepared, run_and_write, timed
from dy2st.static.leaks import with_leak_check
from dy2st.static.programs import Programs
from dy2st.static.report import Report
from dy2st_runtime.call import other_tracers
from dy2st_runtime.executors import Runner, runner
from dy2st_runtime.ir.program import Program

RUNS_STATIC_FUNCTIONS = True

capture_lock = CAPTURE_LOCK
"""Whoever holds it runs alone: no thread captures meanwhile."""


class StaticFunction:
    """A function or method that runs as programs, one for each signature.

    Made by :func:`dy2st.to_static`. Called like the original; as an attribute of a class it binds like a method, and each
    instance has its own programs.

    Args:
        function: the user's function.
        options: what :func:`dy2st.to_static` was given besides it.
        instance: the object it is bound to.
        bound: whether the first parameter is an object; it is if there is an instance.

    Example:
        >>> @dy2st.to_static
        ... def positive(x):
        ...     return x if x.sum() > 0 else -x
        >>> positive(torch.tensor([-1.0]))
        tensor([1.])
        >>> positive
        <StaticFunction positive, 1 programs>
    """

    def __init__(
        self, function: types.FunctionType, options: Options | None = None, instance: Any = None, bound: bool | None = None
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        self._function = function
        self._options = options = Options() if options is None else options
        self._instance = None if instance is None else reference(instance)
        if instance is not None:  # as of a bound method, where the function that this wraps would show the object too
            self.__signature__ = inspect.signature(types.MethodType(function, instance))
        is_method = instance is not None if bound is None else bound
        self._signature = CallSignature(function, options.input_spec, is_method)
        self._programs = Programs(function, self._signature, options, self._instance)
        self._cache = self._programs.cache
        self._unbound: StaticFunction | None = None
        self._in_dict = f"__dy2st_{self.__qualname__}__"
        """Where what is bound to a module stands in its ``__dict__``."""
        self._bound: dict[Any, StaticFunction] = {}
        """What is bound to each object that is alive, but modules, by its identity."""
        self._learning = Learning(self.__qualname__)
        self.keeps: Any = None
        """What it keeps alive, besides the function."""
        self._eager = None if options.full_graph else Fallback(self.__qualname__, conversion_error(function))
        if options.full_graph:
            check_root(function)

    # -- binding -------------------------------------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """Bind to an object. What is bound is forgotten with the object, so that programs never outlive it.

        In a module, whose hooks and closures often lead back to it, it stands in the ``__dict__``, where Python finds the cycle;
        into other objects nothing is put. What the caller gets holds the object, as a bound method does. An object that cannot be
        held weakly goes in as the first argument.
        """
        if instance is None:
            return self
        is_module = isinstance(instance, torch.nn.Module)
        name: Any = self._in_dict if is_module else id(instance)
        table = vars(instance) if is_module else self._bound
        bound: StaticFunction | None = table.get(name)
        if bound is not None and bound._unbound is self and bound._instance is not None and bound._instance() is instance:
            return _holding(bound, instance)
        if getattr(type(instance), "__weakrefoffset__", 0) == 0:
            return types.MethodType(self, instance)
        table[name] = bound = self._bind(instance)
        if not is_module:
            weakref.finalize(instance, self._bound.pop, name, None).atexit = False
        return _holding(bound, instance)

    def _bind(self, instance: Any) -> StaticFunction:
        bound = StaticFunction(self._function, self._options, instance)
        bound._unbound = self
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._instance is None:
            return self
        holds = isinstance(self, BoundStatic) or id(self.instance) not in memo  # else it is a part of the object that is copied
        instance = copy.deepcopy(self.instance, memo)
        result = self._bind(instance)
        result._unbound = self._unbound
        result.keeps = None if self.keeps is None else instance
        return _holding(result, instance) if holds else result

    def __reduce__(self) -> Any:
        if self._instance is None:
            return self.__qualname__
        of_class = getattr(type(self.instance), self.__name__, None)
        own = None if self._function in (of_class, getattr(of_class, "function", None)) else self._function
        return restore if self._is_in_dict() else restore_bound, (self.instance, self.__name__, own, self._options)

    def _is_in_dict(self) -> bool:
        """Tell whether it is what a module has in its ``__dict__``, and does not hold it."""
        return isinstance(self.instance, torch.nn.Module) and vars(self.instance).get(self._in_dict) is self

    @property
    def __dy2st_original__(self) -> Callable[..., Any]:
        """The user's function, bound if this is."""
        instance = self.instance
        return self._function if instance is None else types.MethodType(self._function, instance)

    @property
    def instance(self) -> Any:
        """The object it is bound to; ``None`` for a plain function."""
        if self._instance is None:
            return None
        instance = self._instance()
        if instance is None:
            raise ReferenceError(f"the object that {self.__qualname__} was bound to is gone")
        return instance

    @property
    def __func__(self) -> Any:
        """What it is a method of, as of a bound method; a plain function has none."""
        return unbound(self, StaticFunction)

    @property
    def function(self) -> Any:  # a FunctionType, which the type checker would bind
        """The user's function."""
        return self._function

    @property
    def options(self) -> Options:
        """What it was made with besides the function."""
        return self._options

    # -- calling -------------------------------------------------------------------------------------------------------------

    @with_leak_check
    @other_tracers.left_to_itself
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is not None:
            return session.call(self.__dy2st_original__, *args, **kwargs)
        if not config.is_enabled():
            return self.__dy2st_original__(*args, **kwargs)
        try:
            call_shape = (len(args), tuple(kwargs)) if kwargs else len(args)
            if routes := self._cache.routes.get(call_shape):
                instance = None if self._instance is None else self._instance()
                for route in routes:
                    if (matched := route.match(args, kwargs, instance)) is not None and not _logs_calls():
                        self._cache.used(route.entry)
                        return route.follow(*matched)
            return self._run(args, kwargs, call_shape)
        except BaseException as error:
            if isinstance(error, IslandError) and error.island is not None:
                self._cache.drop_with(error.island)
            if on_raise.has_missed() and isinstance(error, Exception):
                self._write_as_of(args, kwargs)
            hide(error)
            other_tracers.explain(error)
            raise

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], call_shape: Any) -> Any:
        other_tracers.refuse_jit_trace(self.__qualname__)
        call = self._call(args, kwargs)
        lookup = self._programs.look_up(call)
        result = lookup if lookup.entry is not None else self._capture(call, lookup)
        if isinstance(result, UnknownIslandError):
            return self._learning.run(self.__dy2st_original__, args, kwargs, result)
        if isinstance(result, Exception):
            return self._run_eager(call, args, kwargs, result)
        call, _, entry, values, _ = result
        assert entry is not None
        captured = entry.captured
        run = prepared(runner(captured.program, self._options.backend), captured)
        if call_shape not in entry.routed:
            self._add_route(call, entry, call_shape, run)
        inputs = [*call.inputs, *(get(values) for get in captured.states)]
        if logs.execution.isEnabledFor(logging.DEBUG):
            run = functools.partial(timed, run, captured.program.name)
        return run_and_write(captured, run, inputs, values, call.arguments)

    def _write_as_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Write what the program has written outside that has just failed: it runs again, and records that as it goes.

        Nothing has been written outside so far, and it does nothing else that could be seen (see :func:`on_raise.is_needed`).
        """
        call, entry = self._programs.find(self._call(args, kwargs))
        if entry.captured.guards.read_once or on_raise.is_needed(entry.captured.program, entry.captured.changes_objects):
            return
        recording = self._programs.recording(call, entry)
        values = fetch(recording.sources, call.arguments)
        inputs = [*call.inputs, *(get(values) for get in recording.states)]
        on_raise.begin()
        with contextlib.suppress(Exception):
            prepared(runner(recording.program, "python"), recording)(inputs)
        with CAPTURE_LOCK.writing():
            on_raise.write(values)

    def _add_route(self, call: Call, entry: Entry, call_shape: Any, run: Runner) -> None:
        """Make later calls like this one short; the first only counts, since many programs are called once."""
        if not entry.served:
            entry.served = True
            return
        entry.routed.add(call_shape)
        given = call_shape if isinstance(call_shape, tuple) else (call_shape, ())
        route = find_route(self._signature, call, entry, given, self._instance is not None, run)
        if route is not None:
            self._programs.add_route(call_shape, route)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return self._signature.call(args, kwargs, self.instance)

    def _capture(self, call: Call, lookup: Lookup) -> Lookup | Exception:
        """Return the program for a call that has none yet.

        Or, where the function may run as it is written, why there cannot be one.
        """
        refused = None if self._eager is None else self._eager.error_of(call.key)
        if refused is not None:
            return refused
        try:
            return self._programs.capture(call, lookup) if self._eager is None else self._programs.capture_around(call, lookup)
        except UnknownIslandError as error:
            return error
        except Exception as error:
            if self._eager is None or isinstance(error, DivergenceError):
                raise  # in eager, processes would wait for each other for ever
            return error
        finally:
            if self._eager is not None:
                self._eager.warn_of_islands(self._programs.islands)

    def _run_eager(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
        """Run as written what cannot be captured; an error of the user's own code comes up again, and decides nothing."""
        assert self._eager is not None
        if isinstance(error, Dy2stError):
            self._eager.note(call.key, error)
            return self.__dy2st_original__(*args, **kwargs)
        result = self.__dy2st_original__(*args, **kwargs)
        self._eager.note(call.key, error)
        return result

    # -- looking inside --------------------------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The transformed source, for people to read."""
        return convert_root(self._function).source

    def diff(self, width: int = 160) -> str:
        """Return the source and the transformed code side by side.

        Args:
            width: of a line of the text.
        """
        return side_by_side(textwrap.dedent(inspect.getsource(self._function)).rstrip(), self.code.rstrip(), width)

    @property
    def program_cache(self) -> ProgramCache:
        """The programs captured so far: ``len()``, iteration, ``.clear()``."""
        return self._cache

    def captured(self, *args: Any, **kwargs: Any) -> Captured:
        """Return what :meth:`program` gives, with its guards and state."""
        if not args and not kwargs and self._options.input_spec is not None:
            args, kwargs = self._signature.examples()
        return self._programs.find(self._call(args, kwargs)).entry.captured

    def prepared(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Captured, list[Any], list[Any]]:
        """Return the program that arguments select, the values of its inputs, and those of its sources."""
        call = self._call(args, kwargs)
        lookup = self._programs.look_up(call)
        call, _, entry, values, _ = lookup if lookup.entry is not None else self._programs.capture(call, lookup)
        assert entry is not None
        captured = entry.captured
        return captured, [*call.inputs, *(get(values) for get in captured.states)], values

    def example_call(self, device: torch.device | None = None) -> Call:
        """Return a call with made-up arguments: as the ``input_spec`` says, or else like the calls so far.

        Args:
            device: where tensors belong that an ``input_spec`` describes.

        Raises:
            SignatureError: there is no ``input_spec``, and there were no calls, or of several signatures.
        """
        if self._options.input_spec is not None:
            return self._call(*self._signature.examples(device))
        return self._call(*arguments_like(self.__qualname__, self._cache))

    def capture_apart(
        self, call: Call, dynamic_state: Mapping[str, Dims], with_hooks: bool, records: bool = False
    ) -> tuple[Captured, list[Any]]:
        """See :meth:`Programs.capture_apart`."""
        return self._programs.capture_apart(call, dynamic_state, with_hooks, records)

    @plainly
    def program(self, *args: Any, **kwargs: Any) -> Program:
        """Return the program that these arguments select, captured if need be.

        Args:
            *args: as in a call; none at all if there is an ``input_spec``.
            **kwargs: as in a call.

        Returns:
            The program; printing it shows its nested blocks with the user's lines.
        """
        return self.captured(*args, **kwargs).program

    def report(self) -> Report:
        """Return what became of each control-flow statement, in the programs captured so far."""
        return Report.of(self.__qualname__, list(self._cache), () if self._eager is None else self._eager.report())

    def __repr__(self) -> str:
        return f"<StaticFunction {self.__qualname__}, {len(self._cache)} programs>"


def _logs_calls() -> bool:
    """Tell whether each call is told, which the slow path does."""
    return logs.execution.isEnabledFor(logging.DEBUG) or logs.cache.isEnabledFor(logging.DEBUG)


class BoundStatic(StaticFunction):
    """A static function that is bound to an object and holds it: another one with the same programs each time it is asked for."""

    __slots__ = ("_object",)
    _object: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BoundStatic) and self.__dict__ is other.__dict__

    def __hash__(self) -> int:
        return id(self.__dict__)


def _holding(static: StaticFunction, instance: Any) -> BoundStatic:
    """Return what holds an object, of what is bound to it and does not."""
    result = _new(BoundStatic)
    result.__dict__ = static.__dict__
    result._object = instance
    return result


_new = object.__new__


def restore(instance: Any, name: str, function: types.FunctionType | None, options: Options) -> StaticFunction:
    """Return what was pickled; the object that it is bound to may not have its attributes yet."""
    of_class = getattr(type(instance), name, None)
    if function is None:
        function = of_class.function if isinstance(of_class, StaticFunction) else of_class
    static_function = StaticFunction(cast(Any, function), options, instance)
    static_function._unbound = of_class if isinstance(of_class, StaticFunction) else None
    return static_function


def restore_bound(instance: Any, *parts: Any) -> StaticFunction:
    """Return the same of what holds the object that it is bound to."""
    return _holding(restore(instance, *parts), instance)
