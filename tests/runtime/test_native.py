"""The native executor does what the reference executor and eager do: numbers, lists, small tensors, errors, threads."""

from __future__ import annotations

import gc
import itertools
import math
import operator
import signal
import threading
import traceback
import weakref
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dy2st
from dy2st_runtime import Block, executors
from dy2st_runtime.executors.native import build
from dy2st_runtime.executors.native.lowering import lower
from dy2st_runtime.primitives import control, scalars
from tests.oracle import same
from tests.runtime.build import Make, aten, program

pytestmark = pytest.mark.skipif(build.library() is None, reason="there is no compiler")


def outcome(run: Any, values: Any) -> Any:
    """What a run gives, or the type and the message of what it raises."""
    try:
        return run(list(values))
    except Exception as error:
        return type(error), str(error)


def both(block: Block, values: Any) -> Any:
    """Run a block on both executors, compare, and give what the native one gives."""
    made = program(block)
    found, expected = (outcome(executors.runner(made, name), values) for name in ("native", "python"))
    same(expected, found, f"{values}")
    return found


def function_of(target: Any, count: int) -> Block:
    make = Make()
    return make.output(make.call(target, *make.inputs(*"abc"[:count])))


NUMBERS = (0, 1, -1, 2, -3, 7, 2**31, 2**53 + 1, 2**62, -(2**63), 2**63 - 1, 2**63, True, False)
NUMBERS += (0.0, -0.0, 0.5, -1.5, 2.5, 1e-300, 1e300, -7.25, math.inf, -math.inf, math.nan, 9.3e18)
BINARY = "add sub mul truediv floordiv mod eq ne lt le gt ge and_ or_ xor is_".split()


@pytest.mark.parametrize("name", BINARY)
def test_operators_on_numbers_agree_with_the_reference(name: str) -> None:
    block = function_of(getattr(operator, name), 2)
    made = program(block)
    runs = [executors.runner(made, backend) for backend in ("native", "python")]
    for a, b in itertools.product(NUMBERS, NUMBERS):
        if name == "is_" and (type(a) is not bool or type(b) is not bool):
            continue  # which numbers are one object is Python's own business
        found, expected = (outcome(run, (a, b)) for run in runs)
        assert repr(found) == repr(expected), f"{a!r} {name} {b!r}: {found}, expected {expected}"


def test_powers_of_numbers_agree_with_the_reference() -> None:
    made = program(function_of(operator.pow, 2))
    runs = [executors.runner(made, backend) for backend in ("native", "python")]
    for a, b in itertools.product(
        (0, 1, -1, 2, -3, 10, 0.0, 0.5, -1.5, 1e300, True, math.inf), (0, 1, 2, 3, 62, 63, -1, 0.5, -2.0, 400.0)
    ):
        found, expected = (outcome(run, (a, b)) for run in runs)
        assert repr(found) == repr(expected), f"{a!r} ** {b!r}: {found}, expected {expected}"


ONE = [
    "operator.neg",
    "operator.pos",
    "operator.abs",
    "operator.invert",
    "operator.not_",
    "round",
    "scalar.to_int",
    "scalar.to_float",
]
ONE += [
    "scalar.to_bool",
    "scalar.logical_not",
    *(f"math.{name}" for name in "sqrt exp log log2 sin cos tan tanh atan floor ceil".split()),
]
ONE += [f"math.{name}" for name in "trunc isnan isinf isfinite log10 gamma erf".split()]


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name: str) -> None:
    made = program(function_of(scalars.TARGETS[name], 1))
    runs = [executors.runner(made, backend) for backend in ("native", "python")]
    for value in NUMBERS:
        found, expected = (outcome(run, (value,)) for run in runs)
        assert repr(found) == repr(expected), f"{name}({value!r}): {found}, expected {expected}"


@pytest.mark.parametrize(
    "name", ["scalar.minimum", "scalar.maximum", "scalar.logical_and", "scalar.logical_or", "scalar.where", "math.log"]
)
def test_functions_of_several_numbers(name: str) -> None:
    count = 2 if name == "math.log" else 3
    made = program(function_of(scalars.TARGETS[name], count))
    runs = [executors.runner(made, backend) for backend in ("native", "python")]
    values = (0, 1, -2, 8, 2.0, -0.0, 0.0, math.nan, True, False, 2**53 + 1)
    for given in itertools.product(values, repeat=count):
        found, expected = (outcome(run, given) for run in runs)
        assert repr(found) == repr(expected), f"{name}{given}: {found}, expected {expected}"


