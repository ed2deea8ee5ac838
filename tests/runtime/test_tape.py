"""Gradients that the native executor notes itself are those of autograd: bit for bit, with hooks, errors and all."""

from __future__ import annotations

import gc
import importlib.util
import random
import threading
import weakref

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import dy2st
from dy2st_runtime.executors.native import build

pytestmark = pytest.mark.skipif(build.library() is None, reason="the native executor cannot be built here")


def static(function):
    return dy2st.to_static(function, backend="native")


def bits(value):
    return value.detach().contiguous().view(-1).view(torch.uint8)


def equal(ours, theirs):
    """Bit for bit, signs of zeros among them."""
    if theirs is None or ours is None:
        return ours is theirs
    if isinstance(theirs, (list, tuple)):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    same = ours.shape == theirs.shape and ours.dtype == theirs.dtype
    return same and bits(ours).equal(bits(theirs))


def leaves(values):
    return [value for value in values if isinstance(value, torch.Tensor) and value.requires_grad]


def again(values):
    """The same values, of their own."""
    made = []
    for value in values:
        if isinstance(value, torch.Tensor):
            own = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value.detach())
            made.append(own.requires_grad_(value.requires_grad))
        else:
            made.append(value)
    return made


def weighed(function, values):
    results = function(*values)
    results = [results] if isinstance(results, torch.Tensor) else list(results)
    wanted = [result for result in results if result.requires_grad]
    return results, wanted, [torch.linspace(0.5, 1.5, value.numel(), dtype=value.dtype).view(value.shape) for value in wanted]


def gradients(function, values):
    """The results and their gradients."""
    results, wanted, weights = weighed(function, values)
    inputs = leaves(values)
    found = torch.autograd.grad(wanted, inputs, weights, retain_graph=True, allow_unused=True)
    torch.autograd.backward(wanted, weights)
    return [*results, *found, *(value.grad for value in inputs)]


def second_gradients(function, values):
    """Gradients, as part of the graph, and their own gradients."""
    _, wanted, weights = weighed(function, values)
    inputs = leaves(values)
    found = torch.autograd.grad(wanted, inputs, weights, create_graph=True, allow_unused=True)
    squares = [value.square().sum() for value in found if value is not None and value.requires_grad]
    return found, torch.autograd.grad(squares, inputs, allow_unused=True) if squares else []


def others(values):
    """Other numbers of the same kinds."""
    return [
        (value.detach() * -1.25).requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for value in values
    ]


def check(ours, theirs):
    for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        assert equal(our, their), f"{index}: {our} instead of {their}"


def agree(function, *calls):
    """A program and its function do the same with each call; with gradients of gradients but for rounding, the first time."""
    compiled = static(function)
    for values in (*calls, others(calls[0])):
        check(gradients(compiled, again(values)), gradients(function, again(values)))
    assert len(compiled.program_cache) == 1
    twice = static(function)
    first, second = second_gradients(function, again(calls[0]))
    ours, our_second = second_gradients(twice, again(calls[0]))
    check(ours, first)
    for our, their in zip(our_second, second, strict=True):
        torch.testing.assert_close(our, their, rtol=1e-3, atol=1e-4)
    ours, our_second = second_gradients(twice, again(calls[0]))
    check(ours, first)
    check(our_second, second)


def is_noted(result):
    return result.grad_fn.name() == "ProgramBackward"


def numbers(*shape, seed=0, dtype=torch.float32):
    made = torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * 2 - 0.7
    return made


