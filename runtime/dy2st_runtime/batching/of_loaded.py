"""Loaded models that run for many examples at once."""

from __future__ import annotations

import dataclasses
from typing import Any

from dy2st_runtime.batching.batched import Batched, Prepared
from dy2st_runtime.batching.dims import Dims
from dy2st_runtime.call import effects, places
from dy2st_runtime.errors import BatchError
from dy2st_runtime.ir.paths import Path
from dy2st_runtime.module import LoadedModule


def batch(
    model: LoadedModule,
    in_dims: Dims = 0,
    out_dims: Dims = 0,
    *,
    method: str = "forward",
    lanes: int | None = None,
    errors: str = "raise",
) -> Batched:
    """Run a loaded model that is written for one example for many at once; see :func:`dy2st.batch`.

    Args:
        model: what :func:`dy2st_runtime.load` gives.
        in_dims, out_dims, lanes, errors: see there.
        method: which of its methods runs.

    Raises:
        BatchError: it has no such method.

    Example:
        >>> path = dy2st.save(dy2st.to_static(lambda x: x * 2 if x > 0 else -x), "model.dy2st", [dy2st.InputSpec([], "float32")])
        >>> batch(dy2st.load("model.dy2st"))(torch.tensor([1.0, -3.0]))
        tensor([2., 3.])
    """
    if method not in model.methods:
        raise BatchError(f"the model has no method {method!r}; it was saved with {', '.join(model.methods)}")

    def prepare(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        program, inputs, existing = model.prepared(method, args, kwargs)
        slots = {slot.name: slot for slot in program.states}
        found = [effects.place_of(effect.target, slots) for effect in program.effects]
        return Prepared(program, inputs, [_Attribute(model, path) for path in found if path is not None], existing)

    return Batched(prepare, method, (in_dims,), (out_dims,), lanes, errors)


@dataclasses.dataclass(frozen=True)
class _Attribute:
    """An attribute of a loaded model; see :class:`~dy2st_runtime.batching.batched.Place`."""

    model: LoadedModule
    path: Path

    @property
    def name(self) -> str:
        return str(self.path)

    def read(self) -> Any:
        return places.value_at(self.model, self.path)

    def write(self, value: Any) -> None:
        owner = effects.container(self.model, self.path.owner)
        tables = (owner._parameters, owner._buffers, owner.__dict__)
        table: dict[str, Any] = next((table for table in tables if self.path.name in table), owner.__dict__)
        table[self.path.name] = value
