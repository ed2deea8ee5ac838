"""Models as people write them, each one program for all its inputs."""

import pytest
import torch
from torch import nn

import dy2st
from tests.oracle import agree


def randn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


class MixtureOfExperts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(8, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8)) for _ in range(4))
        self.top = 2

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(self.top, -1)
        out = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            rows, slots = (chosen == number).nonzero(as_tuple=True)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(x[rows]) * weights[rows, slots, None])
        return out


def test_a_mixture_of_experts_takes_any_batch_size():
    torch.manual_seed(0)
    spec = [dy2st.InputSpec([None, 8])]
    agree(MixtureOfExperts(), [randn(6, 8), randn(1, 8), randn(30, 8), randn(0, 8)], spec=spec)


def test_mixture_of_experts_static_shapes():
    torch.manual_seed(0)
    agree(MixtureOfExperts(), [randn(6, 8), randn(6, 8, seed=1), torch.zeros(6, 8)])


def suppress(boxes, scores, threshold: float):
    """Non-maximum suppression."""
    order = scores.argsort(descending=True)
    keep = []
    while order.numel() > 0:
        best = order[0]
        keep.append(best)
        if order.numel() == 1:
            break
        rest = order[1:]
        top_left = torch.maximum(boxes[best, :2], boxes[rest, :2])
        bottom_right = torch.minimum(boxes[best, 2:], boxes[rest, 2:])
        overlap = (bottom_right - top_left).clamp(min=0).prod(1)
        area = lambda b: (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])  # noqa: E731
        order = rest[overlap / (area(boxes[best]) + area(boxes[rest]) - overlap) <= threshold]
    return torch.stack(keep)


def test_non_maximum_suppression_takes_any_number_of_boxes():
    corner = torch.tensor([0.0, 0.0, 1.0, 1.0])
    calls = [(randn(n, 4, seed=n).abs() % 1 + corner, randn(n, seed=n), 0.3) for n in (6, 1, 20)]
    agree(suppress, calls, spec=[dy2st.InputSpec([None, 4]), dy2st.InputSpec([None])])


class BeamSearch(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 12)

    def forward(self, start, limit: int = 9, beams: int = 3):
        hidden, tokens, score = torch.zeros(1, 8), start.view(1, 1), torch.zeros(1)
        for _ in range(limit):
            hidden = self.cell(self.embedding(tokens[:, -1]), hidden)
            scores = (self.out(hidden) * 5).log_softmax(-1) + score[:, None]
            score, flat = scores.flatten().topk(min(beams, scores.numel()))
            source = flat // 12
            tokens = torch.cat([tokens[source], (flat % 12)[:, None]], 1)
            hidden = hidden[source]
            if (tokens[:, -1] == 0).any():
                break
        return tokens, score


def test_beam_search_is_one_program_for_every_start():
    torch.manual_seed(0)
    agree(BeamSearch().eval(), [torch.tensor(start) for start in (3, 1, 5, 7, 0)])


def sample_below(limit):
    out, done, tries = torch.zeros(5), torch.zeros(5, dtype=torch.bool), 0
    while not done.all():
        candidate = torch.randn(5)
        accepted = (candidate.abs() < limit) & ~done
        out = torch.where(accepted, candidate, out)
        done = done | accepted
        tries += 1
        if tries > 50:
            raise RuntimeError("no luck")
    return out, tries


def test_rejection_sampling_is_one_program_for_every_limit():
    agree(sample_below, [torch.tensor(limit) for limit in (1.0, 0.3, 5.0, 0.0)])


class EarlyExitEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.lstm = nn.LSTM(8, 8, batch_first=True, bidirectional=True)
        self.head = nn.Linear(16, 3)
        self.sure = 0.4

    def forward(self, x):
        if x.shape[1] > 4:
            x = x[:, :4]
        for layer in self.encoder.layers:
            x = layer(x)
            confidence = self.head(self.lstm(x)[0].mean(1)).softmax(-1).amax(-1).mean()
            if confidence > self.sure:
                return self.head(self.lstm(x)[0].mean(1)), confidence
        return self.head(self.lstm(x)[0].mean(1)), confidence


@pytest.mark.parametrize("train", [True, False])
def test_an_early_exit_encoder_matches_eager_in_both_modes(train):
    torch.manual_seed(0)
    agree(EarlyExitEncoder().train(train), [randn(2, 3, 8), randn(2, 3, 8) * 3])


