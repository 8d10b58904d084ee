"""Speech, audio and sequences of measurements in plain torch: the shapes of the originals."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ConformerBlock(nn.Module):
    """Half feed-forward, attention, a depthwise convolution over time, half feed-forward. Source: Gulati et al. 2020"""

    def __init__(self, width: int, heads: int, taps: int) -> None:
        super().__init__()

        def forward() -> nn.Module:
            return nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.SiLU(), nn.Linear(4 * width, width)
            )

        self.first, self.second = forward(), forward()
        self.heads, self.projections, self.leave = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.enter, self.exit = nn.Conv1d(width, 2 * width, 1), nn.Conv1d(width, width, 1)
        self.depthwise = nn.Conv1d(width, width, taps, padding=taps // 2, groups=width)
        self.scale = nn.BatchNorm1d(width)

    def forward(self, x: Tensor) -> Tensor:
        x = x + 0.5 * self.first(x)
        n, t, c = x.shape
        parts = self.projections(self.norms[0](x)).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.leave(F.scaled_dot_product_attention(*parts.unbind(0)).transpose(1, 2).reshape(n, t, c))
        y = F.glu(self.enter(self.norms[1](x).transpose(1, 2)), dim=1)
        x = x + self.exit(F.silu(self.scale(self.depthwise(y)))).transpose(1, 2)
        return self.norms[2](x + 0.5 * self.second(x))


class Conformer(nn.Module):
    """x: f32[N, T, 80] -> f32[N, T/4, 256], log-mel frames with two convolutions in front."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU())
        self.enter = nn.Linear(64 * 20, 256)
        self.body = nn.Sequential(*(ConformerBlock(256, 4, 31) for _ in range(4)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.front(x[:, None])
        return self.body(self.enter(y.transpose(1, 2).flatten(2)))


class Dilated(nn.Module):
    """A residual pair of 1-D convolutions, the first dilated."""

    def __init__(self, width: int, taps: int, dilation: int, act: nn.Module) -> None:
        super().__init__()
        padding = dilation * (taps - 1) // 2
        self.body = nn.Sequential(
            act, nn.Conv1d(width, width, taps, padding=padding, dilation=dilation), act,
            nn.Conv1d(width, width, taps, padding=taps // 2),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + 0.3 * self.body(x)


def vocoder() -> nn.Module:
    """x: f32[N, 80, T] -> f32[N, 1, 256 T], frames to samples. Source: Kong et al. 2020 (HiFi-GAN), its third size"""
    layers: list[nn.Module] = [nn.Conv1d(80, 128, 7, padding=3)]
    width = 128
    for factor in (8, 8, 4):
        layers += [nn.LeakyReLU(0.1), nn.ConvTranspose1d(width, width // 2, 2 * factor, factor, factor // 2)]
        width //= 2
        layers += [Dilated(width, 3, dilation, nn.LeakyReLU(0.1)) for dilation in (1, 3, 5)]
    return nn.Sequential(*layers, nn.LeakyReLU(0.1), nn.Conv1d(width, 1, 7, padding=3), nn.Tanh())


def temporal_convolutions() -> nn.Module:
    """x: f32[N, 8, T] -> f32[N, 4, T], windows that double. Source: Bai et al. 2018 (TCN)"""
    return nn.Sequential(nn.Conv1d(8, 64, 1), *(Dilated(64, 3, 2**i, nn.ReLU()) for i in range(7)), nn.Conv1d(64, 4, 1))


class Denoiser(nn.Module):
    """x: f32[N, 1, S] -> the same, spectra by convolutions of 512 taps, masks by an LSTM. Source: Westhausen 2020"""

    def __init__(self) -> None:
        super().__init__()
        self.analyse = nn.Conv1d(1, 256, 512, 128, bias=False)
        self.reads = nn.LSTM(256, 128, num_layers=2, batch_first=True)
        self.mask = nn.Linear(128, 256)
        self.joins = nn.ConvTranspose1d(256, 1, 512, 128, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        spectra = self.analyse(x)
        mask = torch.sigmoid(self.mask(self.reads(spectra.transpose(1, 2))[0]))
        return self.joins(spectra * mask.transpose(1, 2))


class VoiceDetector(nn.Module):
    """chunk f32[N, 512], state f32[2, N, 64] -> probability f32[N, 1], state: one step of a stream."""

    def __init__(self) -> None:
        super().__init__()
        self.analyse = nn.Conv1d(1, 258, 256, 64, bias=False)
        self.body = nn.Sequential(nn.Conv1d(129, 64, 3, padding=1), nn.ReLU(), nn.Conv1d(64, 64, 3, 2, 1), nn.ReLU())
        self.cell, self.head = nn.LSTM(64, 64, batch_first=True), nn.Linear(64, 1)

    def forward(self, chunk: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        real, imaginary = self.analyse(chunk[:, None]).chunk(2, 1)
        frames = self.body((real * real + imaginary * imaginary).sqrt()).transpose(1, 2)
        seen, (hidden, cell) = self.cell(frames, (state[:1].contiguous(), state[1:].contiguous()))
        return torch.sigmoid(self.head(torch.relu(seen))).mean(1), torch.cat([hidden, cell])


class Forecaster(nn.Module):
    """x: f32[N, T, 16] -> f32[N, 24] from two GRU layers."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.head = nn.GRU(16, 128, num_layers=2, batch_first=True), nn.Linear(128, 24)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.reads(x)[0][:, -1])


class Residuals(nn.Module):
    """x: f32[N, 96] -> f32[N, 24] by blocks that each explain a part. Source: Oreshkin et al. 2019 (N-BEATS)"""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(96, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 120))
            for _ in range(6)
        )

    def forward(self, x: Tensor) -> Tensor:
        forecast = torch.zeros(x.shape[0], 24)
        for block in self.blocks:
            past, future = block(x).split([96, 24], 1)
            x, forecast = x - past, forecast + future
        return forecast
