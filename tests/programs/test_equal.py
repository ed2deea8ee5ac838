"""``torch.equal`` of tensors whose sizes only the call knows."""

import torch

import dy2st
from tests.oracle import agree

ROWS = torch.arange(10).view(2, 5)


def is_continued(tokens, before):
    return tokens + 1 if torch.equal(tokens[:, :-1], before) else tokens


def same_as_chosen(x):
    chosen = x[x > 0]
    return x.equal(chosen), chosen.equal(x[x >= 0])


class Continues(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.before = None

    def forward(self, tokens):
        is_next = self.before is not None and torch.equal(tokens[:, :-1], self.before)
        self.before = tokens
        return tokens.sum() + is_next


def test_sizes_that_differ_are_not_equal():
    spec = [dy2st.InputSpec([2, None], "int64")] * 2
    agree(is_continued, [(ROWS, ROWS[:, part].clone()) for part in (slice(-1), slice(5), slice(2), slice(1, 5))], spec=spec)
    agree(same_as_chosen, [torch.tensor([1.0, 2.0]), torch.tensor([1.0, -2.0]), torch.tensor([0.0, 2.0])])


def test_a_state_of_any_size():
    calls = [ROWS, ROWS[:, :3], ROWS[:, :4], ROWS[:, :3], ROWS[:, :4], ROWS]
    agree(Continues(), calls, programs=None)
