"""Code that asks whether it is traced, or whether its tensors stand for others, hears what eager hears; fused layers of torch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.utils._python_dispatch import _get_current_dispatch_mode, _get_current_dispatch_mode_stack

import dy2st
from tests.oracle import EXECUTORS, agree, same

VALUES = [torch.ones(2), -torch.ones(2)]
MASKS = [
    torch.tensor([[False] * 5, [False] * 3 + [True] * 2]),
    torch.zeros(2, 5, dtype=torch.bool),
    torch.tensor([[True] + [False] * 4, [False] * 4 + [True]]),
]


def test_whether_code_is_traced():
    def f(x):
        asked = [torch.jit.is_tracing(), torch.jit.is_scripting(), torch.compiler.is_compiling(), torch.compiler.is_exporting()]
        asked += [torch.compiler.is_dynamo_compiling(), torch._C._get_tracing_state() is None, torch.onnx.is_in_onnx_export()]
        modes = [_get_current_dispatch_mode() is None, len(_get_current_dispatch_mode_stack()), get_proxy_mode() is None]
        modes += [torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack(), detect_fake_mode([x]) is None]
        return asked, modes, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), x * 2

    agree(f, VALUES)


def test_whether_a_tensor_stands_for_another():
    def f(x):
        y = x * 2 if x.sum() > 0 else x
        kinds = [
            (type(t) is torch.Tensor, t.__class__.__name__, isinstance(t, FakeTensor), hasattr(t, "fake_mode")) for t in (x, y)
        ]
        has = [torch.overrides.has_torch_function((x, y)), torch.overrides.has_torch_function_unary(y)]
        return kinds, has, getattr(y, "fake_device", None), isinstance(y, torch.fx.Proxy), y

    agree(f, VALUES)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)

    def forward(self, x, mask):
        h = self.encoder(x, src_key_padding_mask=mask).mean(1)
        return h if h.sum() > 1e9 else h * 2


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=True, activation="gelu")
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x, mask):
        y, weights = self.attention(x, x, x, key_padding_mask=mask)
        heads = self.attention(x, x, x, average_attn_weights=False)
        plain, none = self.attention(x, x, x, need_weights=False)
        for _ in range(int(mask.sum())):
            y = self.layer(y, src_key_padding_mask=mask)
        return y, weights, heads, plain, none


@pytest.mark.parametrize("make", [Encoder, Layers])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_fused_layers_are_taken_when_eager_takes_them(make, executor):
    x = torch.randn(2, 5, 16)
    module = make().eval()
    static = dy2st.to_static(copy.deepcopy(module), backend=executor)

    def check(programs):
        for mask in MASKS:
            same(module(x, mask), static(x, mask))
        assert len(static.forward.program_cache) == programs

    with torch.no_grad():
        check(1)
    check(2)
    for both in (module, static):
        both.requires_grad_(False)
    check(3)
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        check(4)
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    check(4)


def test_an_encoder_of_sizes_that_differ():
    static = dy2st.to_static(
        Encoder().eval(), input_spec=[dy2st.InputSpec([None, None, 16]), dy2st.InputSpec([None, None], "bool")]
    )
    module = Encoder().eval()
    module.load_state_dict(static.state_dict())
    with torch.no_grad():
        for mask in MASKS:
            x = torch.randn(2, 5, 16)
            same(module(x, mask), static(x, mask))
        same(module(x[:1, :4], mask[:1, :4]), static(x[:1, :4], mask[:1, :4]))
    assert len(static.forward.program_cache) == 1
