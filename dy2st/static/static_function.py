"""A function that runs as programs: bind the call, find or capture the program, run it."""

from __future__ import annotations

import collections
import contextlib
import copy
import dataclasses
import functools
import inspect
import logging
import sys
import textwrap
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import torch

from dy2st import config, constructs, logs
from dy2st.capture import on_raise
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK, Underway
from dy2st.capture.environment.request import Request
from dy2st.capture.environment.sources import fetch
from dy2st.capture.session.session import current
from dy2st.capture.trace import Captured, capture
from dy2st.constructs.registry import namespace
from dy2st.errors import ConversionError, Dy2stError, SignatureError, SourceNotFoundError
from dy2st.frames import hide, level_outside, plainly
from dy2st.static.cache import Entry, ProgramCache
from dy2st.static.conversion import ConvertedFunction, convert, log_code, refuse_generator
from dy2st.static.difference import side_by_side
from dy2st.static.dynamic_state import Dims, DynamicState
from dy2st.static.fallback import Fallback, random_states, set_random_states
from dy2st.static.fast_path import find as find_route
from dy2st.static.fast_path import run_and_write, with_marks
from dy2st.static.leaks import check as check_leaks
from dy2st.static.leaks import watched
from dy2st.static.report import Report
from dy2st.static.signature import Call, CallSignature, Specs
from dy2st_runtime.call import other_tracers
from dy2st_runtime.executors import Runner, runner
from dy2st_runtime.ir.program import InputSlot, Program
from dy2st_runtime.ir.structure import Shared, Structure, walk
from dy2st_runtime.ir.unflattening import unflatten
from dy2st_runtime.passes.application import Pass, apply_passes

RUNS_STATIC_FUNCTIONS = True

assert constructs is not None
capture_lock = CAPTURE_LOCK
"""Whoever holds it runs alone: no thread captures meanwhile."""
_cache_lock = threading.Lock()
_OPERATORS = namespace()


def convert_callee(function: types.FunctionType) -> ConvertedFunction | None:
    """The converted form of a function that converted code calls; ``None`` when it is called as it is.

    Functions without source and coroutines are called as they are: tensor operations inside are recorded, and asking a tensor for
    its truth value there is an error that names them. One whose file has changed since it was imported has a source that nobody
    can read any more: what it does there would be lost.
    """
    if function.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return None
    try:
        converted = convert(function)
    except SourceNotFoundError as error:
        if error.edited:
            raise
        logs.transform.info("%s is called as it is: %s", function.__qualname__, error.msg)
        return None
    if (level := logs.code_level()) is not None:
        log_code(function, level)
    return converted


class Found(NamedTuple):
    """A program for a call.

    Attributes:
        call: as the program takes it.
        entry: the program in the cache.
        values: of its sources now.
    """

    call: Call
    entry: Entry
    values: list[Any]


