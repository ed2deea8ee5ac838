"""Functions that are written for one example, run for many at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from dy2st.capture.writes.places import AttributePlace, CellPlace, ItemPlace, Place
from dy2st.errors import BatchError
from dy2st.frames import plainly
from dy2st.options import Options
from dy2st.static.making import make_static
from dy2st.static.static_function import StaticFunction
from dy2st_runtime.batching.batched import Batched, Prepared
from dy2st_runtime.batching.dims import Dims
from dy2st_runtime.batching.of_loaded import batch as batch_loaded
from dy2st_runtime.module import LoadedModule


@plainly
def batch(
    function: Callable[..., Any], in_dims: Dims = 0, out_dims: Dims = 0, *, lanes: int | None = None, errors: str = "raise"
) -> Batched:
    """Run a function that is written for one example for many at once.

    Conditions may differ between the examples: a branch is run by those that take it, a loop goes on with those for which there is
    a next iteration. The result of each example is that of the function called on it alone, but for the rounding of products and
    sums, and for random numbers: each example draws from a stream of its own, which begins with a number that PyTorch's generator
    draws, so that it does not depend on the other examples. What the function writes to attributes of its module is state of each
    example, and stays in the :attr:`~dy2st_runtime.batching.batched.Batched.state` of what is returned; the module keeps its own.

    Args:
        function: a Python function, a static one, a module, or a loaded one.
        in_dims: which dimension of the arguments is that of the examples: an int for all tensors, or a tuple with an int, ``None``
            (the same for all examples) or a nest of these for each positional argument. Tensors that are passed by name have the
            examples first.
        out_dims: the same for the result. Numbers become tensors; tensors that differ in size come as a list.
        lanes: how many examples run at a time at most, where one that is done makes room for the next.
        errors: ``"raise"`` for one :class:`~dy2st.ExampleErrors` when the others are done, ``"return"`` for a list of the results
            with the exceptions among them.

    Returns:
        What is called with all examples.

    Raises:
        BatchError: the function, or ``in_dims``, is none.

    Source of the signature: ``torch.func.vmap``.

    Example:
        >>> def collatz(n):
        ...     steps = 0
        ...     while n != 1:
        ...         n = n // 2 if n % 2 == 0 else 3 * n + 1
        ...         steps += 1
        ...     return steps
        >>> batch(collatz)(torch.tensor([1, 6, 27]))
        tensor([  0,   8, 111])
    """
    if isinstance(function, Batched):
        return function.nested(in_dims, out_dims, lanes, errors)
    if isinstance(function, LoadedModule):
        return batch_loaded(function, in_dims, out_dims, lanes=lanes, errors=errors)
    static = _static(function)
    return Batched(_Preparing(static), static.__qualname__, (in_dims,), (out_dims,), lanes, errors)


def _static(function: Any) -> StaticFunction:
    if isinstance(function, StaticFunction):
        return function
    if isinstance(function, torch.nn.Module):
        forward = function.forward
        if isinstance(forward, StaticFunction):
            return forward
        return make_static(forward, Options())  # type: ignore[no-any-return]
    if not callable(function):
        raise BatchError(f"batch takes a function or a module, not {function!r}")
    return make_static(function, Options())  # type: ignore[no-any-return]


class _Preparing:
    """Gives what runs for an example of a static function."""

    def __init__(self, static: StaticFunction) -> None:
        self._static = static

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        captured, inputs, values = self._static.prepared(args, kwargs)
        code = self._static.function.__code__
        owner = f"{code.co_varnames[0]}." if self._static.instance is not None and code.co_argcount else ""
        if captured.takes_cells or captured.changes_objects:
            raise BatchError(f"{captured.program.origin}: {captured.program.name} changes objects that the examples share")
        places = [
            _Written(effect.target.removeprefix(owner), writer.place(writer.owner(values)))
            for effect, writer in zip(captured.program.effects, captured.writers)
        ]
        for written in places:
            if not isinstance(written.place, (AttributePlace, CellPlace, ItemPlace)):
                raise BatchError(
                    f"{captured.program.origin}: {captured.program.name} changes what is in {written.name}, which the examples "
                    "share; return what it puts in instead"
                )
        return Prepared(captured.program, inputs, places, captured.outside.known(values), owner)


@dataclasses.dataclass(frozen=True)
class _Written:
    """Where a static function writes; see :class:`dy2st_runtime.batching.batched.Place`."""

    name: str
    place: Place

    def read(self) -> Any:
        return self.place.read()

    def write(self, value: Any) -> None:
        self.place.write(value)
