"""Recommenders, graphs and point clouds in plain torch: gathers, scatters and small products."""

from itertools import pairwise

import torch
from torch import Tensor, nn


def _tower(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class Recommender(nn.Module):
    """numbers f32[N, 13], categories i64[N, 26] -> f32[N, 1]. Source: Naumov et al. 2019 (DLRM)"""

    def __init__(self, rows: int = 20_000, width: int = 64) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(26))
        self.bottom, self.top = (
            _tower(13, 512, 256, width),
            nn.Sequential(_tower(27 * 26 // 2 + width, 512, 256), nn.Linear(256, 1)),
        )
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1))

    def forward(self, numbers: Tensor, categories: Tensor) -> Tensor:
        dense = self.bottom(numbers)
        rows = torch.stack([dense, *(table(categories[:, i]) for i, table in enumerate(self.tables))], 1)
        products = torch.bmm(rows, rows.transpose(1, 2))
        chosen = products[:, self.pairs[0], self.pairs[1]]
        return torch.sigmoid(self.top(torch.cat([dense, chosen], 1)))


class FactorMachine(nn.Module):
    """categories i64[N, 24] -> f32[N, 1]: pairs of fields and a tower. Source: Guo et al. 2017 (DeepFM)"""

    def __init__(self, rows: int = 100_000, width: int = 16) -> None:
        super().__init__()
        self.linear, self.factors = nn.Embedding(rows, 1), nn.Embedding(rows, width)
        self.tower = nn.Sequential(_tower(24 * width, 256, 128), nn.Linear(128, 1))
        for table in (self.linear, self.factors):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, categories: Tensor) -> Tensor:
        factors = self.factors(categories)
        pairs = 0.5 * (factors.sum(1).square() - factors.square().sum(1)).sum(1, keepdim=True)
        return torch.sigmoid(self.linear(categories).sum(1) + pairs + self.tower(factors.flatten(1)))


class GraphNet(nn.Module):
    """nodes f32[V, 64], edges i64[2, E] -> f32[V, 16]: three rounds of messages, summed where they arrive."""

    def __init__(self) -> None:
        super().__init__()
        self.messages = nn.ModuleList(_tower(128, 64) for _ in range(3))
        self.updates = nn.ModuleList(_tower(128, 64) for _ in range(3))
        self.head = nn.Linear(64, 16)

    def forward(self, nodes: Tensor, edges: Tensor) -> Tensor:
        source, target = edges[0], edges[1]
        for message, update in zip(self.messages, self.updates, strict=True):
            sent = message(torch.cat([nodes[source], nodes[target]], 1))
            arrived = torch.zeros_like(nodes).index_add(0, target, sent)
            nodes = nodes + update(torch.cat([nodes, arrived], 1))
        return self.head(nodes)


class PointNet(nn.Module):
    """points f32[N, 3, P] -> f32[N, 40]. Source: Qi et al. 2016, without its spatial transformers"""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for inputs, outputs in ((3, 64), (64, 64), (64, 128), (128, 1024)):
            layers += [nn.Conv1d(inputs, outputs, 1), nn.BatchNorm1d(outputs), nn.ReLU()]
        self.each, self.head = nn.Sequential(*layers), nn.Sequential(_tower(1024, 512, 256), nn.Linear(256, 40))

    def forward(self, points: Tensor) -> Tensor:
        return self.head(self.each(points).amax(2))


class Radiance(nn.Module):
    """points f32[N, 3] -> colour and density f32[N, 4], sines of the coordinates first. Source: Mildenhall 2020"""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = _tower(63, 256, 256, 256, 256), _tower(319, 256, 256, 256)
        self.head = nn.Linear(256, 4)
        self.register_buffer("octaves", 2.0 ** torch.arange(10))

    def forward(self, points: Tensor) -> Tensor:
        angles = (points[:, :, None] * self.octaves).flatten(1)
        features = torch.cat([points, angles.sin(), angles.cos()], 1)
        return self.head(self.second(torch.cat([self.first(features), features], 1)))
