"""Samplers of diffusion models: schedulers that keep what earlier steps gave."""

from __future__ import annotations

from collections.abc import Callable

import torch

from tests.corpus.registry import Subject, named, published


def _noise(seed: int, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(seed)) * scale


def _sampler(name: str) -> Callable[[], Subject]:
    def make() -> Subject:
        import diffusers

        class Sampler(torch.nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.net = torch.nn.Conv2d(2, 2, 1)
                self.scheduler = getattr(diffusers, name)(num_train_timesteps=20)

            def forward(self, x, guidance):
                self.scheduler.set_timesteps(4)
                for t in self.scheduler.timesteps:
                    e = self.net(self.scheduler.scale_model_input(x, t) if hasattr(self.scheduler, "scale_model_input") else x)
                    if guidance > 1:
                        e = e * guidance
                    x = self.scheduler.step(e, t, x).prev_sample
                return x

        return Subject(Sampler(), [(_noise(1), torch.tensor(0.5)), (_noise(2), torch.tensor(2.0))])

    return make


for _name in (
    "DDIM", "DDPM", "DPMSolverMultistep", "DPMSolverSinglestep", "EulerDiscrete", "EulerAncestralDiscrete", "HeunDiscrete",
    "UniPCMultistep", "PNDM", "LMSDiscrete", "FlowMatchEulerDiscrete", "EDMEuler", "IPNDM",
):  # fmt: skip
    named(f"scheduler_{_name}", "diffusers", _sampler(f"{_name}Scheduler"))


@published("diffusers")
def scheduler_with_thresholds() -> Subject:
    import diffusers

    scheduler = diffusers.DDIMScheduler(num_train_timesteps=20, thresholding=True)
    scheduler.set_timesteps(5)
    calls = [(_noise(1), torch.tensor(12), _noise(2)), (_noise(1, 9.0), torch.tensor(0), _noise(2))]
    return Subject(lambda e, t, x: scheduler.step(e, t, x, return_dict=False)[0], calls)


@published("diffusers")
def scheduler_add_noise() -> Subject:
    import diffusers

    scheduler = diffusers.DDPMScheduler(num_train_timesteps=20)
    return Subject(scheduler.add_noise, [(_noise(1), _noise(3), torch.tensor([n])) for n in (5, 19)])


@published("diffusers")
def scheduler_with_its_times() -> Subject:
    import diffusers

    def sample(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        scheduler = diffusers.KDPM2DiscreteScheduler()
        scheduler.set_timesteps(5)
        x = x * scheduler.init_noise_sigma
        for t in scheduler.timesteps:
            x = scheduler.step(scheduler.scale_model_input(x, t) * scale, t, x).prev_sample
        return x

    return Subject(sample, [(_noise(1), torch.tensor(0.5)), (_noise(2), torch.tensor(3.0))])
