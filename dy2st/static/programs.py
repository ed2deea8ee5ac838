"""The programs of one function: looked up, and captured where there is none."""

from __future__ import annotations

import collections
import dataclasses
import functools
import logging
import threading
import time
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from dy2st import config, constructs, logs
from dy2st.capture.environment.capture_lock import CAPTURE_LOCK, Underway
from dy2st.capture.environment.request import Request
from dy2st.capture.environment.sources import fetch
from dy2st.capture.outputs.captured import Captured
from dy2st.capture.trace import capture
from dy2st.capture.unconverted.island_calls import UnknownIslandError
from dy2st.capture.unconverted.islands import culprit
from dy2st.capture.unconverted.learned import Key, key_of
from dy2st.constructs.registry import namespace
from dy2st.errors import SignatureError
from dy2st.frames import level_outside
from dy2st.options import Options
from dy2st.static.cache import Entry, Lookup, ProgramCache
from dy2st.static.calls.call import Call
from dy2st.static.calls.signature import CallSignature
from dy2st.static.conversion import convert_callee
from dy2st.static.distributed.meeting import meet
from dy2st.static.dynamic_state import Dims, DynamicState, Miss
from dy2st.static.fallback import random_states, reason_of, set_random_states
from dy2st.static.fast_path import Route
from dy2st.static.leaks import check as check_leaks
from dy2st_runtime.ir.structure import Shared, walk
from dy2st_runtime.passes.application import apply_passes

assert constructs is not None
_cache_lock = threading.Lock()
_OPERATORS = namespace()
_MOST_ISLANDS = 32
"""How many functions are left out of a program before the whole call runs as it is written."""


class Found(NamedTuple):
    """A program for a call.

    Attributes:
        call: as the program takes it.
        entry: the program in the cache.
    """

    call: Call
    entry: Entry