def test_lengths_of_ranges_agree_with_the_reference() -> None:
    made = program(function_of(scalars.range_length, 3))
    runs = [executors.runner(made, backend) for backend in ("native", "python")]
    for given in itertools.product((0, 3, -4, 10, 2**62), (0, 5, -7, 2**62), (1, 2, -1, -3, 0)):
        found, expected = (outcome(run, given) for run in runs)
        assert repr(found) == repr(expected), given


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.uint8]
)
@pytest.mark.parametrize("shape", [(), (1,), (2,), (0,)])
@pytest.mark.parametrize("target", [scalars.to_int, scalars.to_float, scalars.to_bool, aten.item.default])
def test_numbers_read_from_tensors_agree_with_the_reference(dtype: torch.dtype, shape: Any, target: Any) -> None:
    for value in (0, 1, 2.75):
        both(function_of(target, 1), [torch.full(shape, value).to(dtype)])


def on_list(*operations: Any) -> Block:
    """A list of the inputs, changed in turn; gives what each operation gives, the list, and its length."""
    make = Make()
    a, b, c = make.inputs(*"abc")
    items = make.call(control.list_, [a, b, c])
    made = [make.call(target, items, *(x if x != "list" else items for x in args)) for target, *args in operations]
    return make.output(*made, items, items, make.call(control.list_len, items))


LISTS: dict[str, list[Any]] = {
    "append": [(control.list_append, 4)],
    "append itself": [(control.list_extend, "list")],
    "extend": [(control.list_extend, [7, 8]), (control.list_extend, (9,))],
    "insert": [
        (control.list_insert, 0, 5),
        (control.list_insert, -1, 6),
        (control.list_insert, 99, 7),
        (control.list_insert, -99, 8),
    ],
    "set": [(control.list_set, -1, 5), (control.list_set, 0, 6)],
    "set beyond": [(control.list_set, 3, 5)],
    "pop": [(control.list_pop,), (control.list_pop, 0)],
    "pop beyond": [(control.list_pop, 7)],
    "pop empty": [(control.list_clear,), (control.list_pop,)],
    "get": [(control.list_get, -1), (control.list_get, 1)],
    "get beyond": [(control.list_get, -4)],
    "slice": [(control.list_slice, slice(*bounds)) for bounds in ((1, None), (None, None, -1), (-2, 99), (5, 0, -2), (-99, -1, 2))],
    "slice of step zero": [(control.list_slice, slice(None, None, 0))],
    "delete": [(control.list_delete, 1), (control.list_delete, slice(0, 1))],
    "assign": [(control.list_assign, slice(0, 2), [9]), (control.list_append, 1)],
    "reverse": [(control.list_reverse,)],
    "copy and concat": [(control.list_copy,), (control.list_concat, [4]), (control.list_concat, "list")],
    "concat with a tuple": [(control.list_concat, (4,))],
    "order and take": [(control.list_order, True), (control.list_take, [2, 0, -1])],
    "find": [(control.list_find, key) for key in (1, 2.0, True, 7, 2.5, "a", None, (1, 2))],
    "find among others": [
        (control.list_assign, slice(None), [1, 2.5, None, (1, (2.0, None)), (1, 2, 3), 2**62 + 1, False]),
        *((control.list_find, key) for key in (2.5, (1.0, (2, None)), (1, 2), None, 0, float(2**62), 2**62 + 1, (1, 2, 4))),
    ],
    "find again and again": [
        *((control.list_append, number) for number in range(4, 40)),
        *((control.list_find, number % 45) for number in range(0, 120, 3)),
        (control.list_delete, 5),
        *((control.list_find, number) for number in (4, 5, 6, 39, 40)),
        (control.list_append, 77),
        *((control.list_find, number % 80) for number in range(0, 400, 7)),
        (control.list_set, 3, 500),
        *((control.list_find, number) for number in (4, 6, 77, 500)),
        (control.list_append, "text"),
        *((control.list_find, number) for number in (39, 77, 500, 501, "text", 6.0)),
    ],
    "repeat": [(control.list_repeat, 2)],
    "text": [(control.list_append, "a"), (control.list_get, 3), (control.list_pop,)],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_agree_with_the_reference_and_stay_one_object(name: str) -> None:
    found = both(on_list(*LISTS[name]), [3, 1, 2])
    if isinstance(found, tuple) and not isinstance(found[0], type):
        assert found[-3] is found[-2], "one list is one object"


def test_a_list_that_python_has_seen_stays_one_list() -> None:
    seen: list[Any] = []

    def look(items: Any) -> None:
        seen.append(items)
        items.append("from Python")

    make = Make()
    (x,) = make.inputs("x")
    items = make.call(control.list_, [x])
    make.call(control.call_, look, (items,), {})
    make.call(control.list_append, items, x)
    (found,) = executors.runner(program(make.output(items)), "native")([1])
    assert found == [1, "from Python", 1] and found is seen[0]


TENSOR_PAIRS = [
    ((3, 4), (3, 4)),
    ((3, 4), ()),
    ((), (3, 4)),
    ((), ()),
    ((3, 4), (4,)),
    ((8, 1), ()),
    ((1, 8), (1, 8)),
    ((70, 70), (70, 70)),
]


@pytest.mark.parametrize("name", "add sub mul div lt le gt ge eq ne".split())
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bfloat16])
def test_operations_on_small_tensors_agree_with_eager(name: str, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    overload = getattr(aten, name).Tensor
    specials = (
        torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, 1.0]) if dtype.is_floating_point else torch.tensor([0, 1, -5])
    )
    for left, right in TENSOR_PAIRS:
        a, b = (torch.randn(shape, generator=generator).mul(3).to(dtype) for shape in (left, right))
        for x, y in ((a, b), (a.t(), b.t()) if left == right else (a, b), (a, a)):
            compare_small(overload, x, y)
    compare_small(
        overload, specials.to(dtype)[:, None].expand(-1, len(specials)).contiguous(), specials.to(dtype).repeat(len(specials), 1)
    )
    with_number = overload if name in ("add", "sub", "mul", "div") else getattr(aten, name).Scalar
    for number in (2, -1, 0, 0.1, 1e40, -0.0, 2**53 + 1, *((True,) if name != "sub" else ())):
        compare_small(with_number, torch.randn(3, 4, generator=generator).to(dtype), number)


