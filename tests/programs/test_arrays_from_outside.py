"""Arrays of NumPy that are arguments, or state that the program changes: inputs of one program, in the caller's memory."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np
import pytest
import torch

import dy2st
import dy2st_runtime
from dy2st import InputSpec, to_static


def same(left: Any, right: Any) -> bool:
    if type(left) is not type(right):
        return False
    if isinstance(left, (tuple, list)):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        return [*left] == [*right] and all(map(same, left.values(), right.values()))
    if isinstance(left, np.ndarray):
        return left.dtype == right.dtype and left.shape == right.shape and np.array_equal(left, right)
    if isinstance(left, torch.Tensor):
        return left.dtype == right.dtype and torch.equal(left, right)
    return bool(left == right)


def assert_calls(function: Any, *calls: tuple[Any, ...], programs: int) -> None:
    """Check that calls give what eager gives, leave what it leaves, and that as many programs serve them."""
    static = to_static(function)
    for call in calls:
        one, two = copy.deepcopy(call), copy.deepcopy(call)
        expected, result = function(*one), static(*two)
        assert same(expected, result) and same(one, two)
        pairs = [(expected, one), (result, two)]
        held = [[[part is given for given in args] for part in parts if isinstance(parts, tuple)] for parts, args in pairs]
        assert held[0] == held[1]
    assert len(static.program_cache) == programs


def scaled(a, x):
    if a.mean() > 2:
        a *= 2
    else:
        a[1:] = 0
    return a, x + torch.as_tensor(a)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int32", "uint8", "float16", "complex64"])
def test_one_program_serves_arrays_of_any_contents(dtype: str):
    assert_calls(scaled, *[(np.arange(4).astype(dtype) + at, torch.ones(4)) for at in range(3)], programs=1)


def test_arrays_in_containers_and_the_identity_of_what_comes_back():
    def kept(xs, d):
        results = [x * 2 if x.max() > 2 else x for x in xs]
        d["first"] = xs[0]
        return results, d["first"] is xs[0], results[0] is xs[0]

    assert_calls(kept, *[([np.arange(3.0) + at, np.arange(2.0)], {}) for at in range(3)], programs=1)


def test_one_array_given_twice_is_one():
    def both(a, b):
        a += 1
        return a is b, a.sum() + b.sum(), b

    a = np.arange(3.0)
    assert_calls(both, (a, a), (a + 1,) * 2, programs=1)
    assert_calls(both, (a, a.copy()), (a, a), (a, a[::1]), (a + 3, a), programs=2)
    one, two = np.arange(3.0), np.arange(3.0)
    assert same(both(one[:2], one[1:]), to_static(both)(two[:2], two[1:])) and same(one, two)


def test_orders_in_memory_share_a_program():
    def views(a):
        return a[::-1], a.T, a.sum(0), len(a), a.shape, a.dtype

    a = np.arange(6.0).reshape(2, 3)
    assert_calls(views, (a,), (np.asfortranarray(a),), (np.arange(12.0).reshape(2, 6)[:, ::2],), programs=1)


def test_contents_that_the_code_has_to_know_are_constants():
    layers = [torch.nn.Linear(2, 2) for _ in range(3)]

    def chosen(x, which):
        for at in which.astype("S1"):
            x = layers[int(at)](x)
        return x

    static = to_static(chosen)
    for which in ([0, 1], [2, 0], [0, 1]):
        assert torch.equal(static(torch.ones(2), np.array(which)), chosen(torch.ones(2), np.array(which)))
    assert len(static.program_cache) == 2


def test_numbers_in_an_array_may_be_sizes():
    def shaped(x, shape):
        return torch.zeros(tuple(shape)), x.view(*shape), x.reshape(shape.tolist())

    assert_calls(shaped, *[(torch.arange(6), np.array(shape)) for shape in ([2, 3], [3, 2], [1, 6])], programs=1)


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("make", "programs"),
    [
        (lambda at: np.array(3.0 + at), 1),
        (lambda at: np.zeros((0, 3)), 1),
        (lambda at: np.arange(3.0)[::-1] + at, 1),
        (lambda at: (np.arange(3.0) + at)[::-1], 3),
        (lambda at: (np.arange(3) + at).astype(">f8"), 3),
        (lambda at: read_only(np.arange(3.0) + at), 3),
    ],
    ids=["no dimension", "empty", "new", "backwards", "other byte order", "read-only"],
)
def test_arrays_that_torch_has_no_tensor_of_are_constants(make: Any, programs: int):
    static = to_static(lambda a: a + 1)
    for at in range(3):
        assert same(static(make(at)), make(at) + 1)
    assert len(static.program_cache) == programs


def test_what_the_code_raises_by_contents():
    def checked(a):
        if (a < 0).any():
            raise ValueError("negative")
        return np.sqrt(a)

    static = to_static(checked)
    assert same(static(np.arange(3.0)), checked(np.arange(3.0)))
    with pytest.raises(ValueError, match="negative"):
        static(-np.arange(3.0))
    assert len(static.program_cache) == 1


def test_an_input_spec_takes_arrays_of_any_length():
    static = to_static(lambda a: a * 2 if a.sum() > 3 else a[::-1], input_spec=[InputSpec([None], "float64")])
    for count in (1, 2, 5, 0):
        a = np.arange(count) + 0.0
        assert same(static(a), a * 2 if a.sum() > 3 else a[::-1])
    assert len(static.program_cache) == 1
    with pytest.raises(dy2st.SignatureError, match=r"'a' is specified with dtype torch.float64, but has torch.float32"):
        static(np.zeros(3, np.float32))


def test_from_numpy_specifies_an_array():
    assert InputSpec.from_numpy(np.zeros((2, 3), np.int32), "n") == InputSpec([2, 3], "int32", "n")
    with pytest.raises(dy2st.SignatureError, match="from_numpy takes an array of numbers, not a ndarray of object"):
        InputSpec.from_numpy(np.array([None]))


class Counted(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = np.zeros(3)

    def forward(self, x, a):
        self.table[0] += float(x.sum())
        a[0] += 1
        return x + torch.as_tensor(a).sum() + self.table.sum(), a


def test_a_saved_model_takes_arrays_and_writes_them(tmp_path):
    dy2st.save(to_static(Counted()), tmp_path / "m.dy2st", input_spec=[torch.ones(3), np.arange(3.0)])
    loaded, eager = dy2st_runtime.load(tmp_path / "m.dy2st"), Counted()
    for at in range(3):
        one, two = np.arange(3.0) + at, np.arange(3.0) + at
        expected, result = eager(torch.ones(3) * at, one), loaded(torch.ones(3) * at, two)
        assert same(expected, result) and same(one, two) and result[1] is two
    with pytest.raises(
        dy2st.SignatureError, match="a must be an array of NumPy that can be written, tensor f64.3., but is a tensor"
    ):
        loaded(torch.ones(3), torch.ones(3))
    with pytest.raises(dy2st.SignatureError, match="a must be a tensor f64.3., but is a tensor f64.4."):
        loaded(torch.ones(3), np.ones(4))


class Running:
    """State like that of normalizers and replay buffers."""

    def __init__(self) -> None:
        self.mean, self.log, self.count, self.at = np.zeros(3), np.zeros(20), 1e-4, 0
        self.view, self.alias = self.log[1:], self.log
        self.lists, self.table = [np.zeros(2), np.ones(2)], {"a": np.zeros(2)}


def update_mean(state, x):
    state.mean = state.mean + (x.numpy().mean() - state.mean) * 0.5
    state.count += 1
    if x.sum() > 4:
        state.mean = state.mean * 2
    return torch.as_tensor(state.mean)


def log_item(state, x):
    if x.sum() > 3:
        state.log[state.at] = float(x.sum())
    state.at += 1
    return state.log.sum(), state.view[0], state.alias is state.log


def write_where_a_tensor_says(state, x):
    state.log[int(x.argmax())] = 7
    state.log *= 2
    return state.log, state.log[::-1], state.view.sum()


def write_in_containers(state, x):
    state.alias[0] = float(x[1])
    state.lists[0][1] += 1
    if x.sum() > 3:
        state.table["a"] = state.lists[0]
        state.table["a"][0] += 5
    return state.log[0], state.table["a"] is state.lists[0]


@pytest.mark.parametrize("function", [update_mean, log_item, write_where_a_tensor_says, write_in_containers])
def test_arrays_that_are_state(function):
    eager, state, static = Running(), Running(), to_static(function)
    for at in range(6):
        assert same(function(eager, torch.arange(3.0) * at), static(state, torch.arange(3.0) * at))
        assert same(vars(eager), vars(state))
    before = len(static.program_cache)
    for at in range(6):
        assert same(function(eager, torch.arange(3.0) * at), static(state, torch.arange(3.0) * at))
    assert len(static.program_cache) == before <= 4


def test_an_array_of_a_closure_is_written():
    def make():
        buffer = np.zeros(3)

        def add(x):
            nonlocal buffer
            buffer[1] += float(x.sum())
            if x.sum() > 2:
                buffer = buffer + 1
            return buffer.sum(), buffer

        return add

    eager, static = make(), to_static(make())
    for at in range(5):
        assert same(eager(torch.ones(3) * at), static(torch.ones(3) * at))
    assert len(static.program_cache) <= 2


def in_a_tuple(state, x):
    return x + float(state.pair[0].sum()) + torch.from_numpy(state.pair[1]).sum()


def in_a_default(state, x, arrays=(np.zeros(2),)):
    return x + state.shared.sum() + arrays[0].sum()


def held_by_a_partial(state, x):
    return x + state.partial()


@pytest.mark.parametrize("function", [in_a_tuple, in_a_default, held_by_a_partial])
def test_an_array_that_changes_where_nothing_can_stand_for_it(function):
    state, static = Running(), to_static(function)
    state.shared = in_a_default.__defaults__[0][0]
    state.pair = (np.zeros(2), np.ones(2))
    state.partial = functools.partial(np.sum, state.pair[0])
    for at in range(5):
        state.pair[0][0], state.pair[1][1], state.shared[0] = at, 2 * at, at
        for _ in range(2):
            assert same(function(state, torch.zeros(1)), static(state, torch.zeros(1)))


def written_by_numpy(state, x):
    np.add(state.log, 1, out=state.log)
    if x.sum() > 3:
        np.multiply(state.log, 2, out=state.log)
    return x + state.log[0]


def of_a_class(state, x):
    return x + float(state.kind.shared.sum())


def in_the_memory_of_a_tensor(state, x):
    if x.sum() > 0:
        state.tensor.add_(1)
    x = x + state.log[3]
    state.tensor[3] = 5
    return x + state.log[3]


@pytest.mark.parametrize("function", [written_by_numpy, of_a_class, in_the_memory_of_a_tensor])
def test_arrays_that_change_in_other_ways(function):
    worlds = [Running(), Running()]
    for world in worlds:
        world.kind, world.tensor = type("Kind", (), {"shared": np.zeros(2)}), torch.from_numpy(world.log)
    static = to_static(function)
    for at in range(5):
        for world in worlds:
            world.kind.shared[0] = at
        x = torch.arange(3.0) * at - 1
        assert same(function(worlds[0], x), static(worlds[1], x))
        assert same(worlds[0].log, worlds[1].log)


def test_a_read_only_view_of_an_array_that_changes_is_refused():
    whole = np.zeros(3)
    view = whole[1:]
    view.flags.writeable = False

    def write(x):
        whole[1] = float(x)
        return view.sum()

    with pytest.raises(dy2st.CaptureError, match="an array in memory that changes, that is read-only"):
        to_static(write)(torch.tensor(2.0))
    assert whole.sum() == 0


def test_a_saved_model_has_no_array_to_replace(tmp_path):
    class Replaced(Counted):
        def forward(self, x):
            self.table = self.table + x.numpy()
            return x + self.table.sum()

    with pytest.raises(dy2st.SaveError, match="table is an array that the program replaces"):
        dy2st.save(to_static(Replaced()), tmp_path / "m.dy2st", input_spec=[InputSpec([3])])


def written_through_a_tensor(x):
    a = np.arange(3) + 1
    torch.from_numpy(a).mul_(2)
    return x * 1, a


def written_after_a_tensor(x):
    a = np.arange(3) + 1
    t = torch.from_numpy(a)
    a[0] = 9
    return x * 1, t


def filled_with_a_number(x):
    a = np.arange(3) + 1.0
    a.fill(x.sum().item())
    return a


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (written_through_a_tensor, "mul_ writes to the memory of an array that is known"),
        (written_after_a_tensor, "an array that is known is written to after a tensor was made in its memory"),
        (filled_with_a_number, "an array that is known is written to where tensors decide"),
    ],
)
def test_two_copies_of_a_known_array_are_refused(function, words):
    with pytest.raises(dy2st.CaptureError, match=words):
        to_static(function)(torch.ones(2))


def test_tensors_made_of_known_arrays():
    def made(x):
        a = np.linspace(0, 1, 3)
        return torch.from_numpy(a) * x, torch.as_tensor(a, dtype=torch.float32).mul_(2), torch.tensor(a).add_(1), a

    static = to_static(made)
    for at in range(2):
        assert same(static(torch.ones(3) * at), made(torch.ones(3) * at))


def test_an_array_in_a_tuple_that_was_changed_and_would_have_to_be_an_input():
    state, pair, kept = Running(), (np.zeros(3),), np.zeros(3)

    def change(x):
        np.add(pair[0], 1, out=pair[0])
        state.mean = kept[:2]
        return x * 1

    with pytest.raises(
        dy2st.CaptureError, match="used in a way that cannot be undone, and this capture has to begin again"
    ) as raised:
        to_static(change)(torch.ones(1))
    assert __file__ in str(raised.value)


def test_a_saved_model_keeps_which_arrays_are_views(tmp_path):
    class Viewed(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.whole = np.zeros(4)
            self.view = self.whole[1:3]

        def forward(self, x):
            self.view[:] += x.numpy()
            return self.whole.sum(), self.whole

    dy2st.save(to_static(Viewed()), tmp_path / "m.dy2st", input_spec=[torch.ones(2, dtype=torch.float64)])
    loaded, eager = dy2st_runtime.load(tmp_path / "m.dy2st"), Viewed()
    for at in range(3):
        x = torch.ones(2, dtype=torch.float64) * at
        assert same(eager(x), loaded(x))


def test_a_saved_model_writes_its_own_state_where_that_was_the_example(tmp_path):
    eager, saved = Counted(), Counted()
    dy2st.save(to_static(saved), tmp_path / "m.dy2st", input_spec=[torch.ones(3), saved.table])
    loaded = dy2st_runtime.load(tmp_path / "m.dy2st")
    for at in range(3):
        one, two = np.arange(3.0) + at, np.arange(3.0) + at
        assert same(eager(torch.ones(3) * at, one), loaded(torch.ones(3) * at, two)) and same(one, two)
