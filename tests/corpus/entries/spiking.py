"""Neurons that spike, layers that draw their weights, tables, quantization."""

from __future__ import annotations

import torch

from tests.corpus.registry import Subject, published


def _inputs(*shape: int) -> list[tuple[torch.Tensor]]:
    x = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    return [(x,), (x * 4,)]


@published("snntorch")
def leaky_neurons() -> Subject:
    import snntorch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.leaky = torch.nn.Linear(3, 4), snntorch.Leaky(beta=0.9)

        def forward(self, x):
            memory, spikes = self.leaky.init_leaky(), []
            for step in range(x.shape[0]):
                spike, memory = self.leaky(self.linear(x[step]), memory)
                spikes.append(spike)
            return torch.stack(spikes), memory

    return Subject(Net(), _inputs(4, 2, 3))


@published("snntorch")
def rates_as_spikes() -> Subject:
    from snntorch import spikegen

    return Subject(lambda x: spikegen.rate(x, num_steps=3), [(torch.full((2, 3), 0.7),), (torch.full((2, 3), 0.1),)])


@published("spikingjelly")
def neurons_with_state() -> Subject:
    from spikingjelly.activation_based import neuron

    return Subject(neuron.IFNode(), _inputs(2, 3))


@published("spikingjelly")
def neurons_that_are_reset() -> Subject:
    from spikingjelly.activation_based import functional, neuron

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.neuron = torch.nn.Linear(3, 4), neuron.LIFNode()

        def forward(self, x):
            functional.reset_net(self)
            return torch.stack([self.neuron(self.linear(row)) for row in x])

    return Subject(Net(), _inputs(4, 2, 3))


@published("torchbnn")
def weights_that_are_drawn() -> Subject:
    import torchbnn

    return Subject(torchbnn.BayesLinear(0.0, 0.1, 3, 2), _inputs(2, 3))


@published("pytorch_tabnet")
def tabnet() -> Subject:
    from pytorch_tabnet.tab_network import TabNet

    groups = torch.eye(4)
    return Subject(TabNet(4, 2, n_d=4, n_a=4, n_steps=2, virtual_batch_size=4, group_attention_matrix=groups), _inputs(8, 4))


@published("torchao")
def affine_quantization() -> Subject:
    from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, dequantize_affine, quantize_affine

    def run(x):
        scale, zero = choose_qparams_affine(x, MappingType.ASYMMETRIC, (1, 4), torch.uint8)
        q = quantize_affine(x, (1, 4), scale, zero, torch.uint8)
        return q, dequantize_affine(q, (1, 4), scale, zero, torch.uint8)

    return Subject(run, _inputs(2, 4))
