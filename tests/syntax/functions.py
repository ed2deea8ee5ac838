"""Functions, classes and libraries."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import statistics

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Normal
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.checkpoint import checkpoint

import dy2st
from dy2st.errors import CaptureError
from tests.programs.values import signs
from tests.syntax.case import Chapter

CHAPTER = Chapter("Functions, classes and libraries")
D = {"dtype": torch.float64}
GRAD = signs(grad=True)
ROWS = [x.expand(2, 3) for x in signs()]


def choose(x, k=2, *, shift=0):
    if x.sum() > 0:
        return x * k + shift
    return x - k


@CHAPTER.captured("helpers, with default, keyword-only, `*args` and `**kwargs` arguments", calls=GRAD)
def helpers(x):
    return choose(x), choose(x, 3, shift=1), choose(*[x], **{"k": 4})


def twice(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(function(*args, **kwargs), **kwargs)

    return inner


twice_chosen = twice(choose)


@dy2st.not_to_static(returns=float)
def median(x):
    return statistics.median(x.tolist())


@CHAPTER.captured("a function marked `@not_to_static`, in branches and loops: it runs as Python each time", calls=signs())
def calls_an_island(x):
    for _ in range(x.numel()):
        if x.sum() > 0:
            x = x - median(x)
    return x


@CHAPTER.captured("decorated functions, `functools.wraps`", calls=GRAD)
def decorated(x):
    return twice_chosen(x, k=3)


frozen = torch.no_grad()(choose)


@CHAPTER.captured("`torch.no_grad`, `torch.enable_grad`, `torch.set_grad_enabled` as decorator or in `with`", calls=GRAD)
def grad_modes(x):
    with torch.no_grad():
        y = choose(x)
    return frozen(x) + y + x


@CHAPTER.captured("`torch.inference_mode`", calls=GRAD, note="runs like `torch.no_grad`: its tensors may be used anywhere")
def inference(x):
    with torch.inference_mode():
        y = choose(x)
    return y.clone() + 1


LINEAR = nn.Linear(3, 3)


@CHAPTER.captured("`torch.autocast`", calls=[x.float() for x in signs()])
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = LINEAR(x) if x.sum() > 0 else LINEAR(x * 2)
    return y


class Scope:
    def __init__(self, x):
        self.x = x

    def __enter__(self):
        return self.x * 2 if self.x.sum() > 0 else self.x

    def __exit__(self, *error):
        return False


@contextlib.contextmanager
def doubled(x):
    yield x * 2


@CHAPTER.captured("context managers of your own, `contextlib.contextmanager`, `ExitStack`", calls=GRAD)
def managers(x):
    with Scope(x) as y, doubled(y) as z, contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        return choose(z)


@CHAPTER.captured("An exception that leaves a `contextlib.contextmanager`", calls=GRAD, note="its `finally` runs, as in eager")
def managed_raise(x):
    log = []

    @contextlib.contextmanager
    def scope(name):
        log.append(name)
        try:
            yield
        finally:
            log.remove(name)

    with scope("a"), scope("b"):
        if x.sum() > 3:
            raise ValueError(f"{len(log)} open")
    return x, log


@CHAPTER.captured(
    "generator functions: their branches, loops and writes", calls=GRAD, note="a statement with a `yield` inside is plain Python"
)
def generator_functions(x):
    log = []

    def steps(count):
        for i in range(count):
            if x.sum() > 0:
                y = x * i
                log.append(i)
            else:
                y = -x
            yield y
        return count

    def twice():
        first = yield from steps(2)
        yield from steps(first + 1)

    return list(twice()), log


@CHAPTER.captured("generators of which tensors decide what they give, in `for` loops, `list`, `sum`, comprehensions", calls=signs())
def decided_generator(x):
    log = []

    def halved(y):
        while y.sum() > 1:
            log.append(len(log))
            yield y
            y = y / 2
        if y.sum() > 0:
            yield from (y, -y)

    total = x
    for y in halved(x):
        total = total + y
        if total.sum() > 20:
            break
    return total, len(list(halved(x))), log


@CHAPTER.captured("`functools.partial`, lambdas, functions as arguments", calls=GRAD)
def functions_as_values(x):
    half = functools.partial(choose, k=0.5)
    return [action(x) for action in (half, lambda v: v[0] if v[0] > 0 else v[1])]


@functools.singledispatch
def dispatched(x):
    return x


dispatched.register(torch.Tensor)(choose)


@CHAPTER.captured("`functools.singledispatch`", calls=GRAD)
def single_dispatch(x):
    return dispatched(x) + dispatched(3)


@functools.lru_cache
def remembered(n):
    return n * 2


@CHAPTER.captured(
    "`functools.lru_cache`, `functools.cache`",
    calls=GRAD,
    note="called as if nothing were remembered; one that writes, prints or reads files outside of itself is called by Python",
)
def cached(x):
    return x * remembered(3) if x.sum() > 0 else x


@CHAPTER.captured("`functools.reduce`, `itertools.accumulate`, `starmap`, `product`", calls=GRAD)
def folds(x):
    def larger(a, b):
        return a if a.sum() > b.sum() else b

    return functools.reduce(larger, [x, -x, x * 2]), list(itertools.accumulate([x, -x], larger))


@CHAPTER.captured("the functions of `operator`", calls=signs())
def operators(x):
    positive = operator.not_(operator.le(x.sum(), 0))
    return operator.itemgetter(0)(x), operator.add(x, 1) if positive else x


@CHAPTER.captured("closures that rebind a variable with `nonlocal`", calls=signs())
def closures(x):
    total = torch.zeros((), **D)

    def add(v):
        nonlocal total
        if v > 0:
            total = total + v

    for v in x:
        add(v)
    return total


@CHAPTER.captured("recursion whose depth Python decides", calls=signs())
def recursion(x):
    def power(x, k):
        return choose(x) if k == 0 else x * power(x, k - 1)

    return power(x, 3)


class Scale:
    def __init__(self, k):
        self._k = k

    @property
    def k(self):
        return self._k

    @k.setter
    def k(self, value):
        self._k = value * 2

    @classmethod
    def make(cls, k):
        return cls(k)

    @staticmethod
    def double(x):
        return x * 2

    @functools.cached_property
    def square(self):
        return self._k**2

    def __call__(self, x):
        return x * self.k if x.sum() > 0 else x

    def __getattr__(self, name):
        return lambda x: choose(x, len(name))


@CHAPTER.captured("objects: `__call__`, `__getattr__`, properties, class and static methods", calls=GRAD)
def objects(x):
    scale = Scale.make(3)
    scale.k = 4
    return scale(x) + Scale.double(x) + scale.square + scale.anything(x)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3, **D)

    def forward(self, x):
        return self.linear(x) if x.sum() > 0 else x


class Scaled:
    scale = 2

    def forward(self, x):
        return super().forward(x) * self.scale


@CHAPTER.captured("modules: `super().forward`, mixins, multiple inheritance", calls=GRAD)
class Mixed(Scaled, Layer):
    pass


class OwnCall(Layer):
    def __call__(self, x):
        return super().__call__(choose(x)) + 1


@CHAPTER.captured("modules that override `__call__`", calls=GRAD)
class Calling(Layer):
    def __init__(self):
        super().__init__()
        self.linear = OwnCall()


@CHAPTER.captured("forward hooks and pre-hooks that give values", calls=GRAD)
class Hooked(Layer):
    def __init__(self):
        super().__init__()
        self.linear.register_forward_pre_hook(lambda module, args: (choose(args[0]),))
        self.linear.register_forward_hook(lambda module, args, out: out * 2 if out.sum() > 0 else None)


@CHAPTER.captured("full backward hooks of submodules", calls=GRAD)
class HookedBackward(Layer):
    def __init__(self):
        super().__init__()
        self.linear.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 2,))


@CHAPTER.captured("parametrizations, `weight_norm`, `spectral_norm`", calls=GRAD)
class Normed(Layer):
    def __init__(self):
        super().__init__()
        self.linear = weight_norm(self.linear)


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, k):
        ctx.k = k
        return x * k if x.sum() > 0 else x

    @staticmethod
    def backward(ctx, g):
        return g * 3 * ctx.k, None


@CHAPTER.captured("`autograd.Function`", calls=GRAD, note="its own `backward` is kept")
def own_backward(x):
    return Power.apply(x, 2) if x.sum() > 0 else Power.apply(x, 5)


@CHAPTER.captured("`torch.autograd.grad`", calls=GRAD, note="with `create_graph`, `allow_unused`, `is_grads_batched` too")
def gradient(x):
    (g,) = torch.autograd.grad(choose(x).pow(2).sum(), x, create_graph=True)
    return g * 2


@CHAPTER.captured("leaves made inside (`requires_grad=True`)", calls=signs())
def leaves(x):
    w = torch.ones(3, requires_grad=True, **D)
    (g,) = torch.autograd.grad((w * choose(x)).sum(), w)
    return g


@CHAPTER.captured("`torch.utils.checkpoint`", calls=GRAD, note="it saves the memory that it saves in eager")
def checkpointed(x):
    return checkpoint(choose, x, use_reentrant=False)


@CHAPTER.captured("`torch.func.functional_call`", calls=GRAD)
def functional_call(x):
    weights = {"weight": LINEAR.weight.double() * 2, "bias": x}
    return torch.func.functional_call(LINEAR, weights, (x,)) if x.sum() > 0 else x


@CHAPTER.captured("`torch.func.grad`, `grad_and_value`, `vjp`, `jvp`, `jacrev`, `jacfwd`, `hessian`", calls=GRAD)
def derivatives(x):
    def loss(v):
        return (v**3).sum() if v.sum() > 0 else v.sin().sum()

    y, back = torch.func.vjp(torch.sin, x)
    return torch.func.grad(loss)(x), torch.func.hessian(loss)(x), back(y), torch.func.jvp(torch.cos, (x,), (y,))


@CHAPTER.captured(
    "`torch.func.vmap`, nested transforms", calls=ROWS, note="a tensor of the batch decides nothing inside, as in eager"
)
def batched(x):
    def loss(weight, row):
        return (weight * row).pow(2).sum()

    return torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(x[0], x) if x.sum() > 0 else torch.vmap(torch.sum)(x)


@torch.jit.script
def scripted(x):
    if bool(x.sum() > 0):
        return x * 2
    return x


compiled = torch.compile(choose)


@CHAPTER.captured("functions made by `torch.compile` or `torch.jit.script`", calls=GRAD, note="captured from their source")
def compiled_functions(x):
    return compiled(x) + scripted(x)


@CHAPTER.captured("`torch.distributions`", calls=signs(), note="its checks of arguments are checks of the program")
def distributions(x):
    law = Normal(x, x.abs() + 1)
    y = law.rsample()
    return law.log_prob(y) if y.sum() > 0 else y


@CHAPTER.captured("`nn.LSTM`, `nn.GRU`, `nn.RNN` and their cells", calls=ROWS)
class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(3, 4, **D)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y if x.sum() > 0 else c


@CHAPTER.captured("`nn.MultiheadAttention`, `nn.TransformerEncoder`, `F.scaled_dot_product_attention`", calls=ROWS)
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(3, 1, 8, dropout=0.1, **D)

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else F.scaled_dot_product_attention(x, x, x)


@CHAPTER.captured("`nn.BatchNorm` (with `momentum=None` too), `nn.Dropout`, in training", calls=ROWS)
class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.drop = nn.BatchNorm1d(3, momentum=None, **D), nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(self.norm(x)) if x.sum() > 0 else self.norm(x)


@CHAPTER.captured("`torch.linalg`, `torch.fft`, complex tensors", calls=signs())
def linear_algebra(x):
    a = torch.outer(x, x) + torch.eye(3, **D)
    f = torch.fft.rfft(x)
    if torch.linalg.det(a) > 5:
        f = f * 1j
    return torch.linalg.inv(a), f.abs(), torch.fft.irfft(f, n=3)


@CHAPTER.refused("recursion whose depth a tensor decides", calls=signs(), error=CaptureError, says="calls itself")
def halved(x):
    def halve(x):
        if x.sum() > 1:
            return halve(x / 2)
        return x

    return halve(x)


@CHAPTER.refused("`torch.func.linearize` and `torch.func.functionalize`", calls=signs(), error=CaptureError, says="torch.func.jvp")
def linearized(x):
    return torch.func.linearize(torch.sin, x)[0]


@CHAPTER.refused(
    "a function given to `torch.func` that writes outside of it", calls=signs(), error=CaptureError, says="has_aux=True"
)
def written_in_transform(x):
    seen = []

    def loss(v):
        seen.append(v)
        return v.sum()

    return torch.func.grad(loss)(x)


@CHAPTER.captured("modules made in `forward`", calls=GRAD)
def module_made_inside(x):
    return nn.Linear(3, 3, **D)(x) if x.sum() > 0 else nn.LayerNorm(3, **D)(x)


@CHAPTER.refused(
    "`torch.cond`, `while_loop`, `scan`, `map` as functions", calls=signs(), error=CaptureError, says="an if statement"
)
def control_operator(x):
    return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))


@CHAPTER.refused("packed sequences", calls=ROWS, error=CaptureError, says="padded tensor")
def packed(x):
    return nn.utils.rnn.pack_padded_sequence(x, [len(x)]).data


@CHAPTER.refused("nested tensors", calls=ROWS, error=CaptureError, says="pad_sequence")
def nested(x):
    return torch.nested.nested_tensor([x[0], x[1]]).to_padded_tensor(0.0)


class Interval:
    def __init__(self, low, high):
        self.low, self.high = low, high

    def __add__(self, other):
        return Interval(self.low + other.low, self.high + other.high)

    def __neg__(self):
        if self.low.sum() > 0:
            return Interval(-self.high, -self.low)
        return self

    def __bool__(self):
        return bool((self.low <= self.high).all())


@CHAPTER.captured(
    "operators of the user's own classes (`__add__`, `__neg__`, `__bool__` …), also where tensors decide in them", calls=GRAD
)
def own_operators(x):
    found = -(Interval(x, x + 1) + Interval(x * x, x))
    return (found.low, found.high) if found else (x, x * 2)


@CHAPTER.refused("quantized tensors", calls=signs(), error=CaptureError, says="fake_quantize_per_tensor_affine")
def quantized(x):
    return torch.quantize_per_tensor(x.float(), 0.1, 0, torch.qint8).dequantize()


@CHAPTER.refused(
    "`Tensor.as_subclass` of parameters",
    calls=signs(),
    error=CaptureError,
    says="make the other class of what the static function returns",
)
def as_subclass(x):
    return x.as_subclass(nn.Parameter)


class Counting(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


@CHAPTER.captured("tensors of classes of the user's, with methods and a `__torch_function__`", calls=signs())
def with_own_meaning(x):
    marked = x.as_subclass(Counting)
    return (marked + 1 if marked.sum() > 0 else marked).as_subclass(torch.Tensor)


@CHAPTER.captured("`backward()` and `x.grad`", calls=GRAD, note="steps of optimizers too; programs run PyTorch's own backward pass")
def backward(x):
    if x.sum() > 0:
        x.pow(2).sum().backward()
    return x.grad


@CHAPTER.refused(
    "a hook that is registered where a tensor decides", calls=signs(), error=CaptureError, says="outside of the static"
)
class HooksItself(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            self.register_forward_hook(lambda module, args, out: out * 2)
        return x
