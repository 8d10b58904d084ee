"""Detection, segmentation, generation and further classifiers in plain torch: the shapes of the originals."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.models.vision import SqueezeExcite, conv_bn


class SplitStage(nn.Module):
    """Half of the channels through bottlenecks, every step of it joined again: the C2f block of YOLOv8."""

    def __init__(self, inputs: int, outputs: int, blocks: int) -> None:
        super().__init__()
        self.half = outputs // 2
        self.enter = conv_bn(inputs, outputs, 1, act=nn.SiLU())
        self.steps = nn.ModuleList(
            nn.Sequential(
                conv_bn(self.half, self.half, 3, act=nn.SiLU()), conv_bn(self.half, self.half, 3, act=nn.SiLU())
            )
            for _ in range(blocks)
        )
        self.leave = conv_bn((2 + blocks) * self.half, outputs, 1, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = list(self.enter(x).chunk(2, 1))
        for step in self.steps:
            parts.append(parts[-1] + step(parts[-1]))
        return self.leave(torch.cat(parts, 1))


class PyramidPool(nn.Module):
    """Three windows of 5x5 after each other, joined: the SPPF block of YOLOv8."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.enter = conv_bn(width, width // 2, 1, act=nn.SiLU())
        self.leave = conv_bn(2 * width, width, 1, act=nn.SiLU())

    def forward(self, x: Tensor) -> Tensor:
        parts = [self.enter(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        return self.leave(torch.cat(parts, 1))


class Yolo(nn.Module):
    """x: f32[N, 3, 320, 320] -> f32[N, 84, 2100], boxes and scores; YOLOv8n with its head. Source: Ultralytics 2023"""

    BINS = 16

    def __init__(self, classes: int = 80) -> None:
        super().__init__()

        def down(inputs: int, outputs: int) -> nn.Module:
            return conv_bn(inputs, outputs, 3, stride=2, act=nn.SiLU())

        self.stem = nn.Sequential(down(3, 16), down(16, 32), SplitStage(32, 32, 1), down(32, 64), SplitStage(64, 64, 2))
        self.middle = nn.Sequential(down(64, 128), SplitStage(128, 128, 2))
        self.deep = nn.Sequential(down(128, 256), SplitStage(256, 256, 1), PyramidPool(256))
        self.up = nn.ModuleList([SplitStage(384, 128, 1), SplitStage(192, 64, 1)])
        self.downs = nn.ModuleList([down(64, 64), down(128, 128)])
        self.merge = nn.ModuleList([SplitStage(192, 128, 1), SplitStage(384, 256, 1)])
        self.boxes, self.scores = (
            nn.ModuleList(self.head(width, inner, out) for width in (64, 128, 256))
            for inner, out in ((64, 4 * self.BINS), (80, classes))
        )

    @staticmethod
    def head(width: int, inner: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            conv_bn(width, inner, 3, act=nn.SiLU()),
            conv_bn(inner, inner, 3, act=nn.SiLU()),
            nn.Conv2d(inner, outputs, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        fine = self.stem(x)
        middle = self.middle(fine)
        deep = self.deep(middle)
        middle = self.up[0](torch.cat([F.interpolate(deep, scale_factor=2.0), middle], 1))
        fine = self.up[1](torch.cat([F.interpolate(middle, scale_factor=2.0), fine], 1))
        middle = self.merge[0](torch.cat([self.downs[0](fine), middle], 1))
        deep = self.merge[1](torch.cat([self.downs[1](middle), deep], 1))
        levels = (fine, middle, deep)
        sides = torch.cat([head(level).flatten(2) for head, level in zip(self.boxes, levels, strict=True)], 2)
        scores = torch.cat([head(level).flatten(2) for head, level in zip(self.scores, levels, strict=True)], 2)
        return torch.cat([self.corners(sides), scores.sigmoid()], 1)

    def corners(self, sides: Tensor) -> Tensor:
        """The four distances from a cell, each the mean of a distribution over bins."""
        share = sides.view(sides.shape[0], 4, self.BINS, -1).transpose(2, 1).softmax(1)
        distances = (share * torch.arange(self.BINS, dtype=torch.float32).view(1, -1, 1, 1)).sum(1)
        near, far = distances.chunk(2, 1)
        return torch.cat([(far - near) / 2, near + far], 1)


class BasicBlock(nn.Module):
    """The residual block of ResNet-18, its second half dilated if asked."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.enter = conv_bn(inputs, outputs, 3, stride=stride, act=nn.ReLU())
        self.leave = nn.Conv2d(outputs, outputs, 3, padding=dilation, dilation=dilation)
        self.shortcut = (
            nn.Identity() if (inputs, stride) == (outputs, 1) else conv_bn(inputs, outputs, 1, stride=stride)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(0.3 * self.leave(self.enter(x)) + self.shortcut(x))


class DeepLab(nn.Module):
    """x: f32[N, 3, 256, 256] -> f32[N, 21, 256, 256]; ResNet-18 and ASPP. Source: Chen et al. 2017 (DeepLabv3)"""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            conv_bn(3, 64, 7, stride=2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1), BasicBlock(64, 64),
            BasicBlock(64, 128, 2), BasicBlock(128, 256, 1, 2), BasicBlock(256, 512, 1, 4),
        )  # fmt: skip
        self.rates = nn.ModuleList(
            [nn.Conv2d(512, 128, 1), *(nn.Conv2d(512, 128, 3, padding=rate, dilation=rate) for rate in (6, 12, 18))]
        )
        self.whole = nn.Conv2d(512, 128, 1)
        self.head = nn.Sequential(conv_bn(640, 128, 1, act=nn.ReLU()), nn.Conv2d(128, 21, 1))

    def forward(self, x: Tensor) -> Tensor:
        features = self.body(x)
        mean = self.whole(features.mean((2, 3), keepdim=True)).expand(-1, -1, *features.shape[2:])
        joined = torch.cat([*(torch.relu(branch(features)) for branch in self.rates), mean], 1)
        return F.interpolate(self.head(joined), size=x.shape[2:], mode="bilinear", align_corners=False)


class StyleTransfer(nn.Module):
    """x: f32[N, 3, 256, 256] -> the same shape; InstanceNorm, reflected borders. Source: Johnson et al. 2016"""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            self.layer(3, 32, 9), self.layer(32, 64, 3, 2), self.layer(64, 128, 3, 2),
            *(self.layer(128, 128, 3) for _ in range(5)),
            nn.Upsample(scale_factor=2.0), self.layer(128, 64, 3), nn.Upsample(scale_factor=2.0), self.layer(64, 32, 3),
            nn.ReflectionPad2d(4), nn.Conv2d(32, 3, 9),
        )  # fmt: skip

    @staticmethod
    def layer(inputs: int, outputs: int, kernel: int, stride: int = 1) -> nn.Module:
        return nn.Sequential(
            nn.ReflectionPad2d(kernel // 2), nn.Conv2d(inputs, outputs, kernel, stride),
            nn.InstanceNorm2d(outputs, affine=True), nn.ReLU(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class DenseLayer(nn.Module):
    """A layer of DenseNet: its 32 new channels behind all that there are."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(inputs)
        self.body = nn.Sequential(conv_bn(inputs, 128, 1, act=nn.ReLU()), nn.Conv2d(128, 32, 3, padding=1, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body(torch.relu(self.norm(x)))], 1)


def densenet121() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Huang et al. 2016, table 1"""
    layers: list[nn.Module] = [conv_bn(3, 64, 7, stride=2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    width = 64
    for count in (6, 12, 24, 16):
        layers += [DenseLayer(width + 32 * i) for i in range(count)]
        width += 32 * count
        if count != 16:
            layers += [nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width // 2, 1), nn.AvgPool2d(2)]
            width //= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 1000))


class Shuffled(nn.Module):
    """Half of the channels pass, the other half are convolved, then both are mixed: ShuffleNetV2's block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.body = nn.Sequential(
            conv_bn(half, half, 1, act=nn.ReLU()),
            conv_bn(half, half, 3, groups=half),
            conv_bn(half, half, 1, act=nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:
        passing, worked = x.chunk(2, 1)
        return F.channel_shuffle(torch.cat([passing, self.body(worked)], 1), 2)


def shufflenet_v2() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Ma et al. 2018, with plain convolutions between the stages"""
    layers: list[nn.Module] = [conv_bn(3, 24, 3, stride=2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    inputs = 24
    for width, blocks in ((116, 3), (232, 7), (464, 3)):
        layers += [conv_bn(inputs, inputs, 3, stride=2, groups=inputs), conv_bn(inputs, width, 1, act=nn.ReLU())]
        layers += [Shuffled(width) for _ in range(blocks)]
        inputs = width
    return nn.Sequential(*layers, conv_bn(464, 1024, 1, act=nn.ReLU()), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(1024, 1000))  # fmt: skip


class Fire(nn.Module):
    """Squeeze by a 1x1, expand by a 1x1 and a 3x3 side by side: SqueezeNet's block."""

    def __init__(self, inputs: int, squeezed: int, outputs: int) -> None:
        super().__init__()
        self.squeeze = nn.Conv2d(inputs, squeezed, 1)
        self.small, self.large = nn.Conv2d(squeezed, outputs, 1), nn.Conv2d(squeezed, outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.squeeze(x))
        return torch.cat([torch.relu(self.small(x)), torch.relu(self.large(x))], 1)


def squeezenet() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Iandola et al. 2016, version 1.1"""
    pool = nn.MaxPool2d(3, 2, ceil_mode=True)
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool, Fire(64, 16, 64), Fire(128, 16, 64), pool, Fire(128, 32, 128),
        Fire(256, 32, 128), pool, Fire(256, 48, 192), Fire(384, 48, 192), Fire(384, 64, 256), Fire(512, 64, 256),
        nn.Conv2d(512, 1000, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip


class MobileBlock(nn.Module):
    """MobileNetV3's block: hard-swish or ReLU, squeeze-and-excite or not."""

    def __init__(self, inputs: int, width: int, outputs: int, kernel: int, stride: int, wide: bool) -> None:
        super().__init__()
        act = nn.Hardswish if wide else nn.ReLU
        excite = SqueezeExcite(width, width // 4) if kernel == 5 else nn.Identity()
        self.body = nn.Sequential(
            conv_bn(inputs, width, 1, act=act()), conv_bn(width, width, kernel, stride=stride, groups=width, act=act()),
            excite, conv_bn(width, outputs, 1),
        )  # fmt: skip
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


def mobilenet_v3() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Howard et al. 2019, table 1"""
    rows = (
        (16, 16, 3, 1), (64, 24, 3, 2), (72, 24, 3, 1), (72, 40, 5, 2), (120, 40, 5, 1), (240, 80, 3, 2),
        (200, 80, 3, 1), (480, 112, 3, 1), (672, 160, 5, 2), (960, 160, 5, 1),
    )  # fmt: skip
    layers: list[nn.Module] = [conv_bn(3, 16, 3, stride=2, act=nn.Hardswish())]
    inputs = 16
    for width, outputs, kernel, stride in rows:
        layers.append(MobileBlock(inputs, width, outputs, kernel, stride, wide=width > 200))
        inputs = outputs
    return nn.Sequential(*layers, conv_bn(160, 960, 1, act=nn.Hardswish()), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(960, 1280), nn.Hardswish(), nn.Linear(1280, 1000))  # fmt: skip


class Branches(nn.Module):
    """1x1, 1x7 with 7x1, 3x3 twice and pooled, side by side: the blocks of Inception-v3."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.branches = nn.ModuleList([
            self.line(inputs, 192, 1),
            nn.Sequential(self.line(inputs, 128, 1), self.line(128, 128, (1, 7)), self.line(128, 192, (7, 1))),
            nn.Sequential(self.line(inputs, 96, 1), self.line(96, 96, 3), self.line(96, 192, 3)),
            nn.Sequential(nn.AvgPool2d(3, 1, 1), self.line(inputs, 192, 1)),
        ])  # fmt: skip

    @staticmethod
    def line(inputs: int, outputs: int, kernel: int | tuple[int, int]) -> nn.Module:
        return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, padding="same"), nn.BatchNorm2d(outputs), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x) for branch in self.branches], 1)