class StaticFunction:
    """A function or method that runs as programs, one for each signature.

    Made by :func:`dy2st.to_static`. Called like the original; as an attribute of a class it binds like a method, and each
    instance has its own programs.

    Args:
        function: the user's function.
        input_spec: see :func:`dy2st.to_static`.
        instance: the object it is bound to.
        backend: which executor runs the programs.
        full_graph: whether it is an error that a call cannot be captured; otherwise it runs as it is written.

    Attributes:
        passes: what is applied to each program that is captured.
        unroll: see :func:`dy2st.to_static`.
    """

    passes: Sequence[Pass] = ()
    unroll: bool | int | None = None

    def __init__(
        self,
        function: types.FunctionType,
        input_spec: Specs | None = None,
        instance: Any = None,
        backend: str | None = None,
        bound: bool | None = None,
        full_graph: bool = True,
    ) -> None:
        functools.update_wrapper(self, function)
        self.__name__: str = function.__name__
        self.__qualname__: str = function.__qualname__
        self._function = function
        self._input_spec = input_spec
        self._instance = None if instance is None else _reference(instance)
        if instance is not None:  # as of a bound method, where the function that this wraps would show the object too
            self.__signature__ = inspect.signature(types.MethodType(function, instance))
        self._backend = backend
        is_method = instance is not None if bound is None else bound
        self._signature = CallSignature(function, input_spec, is_method)
        self._cache = ProgramCache()
        self._dynamic = DynamicState(self._cache)
        self._underway = Underway()
        self._unbound: StaticFunction | None = None
        self._in_dict = f"__dy2st_{self.__qualname__}__"
        """Where what is bound to a module stands in its ``__dict__``."""
        self._bound: dict[Any, StaticFunction] = {}
        """What is bound to each object that is alive, but modules, by its identity."""
        self._warned = False
        self.keeps: Any = None
        """What it keeps alive, besides the function."""
        self._eager = None if full_graph else Fallback(self.__qualname__, _conversion_error(function))
        if full_graph:
            convert_root(function)

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
        bound = StaticFunction(self._function, self._input_spec, instance, self._backend, full_graph=self.full_graph)
        bound._unbound, bound.passes, bound.unroll = self, self.passes, self.unroll
        return bound

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if self._instance is None:
            return self
        holds = isinstance(self, BoundStatic) or id(self.instance) not in memo  # else it is a part of the object that is copied
        instance = copy.deepcopy(self.instance, memo)
        made = self._bind(instance)
        made._unbound = self._unbound
        made.keeps = None if self.keeps is None else instance
        return _holding(made, instance) if holds else made

    def __reduce__(self) -> Any:
        if self._instance is None:
            return self.__qualname__
        of_class = getattr(type(self.instance), self.__name__, None)
        own = None if self._function in (of_class, getattr(of_class, "function", None)) else self._function
        options = self._input_spec, self._backend, self.full_graph, self.passes, self.unroll
        return restore if self._is_in_dict() else restore_bound, (self.instance, self.__name__, own, *options)

    def _is_in_dict(self) -> bool:
        """Whether it is what a module has in its ``__dict__``, and does not hold it."""
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
    def function(self) -> Any:  # a FunctionType, which the type checker would bind
        """The user's function."""
        return self._function

    @property
    def full_graph(self) -> bool:
        """Whether it is an error that a call cannot be captured."""
        return self._eager is None

    @property
    def input_spec(self) -> Specs | None:
        """The specifications it was made with."""
        return self._input_spec

    # -- calling -------------------------------------------------------------------------------------------------------------

    @watched
    @other_tracers.left_to_itself
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        session = current()
        if session is not None:
            return session.call(self.__dy2st_original__, *args, **kwargs)
        if not config.is_enabled():
            return self.__dy2st_original__(*args, **kwargs)
        try:
            spelling = (len(args), tuple(kwargs)) if kwargs else len(args)
            if routes := self._cache.routes.get(spelling):
                instance = None if self._instance is None else self._instance()
                for route in routes:
                    if (matched := route.match(args, kwargs, instance)) is not None and not _logs_calls():
                        self._cache.used(route.entry)
                        return route.follow(*matched)
            return self._run(args, kwargs, spelling)
        except BaseException as error:
            if on_raise.has_missed() and isinstance(error, Exception):
                self._write_as_of(args, kwargs)
            hide(error)
            other_tracers.explain(error)
            raise

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], spelling: Any) -> Any:
        other_tracers.refuse_jit_trace(self.__qualname__)
        call = self._call(args, kwargs)
        found = self._find(call) if self._eager is None else self._find_or_fall_back(call, self._eager)
        if isinstance(found, Exception):
            return self._run_eager(call, args, kwargs, found)
        call, entry, values = found
        captured = entry.captured
        run = with_marks(runner(captured.program, self._backend), captured.marks)
        if spelling not in entry.routed:
            self._add_route(call, entry, spelling, run)
        inputs = [*call.inputs, *(get(values) for get in captured.states)]
        if logs.execution.isEnabledFor(logging.DEBUG):
            run = functools.partial(_timed, run, captured.program.name)
        return run_and_write(captured, run, inputs, values)

    def _write_as_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Write what the program has written outside that has just failed: it runs again, and records that as it goes.

        Nothing has been written outside so far, and it does nothing else that could be seen (see :func:`leaving.is_needed`).
        """
        call, entry, _ = self._find(self._call(args, kwargs))
        if entry.captured.guards.read_once or on_raise.is_needed(entry.captured.program):
            return
        recording = entry.recording
        if recording is None:
            fixed = frozenset(entry.captured.sizes.fixed)
            request = dataclasses.replace(self._request(call, entry.captured.dynamic_state), fixed=fixed, leaves_always=True)
            with CAPTURE_LOCK.shared():
                recording = entry.recording = capture(request, convert_callee, _OPERATORS)
        values = fetch(recording.sources, call.arguments)
        inputs = [*call.inputs, *(get(values) for get in recording.states)]
        on_raise.begin()
        with contextlib.suppress(Exception):
            with_marks(runner(recording.program, "python"), recording.marks)(inputs)
        with CAPTURE_LOCK.writing():
            on_raise.write(values)

    def _add_route(self, call: Call, entry: Entry, spelling: Any, run: Runner) -> None:
        """Make later calls like this one short; the first only counts, since many programs are called once."""
        if not entry.served:
            entry.served = True
            return
        entry.routed.add(spelling)
        given = spelling if isinstance(spelling, tuple) else (spelling, ())
        route = find_route(self._signature, call, entry, given, self._instance is not None, run)
        if route is not None:
            with _cache_lock:
                self._cache.add_route(spelling, route)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        return self._signature.call(args, kwargs, self.instance)

    def _find_or_fall_back(self, call: Call, eager: Fallback) -> Found | Exception:
        """The program for a call, or why there is none."""
        found = self._kept(call) or eager.error_of(call.key)
        if found is None:
            try:
                found = self._find(call)
            except Exception as error:
                found = error
        return found

    def _run_eager(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception) -> Any:
        """Run as written what cannot be captured; an error of the user's own code comes up again, and decides nothing."""
        assert self._eager is not None
        if isinstance(error, Dy2stError):
            self._eager.note(call.key, error)
            return self.__dy2st_original__(*args, **kwargs)
        result = self.__dy2st_original__(*args, **kwargs)
        self._eager.note(call.key, error)
        return result

    def _kept(self, call: Call) -> Found | None:
        """The program for a call, if there is one."""
        described = self._dynamic.described(call)
        found = self._cache.find(described.key, described.arguments)
        return None if found is None else Found(described, *found)

    def _find(self, call: Call) -> Found:
        found = self._kept(call)
        if found is not None:
            logs.cache.debug("%s: hit", self.__qualname__)
            return found
        if CAPTURE_LOCK.is_taken:  # whoever captures the same may wait for this thread
            return self._find_anew(call)
        with self._underway.only(call.key):
            return self._find_anew(call)

    def _find_anew(self, call: Call) -> Found:
        """Capture, unless another thread has done so meanwhile."""
        with CAPTURE_LOCK.shared():
            found = self._kept(call)
            if found is not None:
                return found
            self._warn_about_captures(call)
            if logs.cache.isEnabledFor(logging.INFO):
                logs.cache.info("%s: miss, %s", self.__qualname__, self._cache.miss(call))
            call, captured = self._dynamic.capture(call, self._capture)
            captured = self._with_passes(captured)
            with _cache_lock:
                entry = self._cache.add(call.key, captured)
            return Found(call, entry, fetch(captured.sources, call.arguments))

    def _warn_about_captures(self, call: Call) -> None:
        """Say once which value makes a program of its own at each call."""
        if self._warned:
            return
        names = self._dynamic.changing(call)
        if len(names) < config.WARN_AFTER:
            return
        self._warned = True
        name, count = collections.Counter(names).most_common(1)[0]
        warnings.warn(
            f"dy2st captures {self.__qualname__} anew at each change of {self._signature.shown(name)!r} ({count} programs so far): "
            "a program is right for one "
            "value of it only. Keep it in a tensor, or pass it as an argument with an InputSpec, if it goes on changing",
            stacklevel=level_outside(),
        )

    def _capture(self, call: Call, dynamic_state: Mapping[str, Dims]) -> Captured:
        """Capture; a capture that fails leaves the random numbers as they were."""
        request = self._request(call, dynamic_state)
        request = dataclasses.replace(request, fixed=self._cache.broken_sizes(call.key, call.arguments))
        random, start = random_states(), time.perf_counter()
        try:
            captured = capture(request, convert_callee, _OPERATORS)
            _log_capture(captured, time.perf_counter() - start)
            return captured
        except BaseException as error:
            logs.capture.info("%s cannot be captured: %s: %s", self.__qualname__, type(error).__name__, error)
            set_random_states(random)
            raise

    def _with_passes(self, captured: Captured) -> Captured:
        check_leaks(self)
        if not self.passes:
            return captured
        return dataclasses.replace(captured, program=apply_passes(captured.program, self.passes))

    def _request(self, call: Call, dynamic_state: Mapping[str, Dims]) -> Request:
        return Request(
            self._function,
            call.structure,
            call.leaves,
            call.names,
            call.dynamic_dims,
            self._instance is not None,
            dynamic_state,
            call.given,
            unroll=_iterations(self.unroll),
            may_fail=self._eager is not None,
        )

    # -- looking inside --------------------------------------------------------------------------------------------------------

    @property
    def code(self) -> str:
        """The transformed source, for people to read."""
        return convert_root(self._function).source

    def diff(self, width: int = 160) -> str:
        """The source and the transformed code side by side.

        Args:
            width: of a line of the text.
        """
        return side_by_side(textwrap.dedent(inspect.getsource(self._function)).rstrip(), self.code.rstrip(), width)

    @property
    def program_cache(self) -> ProgramCache:
        """The programs captured so far: ``len()``, iteration, ``.clear()``."""
        return self._cache

    def captured(self, *args: Any, **kwargs: Any) -> Captured:
        """What :meth:`program` gives, with its guards and state."""
        if not args and not kwargs and self._input_spec is not None:
            args, kwargs = self._signature.examples()
        return self._find(self._call(args, kwargs)).entry.captured

    def example_call(self, device: torch.device | None = None) -> Call:
        """A call with made-up arguments: as the ``input_spec`` says, or else like the calls so far.

        Args:
            device: where tensors belong that an ``input_spec`` describes.

        Raises:
            SignatureError: there is no ``input_spec``, and there were no calls, or of several signatures.
        """
        if self._input_spec is not None:
            return self._call(*self._signature.examples(device))
        known = {_arguments(captured.program): captured.program for captured in self._cache}
        if len(known) != 1:
            seen = (
                "was never called"
                if not known
                else f"was called in {len(known)} ways: {', '.join(sorted({text for text, *_ in known}))}"
            )
            raise SignatureError(f"{self.__qualname__} has no input_spec and {seen}; pass input_spec to say what to save")
        (program,) = known.values()
        args, kwargs = unflatten(program.in_structure, [_example(slot) for slot in program.inputs])
        return self._call(args, kwargs)

    def capture_call(
        self, call: Call, dynamic_state: Mapping[str, Dims], with_hooks: bool, records: bool = False
    ) -> tuple[Captured, list[Any]]:
        """A program that no later call uses, and the values of its sources now; see
        :class:`~dy2st.capture.environment.request.Request`.

        With ``records``, it keeps what it leaves when it raises.
        """
        if any(isinstance(part, Shared) for part in walk(call.structure)):
            raise SignatureError(
                f"{self.__qualname__} has one list, dict or object in two places of its arguments; "
                "to save or export it, pass one for each place"
            )
        with CAPTURE_LOCK.shared():
            request = self._request(call, dynamic_state)
            request = dataclasses.replace(request, with_hooks=with_hooks, leaves_early=records, leaves_always=records)
            captured = self._with_passes(capture(request, convert_callee, _OPERATORS))
            return captured, fetch(captured.sources, call.arguments)

    @plainly
    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program that these arguments select, captured if need be.

        Args:
            *args, **kwargs: as in a call; none at all if there is an ``input_spec``.

        Returns:
            The program; printing it shows its nested blocks with the user's lines.
        """
        return self.captured(*args, **kwargs).program

    def report(self) -> Report:
        """What became of each control-flow statement, in the programs captured so far."""
        return Report.of(self.__qualname__, list(self._cache), () if self._eager is None else self._eager.report())

    def __repr__(self) -> str:
        return f"<StaticFunction {self.__qualname__}, {len(self._cache)} programs>"


def _logs_calls() -> bool:
    """Whether each call is told, which the long way does."""
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
    """What holds an object, of what is bound to it and does not."""
    made = _new(BoundStatic)
    made.__dict__ = static.__dict__
    made._object = instance
    return made


_new = object.__new__


def _timed(run: Runner, name: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Run a program and tell how long it took."""
    start = time.perf_counter()
    outputs = run(inputs)
    logs.execution.debug("%s: %.3f ms", name, 1e3 * (time.perf_counter() - start))
    return outputs


