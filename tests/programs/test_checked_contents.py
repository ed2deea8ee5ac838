"""Functions of torch that look at what their operands hold only to check it: covariances, the CTC loss."""

import torch
import torch.nn.functional as F

from dy2st import InputSpec
from tests.oracle import agree

ROWS = [torch.randn(2, 5, generator=torch.Generator().manual_seed(seed)) for seed in range(2)]
WEIGHTS = torch.tensor([1, 2, 0, 1, 3])


def test_covariances_and_correlations():
    agree(lambda x: (torch.cov(x, correction=0), torch.corrcoef(x), x[0].cov(), x[:1].corrcoef()), ROWS)


def test_weights_of_observations():
    agree(lambda x, w: (torch.cov(x, fweights=w), torch.cov(x, aweights=w * 0.5)), [(rows, WEIGHTS) for rows in ROWS])


def test_as_many_observations_as_the_call_has():
    agree(lambda x: torch.cov(x), [ROWS[0], ROWS[1][:, :3]], spec=[InputSpec([2, None])])


def ctc_calls():
    for seed in range(2):
        steps = torch.randn(5, 2, 4, generator=torch.Generator().manual_seed(seed), requires_grad=True)
        yield steps, torch.tensor([[1, 2], [2, 3 - seed]]), torch.tensor([5, 4 - seed]), torch.tensor([2, 1])


def test_the_ctc_loss_with_lengths_in_tensors():
    def f(steps, targets, lengths, target_lengths):
        x = steps.log_softmax(-1)
        return F.ctc_loss(x, targets, lengths, target_lengths), F.ctc_loss(x, targets, lengths, target_lengths, reduction="none")

    agree(f, [*ctc_calls()])


def test_the_ctc_loss_with_lengths_of_python_in_a_branch():
    loss = torch.nn.CTCLoss(reduction="sum", zero_infinity=True)

    def f(steps, targets):
        x = steps.log_softmax(-1)
        return loss(x, targets, (5, 4), (2, 1)) if steps.sum() > 0 else loss(x[:, 0], targets[0], (5,), (2,))

    agree(f, [call[:2] for call in ctc_calls()])
