"""Libraries inside a static function: einops, distributions, recurrent layers, normalization, Fourier transforms."""

from __future__ import annotations

import pytest
import torch
import torch.distributions as td
import torch.nn.functional as F
from torch import nn

import dy2st
from tests.oracle import agree
from tests.programs.values import signs, vec

D = {"dtype": torch.float64}
ROWS = [x.detach().reshape(1, 3) * torch.tensor([[1.0], [0.5]], **D) for x in signs()]
BATCHES = [(row[:, None] * torch.linspace(-1, 2, 4, **D)[:, None]).requires_grad_() for row in ROWS]


def test_einops_functions_and_layers_give_eagers_results():
    einops = pytest.importorskip("einops")
    from einops.layers.torch import Rearrange, Reduce

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(Rearrange("b c -> c b"), Reduce("c b -> c", "sum"))

        def forward(self, x):
            packed, shapes = einops.pack([x, x * 2], "* c")
            a, b = einops.unpack(packed, shapes, "* c")
            while x.norm() > 2:
                x = einops.rearrange(einops.rearrange(x, "a b -> b a"), "b a -> a b") * 0.5
            y = einops.repeat(self.layers(x), "c -> c k", k=2) if x.sum() > 0 else einops.rearrange(x, "a b -> b a")
            return y, a - b, einops.einsum(x, x, "b c, d c -> b d"), einops.reduce(x, "b c -> c", "mean")

    agree(Model(), [row.clone().requires_grad_() for row in ROWS])


def test_einops_of_a_dynamic_size():
    einops = pytest.importorskip("einops")

    def f(x):
        y = einops.rearrange(x, "b c -> (b c)")
        if y.sum() > 0:
            y = y * 2
        return einops.rearrange(y, "(b c) -> b c", c=3)

    agree(f, [torch.ones(n, 3) for n in (2, 4, 1)], spec=[dy2st.InputSpec([None, 3], "float32", "x")])


def test_distributions_sample_and_score_as_in_eager():
    def f(x):
        made = []
        for law in (
            td.Normal(x, x.abs() + 1), td.Gamma(x.abs() + 1, torch.ones((), **D)), td.Beta(x.abs() + 1, x.abs() + 2),
            td.Uniform(x, x + 1), td.Exponential(x.abs() + 1), td.Laplace(x, x.abs() + 1), td.Dirichlet(x.abs() + 1),
        ):  # fmt: skip
            y = law.rsample()
            made += [y, law.log_prob(y), law.entropy()]
        for law in (td.Categorical(logits=x), td.Bernoulli(logits=x), td.OneHotCategorical(logits=x), td.Poisson(x.abs())):
            y = law.sample()
            made += [y, law.log_prob(y)]
        if made[0].sum() > 0:
            made[0] = td.kl_divergence(td.Normal(x, 1.0), td.Normal(0.0, 1.0))
        return made

    agree(f, signs(grad=True))


def test_laws_made_of_laws():
    def f(x):
        joint = td.MultivariateNormal(x, torch.eye(3, **D))
        mixture = td.MixtureSameFamily(td.Categorical(torch.ones(3, **D)), td.Normal(x, 1.0))
        bounded = td.TransformedDistribution(td.Normal(x, 1.0), [td.transforms.TanhTransform()])
        rows = td.Independent(td.Normal(x, 1.0), 1)
        return joint.rsample(), joint.log_prob(x), mixture.log_prob(x[0]), bounded.rsample(), rows.log_prob(x)

    agree(f, signs(grad=True))


def test_law_with_wrong_parameters():
    def f(x):
        return td.Normal(x, x, validate_args=True).log_prob(x)  # by default not, once torch has compiled something

    static = dy2st.to_static(f)
    assert torch.equal(static(vec(1, 2)), f(vec(1, 2)))
    with pytest.raises(ValueError, match="scale"):
        static(vec(1, -2))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.layer = kind(3, 4, batch_first=True, **D)
        self.cell = nn.LSTMCell(3, 4, **D)

    def forward(self, x):
        y, state = self.layer(x)
        h = c = torch.zeros(x.shape[0], 4, **D)
        for t in range(x.shape[1]):
            h, c = self.cell(x[:, t], (h, c))
            if h.sum() > 0.5:
                break
        return (y * 2, state, h) if y.sum() > 0 else (y, state, c)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_give_eagers_results(kind):
    agree(Recurrent(kind), BATCHES)


class Normalized(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x) if x.sum() > 0 else self.layer(x * 2) + 1


@pytest.mark.parametrize(
    "layer",
    [
        nn.BatchNorm1d(4, **D), nn.BatchNorm1d(4, momentum=None, **D), nn.BatchNorm1d(4, track_running_stats=False, **D),
        nn.BatchNorm1d(4, **D).eval(), nn.LayerNorm(3, **D), nn.GroupNorm(2, 4, **D), nn.RMSNorm(3, **D), nn.Dropout(0.5),
        nn.InstanceNorm1d(4, track_running_stats=True, affine=True, **D), nn.AlphaDropout(0.5), nn.RReLU(),
    ],
    ids=repr,
)  # fmt: skip
def test_normalization_and_dropout_do_what_they_do_in_eager(layer):
    agree(Normalized(layer), BATCHES)


def test_attention_and_encoder_layers_give_eagers_results():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(3, 1, batch_first=True, **D)
            self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(3, 1, 8, batch_first=True, **D), 2)

        def forward(self, x):
            y, weights = self.attention(x, x, x, key_padding_mask=x.sum(-1) > 3)
            z, _ = self.attention(x, x, x, need_weights=False, attn_mask=torch.ones(4, 4).tril() == 0)
            return (self.encoder(y), weights) if y.sum() > 0 else (z, weights)

    agree(Model(), BATCHES)


