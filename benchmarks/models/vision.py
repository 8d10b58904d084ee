"""Convolutional architectures in plain torch: the shapes of the originals, with seeded random weights."""

import torch
from torch import Tensor, nn


def mlp_tiny() -> nn.Module:
    """x: f32[N, 64] -> f32[N, 10]"""
    return nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)
    )


def mnist_cnn() -> nn.Module:
    """x: f32[N, 1, 28, 28] -> f32[N, 10], log-probabilities. Source: pytorch/examples, mnist/main.py"""
    return nn.Sequential(
        nn.Conv2d(1, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(9216, 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, 10),
        nn.LogSoftmax(dim=1),
    )


def conv_bn(
    inputs: int,
    outputs: int,
    kernel: int,
    *,
    stride: int = 1,
    groups: int = 1,
    act: nn.Module | None = None,
    gain: tuple[float, float] = (0.6, 1.2),
) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    norm = nn.BatchNorm2d(outputs)
    nn.init.uniform_(norm.weight, *gain)
    nn.init.normal_(norm.bias, std=0.1)
    nn.init.normal_(norm.running_mean, std=0.1)
    nn.init.uniform_(norm.running_var, 0.5, 1.5)
    return nn.Sequential(conv, norm, act or nn.Identity())


class Bottleneck(nn.Module):
    """The residual block of ResNet-50: 1x1, 3x3 (which carries the stride), 1x1."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.body = nn.Sequential(
            conv_bn(inputs, width, 1, act=nn.ReLU()),
            conv_bn(width, width, 3, stride=stride, act=nn.ReLU()),
            # A small gain keeps the residual stream from growing over sixteen blocks.
            conv_bn(width, outputs, 1, gain=(0.2, 0.5)),
        )
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else conv_bn(inputs, outputs, 1, stride=stride)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: He et al. 2015, in the variant of torchvision"""
    layers: list[nn.Module] = [conv_bn(3, 64, 7, stride=2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for i in range(blocks):
            layers.append(Bottleneck(inputs, width, stride if i == 0 else 1))
            inputs = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class InvertedResidual(nn.Module):
    """Expand by a 1x1, depthwise kxk, squeeze-and-excite if asked, project by a 1x1; residual where shapes allow."""

    def __init__(
        self, inputs: int, outputs: int, *, expand: int, kernel: int, stride: int, act: type[nn.Module], excite: bool
    ) -> None:
        super().__init__()
        width = inputs * expand
        layers: list[nn.Module] = [conv_bn(inputs, width, 1, act=act())] if expand != 1 else []
        layers.append(conv_bn(width, width, kernel, stride=stride, groups=width, act=act()))
        if excite:
            layers.append(SqueezeExcite(width, max(1, inputs // 4)))
        layers.append(conv_bn(width, outputs, 1))
        self.body = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.residual else self.body(x)


class SqueezeExcite(nn.Module):
    def __init__(self, width: int, reduced: int) -> None:
        super().__init__()
        expand = nn.Conv2d(reduced, width, 1)
        nn.init.constant_(expand.bias, 1.0)
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, reduced, 1), nn.SiLU(), expand, nn.Sigmoid()
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def mobile_stack(
    rows: tuple[tuple[int, ...], ...], *, stem: int, head: int, act: type[nn.Module], excite: bool
) -> nn.Module:
    layers: list[nn.Module] = [conv_bn(3, stem, 3, stride=2, act=act())]
    inputs = stem
    for expand, outputs, blocks, stride, kernel in rows:
        for i in range(blocks):
            step = stride if i == 0 else 1
            layers.append(
                InvertedResidual(inputs, outputs, expand=expand, kernel=kernel, stride=step, act=act, excite=excite)
            )
            inputs = outputs
    layers.append(conv_bn(inputs, head, 1, act=act()))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(head, 1000))


def mobilenet_v2() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Sandler et al. 2018, table 2"""
    rows = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 32, 3, 2, 3),
        (6, 64, 4, 2, 3),
        (6, 96, 3, 1, 3),
        (6, 160, 3, 2, 3),
        (6, 320, 1, 1, 3),
    )
    return mobile_stack(rows, stem=32, head=1280, act=nn.ReLU6, excite=False)


def efficientnet_b0() -> nn.Module:
    """x: f32[N, 3, 224, 224] -> f32[N, 1000]. Source: Tan and Le 2019, table 1"""
    rows = (
        (1, 16, 1, 1, 3),
        (6, 24, 2, 2, 3),
        (6, 40, 2, 2, 5),
        (6, 80, 3, 2, 3),
        (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5),
        (6, 320, 1, 1, 3),
    )
    return mobile_stack(rows, stem=32, head=1280, act=nn.SiLU, excite=True)


class UNet(nn.Module):
    """x: f32[N, 3, H, W] -> f32[N, 2, H, W]; one upsampling by transposed convolution, the others by interpolation."""

    def __init__(self, widths: tuple[int, ...] = (64, 128, 256, 512)) -> None:
        super().__init__()
        inputs = (3, *widths[:-1])
        self.down = nn.ModuleList(self.block(i, o) for i, o in zip(inputs, widths, strict=True))
        pairs = tuple(zip(widths[::-1][:-1], widths[::-1][1:], strict=True))
        self.up = nn.ModuleList(self.upsample(i, o, learned=n == 0) for n, (i, o) in enumerate(pairs))
        self.merge = nn.ModuleList(self.block(2 * o, o) for _, o in pairs)
        self.head = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def block(inputs: int, outputs: int) -> nn.Module:
        return nn.Sequential(conv_bn(inputs, outputs, 3, act=nn.ReLU()), conv_bn(outputs, outputs, 3, act=nn.ReLU()))

    @staticmethod
    def upsample(inputs: int, outputs: int, *, learned: bool) -> nn.Module:
        if learned:
            return nn.ConvTranspose2d(inputs, outputs, 2, 2)
        return nn.Sequential(
            nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False), nn.Conv2d(inputs, outputs, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else torch.max_pool2d(x, 2))
            skips.append(x)
        for skip, up, merge in zip(skips[-2::-1], self.up, self.merge, strict=True):
            x = merge(torch.cat([skip, up(x)], dim=1))
        return self.head(x)
