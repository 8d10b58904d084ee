"""The cost model fitted to the times of tiles: what a bench cannot measure by itself, and what it decides then.

What an iteration of a pipeline costs and what narrow tiles reach show in the times of products alone. Both are chosen
so that the tile that is ranked first loses least against the fastest that was tried.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from benchmarks.gpu.bench import Row
from onnxc.compiler.codegen_gpu.schedules.cards import Card
from onnxc.compiler.codegen_gpu.schedules.cost_model import Calibration, CostModel
from onnxc.compiler.codegen_gpu.schedules.product_tiles import Products, arithmetic_of, product_seconds
from onnxc.compiler.ir.dtypes import DTYPES, F32
from onnxc.compiler.planning.schedules import Tile, Warps

__all__ = ["Candidate", "Measured", "decisions", "fitted", "products_of", "ranked_first"]

# What is tried of each constant, as multiples of what it is, and what a share may not exceed.
_FACTORS = (0.125, 0.25, 0.5, 0.7, 0.85, 1.0, 1.2, 1.4, 2.0, 4.0, 8.0)
_FITTED = ("iteration_bytes", "narrow_share", "step_seconds")
_LARGEST = {"narrow_share": 1.0}

# Passes over all constants: each is fitted while the others stay.
_PASSES = 3

# The error of times counts little beside what a wrong choice loses: it decides between equals.
_TIME_WEIGHT = 0.05


@dataclass(frozen=True)
class Candidate:
    """A tile that was tried: its text, what its cost depends on, and its seconds."""

    schedule: str
    tile: Tile
    warps: Warps
    split: int
    operands: str
    seconds: float


@dataclass(frozen=True)
class Measured:
    """A product of which several tiles were tried; `chosen` is the one that the cost model had taken."""

    name: str
    products: Products
    tried: tuple[Candidate, ...]

    @property
    def chosen(self) -> Candidate:
        return self.tried[0]

    @property
    def fastest(self) -> Candidate:
        return min(self.tried, key=lambda candidate: candidate.seconds)


def products_of(rows: Iterable[Row]) -> list[Measured]:
    """The products among the rows of sweeps."""
    return [_measured(row) for row in rows if row.get("kind") == "product" and row.get("tried")]


def fitted(card: Card, calibration: Calibration, measured: Sequence[Measured]) -> Calibration:
    """The calibration with the constants that fit the times best."""
    best = calibration
    for _, name in product(range(_PASSES), _FITTED if measured else ()):
        now, most = getattr(best, name), _LARGEST.get(name, math.inf)
        # What is changed least is tried first, and taken among equals.
        factors = sorted(_FACTORS, key=lambda factor: abs(math.log(factor)))
        tried = [replace(best, **{name: min(most, now * factor)}) for factor in factors]
        losses = [_loss(card, each, measured) for each in tried]
        best = tried[losses.index(min(losses))]
    return best


def ranked_first(card: Card, calibration: Calibration, case: Measured) -> Candidate:
    """The candidate that the cost model takes under a calibration."""
    model = CostModel(card, calibration)
    return min(case.tried, key=lambda candidate: _expected(case.products, candidate, model))


def decisions(card: Card, calibration: Calibration, measured: Sequence[Measured]) -> list[Row]:
    """What each product would be computed by, with what that gains over the tile that was chosen before."""
    rows: list[Row] = []
    for case in measured:
        now = ranked_first(card, calibration, case)
        rows.append(
            {
                "name": case.name, "was": case.chosen.schedule, "now": now.schedule,
                "fastest": case.fastest.schedule, "gain": case.chosen.seconds / now.seconds,
                "left": now.seconds / case.fastest.seconds,
            }
        )  # fmt: skip
    return rows


def _loss(card: Card, calibration: Calibration, measured: Sequence[Measured]) -> float:
    """The mean of what the first of each ranking loses, in logarithms, and a little of how wrong the times are."""
    model = CostModel(card, calibration)
    total = 0.0
    for case in measured:
        expected = [_expected(case.products, candidate, model) for candidate in case.tried]
        first = case.tried[expected.index(min(expected))]
        wrong = [abs(math.log(x / y.seconds)) for x, y in zip(expected, case.tried, strict=True)]
        total += math.log(first.seconds / case.fastest.seconds) + _TIME_WEIGHT * sum(wrong) / len(wrong)
    return total / len(measured)


def _expected(products: Products, candidate: Candidate, model: CostModel) -> float:
    arithmetic = arithmetic_of(products.dtype, F32, candidate.operands)
    return product_seconds(products, candidate.tile, candidate.warps, candidate.split, arithmetic, model)


def _measured(row: Row) -> Measured:
    sizes, tried = row["sizes"], row["tried"]
    assert isinstance(sizes, Sequence)
    assert isinstance(tried, Sequence)
    m, n, k = (int(size) for size in sizes)
    dtype = DTYPES[str(row["dtype"])]
    products = Products(1, m, n, 1, k, (m * k + k * n) * dtype.itemsize, dtype)
    return Measured(str(row["name"]), products, tuple(_candidate(each) for each in tried if "tile" in each))


def _candidate(row: Mapping[str, object]) -> Candidate:
    tile = row["tile"]
    assert isinstance(tile, Sequence)
    warps = Warps(int(str(row["warps"])), int(str(row["stages"])))
    return Candidate(
        str(row["schedule"]), Tile(*map(int, tile)), warps, int(str(row["split"])), str(row["operands"]),
        float(str(row["seconds"])),
    )  # fmt: skip