ONE = {
    "neg": lambda x: -x,
    "exp": lambda x: torch.exp(x),
    "log": lambda x: torch.log(x.abs() + 0.5),
    "sin": lambda x: torch.sin(x),
    "cos": lambda x: torch.cos(x),
    "abs": lambda x: x.abs(),
    "sqrt": lambda x: (x * x + 1).sqrt(),
    "rsqrt": lambda x: (x * x + 1).rsqrt(),
    "reciprocal": lambda x: 1 / (x + 3),
    "tanh": lambda x: torch.tanh(x),
    "sigmoid": lambda x: torch.sigmoid(x),
    "relu": lambda x: torch.relu(x),
    "silu": lambda x: F.silu(x),
    "square": lambda x: torch.square(x),
    "pow": lambda x: x**3 + x**2 + (x + 2) ** -0.2 + (x + 2) ** 1.5 + x**1,
    "power of zero": lambda x: (x.relu() * 0) ** 0 * x + x**0.0,
    "clamp": lambda x: x.clamp(-0.25, 0.5) + x.clamp(min=0.1) * x.clamp(max=0.3),
    "sum": lambda x: x * x.sum(),
    "mean": lambda x: x * x.mean(),
    "numbers": lambda x: (2 * x + 1 - 0.1) / 3 - (1 - x) * (0.5 - x),
    "twice": lambda x: x * x / (x + 2),
}
TWO = {
    "add": lambda x, y: torch.add(x, y),
    "sub": lambda x, y: torch.sub(x, y),
    "mul": lambda x, y: torch.mul(x, y),
    "div": lambda x, y: x / (y + 2),
    "rsub": lambda x, y: torch.rsub(x, y),
    "minimum": lambda x, y: torch.minimum(x, y),
    "maximum": lambda x, y: torch.maximum(x, y),
}
LAYOUTS = {
    "rows": lambda dtype: numbers(3, 4, dtype=dtype),
    "columns": lambda dtype: numbers(4, 3, dtype=dtype).t(),
    "one": lambda dtype: numbers(1, dtype=dtype),
    "scalar": lambda dtype: numbers(dtype=dtype),
    "large": lambda dtype: numbers(70, 80, dtype=dtype),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_tensor(name, layout, dtype):
    x = LAYOUTS[layout](dtype).requires_grad_()
    agree(ONE[name], [x])
    assert is_noted(static(ONE[name])(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "shapes", [((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 4), ()), ((), (3, 4)), ((3, 1), (1, 4)), ((), ())]
)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_tensors(name, shapes, dtype):
    x, y = (numbers(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes))
    for a, b in (
        (x, y),
        (x, y.clone().requires_grad_()),
        (x.clone().requires_grad_(), y),
        (x.requires_grad_(), y.requires_grad_()),
    ):
        if leaves([a, b]):
            agree(TWO[name], [a, b])


def test_equal_elements_share_the_gradient_of_an_extremum():
    x = numbers(5).requires_grad_()
    y = x.detach().clone()
    y[1] += 1
    y[2] -= 1
    for name in ("minimum", "maximum"):
        agree(TWO[name], [x, y.clone().requires_grad_()])


PRODUCTS = {
    "mm": lambda x, w: torch.mm(x, w),
    "matmul": lambda x, w: x @ w,
    "addmm": lambda x, w: torch.addmm(x.sum(), x, w),
    "linear": lambda x, w: F.linear(x, w.t() * 1),
    "bias": lambda x, w: F.linear(x, (w * 2).t().contiguous(), w.sum(0)),
}


@pytest.mark.parametrize("size", [(3, 4, 5), (1, 4, 5), (3, 1, 5), (3, 4, 1), (1, 1, 1), (1, 4, 1), (40, 33, 50)])
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_of_products_agree_with_autograd(name, size):
    rows, inner, columns = size
    for x in (numbers(rows, inner), numbers(inner, rows).t()):
        for w in (numbers(inner, columns, seed=1), numbers(columns, inner, seed=1).t()):
            for needs in ((True, True), (True, False), (False, True)):
                values = [
                    value.clone(memory_format=torch.preserve_format).requires_grad_(need) for value, need in zip((x, w), needs)
                ]
                agree(PRODUCTS[name], values)


def test_gradients_of_layers_are_noted_and_agree_with_autograd():
    x, w, b = numbers(5, 4), numbers(3, 4, seed=1), numbers(3, seed=2)
    for needs in ((1, 1, 1), (0, 1, 1), (1, 0, 0), (0, 0, 1)):
        values = [value.clone().requires_grad_(bool(need)) for value, need in zip((x, w, b), needs)]
        agree(lambda x, w, b: F.linear(torch.tanh(F.linear(x, w, b)), w.t() * 1).sum(), values)
        assert is_noted(static(lambda x, w, b: F.linear(x, w, b))(*values))


def recurrent(x, w, trips):
    h, outs = torch.zeros(2, 4, dtype=x.dtype), []
    for _ in range(int(trips)):
        h = torch.tanh(h @ w + x) * 0.5 + h
        outs.append(h)
        if h.sum() > 1:
            h = h * 0.9
        else:
            h = h + w[0]
    return [h, *outs[-2:]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_of_loops_with_branches_agree_with_autograd(dtype):
    x, w = numbers(2, 4, dtype=dtype).requires_grad_(), numbers(4, 4, seed=1, dtype=dtype).requires_grad_()
    agree(recurrent, *([x, w, torch.tensor(trips)] for trips in (3, 2, 7, 30)))


OPERATIONS = [
    lambda v, i, j: v[i] * v[j],
    lambda v, i, j: v[i] + v[j],
    lambda v, i, j: v[i] - 0.5 * v[j],
    lambda v, i, j: torch.tanh(v[i]),
    lambda v, i, j: v[i] @ v[j],
    lambda v, i, j: F.linear(v[i], v[j]),
    lambda v, i, j: v[i] * v[j].mean(),
    lambda v, i, j: v[i] / (v[j].square() + 1),
    lambda v, i, j: v[i].sigmoid(),
    lambda v, i, j: torch.maximum(v[i], v[j]),
    lambda v, i, j: v[i].t(),
    lambda v, i, j: v[i][1:2] + v[j],
    lambda v, i, j: v[i].softmax(-1),
    lambda v, i, j: torch.cat([v[i][:2], v[j][2:]]),
    lambda v, i, j: v[i].detach() * v[j],
    lambda v, i, j: v[i].cumsum(0) * 0.1,
    lambda v, i, j: v[i].clone().mul_(0.5),
    lambda v, i, j: v[i] if v[j].sum() > 0 else v[i] * 2,
    lambda v, i, j: torch.where(v[i] > 0, v[i], v[j]),
]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=25),
    st.lists(st.integers(0, 40), min_size=1, max_size=4),
    st.booleans(),
)
def test_any_order_of_operations(steps, chosen, half):
    def run(x, w, c):
        values = [x, w, c]
        for operation, i, j in steps:
            values.append(OPERATIONS[operation](values, i % len(values), j % len(values)))
        return [values[index % len(values)] * 1 for index in chosen] + values[-1:]

    values = [numbers(4, 4).requires_grad_(), numbers(4, 4, seed=1).requires_grad_(not half), numbers(4, 4, seed=2)]
    run(*again(values))
    if any(result.requires_grad for result in run(*again(values))):
        agree(run, values)


# -- what others see ---------------------------------------------------------------------------------------------------------------


def chain(x, w):
    a = torch.tanh(x * w)
    b = a * 2 + x
    c = b * a
    return a, b, c.sum()


def both(scenario):
    """What happens with a function as it is written, and with its program."""
    found = []
    for function in (chain, static(chain)):
        x, w = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
        found.append(scenario(function, x, w))
    assert equal(found[1], found[0])


def test_hooks_see_the_whole_gradient():
    def scenario(function, x, w):
        seen = []
        results = function(x, w)
        for result in results:
            result.register_hook(seen.append)
            result.retain_grad()
        sum(result.sum() for result in results).backward()
        return [*seen, *(result.grad for result in results), x.grad, w.grad]

    both(scenario)


def test_hooks_change_the_gradient():
    def scenario(function, x, w):
        results = function(x, w)
        results[0].register_hook(lambda gradient: gradient * 3)
        results[1].register_hook(lambda gradient: gradient - 1)
        sum(result.sum() for result in results).backward()
        return [x.grad, w.grad]

    both(scenario)


def test_hooks_of_parameters_are_called_in_the_order_of_eager():
    def scenario(function, x, w):
        order = []
        x.register_hook(lambda gradient: order.append(torch.tensor(0)))
        w.register_post_accumulate_grad_hook(lambda gradient: order.append(torch.tensor(1)))
        function(x, w)[2].backward()
        return [*order, x.grad, w.grad]

    both(scenario)


def test_gradients_with_respect_to_results_agree_with_autograd():
    def scenario(function, x, w):
        a, b, c = function(x, w)
        return [
            *torch.autograd.grad(c, [a, b], retain_graph=True),
            *torch.autograd.grad(c, [a], retain_graph=True),
            *torch.autograd.grad(b.sum(), [a, x], retain_graph=True),
            *torch.autograd.grad(c, [w], retain_graph=True),
            *torch.autograd.grad(a.sum(), [x]),
        ]

    both(scenario)


def test_only_some_results_have_gradients():
    def scenario(function, x, w):
        a, b, _ = function(x, w)
        torch.autograd.backward([b], [torch.tensor([0.0, -1.0, 2.0])])
        kept = [x.grad.clone(), w.grad.clone()]
        a, b, _ = function(x, w.detach())
        a.sum().backward()
        return [*kept, x.grad, w.grad]

    both(scenario)


def test_a_gradient_that_is_not_there_is_not_a_zero():
    def function(x, y):
        return x * 2, (y * 0).sqrt()

    x, y = numbers(3).requires_grad_(), numbers(3).requires_grad_()
    static(function)(x, y)[0].sum().backward()
    assert y.grad is None

    def root(x):
        y = (x * 0).sqrt()
        return x * 3, y

    static(root)(x)[0].sum().backward()
    assert x.grad.tolist() == [5, 5, 5]  # no NaN from the root


def test_errors_of_backward_are_those_of_autograd():
    def scenario(function, x, w):
        texts = []
        a, _, c = function(x, w)
        c.backward(retain_graph=True)
        c.backward()
        for wrong in (lambda: c.backward(), lambda: a.sum().backward()):
            with pytest.raises(RuntimeError, match="second time") as error:
                wrong()
            texts.append(str(error.value))
        for change in (
            lambda a, b: a.add_(1),
            lambda a, b: w.detach().add_(1),
            lambda a, b: b.mul_(2),
            lambda a, b: x.data.add_(1),
        ):
            a, b, c = function(x, w)
            change(a, b)
            try:
                c.backward()
                texts.append("no error")
            except RuntimeError as error:
                texts.append(str(error).partition("which is output")[0].partition("Hint")[0])
        assert texts == told or not told
        told[:] = texts
        return [x.grad, w.grad]

    told = []
    both(scenario)
    assert len(set(told)) >= 3 and "modified by an inplace operation" in told[2]


def test_a_sum_has_no_need_of_its_operands():
    def function(x, y):
        return x + y, (x - y).sum()

    x, y = numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()
    a, b = static(function)(x, y)
    with torch.no_grad():
        x.add_(1)
    for _ in range(2):  # and can go backward twice
        (a.sum() + b).backward()
    assert x.grad.tolist() == [4, 4, 4] and y.grad.tolist() == [0, 0, 0]


def test_gradients_of_many_directions():
    def scenario(function, x, w):
        _, b, _ = function(x, w)
        return list(torch.autograd.grad(b, [x, w], torch.eye(3), is_grads_batched=True))

    both(scenario)


def test_nothing_is_noted_while_others_watch():
    def function(x, w):
        return (torch.tanh(x @ w) * x).sum()

    compiled = static(function)
    x, w = numbers(4, 4).requires_grad_(), numbers(4, 4, seed=1).requires_grad_()
    assert is_noted(compiled(x, w))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        compiled(x, w)
    assert packed
    with torch.autograd.detect_anomaly(check_nan=False):
        assert not is_noted(compiled(x, w))
    with torch.autocast("cpu", torch.bfloat16):
        assert not is_noted(compiled(x, w))
    with torch.no_grad():
        assert not compiled(x, w).requires_grad
    for run in (compiled, function):
        x.grad = None
        checkpoint(run, x, w, use_reentrant=False).backward()
        packed.append(x.grad)
    assert equal(packed[-1], packed[-2])


def test_other_dtypes_and_kinds_of_tensors_go_through_autograd():
    def function(x):
        return (x * 2 + 1).tanh()

    for x in (
        numbers(3).to(torch.bfloat16).requires_grad_(),
        numbers(3).to(torch.complex64).requires_grad_(),
        torch.zeros(0, requires_grad=True),
    ):
        assert static(function)(x).grad_fn.name() == "TanhBackward0"


def test_no_grad_inside_a_function_acts_as_in_eager():
    def function(x, w):
        a = x * w
        with torch.no_grad():
            b = a * w
            c = torch.tanh(b)
        return a * c + b, b

    agree(function, [numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()])


def test_in_place_changes_between():
    def function(x, w):
        a = x * w
        b = torch.tanh(a)
        a.add_(1)
        c = a * b
        c[0] = 2
        return c * w, a

    agree(function, [numbers(3).requires_grad_(), numbers(3, seed=1).requires_grad_()])


def test_python_functions_in_between():
    @dy2st.not_to_static
    def look(y):
        assert y.requires_grad

    def function(x):
        y = torch.tanh(x * 2)
        z = y * 3
        look(y)
        print(z)
        return z + y * x

    agree(function, [numbers(3).requires_grad_()])


def test_an_exception_leaves_what_was_there_with_its_history():
    def function(x, n):
        kept.append(x * 2)
        y = x * 3
        assert n > 0, "none"
        return y

    kept = []
    x = numbers(3).requires_grad_()
    compiled = static(function)
    compiled(x, torch.tensor(1))
    with pytest.raises(AssertionError, match="none"):
        compiled(x, torch.tensor(0))
    assert compiled(x, torch.tensor(2)).requires_grad


# -- memory and threads --------------------------------------------------------------------------------------------------------------


def test_nothing_is_left_behind():
    function = static(recurrent)
    x, w = numbers(2, 4).requires_grad_(), numbers(4, 4, seed=1).requires_grad_()
    for go_backward in (True, False):
        results = function(x, w, torch.tensor(5))
        if go_backward:
            sum(result.sum() for result in results).backward()
        watched = [weakref.ref(result) for result in results]
        del results
        gc.collect()
        assert not any(watch() for watch in watched)


def test_memory_is_given_back():
    import resource

    function = static(recurrent)
    x, w = numbers(2, 4).requires_grad_(), numbers(4, 4, seed=1).requires_grad_()

    def train(count):
        for _ in range(count):
            function(x, w, torch.tensor(20))[0].sum().backward()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = train(200)
    assert train(1500) - before < 20_000  # KiB


def test_a_very_long_graph_can_be_walked_and_freed():
    def function(x, trips):
        for _ in range(int(trips)):
            x = torch.tanh(x * 1.01).cumsum(0) * 0.5  # one operation that is not noted: a node for each iteration
        return x

    compiled = static(function)
    x = numbers(3).requires_grad_()
    compiled(x, torch.tensor(2))
    result = compiled(x, torch.tensor(20_000))
    result.sum().backward()
    (expected,) = torch.autograd.grad(function(x, torch.tensor(20_000)).sum(), x)
    assert equal(x.grad, expected)
    del result
    result = compiled(x, torch.tensor(20_000))
    del result


def test_more_operations_than_a_tape_takes():
    def function(x, trips):
        for _ in range(int(trips)):
            x = torch.tanh(x * 1.01) + 0.01
        return x

    agree(function, [numbers(3).requires_grad_(), torch.tensor(6000)])


def test_large_results_are_not_kept():
    def function(x):
        return (x + 1) * 2

    assert static(function)(numbers(128, 128).requires_grad_()).grad_fn.name() == "ProgramBackward"
    assert static(function)(numbers(512, 512).requires_grad_() * 1).grad_fn.name() == "MulBackward0"


def test_backward_in_other_threads():
    function = static(recurrent)
    x, w = numbers(2, 4).requires_grad_(), numbers(4, 4, seed=1).requires_grad_()
    expected = torch.autograd.grad(recurrent(x, w, torch.tensor(9))[0].sum(), [x, w])
    shared, wrong = function(x, w, torch.tensor(9))[0].sum(), []

    def work():
        for _ in range(30):
            own = torch.autograd.grad(function(x, w, torch.tensor(9))[0].sum(), [x, w])
            common = torch.autograd.grad(shared, [x, w], retain_graph=True)
            if not (equal(own, expected) and equal(common, expected)):
                wrong.append((own, common))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_the_text_of_a_tensor_names_autograds_node(capsys):
    def prints(x, n):
        y = x * 2
        if n > 0:
            y = y.exp()
        print(y, f"{y.sum()}")
        return y * 3

    def fails(x, n):
        y = x * 2
        if not n > 0:
            raise ValueError(f"found {y}")
        return y

    for function in (prints, fails):
        found = static(function)
        for n in (1, 0):
            texts = []
            for call in (function, found):
                try:
                    call(numbers(3).requires_grad_(), torch.tensor(n))
                except ValueError as error:
                    print(error)
                texts.append(capsys.readouterr().out)
            assert texts[0] == texts[1] and ("grad_fn" in texts[0] or (function, n) == (fails, 1))


@pytest.mark.parametrize("size", [(3,), (130, 130)])
@pytest.mark.parametrize("seed", range(12))
def test_results_of_parts_without_gradients(seed, size, tmp_path):
    choices = random.Random(seed)
    lines, names = ["y0 = x * 2", "y1 = w - x"], ["y0", "y1"]
    for number in range(2, 12):
        one, two = choices.choice(names), choices.choice([*names, "2.0", "x"])
        operation = choices.choice(
            [f"{one} * {two}", f"{one} + {two}", f"{one}.tanh()", f"{one}.exp()", f"torch.minimum({one}, w)"]
        )
        name = choices.choice([f"y{number}", one])  # the name that is bound again leaves an operand that nobody reads
        manager = choices.choice(["", "", "torch.no_grad()", "torch.no_grad()", "torch.enable_grad()"])
        lines += [f"with {manager}:", f"    {name} = {operation}"] if manager else [f"{name} = {operation}"]
        names = sorted({*names, name})
    body = "\n    ".join([*lines, f"return {', '.join(names)}"])
    path = tmp_path / "program.py"
    path.write_text(f"import torch\n\ndef program(x, w, n):\n    {body}\n")
    spec = importlib.util.spec_from_file_location(f"program_{seed}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = static(module.program)
    for n in (1, 0):
        outcomes = []
        for function in (module.program, found):
            x, w = numbers(*size).requires_grad_(), numbers(*size, seed=1).requires_grad_()
            results = function(x, w, torch.tensor(n))
            traits = [(one.requires_grad, one.is_leaf) for one in results]
            total = sum(one.sum() for one in results if one.requires_grad)
            gradients = torch.autograd.grad(total, [x, w], allow_unused=True) if torch.is_tensor(total) else ()
            outcomes.append((traits, results, gradients))
        (traits, results, gradients), ours = outcomes
        assert ours[0] == traits and equal(ours[1], results) and equal(ours[2], gradients)