def compare_small(overload: Any, x: Any, y: Any) -> None:
    """Compare one operation with eager: as it is, and in the memory of an operand that is not read again."""
    make = Make()
    a, b = make.inputs("a", "b")
    first = make.call(overload, a, b if isinstance(y, torch.Tensor) else y)
    fresh = make.call(aten.clone.default, a)
    second = make.call(overload, fresh, b if isinstance(y, torch.Tensor) else y)
    block = make.output(first, second, a, b)
    inputs = [x, y if isinstance(y, torch.Tensor) else 0]
    before = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
    found = executors.runner(program(block), "native")(inputs)
    expected = overload(x, y)
    for made in found[:2]:
        same(expected, made)
        assert made.stride() == expected.stride() and made._version == 0
        assert torch.equal(torch.signbit(made), torch.signbit(expected)) or made.dtype == torch.bool
    same(before, inputs)
    assert found[2] is x


def test_memory_is_not_taken_from_what_others_see() -> None:
    def f(x: Any) -> Any:
        kept = []
        y = x * 2
        view = y[0]
        kept.append(y)
        y = y + 1  # the list still holds the old one
        z = y * 3
        y = z + view
        for _ in range(3):
            kept.append(y)
            y = y * 2 + kept[-1]
        return x, y, kept, view

    static = dy2st.to_static(f, backend="native")
    with torch.no_grad():
        for scale in (1.0, 2.0):
            x = torch.randn(3, 3) * scale
            same(f(x), static(x))
            same(f(x), static(x))
    numpy = pytest.importorskip("numpy")
    array = numpy.ones(4, dtype=numpy.float32)

    make = Make()
    (x,) = make.inputs("x")
    shared = make.call(control.call_, torch.from_numpy, (array,), {})
    block = make.output(make.call(aten.mul.Tensor, shared, 2.0))
    executors.runner(program(block), "native")([torch.ones(1)])
    assert array.tolist() == [1.0] * 4


def test_versions_views_and_gradient_flags() -> None:
    weight = torch.nn.Parameter(torch.randn(3, 3))

    def f(x: Any, buffer: Any) -> Any:
        buffer.add_(1)
        buffer[0].mul_(2)
        y = x.t()
        return y, y[1:], weight.t(), x * 2, buffer.view(-1)

    static = dy2st.to_static(f, backend="native")
    for mode in (torch.no_grad, torch.enable_grad):
        with mode():
            x, eager, own = torch.randn(3, 3), torch.zeros(3, 3), torch.zeros(3, 3)
            expected, found = f(x, eager), static(x, own)
            same(expected, found)
            assert own._version == eager._version
            for a, b in zip(expected, found):
                assert a._is_view() == b._is_view() and a.requires_grad == b.requires_grad and a._version == b._version
            assert found[0]._base is x and found[2]._base is weight