def inception() -> nn.Module:
    """x: f32[N, 3, 299, 299] -> f32[N, 1000]. Source: Szegedy et al. 2015, its widest stage"""
    stem = [conv_bn(3, 32, 3, stride=2, act=nn.ReLU()), conv_bn(32, 64, 3, act=nn.ReLU()), nn.MaxPool2d(3, 2)]
    stem += [conv_bn(64, 192, 3, act=nn.ReLU()), nn.MaxPool2d(3, 2), conv_bn(192, 288, 3, stride=2, act=nn.ReLU())]
    return nn.Sequential(*stem, Branches(288), Branches(768), Branches(768), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(768, 1000))  # fmt: skip


def super_resolution() -> nn.Module:
    """x: f32[N, 1, H, W] -> f32[N, 1, 3H, 3W] by a shuffle of pixels. Source: Shi et al. 2016 (ESPCN)"""
    return nn.Sequential(
        nn.Conv2d(1, 64, 5, padding=2), nn.Tanh(), nn.Conv2d(64, 64, 3, padding=1), nn.Tanh(),
        nn.Conv2d(64, 32, 3, padding=1), nn.Tanh(), nn.Conv2d(32, 9, 3, padding=1), nn.PixelShuffle(3),
    )  # fmt: skip


def gan_generator() -> nn.Module:
    """z: f32[N, 100, 1, 1] -> f32[N, 3, 64, 64] by transposed convolutions. Source: Radford et al. 2015 (DCGAN)"""
    layers: list[nn.Module] = []
    inputs = 100
    for outputs in (512, 256, 128, 64):
        stride, padding = (1, 0) if inputs == 100 else (2, 1)
        layers += [
            nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
        inputs = outputs
    return nn.Sequential(*layers, nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())


class NormedBlock(nn.Module):
    """GroupNorm, SiLU and a 3x3 twice, with what the time says between: the block of diffusion models."""

    def __init__(self, inputs: int, outputs: int, times: int = 0) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.GroupNorm(32, inputs), nn.SiLU(), nn.Conv2d(inputs, outputs, 3, padding=1))
        self.leave = nn.Sequential(nn.GroupNorm(32, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1))
        self.time = nn.Linear(times, outputs) if times else None
        self.shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        y = self.enter(x)
        if self.time is not None and time is not None:
            y = y + self.time(F.silu(time))[:, :, None, None]
        return self.leave(y) + self.shortcut(x)


