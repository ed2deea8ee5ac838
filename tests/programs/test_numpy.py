"""NumPy in static functions: its functions are called when the program runs, on arrays in the memory of tensors."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import dy2st
import dy2st_runtime
from dy2st import InputSpec

EXPRESSIONS = {
    "arithmetic": "a + 1 | 1 - a | a * 2.5 | a ** 2 | a ** 0.5 | 2 ** a | a / 3 | a // 2 | a % 2 | -a | abs(a) | a @ a | divmod(a, 2)",
    "comparisons": "a > 1 | a == a | a != 0 | (a > 0) & (a < 2) | ~(a > 0) | a.any() | a.all() | np.allclose(a, a)",
    "items": "a[0] | a[-1] | a[a > 0] | a[[0, 1]] | a[np.array([0, 1])] | a[..., 0] | a[i] | np.take(a, [0, 1])",
    "views": "a[1:] | a[::2] | a[None] | a[:, None] * a | a[:i] | a.T | a.reshape(-1, 1) | a.ravel() | np.expand_dims(a, 0)",
    "backwards": "a[::-1] | a[::-1][1:] | a[::-1][:-1] | a[::-1][0] | a[::-1][::-1] | a[2::-1] | a[:0:-1] | np.flip(a) + a",
    "reductions": "a.sum() | a.mean() | a.std() | a.max() | a.argmax() | np.median(a) | np.quantile(a, 0.3) | a[None].sum(1)",
    "kinds": "a.dtype | a.shape | a.ndim | a.size | len(a) | type(a) | type(a.sum()) | isinstance(a[0], np.float32)",
    "casts": "a.astype(np.float32) | a.astype(int) | a.copy() | a.tolist() | float(a[0]) | int(a[1]) | bool(a[1]) | a[0].item()",
    "new": "np.linspace(0, 1, n) | np.linspace(0, n, 4) | np.arange(n) | np.arange(n)[::-1] | np.eye(n) | np.ones((n, 2)) | np.full(n, s)",
    "joined": "np.concatenate([a, [0.0]]) | np.stack([a, a + 1]) | np.append(a, 3.0) | np.array([a[0], s]) | np.tile(a, 2) | np.pad(a, 1)",
    "by contents": "np.unique(a) | a.nonzero() | np.where(a > 1) | np.flatnonzero(a > 1) | np.bincount(k) | np.argsort(-a) | np.sort(-a)",
    "numbers": "np.sqrt(s) | np.exp(n) | np.float32(s) | np.int64(n) * 2 | np.floor(s) | int(np.ceil(n / 2)) | np.pi * s | np.round(s, 2)",
    "known arrays": "np.array([1, 2, 3]) * s | s * np.arange(3) | np.arange(5) * a[0] | np.arange(9.0)[i] | np.arange(3.0) ** s",
    "interpolation": "np.interp(a, [0.0, 1.0, 2.0], [0.0, 10.0, 20.0]) | np.interp(np.linspace(0, 1, n), np.linspace(0, 1, 4), np.arange(4))",
    "algebra": "np.linalg.inv(np.outer(a, a) + np.eye(n)) | np.linalg.norm(a) | np.linalg.svd(np.outer(a, a)) | np.linalg.cholesky(np.eye(n) + a)",
    "tensors": "torch.from_numpy(a) + 1 | torch.tensor(a) | torch.tensor([a[0], s]) | torch.as_tensor(a[0]) | torch.Tensor(a) | torch.full((2,), a[0])",
    "with tensors": "x * a[0] | a[0] * x | x * a | a.mean() - x | x ** a[0] | x > a[0] | a[0] > x | x[a.argmax()] | x[k] | x.clamp(0, a.max())",
    "builtins": "max(a) | min(a) | sum(v for v in a) | list(a) | list(enumerate(a)) | round(a[1], 1) | math.sqrt(a[0] + 1) | list(range(k[1]))",
    "texts": "f'{a} {a[0]} {a[0]:.3f} {a!r} {a[0]!r}' | str(a[1]) | '%.2f %s' % (a[0], a[1]) | f'{a.mean():>10.2f}'",
    "ufuncs": "np.add.reduce(a) | np.maximum.accumulate(a) | np.add(a, 1, out=np.zeros(n)) | np.logaddexp(a, s) | np.hypot(a, a)",
    "views by functions": "np.split(a, [1]) | np.array_split(a, 2) | np.atleast_2d(a) | np.moveaxis(a[None], 0, 1) | np.squeeze(a[None])",
    "wrong": "getattr(a, 'foo', 1) | hasattr(a, 'shape') | hasattr(a, 'foo') | np.result_type(a, s) | np.isscalar(a[0])",
}


OF_KNOWN_LENGTH = ("builtins", "views by functions")


def loaded(tmp_path: Path, text: str) -> Any:
    """Return the module with a text."""
    path = tmp_path / "written.py"
    path.write_text(f"import copy\nimport math\nimport numpy as np\nimport torch\n\n\n{text}")
    spec = importlib.util.spec_from_file_location("written", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def assert_same(first: Any, second: Any) -> None:
    assert type(first) is type(second)
    if isinstance(first, torch.Tensor):
        assert first.dtype == second.dtype and torch.equal(first, second)
    elif isinstance(first, (np.ndarray, np.generic)):
        assert first.dtype == second.dtype and first.shape == second.shape and np.array_equal(first, second, equal_nan=True)
    elif isinstance(first, (tuple, list)):
        assert len(first) == len(second)
        for one, other in zip(first, second):
            assert_same(one, other)
    elif isinstance(first, dict):
        assert_same(list(first.items()), list(second.items()))
    else:
        assert first == second or (first != first and second != second)


@pytest.mark.parametrize("subject", EXPRESSIONS)
def test_what_is_made_of_arrays_and_numbers(tmp_path, subject):
    body = ",\n        ".join(EXPRESSIONS[subject].split(" | "))
    text = (
        f"def f(x, t, k, i):\n    a, k, n, s = x.numpy(), k.numpy(), x.shape[0], float(t)\n    return [\n        {body},\n    ]\n"
    )
    eager = loaded(tmp_path, text).f
    spec = [InputSpec([None]), InputSpec([]), InputSpec([3], "int64"), 1]
    static = dy2st.to_static(eager, input_spec=None if subject in OF_KNOWN_LENGTH else spec)
    for size, start in ((4, 0.5), (3, 2.25), (6, 0.0)):
        inputs = torch.arange(float(size)) * 1.5 + start, torch.tensor(start), torch.arange(3), 1
        assert_same(eager(*inputs), static(*inputs))
    assert subject in OF_KNOWN_LENGTH or len(static.program_cache) == 1


BODIES = {
    "a write is seen in the tensor": "a = x.numpy()\na[0] = s\nreturn x, a",
    "a write through a view": "a = x.numpy().copy()\nb = a[::-1]\nb[0] = 9\nb[1:] += s\nreturn a, b",
    "a masked write": "a = x.numpy().copy()\na[a > 1] = -1\nreturn a",
    "views in place": "a = x.numpy()\nb = a[1:]\nb *= 2\nreturn x, a, b",
    "numbers are not changed": "v = x.numpy().sum()\nw = v\nv += 1\nreturn v, w",
    "an array that is filled": "z = np.zeros(n)\nfor j in range(n):\n    z[j] = j * s\nreturn z",
    "a carry": "a = np.zeros(2)\ni = 0\nwhile i < m:\n    a = a * 2 + s\n    i += 1\nreturn a",
    "a number as a carry": "v = np.float64(0)\ni = 0\nwhile i < m:\n    v = v + s\n    i += 1\nreturn v",
    "branches of other sizes": "a = x.numpy()\nif s > 1:\n    a = a[1:]\nreturn a, len(a)",
    "branches of other dtypes": "a = x.numpy()\nif s > 1:\n    a = a.astype(int)\nreturn a",
    "backwards on one way": "a = x.numpy()\nif s > 1:\n    a = a[::-1]\nreturn a + 1",
    "an array or nothing": "a = None\nif s > 1:\n    a = x.numpy()\nreturn a",
    "an array or a tensor": "a = x\nif s > 1:\n    a = x.numpy()\nreturn a * 2",
    "one that is known or not": "a = np.arange(3.0)\nif s > 1:\n    a = x.numpy()\nreturn a",
    "a write in a branch": "a = x.numpy().copy()\nb = a[1:]\nif s > 1:\n    b[0] = 5\nreturn a, b",
    "an early return": "a = x.numpy()\nif a.sum() > 4:\n    return a\nreturn a * 2",
    "a loop over an array": "t = 0.0\nfor v in x.numpy():\n    if v > 1:\n        t = t + v\nreturn t",
    "a loop over one of any length": "t = 0\nfor v in np.arange(int(m)):\n    t = t + v\nreturn t",
    "one memory": "a = x.numpy()\nb = x.numpy()\nx[0] = 7\na[1] = 3\nreturn a, b",
    "from_numpy shares": "a = np.zeros(3) * s\ny = torch.from_numpy(a)\nz = torch.tensor(a)\na[0] = 1\nreturn y, z",
    "which objects": "a = x.numpy()\nc = a[:]\nreturn a is a, a is c, np.asarray(a) is a, np.array(a) is a",
    "a result in two places": "a = x.numpy() + 0\nreturn a, [a], {'a': a}",
    "copies": "a = x.numpy()\nb, c = copy.copy(a), copy.deepcopy(a)\nb[0] = 1\nreturn a, b, c",
    "arrays that are known": "return np.arange(4), np.zeros((2, 0)), np.float32(2), {'k': np.arange(2)[::-1].copy()}",
    "methods that write": "a = x.numpy()[::-1].copy()\na.sort()\nb = a.copy()\nb.fill(s)\nnp.copyto(b[1:], 1.0)\nreturn a, b",
    "counts": "a = np.zeros(3) + s\nnp.add.at(a, [0, 0], 1)\nnp.fill_diagonal(b := np.zeros((2, 2)) + s, 1)\nreturn a, b",
    "a caught refusal": (
        "y = x.clone().requires_grad_()\ntry:\n    a = y.numpy()\nexcept RuntimeError:\n    a = y.detach().numpy()\nreturn a"
    ),
    "an exception": "a = x.numpy()\nif a[0] > 1:\n    raise ValueError(f'bad {float(a[0]):.1f}')\nreturn a",
    "no truth of several": "return 1 if x.numpy() > 1 else 2",
    "no dtype": "return x.to(torch.bfloat16).numpy()",
    "sampling steps": (
        "b = torch.linspace(0.1, 0.9, 5)\ns_ = np.array(((1 - b) / b) ** 0.5)\nts = np.linspace(0, 4, int(m) + 1)[::-1].copy()\n"
        "s_ = np.interp(ts, np.arange(0, len(s_)), s_)\nreturn torch.from_numpy(np.concatenate([s_, [0.0]]).astype(np.float32))"
    ),
}


def outcome(function: Any, inputs: list[Any]) -> Any:
    inputs = [value.clone() for value in inputs]
    try:
        return function(*inputs), inputs
    except Exception as error:
        return (type(error), str(error).split("\n")[0]), inputs


CALLS = [
    [torch.tensor([1.5, 0.5, 2.0]), torch.tensor(0.5), torch.tensor(3)],
    [torch.tensor([0.5, 0.5, 0.75]), torch.tensor(2.25), torch.tensor(1)],
    [torch.tensor([0.0, 2.0, 3.5]), torch.tensor(1.25), torch.tensor(0)],
]


@pytest.mark.parametrize("subject", BODIES)
def test_arrays_in_statements(tmp_path, subject):
    lines = "\n        ".join(BODIES[subject].split("\n"))
    text = f"class M(torch.nn.Module):\n    def forward(self, x, t, m):\n        s, n = float(t), x.shape[0]\n        {lines}\n"
    kind = loaded(tmp_path, text).M
    static = dy2st.to_static(kind())
    for inputs in CALLS:
        assert_same(outcome(kind(), inputs), outcome(static, inputs))
    if isinstance(outcome(kind(), CALLS[0])[0], tuple) and isinstance(outcome(kind(), CALLS[0])[0][0], type):
        return
    specs = [InputSpec([3]), InputSpec([]), InputSpec([], "int64")]
    dy2st.save(dy2st.to_static(kind()), tmp_path / "m.dy2st", input_spec=specs)
    model = dy2st_runtime.load(tmp_path / "m.dy2st")
    for inputs in CALLS:
        assert_same(outcome(kind(), inputs), outcome(model, inputs))


class Kept(torch.nn.Module):
    """Keeps arrays, and numbers of NumPy."""

    def __init__(self) -> None:
        super().__init__()
        self.known = np.arange(3.0)
        self.total: Any = np.float32(0)
        self.last: Any = None

    def forward(self, x):
        self.last = x.numpy()[::-1]
        self.steps = np.arange(2)
        self.total = self.total + self.last.sum() * self.known[1]
        return self.total


def test_arrays_are_kept_and_read_again():
    eager, module = Kept(), Kept()
    static = dy2st.to_static(module)
    for step in range(4):
        if step == 2:
            eager.known[1] = module.known[1] = 5.0
        x = torch.arange(3.0) + step
        assert_same(eager(x), static(x))
        assert_same([eager.last, eager.total, eager.steps], [module.last, module.total, module.steps])
        assert np.shares_memory(module.last, x.numpy())


def test_the_memory_of_an_argument_is_shared():
    def f(x):
        return x.numpy()[1:]

    x = torch.zeros(3)
    result = dy2st.to_static(f)(x)
    x[2] = 4
    assert result.tolist() == [0, 4]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (lambda x: np.vectorize(math.sqrt)(x.numpy()), "gets values known only at run time"),
        (lambda x: np.broadcast_to(x.numpy(), (2, 3)), r"numpy.broadcast_to\(\) gets values known only at run time"),
        (lambda x: x.numpy().strides, "the attribute 'strides' of a ndarray"),
        (lambda x: np.array([x.sum().item(), None]), "NumPy gives a ndarray"),
        (lambda x: np.array(["a", "b"]), "an array of <U1, that it makes itself"),
    ],
)
def test_what_is_refused(body, words):
    with pytest.raises(dy2st.CaptureError, match=words):
        dy2st.to_static(body)(torch.ones(3))


def test_what_no_handler_is_entered_for_is_refused():
    def f(x):
        try:
            return np.linalg.inv(x.numpy())
        except np.linalg.LinAlgError:
            return None

    with pytest.raises(dy2st.CaptureError, match=r"numpy.linalg.inv\(\) may fail when the program runs"):
        dy2st.to_static(f)(torch.eye(2))


def test_an_error_of_numpy_leaves_the_program():
    def f(x):
        return np.linalg.inv(x.numpy())

    static = dy2st.to_static(f)
    assert_same(f(torch.eye(2)), static(torch.eye(2)))
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        static(torch.zeros(2, 2))


def test_an_export_names_the_function_and_its_line(tmp_path):
    class Roots(torch.nn.Module):
        def forward(self, x):
            return torch.from_numpy(np.sqrt(x.numpy()))

    with pytest.raises(dy2st.ExportError, match=r"numpy's sqrt is called when the program runs"):
        dy2st.export(Roots(), tmp_path / "m.onnx", input_spec=[InputSpec([3])])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("look", [lambda a: a, lambda a: a.T, lambda a: a[::-1]])
def test_arrays_in_an_order(order, look):
    def ordered(x):
        array = x.numpy()
        result = np.asarray(look(array), order=order)
        return result, np.asarray([array, array], order=order)

    x = torch.arange(6.0).view(2, 3)
    expected, got = ordered(x), dy2st.to_static(ordered)(x)
    for one, other in zip(expected, got):
        assert np.array_equal(one, other) and one.strides == other.strides
    assert np.shares_memory(expected[0], x.numpy()) == np.shares_memory(got[0], x.numpy())


@pytest.mark.parametrize("view", [np.diag, lambda a: np.nan_to_num(a, copy=False)])
def test_views_that_are_not_followed_are_refused(view):
    with pytest.raises(dy2st.CaptureError, match="NumPy gives a view of its argument here"):
        dy2st.to_static(lambda x: view(x.numpy()))(torch.ones(3, 3))


BACKWARDS = {
    "a row": lambda a: a[::-1].tolist(),
    "some": lambda a: a[-1:0:-1].tolist(),
    "flipped": lambda a: np.flip(a).tolist(),
    "columns": lambda a: a.reshape(2, 2)[:, ::-1].tolist(),
    "sorted": lambda a: np.argsort(a)[::-1][:2].tolist(),
    "turned": lambda a: a.reshape(2, 2).T[::-1].tolist(),
}


@pytest.mark.parametrize("listed", BACKWARDS.values(), ids=BACKWARDS)
def test_an_array_that_runs_backwards_gives_its_items_in_that_order(listed):
    static = dy2st.to_static(lambda x: listed(x.numpy()))
    for row in ([3.0, 1, 2, 5], [1.0, 2, 3, 0.5]):
        assert static(torch.tensor(row)) == listed(np.array(row, np.float32))


def test_a_new_tensor_is_made_of_an_array():
    x = torch.tensor([1.0, 2])
    assert torch.equal(dy2st.to_static(lambda x: x.new_tensor(x.numpy() * 2))(x), x * 2)