class Programs:
    """The programs of one function, on one object if it is bound.

    Args:
        function: the user's function.
        signature: of it.
        options: of the static function.
        instance: gives the object that the function is bound to; ``None`` if it is not.

    Attributes:
        cache: the programs so far.
        islands: the functions that run as Python since they cannot be captured, with the reasons.
    """

    def __init__(
        self, function: types.FunctionType, signature: CallSignature, options: Options, instance: Callable[[], Any] | None
    ) -> None:
        self.cache = ProgramCache()
        self._function, self._signature, self._options, self._instance = function, signature, options, instance
        self._dynamic = DynamicState(self.cache)
        self._underway = Underway()
        self._warned = False
        self.islands: dict[Key, str] = {}

    def capture_around(self, call: Call, lookup: Lookup) -> Lookup:
        """Capture a call; the functions that cannot be captured run as Python in the program, the innermost ones only.

        Raises:
            UnknownIslandError: what one of them gives has to be learned first.
            Exception: why there is no program all the same.
        """
        before = dict(self.islands)
        while True:
            try:
                return self.capture(call, lookup)
            except UnknownIslandError:
                raise
            except Exception as error:
                key = culprit(error)
                if (
                    key is None
                    or key in self.islands
                    or key == key_of(self._function.__code__)
                    or len(self.islands) >= _MOST_ISLANDS
                ):
                    self.islands = before
                    raise
                self.islands = {**self.islands, key: reason_of(error)}

    def look_up(self, call: Call) -> Lookup:
        """Return the program for a call, with all its numbers as constants, or why there is none yet."""
        lookup = self._dynamic.look_up(call)
        if lookup.entry is not None:
            logs.cache.debug("%s: hit", self._function.__qualname__)
            self.cache.used(lookup.entry)
        return lookup

    def find(self, call: Call) -> Found:
        """Return the program for a call, which is captured if there is none."""
        lookup = self.look_up(call)
        result = lookup if lookup.entry is not None else self.capture(call, lookup)
        assert result.entry is not None
        return Found(result.call, result.entry)

    def capture(self, call: Call, lookup: Lookup) -> Lookup:
        """Capture a call that a lookup has found no program for, unless another thread does so meanwhile."""
        if CAPTURE_LOCK.is_taken:  # whoever captures the same may wait for this thread
            return self._capture_under_lock(call, lookup)
        with self._underway.only(call.key):
            return self._capture_under_lock(call, lookup)

    def add_route(self, call_shape: Any, route: Route) -> None:
        """Keep a fast path to a program."""
        with _cache_lock:
            self.cache.add_route(call_shape, route)

    def _capture_under_lock(self, call: Call, lookup: Lookup) -> Lookup:
        with CAPTURE_LOCK.shared():
            known = None if lookup.entries else lookup  # what it has read may have been written by a capture in another thread
            lookup = self._dynamic.look_up(call, known)
            if lookup.entry is not None:
                self.cache.used(lookup.entry)
                return lookup
            miss = self._dynamic.miss(call, lookup)
            self._warn_about_captures(miss)
            if logs.cache.isEnabledFor(logging.INFO):
                logs.cache.info("%s: miss, %s", self._function.__qualname__, self.cache.told(lookup))
            call, captured = self._dynamic.capture(miss, lambda call, dynamic: self._capture(call, dynamic, lookup))
            captured = self._with_passes(captured, call)
            with _cache_lock:
                entry = self.cache.add(call.key, captured)
            return Lookup(call, (entry,), entry, fetch(captured.sources, call.arguments), ())

    def _warn_about_captures(self, miss: Miss) -> None:
        """Say once which value makes a program of its own at each call."""
        if self._warned:
            return
        names = miss.changing()
        if len(names) < config.WARN_AFTER:
            return
        self._warned = True
        name, count = collections.Counter(names).most_common(1)[0]
        warnings.warn(
            f"dy2st captures {self._function.__qualname__} anew at each change of {self._signature.as_written(name)!r} "
            f"({count} programs so far): a program is right for one "
            "value of it only. Keep it in a tensor, or pass it as an argument with an InputSpec, if it goes on changing",
            stacklevel=level_outside(),
        )

    def _capture(self, call: Call, dynamic_state: Mapping[str, Dims], lookup: Lookup) -> Captured:
        """Capture; a capture that fails leaves the random numbers as they were."""
        request = self._request(call, dynamic_state)
        request = dataclasses.replace(request, fixed=self.cache.look_up(call, lookup).broken_sizes)
        random, start = random_states(), time.perf_counter()
        try:
            captured = capture(request, convert_callee, _OPERATORS)
            _log_capture(captured, time.perf_counter() - start)
            return captured
        except BaseException as error:
            logs.capture.info("%s cannot be captured: %s: %s", self._function.__qualname__, type(error).__name__, error)
            set_random_states(random)
            raise

    def _with_passes(self, captured: Captured, call: Call) -> Captured:
        check_leaks(self._function, None if self._instance is None else self._instance())
        program = apply_passes(captured.program, self._options.passes)
        read = functools.partial(fetch, captured.sources, call.arguments)
        return dataclasses.replace(captured, program=meet(captured, program, read, self._options.uniform))

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
            self._options,
            arrays=call.arrays,
            islands=self.islands,
        )

    def recording(self, call: Call, entry: Entry) -> Captured:
        """Return a program captured so that it keeps what it leaves before each operation that may fail.

        Args:
            call: as the program takes it.
            entry: the program.
        """
        if entry.recording is None:
            fixed = frozenset(entry.captured.sizes.fixed)
            request = dataclasses.replace(self._request(call, entry.captured.dynamic_state), fixed=fixed, leaves_always=True)
            with CAPTURE_LOCK.shared():
                entry.recording = capture(request, convert_callee, _OPERATORS)
        return entry.recording

    def capture_apart(
        self, call: Call, dynamic_state: Mapping[str, Dims], with_hooks: bool, records: bool = False
    ) -> tuple[Captured, list[Any]]:
        """Return a program that no later call uses, and the values of its sources now; see :class:`~dy2st.capture.trace.Request`.

        With ``records``, it keeps what it leaves when it raises.
        """
        if any(isinstance(part, Shared) for part in walk(call.structure)):
            raise SignatureError(
                f"{self._function.__qualname__} has one list, dict or object in two places of its arguments; "
                "to save or export it, pass one for each place"
            )
        with CAPTURE_LOCK.shared():
            call = self._dynamic.taken(call.with_own_arrays())
            request = self._request(call, dynamic_state)
            request = dataclasses.replace(
                request, with_hooks=with_hooks, leaves_early=records, leaves_always=records, for_any_call=True
            )
            captured = self._with_passes(capture(request, convert_callee, _OPERATORS), call)
            return captured, fetch(captured.sources, call.arguments)


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