class PixelAttention(nn.Module):
    """Pixels attend to each other, and to words where there are any."""

    def __init__(self, width: int, words: int = 0, heads: int = 8) -> None:
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(32, width), heads
        self.queries, self.leave = nn.Linear(width, width), nn.Linear(width, width)
        self.pairs = nn.Linear(words or width, 2 * width)

    def forward(self, x: Tensor, words: Tensor | None = None) -> Tensor:
        n, c, h, w = x.shape
        tokens = self.norm(x).reshape(n, c, h * w).transpose(1, 2)
        keys, values = self.pairs(tokens if words is None else words).chunk(2, 2)
        q, k, v = (
            t.reshape(n, -1, self.heads, c // self.heads).transpose(1, 2) for t in (self.queries(tokens), keys, values)
        )
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, h * w, c)
        return x + self.leave(mixed).transpose(1, 2).reshape(n, c, h, w)


class DiffusionUNet(nn.Module):
    """latent f32[N, 4, 32, 32], time f32[N], words f32[N, 77, 768] -> f32[N, 4, 32, 32]. Source: Rombach et al. 2021"""

    def __init__(self, widths: tuple[int, int, int] = (128, 256, 384)) -> None:
        super().__init__()
        a, b, c = widths
        self.time = nn.Sequential(nn.Linear(a, 4 * a), nn.SiLU(), nn.Linear(4 * a, 4 * a))
        self.frequencies = nn.Parameter(torch.exp(torch.linspace(0, -9, a // 2)))
        self.enter, self.leave = (
            nn.Conv2d(4, a, 3, padding=1),
            nn.Sequential(nn.GroupNorm(32, a), nn.SiLU(), nn.Conv2d(a, 4, 3, padding=1)),
        )
        self.down = nn.ModuleList(NormedBlock(i, o, 4 * a) for i, o in ((a, a), (a, b), (b, c)))
        self.pools = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for width in (a, b))
        self.up = nn.ModuleList(NormedBlock(i, o, 4 * a) for i, o in ((2 * c, b), (2 * b, a), (2 * a, a)))
        self.looks = nn.ModuleList(PixelAttention(width, words) for width in (b, c) for words in (0, 768))
        self.middle = NormedBlock(c, c, 4 * a)

    def forward(self, latent: Tensor, time: Tensor, words: Tensor) -> Tensor:
        angles = time[:, None] * self.frequencies
        t = self.time(torch.cat([angles.cos(), angles.sin()], 1))
        first = self.down[0](self.enter(latent), t)
        second = self.looks[1](self.looks[0](self.down[1](self.pools[0](first), t)), words)
        third = self.looks[3](self.looks[2](self.down[2](self.pools[1](second), t)), words)
        x = self.up[0](torch.cat([self.middle(third, t), third], 1), t)
        x = self.up[1](torch.cat([F.interpolate(x, scale_factor=2.0), second], 1), t)
        x = self.up[2](torch.cat([F.interpolate(x, scale_factor=2.0), first], 1), t)
        return self.leave(x)


class VaeDecoder(nn.Module):
    """latent f32[N, 4, 32, 32] -> f32[N, 3, 256, 256]. Source: Rombach et al. 2021"""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Sequential(nn.Conv2d(4, 256, 3, padding=1), NormedBlock(256, 256), PixelAttention(256, heads=1))
        blocks: list[nn.Module] = []
        for inputs, outputs in ((256, 256), (256, 128), (128, 64)):
            blocks += [
                NormedBlock(inputs, outputs),
                nn.Upsample(scale_factor=2.0),
                nn.Conv2d(outputs, outputs, 3, padding=1),
            ]
        self.body = nn.Sequential(*blocks, nn.GroupNorm(32, 64), nn.SiLU(), nn.Conv2d(64, 3, 3, padding=1))

    def forward(self, latent: Tensor) -> Tensor:
        return self.body(self.enter(latent))


class VolumeUNet(nn.Module):
    """x: f32[N, 1, 32, 48, 48] -> f32[N, 2, 32, 48, 48]. Source: Cicek et al. 2016 (3D U-Net)"""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(self.block(i, o) for i, o in ((1, 16), (16, 32), (32, 64)))
        self.ups = nn.ModuleList(nn.ConvTranspose3d(i, o, 2, 2) for i, o in ((64, 32), (32, 16)))
        self.merge = nn.ModuleList(self.block(2 * o, o) for o in (32, 16))
        self.head = nn.Conv3d(16, 2, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv3d(inputs, outputs, 3, padding=1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01),
            nn.Conv3d(outputs, outputs, 3, padding=1), nn.InstanceNorm3d(outputs, affine=True), nn.LeakyReLU(0.01),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool3d(x, 2))
            skips.append(x)
        for skip, up, merge in zip(skips[-2::-1], self.ups, self.merge, strict=True):
            x = merge(torch.cat([skip, up(x)], 1))
        return self.head(x)


class Ocr(nn.Module):
    """x: f32[N, 1, 32, 160] -> f32[N, 40, 97], log-probabilities of letters. Source: Shi et al. 2015 (CRNN)"""

    def __init__(self) -> None:
        super().__init__()

        def step(inputs: int, outputs: int, pool: tuple[int, int]) -> nn.Module:
            return nn.Sequential(conv_bn(inputs, outputs, 3, act=nn.ReLU()), nn.MaxPool2d(pool))

        self.body = nn.Sequential(
            step(1, 64, (2, 2)), step(64, 128, (2, 2)), step(128, 256, (2, 1)), step(256, 512, (4, 1))
        )
        self.reads = nn.LSTM(512, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(512, 97)

    def forward(self, x: Tensor) -> Tensor:
        columns = self.body(x).squeeze(2).transpose(1, 2)
        return self.head(self.reads(columns)[0]).log_softmax(2)


class MixerBlock(nn.Module):
    """Tokens mixed, then channels: the block of MLP-Mixer."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.tokens, self.channels = (
            nn.Sequential(nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size)) for size in (tokens, width)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.norms[1](x))


class Mixer(nn.Module):
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Tolstikhin et al. 2021, S/16"""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 512, 16, 16)
        self.body = nn.Sequential(*(MixerBlock(196, 512) for _ in range(8)), nn.LayerNorm(512))
        self.head = nn.Linear(512, 1000)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(self.enter(x).flatten(2).transpose(1, 2)).mean(1))