def test_early_exit_encoder_dynamic_batch_and_length():
    torch.manual_seed(0)
    calls = [randn(2, 3, 8), randn(2, 3, 8) * 3, randn(5, 9, 8), randn(1, 1, 8)]
    agree(EarlyExitEncoder().eval(), calls, spec=[dy2st.InputSpec([None, None, 8])])


def viterbi(emissions, transitions):
    score, back = emissions[0], []
    for step in range(1, emissions.shape[0]):
        best, source = (score[:, None] + transitions).max(0)
        score = best + emissions[step]
        back.append(source)
    last = score.argmax()
    path = [last]
    for source in reversed(back):
        last = source[last]
        path.append(last)
    return torch.stack(path[::-1]), score.max()


def test_viterbi_takes_sequences_of_any_length():
    calls = [(randn(length, 3, seed=length), randn(3, 3)) for length in (5, 1, 12)]
    agree(viterbi, calls, spec=[dy2st.InputSpec([None, 3]), dy2st.InputSpec([3, 3])])


def test_viterbi_is_one_program_for_a_fixed_length():
    agree(viterbi, [(randn(5, 3), randn(3, 3)), (randn(5, 3, seed=1), randn(3, 3, seed=2))])


def square_root(x, a):
    steps = 0
    while (x * x - a).abs().max() > 1e-6 and steps < 30:
        x = (x + a / x) / 2
        steps += 1
    else:
        steps = -steps if steps == 30 else steps
    return x, steps


def test_newton_iteration_ends_by_convergence_or_its_limit():
    start = torch.tensor([1.0, 5.0], dtype=torch.float64)
    agree(square_root, [(start, torch.tensor(a, dtype=torch.float64)) for a in ([2.0, 9.0], [1.0, 25.0], [-1.0, 25.0])])


def bubble_sort(x):
    x = x.clone()
    n = x.shape[0]
    for i in range(n):
        swapped = False
        for j in range(n - 1 - i):
            if x[j] > x[j + 1]:
                x[j], x[j + 1] = x[j + 1].clone(), x[j].clone()
                swapped = True
        if not swapped:
            break
    return x


def test_bubble_sort_is_one_program_for_a_fixed_length():
    agree(bubble_sort, [randn(4), torch.arange(4.0), -torch.arange(4.0)])


def test_bubble_sort_dynamic_length():
    agree(bubble_sort, [randn(4), randn(7), randn(1), randn(0)], spec=[dy2st.InputSpec([None])])


def k_means(x, centres):
    previous = None
    for step in range(10):
        nearest = torch.cdist(x, centres).argmin(1)
        if previous is not None and (nearest == previous).all():
            break
        rows = range(centres.shape[0])
        centres = torch.stack([x[nearest == i].mean(0) if (nearest == i).any() else centres[i] for i in rows])
        previous = nearest
    return centres, step


def test_k_means_is_one_program_for_all_data():
    agree(k_means, [(randn(20, 2), randn(3, 2)), (randn(20, 2) * 5, randn(3, 2, seed=1)), (randn(20, 2), randn(3, 2) + 99)])


def greatest_common_divisor(a, b):
    while b != 0:
        a, b = b, a % b
    return a


def test_greatest_common_divisor_is_one_program_for_all_pairs():
    agree(greatest_common_divisor, [(torch.tensor(a), torch.tensor(b)) for a, b in ((12, 18), (7, 0), (100, 75))])


class RecurrentBeams(nn.Module):
    """Beams of a small recurrent decoder; a beam that has ended keeps its score."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        self.cell = nn.GRUCell(8, 8)
        self.out = nn.Linear(8, 7)

    @torch.no_grad()
    def forward(self, h):
        tokens, scores = torch.full((3, 1), 1), torch.tensor([0.0, -1e9, -1e9])
        states = h.expand(3, -1)
        done = torch.zeros(3, dtype=torch.bool)
        for _ in range(6):
            states = self.cell(self.embed(tokens[:, -1]), states)
            logits = torch.log_softmax(self.out(states), -1)
            ended = torch.full_like(logits, -1e9).index_fill(1, torch.tensor(0), 0.0)
            total = scores[:, None] + torch.where(done[:, None], ended, logits)
            scores, best = total.view(-1).topk(3)
            source, token = best // total.shape[1], best % total.shape[1]
            tokens = torch.cat([tokens[source], token[:, None]], 1)
            states, done = states[source], done[source] | (token == 0)
            if done.all():
                break
        return tokens[scores.argmax()], scores.max()


def test_recurrent_beams_are_one_program_for_every_state():
    agree(RecurrentBeams(), [randn(1, 8, seed=seed) for seed in range(6)])