def test_embeddings_and_bags_give_eagers_results():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.bounded = nn.Embedding(10, 3, max_norm=1.0, padding_idx=0, **D)
            self.bag = nn.EmbeddingBag(10, 3, mode="mean", **D)

        def forward(self, i):
            y = self.bounded(i)
            return (y * 2 if y.sum() > 0 else y), self.bag(i.reshape(1, -1)), self.bag(i, torch.tensor([0, 2]))

    agree(Model(), [torch.tensor([1, 2, 3]), torch.tensor([0, 0, 9])])


def test_complex_numbers_and_linear_algebra():
    def f(x):
        a = torch.outer(x, x) + torch.eye(3, **D)
        q, r = torch.linalg.qr(a)
        c = torch.complex(x, x * 2)
        if (c.abs() > 3).any():
            c = c * 1j
        spectrum = torch.fft.rfft(x)
        if torch.linalg.det(a) > 5:
            return torch.linalg.solve(a, q), torch.linalg.eigvalsh(a), c.real, torch.fft.irfft(spectrum * 2, n=3)
        return torch.linalg.inv(a), torch.linalg.svdvals(a), c.imag, torch.fft.irfft(spectrum, n=3)

    agree(f, signs(grad=True))


def test_random_functions_follow_their_training_flag():
    def f(x, training):
        return F.dropout(x, 0.5, training=training), F.dropout(x, training=False), F.gumbel_softmax(x, hard=True)

    agree(lambda x: f(x, True), signs(grad=True))
    agree(lambda x: f(x, False), signs(grad=True))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (lambda: torch.eye(3).to_sparse(), "layout torch.sparse_coo"),
        (lambda: torch.eye(3).to_sparse_csr(), "layout torch.sparse_csr"),
        (lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), "a quantized tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "a nested tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "a nested tensor"),
    ],
)
def test_kinds_of_tensors_that_are_refused(value, says):
    given = value()
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(lambda x: x * 2)(given)
    with pytest.raises(dy2st.CaptureError, match=says):
        dy2st.to_static(lambda x: x * given)(torch.ones(3))


def test_a_packed_sequence_from_outside_is_refused():
    layer = nn.GRU(3, 4, **D)
    packed = nn.utils.rnn.pack_padded_sequence(torch.ones(3, 2, 3, **D), torch.tensor([3, 2]))
    with pytest.raises(dy2st.CaptureError, match="GRU gets a PackedSequence"):
        dy2st.to_static(lambda p: layer(p)[1])(packed)


def test_a_transformer_is_told_whether_its_mask_is_causal():
    model = nn.Transformer(4, 2, 1, 1, 8, dropout=0.0, batch_first=True, **D)
    mask = nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64)
    with pytest.raises(dy2st.CaptureError, match="tgt_is_causal"):
        dy2st.to_static(lambda x: model(x, x, tgt_mask=mask))(torch.ones(2, 3, 4, **D))
    inputs = [torch.randn(2, 3, 4, **D, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
    agree(lambda x: model(x, x, tgt_mask=mask, tgt_is_causal=True), inputs)
    agree(lambda x: model(x, x, tgt_mask=mask, tgt_is_causal=False), inputs)


@pytest.mark.parametrize("make", [
    lambda: nn.Linear(3, 3, **D), lambda: nn.Bilinear(3, 3, 2, **D), lambda: nn.BatchNorm1d(3, **D), lambda: nn.PReLU(**D),
    lambda: nn.Conv1d(2, 2, 1, **D), lambda: nn.GRU(3, 4, **D), lambda: nn.Sequential(nn.Linear(3, 2, **D), nn.Tanh()),
    lambda: nn.MultiheadAttention(3, 1, **D), lambda: nn.Embedding(5, 3, **D),
])  # fmt: skip
def test_modules_made_inside_draw_the_parameters_of_eager(make):
    def f(x):
        layer = make()
        if isinstance(layer, nn.Embedding):
            return layer(x.long().abs() % 5)
        rest = (x, x) if isinstance(layer, nn.MultiheadAttention) else (x,) if isinstance(layer, nn.Bilinear) else ()
        y = layer(x, *rest)
        return torch.nn.init.normal_(torch.empty(3, **D)), y, x.requires_grad, torch.is_grad_enabled()

    agree(f, ROWS)


class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        made = super().__torch_function__(func, types, args, kwargs or {})
        return made * 2 if func is torch.Tensor.add else made


class Plain(torch.Tensor):
    """Does as tensors do."""


def test_tensors_that_say_what_functions_of_torch_mean():
    given = torch.ones(3).as_subclass(Doubling)
    static = dy2st.to_static(lambda x: x + 1)
    torch.testing.assert_close(static(torch.ones(3)), torch.full((3,), 2.0))
    for result in (static(given), dy2st.to_static(lambda x: given + x)(torch.ones(3))):
        assert type(result) is Doubling and result.tolist() == [4.0, 4.0, 4.0]
    agree(lambda x: x + 1 if x.sum() > 0 else x - 1, [(x.detach().as_subclass(Plain),) for x in signs()])


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_what_was_compiled_is_captured_as_it_is_written(backend):
    def choose(x):
        return x * 2 if x.sum() > 0 else x - 1

    agree(choose, signs(), static=dy2st.to_static(torch.compile(choose, backend=backend)))
    model = nn.Linear(3, 3, **D)
    static = dy2st.to_static(torch.compile(model, backend=backend))
    for x in signs():
        torch.testing.assert_close(static(x), nn.functional.linear(x, model.weight, model.bias), rtol=0, atol=0)
