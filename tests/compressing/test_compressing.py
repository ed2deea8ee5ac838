"""Archives with other weights: which are stored otherwise, and what their programs give then."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import dy2st
from dy2st.compressing.pruning import pruned
from dy2st.compressing.quantizing import quantized
from dy2st.compressing.weights import candidates
from dy2st_runtime.archive import archive
from dy2st_runtime.module import LoadedModule


class Everything(nn.Module):
    """Weights in branches and loops, of each operator."""

    def __init__(self):
        super().__init__()
        self.words, self.first, self.cell = nn.Embedding(64, 32), nn.Linear(32, 32), nn.Linear(32, 32, bias=False)
        self.conv, self.wide = nn.Conv1d(32, 32, 3, padding=1), nn.ConvTranspose1d(32, 32, 3, padding=1)
        self.mixing, self.experts = nn.Parameter(torch.randn(32, 32) / 6), nn.Parameter(torch.randn(2, 32, 32) / 6)
        self.memory = nn.GRU(32, 32, batch_first=True)
        self.norm = nn.LayerNorm(32)

    def forward(self, tokens, x):
        if x.sum() > 0:
            h = self.words(tokens) + self.first(x)
            if x.max() > 2:
                h = h @ self.mixing
        else:
            h = torch.bmm(x, self.experts) + self.cell(x)
        steps = 0
        while h.norm() > 4 and steps < 5:
            h = torch.tanh(self.cell(h) + x @ self.mixing.t() + self.words(tokens)) * 0.3
            steps += 1
        h, _ = self.memory(h)
        return self.norm(self.wide(self.conv(h.mT)).mT), steps


def calls():
    generator = torch.Generator().manual_seed(3)
    for scale, sign in ((1.0, 1), (1.0, -1), (0.01, 1), (0.01, -1), (5.0, 1)):
        x = torch.randn(2, 5, 32, generator=generator).abs() * scale * sign
        yield torch.randint(0, 64, (2, 5), generator=generator), x


def saved(model, path, *args, **options):
    specs = [dy2st.InputSpec(arg.shape, str(arg.dtype).removeprefix("torch.")) for arg in args]
    dy2st.save(model, path, specs, example_inputs=args, **options)
    return archive.read_model(path)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    torch.manual_seed(0)
    result = tmp_path_factory.mktemp("saved") / "model.dy2st"
    saved(Everything().eval(), result, *next(calls()))
    return result


def loaded(model, backend="python"):
    return LoadedModule(model.methods, model.state, backend).eval()


def through_a_file(model, path):
    archive.write(path, model)
    return archive.read_model(path)


FORMS = {
    "int8": (lambda model: quantized(model, "int8"), 0.35, 0.03),
    "int4": (lambda model: quantized(model, "int4"), 0.30, 0.3),
    "pruned": (lambda model: pruned(model, 0.3, "unstructured", False), 1.01, 0.6),
    "pruned, compact": (lambda model: pruned(model, 0.5, "unstructured", True), 0.75, 1.0),
    "2:4, compact": (lambda model: pruned(model, 0.5, "2:4", True), 0.75, 1.0),
}


@pytest.mark.parametrize("name", FORMS)
def test_all_weights_in_branches_and_loops(path, tmp_path, name):
    make, size, away = FORMS[name]
    model = archive.read_model(path)
    result, names, left = make(model)
    assert len(names) == 9 and not left
    result = through_a_file(result, tmp_path / "small.dy2st")
    weights = sum(entry.value.nbytes for entry in model.state)
    assert sum(entry.value.nbytes for entry in result.state) < size * weights
    before, after, native = loaded(model), loaded(result), loaded(result, "native")
    for args in calls():
        expected, steps = before(*args)
        given, other = after(*args)
        assert steps != other or (given - expected).norm() < away * expected.norm()
        assert steps == other or name not in ("int8", "int4")
        assert torch.equal(native(*args)[0], given)


@pytest.mark.parametrize(("to", "top"), [("int8", 127), ("int4", 7)])
def test_a_weight_of_few_values_is_exact(tmp_path, to, top):
    layer = nn.Linear(64, 32)
    layer.weight.data = torch.randint(-top, top + 1, (32, 64)) / 8.0
    layer.weight.data[:, ::32] = top / 8
    layer.weight.data[3] = 0
    model = saved(layer, tmp_path / "m", torch.ones(2, 64))
    x = torch.randint(-4, 4, (5, 2, 64)).float()
    for small in x:
        assert torch.allclose(loaded(quantized(model, to)[0])(small), layer(small), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("to", ["int8", "int4"])
def test_other_dtypes(tmp_path, dtype, to):
    torch.manual_seed(0)
    layer = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(dtype)
    x = torch.randn(4, 64, dtype=dtype)
    model = saved(layer, tmp_path / "m", x)
    given = loaded(quantized(model, to)[0])(x)
    assert given.dtype is dtype and (given - layer(x)).norm() < (0.05 if to == "int8" else 0.3) * layer(x).norm()


def test_autocast_inside_keeps_dtypes(tmp_path):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(64, 64)

        def forward(self, x):
            with torch.autocast("cpu", torch.bfloat16):
                return self.layer(x)

    net, x = Net(), torch.randn(4, 64)
    given = loaded(quantized(saved(net, tmp_path / "m", x), "int8")[0])(x)
    assert given.dtype is torch.bfloat16 and (given - net(x)).norm() < 0.05 * net(x).norm()


def test_pruning_zeroes_the_smallest(path):
    model = archive.read_model(path)
    weight = next(entry.value for entry in model.state if entry.name == "first.weight")
    for pattern, sparsity in (("unstructured", 0.75), ("2:4", 0.5)):
        result = pruned(model, sparsity, pattern, False)[0]
        entry = next(entry for entry in result.state if entry.name == "first.weight")
        zero = entry.value == 0
        assert entry.kind == "parameter" and entry.value.requires_grad and int(zero.sum()) == sparsity * zero.numel()
        assert torch.equal(entry.value[~zero], weight[~zero])
        if pattern == "2:4":
            assert bool((zero.reshape(-1, 4).sum(1) == 2).all())
        else:
            assert weight[zero].abs().max() <= weight[~zero].abs().min()
    assert torch.count_nonzero(weight) == weight.numel()  # the original is as it was


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head, self.own = nn.Embedding(64, 32), nn.Linear(32, 64, bias=False), nn.Linear(32, 32)
        self.head.weight = self.words.weight

    def forward(self, tokens):
        return self.head(self.own(self.words(tokens)))


class Written(nn.Module):
    def __init__(self):
        super().__init__()
        self.own, self.average = nn.Linear(32, 32), nn.Buffer(torch.randn(32, 32))
        self.shown = nn.Parameter(torch.randn(32, 32))

    def forward(self, x):
        self.average.mul_(0.5)
        return self.own(x) @ self.average @ self.shown, self.shown


class Scaled(nn.Module):
    """A weight that a branch changes, one that a loop carries, and one whose norm is asked for."""

    def __init__(self):
        super().__init__()
        self.own, self.a, self.b, self.c = (nn.Linear(32, 32) for _ in range(4))

    def forward(self, x):
        if x.sum() > 0:
            x = F.linear(x, self.a.weight * 2)
        w = self.b.weight
        for _ in range(3):
            if x.norm() > 2:
                w = w * 0.5
        return self.own(self.c(x) / self.c.weight.norm()) @ w


@pytest.mark.parametrize(
    ("make", "args", "left"),
    [
        (Tied, torch.arange(8), {"words.weight": "another name", "head.weight": "another name"}),
        (Written, torch.ones(2, 32), {"average": "or written", "shown": "otherwise than as a weight"}),
        (Scaled, torch.ones(2, 32), dict.fromkeys(("a.weight", "b.weight", "c.weight"), "otherwise than as a weight")),
    ],
)
def test_what_is_shared_written_or_used_otherwise_is_left_alone(tmp_path, make, args, left):
    torch.manual_seed(0)
    model = saved(make(), tmp_path / "m", args)
    weights, reasons = candidates(model)
    assert [weight.entry.name for weight in weights] == ["own.weight"] and reasons.keys() == left.keys()
    assert all(part in reasons[name] for name, part in left.items())
    before, after = loaded(model), loaded(through_a_file(quantized(model, "int8")[0], tmp_path / "small"))
    for _ in range(3):
        expected, given = (torch.utils._pytree.tree_leaves(function(args))[0] for function in (before, after))
        assert (given - expected).norm() < 0.03 * expected.norm()


class Trainer(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(32, 32)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    @dy2st.to_static
    def step(self, x):
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    @dy2st.to_static
    def forward(self, x):
        return self.net(x)


@pytest.mark.parametrize("make", [lambda model: quantized(model, "int8"), lambda model: pruned(model, 0.5, "2:4", False)])
def test_weights_that_a_saved_step_trains_are_refused(tmp_path, make):
    specs = [dy2st.InputSpec([None, 32])]
    dy2st.save(Trainer(), tmp_path / "m", methods={"forward": specs, "step": specs})
    with pytest.raises(dy2st.errors.SaveError, match=r"net.weight: (it is used otherwise|the model writes it)"):
        make(archive.read_model(tmp_path / "m"))


def test_training_and_evaluation_share_a_weight(tmp_path):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(32, 32), nn.Dropout(0.5), nn.BatchNorm1d(32), nn.Linear(32, 32))
    x = torch.randn(4, 32)
    model = saved(net, tmp_path / "m", x)
    result, names, _ = quantized(model, "int8")
    assert names == ["0.weight", "3.weight"] and len(result.programs) == 2
    before, after = loaded(model).train(), loaded(result).train()
    torch.manual_seed(1)
    expected = before(x)
    torch.manual_seed(1)
    given = after(x)
    assert (given - expected).norm() < 0.03 * expected.norm()
    given.sum().backward()
    assert after.get_parameter("0.bias").grad is not None


def test_a_module_under_two_names_and_a_method(tmp_path):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(32, 32)
            self.b = self.a

        def forward(self, x):
            return self.b(self.a(x))

        def halved(self, x):
            return self.b(x) / 2

    torch.manual_seed(0)
    net, x, spec = Twice(), torch.randn(3, 32), [dy2st.InputSpec([None, 32])]
    dy2st.save(net, tmp_path / "m", methods={"forward": spec, "halved": spec})
    result, names, _ = quantized(archive.read_model(tmp_path / "m"), "int8")
    small = loaded(through_a_file(result, tmp_path / "small"))
    assert names == ["a.weight"]
    for given, expected in ((small(x), net(x)), (small.halved(x), net.halved(x))):
        assert (given - expected).norm() < 0.03 * expected.norm()


def test_weights_that_are_not_finite_are_left_alone(tmp_path):
    layer = nn.Linear(32, 32)
    layer.weight.data[0, 0] = float("nan")
    with pytest.raises(dy2st.errors.SaveError, match="not finite"):
        quantized(saved(layer, tmp_path / "m", torch.ones(2, 32)), "int8")
