"""A unit as a program calls it: finds or makes the variant for the values at hand, or declines."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from collections.abc import Sequence
from typing import Any

import torch

from dy2st_runtime.executors.cpp.compile import CompileError
from dy2st_runtime.executors.cpp.values import Unsupported
from dy2st_runtime.executors.cpp.variant import Variant
from dy2st_runtime.executors.plain_values import unusual
from dy2st_runtime.ir.program import Block, Location

log = logging.getLogger("dy2st.cpp")

MAX_VARIANTS = 8
"""Compiled sets of sizes for one unit; for others the python executor runs."""

_DECLINED = (False,)
_lock = threading.RLock()
_state = {"warned": False}


class Unit:
    """A part of a program that runs as one C++ function.

    Args:
        block: its operations.
        location: of the first one.
        nested: whether it is inside of a loop or branch that another executor runs.

    Attributes:
        variants: by what the inputs are; a text where there is no C++ for them, which says why.
        ran: how often it ran.
        declined: how often it did not, by reason.
    """

    def __init__(self, block: Block, location: Location | None, nested: bool) -> None:
        self.block, self.location = block, location
        self.variants: dict[Any, Variant | str] = {}
        self.ran = 0
        self.declined: dict[str, int] = {}
        self.seconds = 0.0
        self._constants: frozenset[int] = frozenset()
        self._last: tuple[Any, Variant | str] = (None, "")
        self._seen: set[Any] | None = set() if nested else None
        self.__name__ = "unit"

    def __call__(self, *values: Any) -> tuple[Any, ...]:
        """Run it.

        Returns:
            ``True`` and the outputs; or ``False`` alone, with nothing done.
        """
        reason = unusual(values)
        if reason is None:
            key = self._key(values)
            last, variant = self._last
            if key != last:
                variant = self.variants.get(key) or self._make(key, values)
                if key in self.variants:
                    self._last = key, variant
            if isinstance(variant, Variant):
                reason = self._conflict(variant, values)
                outputs = variant(values) if reason is None else None
                if outputs is not None:
                    for position in variant.mutated:
                        if not values[position].is_inference():
                            torch.autograd.graph.increment_version(values[position])
                    self.ran += 1
                    return True, *outputs
                reason = reason or "it raises, or meets a number that C++ computes in another way"
            else:
                reason = variant
        self.declined[reason] = self.declined.get(reason, 0) + 1
        return _DECLINED

    def _key(self, values: Sequence[Any]) -> Any:
        """Return what the inputs are; numbers count by type, unless a size depends on them."""
        results: list[Any] = [
            (v.dtype, v.shape, v.stride()) if isinstance(v, torch.Tensor) else type(v) for v in values
        ]  # fmt: skip
        for position in self._constants:
            results[position] = (None, values[position])
        results.append(torch.get_default_dtype())
        return tuple(results)

    def _make(self, key: Any, values: Sequence[Any]) -> Variant | str:
        """Return the variant for inputs that were not seen before, or why there is none."""
        with _lock:
            if key in self.variants:
                return self.variants[key]
            if self._seen is not None and key not in self._seen:
                if len(self._seen) > 4 * MAX_VARIANTS:
                    return "its sizes change all the time"
                self._seen.add(key)
                return "it is compiled when these sizes come again"
            if sum(isinstance(variant, Variant) for variant in self.variants.values()) >= MAX_VARIANTS:
                return f"there are {MAX_VARIANTS} sets of sizes already"
            if len(self.variants) > 64:
                return "its sizes change all the time"
            result = self._compiled(values)
            self.variants[self._key(values)] = result  # which numbers are constants may have become known
            return result

    def _compiled(self, values: Sequence[Any]) -> Variant | str:
        start = time.perf_counter()
        while True:
            try:
                with torch.no_grad():
                    variant = Variant(self.block, [self._description(position, value) for position, value in enumerate(values)])
            except Unsupported as error:
                needed: frozenset[int] = getattr(error, "needed", frozenset()) - self._constants
                if needed:
                    self._constants |= needed
                    continue
                log.info("%s: no C++: %s", self.location, error)
                return str(error)
            except CompileError as error:
                _warn(error)
                return str(error)
            except Exception as error:
                log.warning("%s: a defect in the generator of C++", self.location, exc_info=True)
                return f"a defect in the generator of C++: {type(error).__name__}: {error}"
            self.seconds += time.perf_counter() - start
            log.info("%s: compiled in %.0f ms", self.location, 1e3 * (time.perf_counter() - start))
            return variant

    def _description(self, position: int, value: Any) -> tuple[Any, ...]:
        if isinstance(value, torch.Tensor):
            return value.dtype, tuple(value.shape), value.stride()
        if value is None or position in self._constants:
            return None, value
        return (type(value),)

    def _conflict(self, variant: Variant, values: Sequence[Any]) -> str | None:
        """Tell whether an input that is written to shares its memory with another one."""
        for position in variant.mutated:
            memory = values[position].untyped_storage().data_ptr()
            for other, value in enumerate(values):
                if other != position and isinstance(value, torch.Tensor) and value.untyped_storage().data_ptr() == memory:
                    return "a tensor that is changed in place shares its memory with another one"
        return None

    def report(self) -> str:
        """Return what became of it, on one line."""
        where = f"{os.path.basename(self.location.file)}:{self.location.line}" if self.location else "?"
        compiled = sum(isinstance(variant, Variant) for variant in self.variants.values())
        parts = [f"{self.ran} runs in C++ ({compiled} sets of sizes, compiled in {self.seconds:.2f} s)"] if self.ran else []
        parts += [f"{count} runs not: {reason}" for reason, count in self.declined.items()]
        return f"{where}: {'; '.join(parts)}"


def _warn(error: CompileError) -> None:
    """Say once that nothing can be compiled."""
    log.warning("%s", error)
    if not _state["warned"]:
        _state["warned"] = True
        warnings.warn(f"backend='cpp' runs without C++, on the python executor: {error}", RuntimeWarning, stacklevel=2)