def loop(x: Any, n: Any) -> Any:
    i = 0
    while i < n:
        x = x * 0.5 + torch.tanh(x)
        i = i + 1
    return x, i


def test_threads_share_a_program() -> None:
    static = dy2st.to_static(loop, backend="native")
    inputs = [(torch.randn(4, 4), torch.tensor(50 + index)) for index in range(16)]
    static(*inputs[0])
    barrier = threading.Barrier(8)

    def work(index: int) -> Any:
        barrier.wait(timeout=30)
        return [static(*inputs[(index + step) % len(inputs)]) for step in range(20)]

    expected = [loop(*given) for given in inputs]
    with ThreadPoolExecutor(8) as pool:
        for index, results in enumerate(pool.map(work, range(8))):
            for step, result in enumerate(results):
                same(expected[(index + step) % len(inputs)], result)


def test_modes_and_subclasses_see_every_operation() -> None:
    static = dy2st.to_static(loop, backend="native")
    x, n = torch.randn(2, 2), torch.tensor(2)
    static(x, n)
    seen: list[str] = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append("function")
            return func(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    run = executors.runner(static.program(x, n), "native")
    for mode in (Functions(), Operators()):
        seen.clear()
        with mode:
            result = run([x, n])
        assert len(seen) > 4, mode
        same(loop(x, n)[0], result[0])


def test_profilers_see_the_operations_of_a_loop() -> None:
    static = dy2st.to_static(loop, backend="native")
    x, n = torch.randn(2, 2), torch.tensor(3)
    static(x, n)
    with torch.profiler.profile() as profile:
        static(x, n)
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["aten::tanh"] == 3 and counts["aten::mul"] == 3


def failing(x: Any) -> Any:
    with torch.no_grad():
        y = x * 2
        if y.sum() > 0:
            y = y.view(7)
        else:
            y = y[9]
    return y


def test_errors_name_the_line_and_modes_are_put_back() -> None:
    static = dy2st.to_static(failing, backend="native")
    for value, line in ((1.0, "y = y.view(7)"), (-1.0, "y = y[9]")):
        x = torch.full((3,), value)
        with pytest.raises((RuntimeError, IndexError)) as expected:
            failing(x)
        with pytest.raises(type(expected.value)) as found:
            static(x)
        assert torch.is_grad_enabled()
        assert type(found.value) is type(expected.value) and str(found.value) == str(expected.value)
        assert line in "".join(traceback.format_exception(found.value))


def test_autocast_is_left_after_an_error() -> None:
    def f(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            if y.sum() > 0:
                raise ValueError(f"sum is {float(y.sum())}")
        return y

    static = dy2st.to_static(f, backend="native")
    with pytest.raises(ValueError, match=r"sum is 8\.0"):
        static(torch.ones(2, 2))
    assert not torch.is_autocast_enabled("cpu")
    same(f(torch.zeros(2, 2)), static(torch.zeros(2, 2)))


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs a timer")
def test_interrupts_end_a_loop_without_end() -> None:
    static = dy2st.to_static(loop, backend="native")
    static(torch.ones(2), torch.tensor(2))

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(KeyboardInterrupt):
            static(torch.ones(2), torch.tensor(2**60))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    same(loop(torch.ones(2), torch.tensor(2)), static(torch.ones(2), torch.tensor(2)))


def test_registers_are_emptied_at_the_last_use() -> None:
    make = Make()
    (x,) = make.inputs("x")
    y = make.call(aten.tanh.default, x)
    z = make.call(aten.exp.default, y)
    lowered = lower(program(make.output(make.call(aten.neg.default, z))))
    dead = [instruction.dead for instruction in lowered.instructions]
    assert dead == [[], [1], [2], []]


def test_reports_name_what_python_calls() -> None:
    def f(x: Any) -> Any:
        return torch.fft.fftfreq(4) + x, torch.linalg.eig(x)

    static = dy2st.to_static(f, backend="native")
    static(torch.eye(4))
    assert not static.report().in_python
    library = torch.library.Library("dy2st_test_native", "DEF")
    library.define("named(Tensor x, str[] names) -> Tensor")
    library.impl("named", lambda x, names: x * len(names), "CompositeExplicitAutograd")
    library.impl("named", lambda x, names: torch.empty_like(x), "Meta")
    static = dy2st.to_static(lambda x: torch.ops.dy2st_test_native.named(x, ["a", "b"]), backend="native")
    assert static(torch.ones(2)).tolist() == [2.0, 2.0]
    ((operator, location),) = static.report().in_python
    assert operator == "dy2st_test_native::named" and location is not None and location.file == __file__
    assert "dy2st_test_native::named: has no native form" in str(static.report())


def test_a_program_goes_with_what_it_calls() -> None:
    class Net(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return self.outside(x) + 1

        @dy2st.not_to_static
        def outside(self, x: Any) -> Any:
            return x.detach() * 2

    def use() -> weakref.ref[Any]:
        net = dy2st.to_static(Net(), backend="native")
        assert net(torch.ones(2)).tolist() == [3.0, 3.0]
        return weakref.ref(net)

    gone = use()
    gc.collect()
    assert gone() is None


def test_arguments_of_every_kind_have_a_native_form() -> None:
    def f(x: Any, n: int) -> Any:
        yield x.argmax(None, True)
        yield x.clamp(None, 0.5), x.clamp(min=0), x.clamp(-0.5, 0.5)
        yield x[1:], x[:, :n], x[None], x[..., -1], x[[0, 1]], x[x > 0]
        yield x.sum(), x.sum(0), x.sum((0, 1), keepdim=True), x.mean(1, dtype=torch.float64), x.max(1), x.std(dim=1, correction=0)
        yield x.to(torch.float64), x.to("cpu"), x.to(memory_format=torch.contiguous_format), x.double().long().bool()
        yield torch.zeros(2, n), torch.full((n,), 2.5), torch.arange(n), torch.ones_like(x, dtype=torch.int32), x.new_zeros(n, n)
        yield torch.cat([x, x]), torch.stack((x, x), 1), x.chunk(2), x.split([1, 2]), x.unbind(1), torch.einsum("ij,kj->ik", x, x)
        yield (
            torch.nn.functional.gelu(x, approximate="tanh"),
            x.softmax(-1),
            x.pow(2),
            2**x,
            x.norm(),
            x / 3,
            x // 2,
            x.div(2, rounding_mode="floor"),
        )
        yield (
            x.repeat(2, n),
            x.view(-1),
            x.reshape(n, -1),
            x.flip(0),
            x.roll(1, 0),
            x.sort(1, descending=True),
            x.topk(2, 1),
            x.cumsum(0),
        )
        yield torch.where(x > 0, x, 0.0), x.masked_fill(x < 0, 1.5), torch.nn.functional.pad(x, (1, 2)), x.tril(), x.expand(2, 3, 3)
        yield torch.nn.functional.interpolate(x[None, None], scale_factor=2.0), torch.nn.functional.avg_pool2d(x[None], 2)

    x = torch.randn(3, 3)

    def whole(x: Any, n: Any) -> Any:
        return list(f(x, 3))

    static = dy2st.to_static(whole, backend="native")
    with torch.no_grad():
        for scale in (1, -2):
            same(whole(x * scale, 3), static(x * scale, 3))
    assert static.report().in_python == ()


def functions_of_one(x: Any, n: Any) -> Any:
    """Some operands are not read again, others are seen under another name, or are the caller's."""
    kept = x.exp()
    flat = kept.t()
    results = [kept.tanh(), x.sin(), x.neg(), (x + 1).abs().sqrt().log(), (x * 2).sigmoid(), (x - 1).relu().cos()]
    results += [
        (x + 2).rsqrt(),
        torch.nn.functional.silu(x.float() + 3),
        (x + 4).reciprocal(),
        (x.t() + 1).exp(),
        (x > 0).exp(),
        (n + 1).tanh(),
    ]
    i = n - n
    while i < n:
        x = (x * 0.5).tanh()
        i = i + 1
    return flat, x, i, results


def whole_numbers(n: Any) -> Any:
    """Integers wrap around."""
    big = n + 9223372036854775800
    return big + n, big * n, n - big, n * 3 - 1, big - 9223372036854775807 * n


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_memory_of_what_is_not_read_again_takes_the_result(dtype: torch.dtype) -> None:
    x = (torch.arange(12).view(3, 4) - 5).to(dtype)
    fast = dy2st.to_static(functions_of_one, backend="native")
    for trips in (0, 5):
        for given in (x, x.t()):
            expected, found = functions_of_one(given, torch.tensor(trips)), fast(given, torch.tensor(trips))
            torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
            for a, b in zip(torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(expected), strict=True):
                assert (a._version, a.dtype, a.stride()) == (b._version, b.dtype, b.stride())
    for value in (-7, 0, 3, 2**62):
        n = torch.tensor([value, 5])
        torch.testing.assert_close(dy2st.to_static(whole_numbers)(n), whole_numbers(n), rtol=0, atol=0)