def _log_capture(captured: Captured, seconds: float) -> None:
    program = captured.program
    operations = sum(node.op == "call_function" for block in program.blocks() for node in block.graph.nodes)
    logs.capture.info(
        "captured %s (%s): %d operations, %d control-flow sites, %d guards, %.1f ms",
        program.name, program.origin, operations, len(captured.sites), len(captured.guards), 1e3 * seconds,
    )  # fmt: skip
    for site in captured.sites:
        logs.capture.debug("%s: %s, %s: %s", site.location, site.construct, site.outcome, site.reason)
    logs.capture.debug("%s", program)


def _conversion_error(function: types.FunctionType) -> ConversionError | None:
    """Why a function cannot be rewritten, if so."""
    try:
        convert_root(function)
    except ConversionError as error:
        return error
    return None


def _reference(instance: Any) -> Callable[[], Any]:
    try:
        return weakref.ref(instance)
    except TypeError:
        return lambda: instance


def _iterations(unroll: bool | int | None) -> int:
    """How many iterations of a loop are written out."""
    if unroll is None:
        return config.UNROLL
    return (sys.maxsize if unroll else 1) if isinstance(unroll, bool) else unroll


def restore(
    instance: Any,
    name: str,
    function: types.FunctionType | None,
    specs: Specs | None,
    backend: str | None,
    full_graph: bool = True,
    passes: Sequence[Pass] = (),
    unroll: bool | int | None = None,
) -> StaticFunction:
    """What was pickled; the object that it is bound to may not have its attributes yet."""
    of_class = getattr(type(instance), name, None)
    if function is None:
        function = of_class.function if isinstance(of_class, StaticFunction) else of_class
    made = StaticFunction(cast(Any, function), specs, instance, backend, full_graph=full_graph)
    made._unbound = of_class if isinstance(of_class, StaticFunction) else None
    made.passes, made.unroll = passes, unroll
    return made


def restore_bound(instance: Any, *parts: Any) -> StaticFunction:
    """The same of what holds the object that it is bound to."""
    return _holding(restore(instance, *parts), instance)


def convert_root(function: types.FunctionType) -> ConvertedFunction:
    """Convert the decorated function itself, where every reason not to is an error.

    Raises:
        ConversionError: it has no source, or is written with something that has no static meaning.
    """
    try:
        refuse_generator(function)
        return convert(function)
    except ConversionError:
        raise
    except TypeError as error:
        raise SignatureError(str(error)) from error


def _example(slot: InputSlot) -> Any:
    """An input of a program that fits: zeros."""
    if slot.number is not None:
        return {"bool": False, "int": 0, "float": 0.0}[slot.number]
    sizes = [size if isinstance(size, int) else 2 for size in slot.shape]
    return torch.zeros(sizes, dtype=slot.dtype, device=slot.device)


def _arguments(program: Program) -> tuple[str, Structure, tuple[Any, ...]]:
    """The arguments that a program is for, in words and exactly."""
    exact = tuple((slot.dtype, slot.shape, slot.device) for slot in program.inputs)
    return str(program).partition("\n")[0].partition(":  #")[0].removeprefix("program "), program.in_structure, exact
