"""Arrays that NumPy makes of lists whose length a tensor decides, and arrays of another dtype or rank on some ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import dy2st

INPUTS = [torch.tensor([1.0, -2.0, 3.0]), torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, 0.0])]


def of_numbers(x):
    items = []
    for v in x:
        if v > 0:
            items.append(v.item())
    return np.array(items), torch.from_numpy(np.array(items)) * 2


def of_tensors(x):
    items = [v * 2 for v in x if v > 0]
    return torch.from_numpy(np.asarray(items)) if len(items) else x


def of_whole_numbers(x):
    items = []
    for i, v in enumerate(x):
        if v > 0:
            items.append(i)
    result = np.array(items)
    return result.sum(), result.dtype == np.int64, torch.from_numpy(result)


def of_rows(x):
    rows, n = [], 0
    while n < x.sum():
        rows.append([n, n + 1])
        n += 1
    return np.array(rows), np.array(rows, dtype=np.float32)


def of_flags(x):
    flags = [bool(v > 1) for v in x if v > 0]
    return np.array(flags, dtype=bool), np.array(flags, dtype=np.int32).sum()


def of_known_lists_of_them(x):
    rows = []
    for v in x:
        rows.append([float(w * v) for w in x if w > 0])
    return np.array(rows), np.array(rows).shape, np.stack(rows)


def that_functions_take(x):
    items = [v.item() for v in x]
    kept = [v for v in items if v > 0]
    kept.append(4.0)
    return np.mean(kept), np.median(kept), np.sort(kept), np.max(kept, initial=0.0), np.stack(kept)


def of_another_dtype(x):
    result = x.numpy()
    if x.sum() > 0:
        result = result.astype(np.int64)
    return result + 1


def of_another_rank(x):
    if x.sum() > 0:
        result = (x * 2).numpy()
    else:
        result = x[None].numpy()
    return np.sum(result), result.shape


def seen(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(seen, value))
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value), value.dtype, value.shape, value.tobytes()
    return (value.dtype, value.tolist()) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("backend", ["python", "native"])
@pytest.mark.parametrize(
    "function",
    [
        of_numbers,
        of_tensors,
        of_whole_numbers,
        of_rows,
        of_flags,
        of_known_lists_of_them,
        that_functions_take,
        of_another_dtype,
        of_another_rank,
    ],
)
def test_arrays_are_those_of_eager(function: Any, backend: str) -> None:
    static = dy2st.to_static(function, backend=backend)
    for x in INPUTS:
        assert seen(static(x)) == seen(function(x.clone()))
    assert len(static.program_cache) == 1


def test_a_list_of_tensors_with_gradients_is_none_of_numbers() -> None:
    def f(x: Any) -> Any:
        return np.array([v for v in x if v > 0])

    x = torch.tensor([1.0, -2.0], requires_grad=True)
    for call in (f, dy2st.to_static(f)):
        with pytest.raises(RuntimeError, match="requires grad"):
            call(x)


def test_whole_numbers_among_others_and_rows_of_them_are_refused() -> None:
    def mixed(x: Any) -> Any:
        items = [1]
        for v in x:
            if v > 0:
                items.append(v.item())
        return np.array(items)

    def rows(x: Any) -> Any:
        return np.array([[i for i in range(3) if x[i] > 0] for _ in range(2)])

    for f, words in ((mixed, "an int or a float"), (rows, "a list of lists")):
        with pytest.raises(dy2st.CaptureError, match=words):
            dy2st.to_static(f)(INPUTS[0])
