"""Static functions on an accelerator: tensors there, its generators of random numbers, its streams and settings."""

import contextlib
import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dy2st
from tests.oracle import same

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
ARANGED = [[-1.0, 0.0, 1.0], [2.0, 3.0, 4.0]]


def same_on_gpu(function, *calls, backends=("native", "python")):
    for backend in backends:
        static = dy2st.to_static(function, backend=backend)
        for args in calls or ((torch.tensor(ARANGED, device="cuda"),), (torch.tensor(ARANGED, device="cuda") * -1,)):
            outcomes = []
            for call in (function, static):
                torch.manual_seed(0)
                result = call(*[arg.clone() for arg in args])
                outcomes.append((result, torch.cuda.get_rng_state(), torch.get_rng_state()))
            same(*outcomes, function.__name__)
        assert len(static.program_cache) == 1


def test_generators_of_the_gpu():
    def f(x):
        torch.cuda.manual_seed(3)
        a, state = torch.rand(2, device="cuda"), torch.cuda.get_rng_state()
        b = torch.rand(2, device="cuda")
        torch.cuda.set_rng_state(state)
        c = torch.rand(2, device="cuda")
        with torch.random.fork_rng():
            d, e = torch.rand(2, device="cuda"), torch.rand(2)
        torch.cuda.manual_seed_all(4)
        g = torch.rand(2, device="cuda") if x.sum() > 0 else torch.randn(2, device="cuda")
        return a, b, c, d, e, g, F.dropout(x, 0.5), torch.cuda.get_rng_state_all()

    same_on_gpu(f)


def test_generators_that_are_made():
    def f(x):
        generator = torch.Generator(device="cuda")
        generator.manual_seed(4)
        a = torch.rand(3, device="cuda", generator=generator)
        if x.sum() > 0:
            a = a + torch.randn(3, device="cuda", generator=generator)
        return a, generator.get_state(), str(generator.device)

    same_on_gpu(f)


def test_a_capture_draws_nothing():
    def f(x):
        try:
            return torch.linalg.solve(x @ x.t(), torch.ones(2, device=x.device))
        except torch.linalg.LinAlgError:
            return x

    same_on_gpu(f)


def test_tensors_are_made_moved_and_pinned():
    def f(x):
        pinned = torch.ones(2, 3).pin_memory()
        moved = x + pinned.to(x.device, non_blocking=True)
        made = torch.zeros(3, device=x.device), torch.arange(3, device="cuda"), torch.zeros(2).cuda(), x.cpu(), x.new_zeros(2)
        return moved, made, pinned.is_pinned(), x.is_cuda, x.get_device(), str(x.device)

    same_on_gpu(f)


def test_streams_and_events():
    def f(x):
        stream, begin, end = torch.cuda.Stream(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        with torch.cuda.stream(stream):
            y = x * 2
        torch.cuda.current_stream().wait_stream(stream)
        end.record()
        torch.cuda.synchronize()
        return y if x.sum() > 0 else x, begin.elapsed_time(end) >= 0

    same_on_gpu(f)


def test_operands_on_two_devices_raise_what_eager_raises():
    def f(x, other):
        try:
            return x @ other
        except RuntimeError as error:
            return str(error)

    x = torch.ones(3, 3, device="cuda")
    same_on_gpu(f, (x, torch.ones(3, 3)))
    same_on_gpu(lambda x, other: x * other if other > 1 else x, (x, torch.tensor(2.0)), (x, torch.tensor(0.0)))


def test_kernels_of_attention_are_chosen_when_the_program_runs():
    def f(q):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            y = F.scaled_dot_product_attention(q, q, q)
        return y, F.scaled_dot_product_attention(q, q, q, is_causal=True)

    same_on_gpu(f, (torch.randn(2, 4, 64, 16, device="cuda", dtype=torch.float16),))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.drop, self.norm = nn.Linear(8, 16), nn.Linear(16, 8), nn.Dropout(0.2), nn.BatchNorm1d(8)

    def forward(self, x):
        x, k = self.norm(x), 0
        while x.norm() > 3 and k < 5:
            x, k = x - 0.1 * self.drop(self.b(torch.relu(self.a(x)))), k + 1
        return (x * 2 if x.mean() > 0 else x).sum()


@pytest.mark.parametrize("backend", ["native", "python", "inductor"])
@pytest.mark.parametrize("mixed", [False, True])
def test_training_is_eagers(backend, mixed):
    torch.manual_seed(0)
    model = Net().cuda()
    batches = [torch.randn(4, 8, device="cuda") * scale for scale in (1, 2, 0.1, 3)]
    outcomes = []
    for net in (copy.deepcopy(model), dy2st.to_static(copy.deepcopy(model), backend=backend)):
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        torch.manual_seed(1)
        losses = []
        for batch in batches:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16) if mixed else contextlib.nullcontext():
                loss = net(batch)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        outcomes.append((losses, [parameter.detach() for parameter in net.parameters()]))
    torch.testing.assert_close(*outcomes, rtol=1e-3, atol=1e-4)


def test_a_saved_model_is_moved(tmp_path):
    model, x = Net().cuda().eval(), torch.randn(4, 8, device="cuda")
    dy2st.save(model, tmp_path / "net", [x])
    loaded = dy2st.load(tmp_path / "net")
    same(loaded.to("cuda")(x), model(x))
    torch.testing.assert_close(loaded.to("cpu")(x.cpu()), model(x).cpu())
