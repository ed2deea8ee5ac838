"""Sounds and signals: filters, resampling, losses, wavelets, cosine transforms."""

from __future__ import annotations

import torch

from tests.corpus.registry import Subject, published


def _wave(*shape: int, seed: int = 1, scale: float = 1.0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


_WAVES = [(_wave(2, 64),), (_wave(2, 64, scale=3.0),)]
_PAIRS = [(_wave(1, 1, 256).requires_grad_(), _wave(1, 1, 256, seed=2)), (torch.zeros(1, 1, 256), _wave(1, 1, 256, seed=2))]


@published("julius")
def julius_resample() -> Subject:
    import julius

    return Subject(julius.ResampleFrac(4, 3), _WAVES)


@published("julius")
def julius_lowpass() -> Subject:
    import julius

    return Subject(lambda x: julius.lowpass_filter(x, 0.2), _WAVES)


@published("julius")
def julius_fft_convolution() -> Subject:
    import julius

    return Subject(julius.fft_conv1d, [(_wave(1, 2, 64), _wave(3, 2, 9)), (_wave(1, 2, 64, scale=3.0), _wave(3, 2, 9))])


@published("auraloss")
def auraloss_multi_resolution() -> Subject:
    import auraloss

    loss = auraloss.freq.MultiResolutionSTFTLoss(fft_sizes=[64, 32], hop_sizes=[16, 8], win_lengths=[64, 32])
    return Subject(loss, _PAIRS)


@published("auraloss")
def auraloss_si_sdr() -> Subject:
    import auraloss

    return Subject(auraloss.time.SISDRLoss(), _PAIRS)


@published("asteroid_filterbanks")
def asteroid_mask() -> Subject:
    import asteroid_filterbanks as banks

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            bank = banks.STFTFB(16, 16, stride=8)
            self.encoder, self.decoder = banks.Encoder(bank), banks.Decoder(bank)

        def forward(self, x):
            z = self.encoder(x)
            magnitude = banks.transforms.mag(z)
            if magnitude.mean() > 0.5:
                z = banks.transforms.apply_mag_mask(z, magnitude.sigmoid())
            return self.decoder(z)

    return Subject(Masked(), [(_wave(1, 1, 64),), (_wave(1, 1, 64, scale=0.01),)])


@published("torch_dct", saves=True)
def cosine_transform_of_the_largest() -> Subject:
    import torch_dct

    def run(x):
        spectrum = torch_dct.dct(x)
        return torch_dct.idct(torch.where(spectrum.abs() < spectrum.abs().mean(), 0, spectrum))

    return Subject(run, [(_wave(2, 8),), (_wave(2, 8, seed=3),)])


@published("ptwt")
def wavelets_with_a_threshold() -> Subject:
    import ptwt

    def run(x):
        parts = [torch.where(part.abs() > 0.5, part, 0 * part) for part in ptwt.wavedec(x, "haar", level=2)]
        return ptwt.waverec(parts, "haar")

    return Subject(run, [(_wave(2, 16),), (_wave(2, 16, scale=0.1),)])


@published("pytorch_wavelets")
def wavelets_of_images() -> Subject:
    from pytorch_wavelets import DWTForward

    return Subject(DWTForward(J=2, wave="db1", mode="zero"), [(_wave(1, 1, 8, 8),), (_wave(1, 1, 8, 8, scale=2.0),)])


@published("pytorch_msssim")
def structural_similarity() -> Subject:
    from pytorch_msssim import SSIM

    images = [_wave(1, 1, 16, 16, seed=n).sigmoid() for n in (1, 2)]
    return Subject(SSIM(data_range=1.0, channel=1, win_size=5), [(images[0], images[1]), (images[0], images[0])])
