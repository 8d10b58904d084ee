"""What a launch costs, estimated from its bytes, its operations and how evenly it fills the card.

Amounts are numbers, or arrays of them for as many launches at once. The limits are those of the card, times the shares
of them in calibration.json; `measured_on` names the card that the shares were measured on, and is empty where they are
expectations. Only comparisons are meant: which tile, which split.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np

from onnxc.compiler.codegen_gpu.schedules.cards import Card, Unit, card_of
from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["Amount", "Calibration", "CostModel", "Estimate", "Work", "cost_model"]

Amount = float | np.ndarray
"""A number, or one for each of several launches."""

_CALIBRATION = Path(__file__).with_name("calibration.json")


@record
class Calibration:
    """What a kind of card reaches of its data sheet.

    bandwidth, peak: shares. launch_seconds, graph_launch_seconds: from one launch to the next, outside of a CUDA graph
    and inside. start_seconds: from the first instruction of a kernel to its last where it has nothing to do.
    step_seconds: from a load out of device memory to its data, with the synchronisation of a pipeline. l2_ratio: the
    bandwidth of the L2 cache against that of device memory. iteration_bytes: what could be loaded while an iteration of
    the pipeline of a product is synchronised. narrow_share: the share of `peak` that tiles of fewer than 64 rows reach,
    which single warps multiply. split_share: the share of `peak` that f32 reaches in three products, whose parts are
    taken in registers.
    """

    measured_on: str
    bandwidth: float
    peak: float
    launch_seconds: float
    graph_launch_seconds: float
    start_seconds: float
    step_seconds: float
    l2_ratio: float
    iteration_bytes: float
    narrow_share: float
    split_share: float


@record
class Work:
    """What a launch does.

    memory_bytes: to and from device memory. cache_bytes: to and from the L2 cache. operations: of `unit`, a
    multiply-add being two. programs: of the grid; programs_per_sm: that run at once on a multiprocessor.
    steps: loads that wait for one another in a program, each about a microsecond where nothing hides it.
    """

    memory_bytes: Amount
    cache_bytes: Amount = 0
    operations: Amount = 0
    unit: Unit = "fp32"
    programs: Amount = 1
    programs_per_sm: int = 1
    steps: int = 1


PORTS_RATIO = 4 / 3
"""What all multiprocessors together can take, 64 bytes in a cycle each, against the bandwidth of the L2 cache."""


@record
class Estimate:
    """The seconds of a launch: memory, arithmetic and waiting go on at the same time, `fixed` comes on top."""

    memory: Amount
    arithmetic: Amount
    waiting: Amount
    fixed: float

    @property
    def seconds(self) -> Amount:
        """How long a launch runs, its share of the launching included."""
        return np.maximum(np.maximum(self.memory, self.arithmetic), self.waiting) + self.fixed

    @property
    def bound(self) -> str:
        """What most of the time goes into: "memory", "arithmetic", "waiting" for loads, or the "launch" itself."""
        named = {"memory": self.memory, "arithmetic": self.arithmetic, "waiting": self.waiting, "launch": self.fixed}
        return max(named, key=lambda name: float(named[name]))


@record
class CostModel:
    """The model of one card."""

    card: Card
    calibration: Calibration

    def estimate(self, work: Work) -> Estimate:
        """What a launch takes, by what limits it."""
        slots = self.card.sms * work.programs_per_sm
        waves = -(-work.programs // slots)
        busy = np.where(work.programs, work.programs / np.maximum(waves * slots, 1), 1.0)
        # A few programs can draw a good part of the bandwidth, but none can lend its tensor cores to another.
        bandwidth = self.card.bandwidth * self.calibration.bandwidth * np.minimum(1.0, busy**0.5)
        # The cache gives more to each multiprocessor where few ask, up to what one can take.
        asking = np.minimum(1.0, PORTS_RATIO * work.programs / np.maximum(waves * self.card.sms, 1))
        cache = self.card.bandwidth * self.calibration.bandwidth * self.calibration.l2_ratio * np.maximum(asking, 1e-3)
        return Estimate(
            memory=work.memory_bytes / bandwidth + work.cache_bytes / cache,
            arithmetic=work.operations / (self.card.peak[work.unit] * self.calibration.peak * np.maximum(busy, 1e-3)),
            waiting=waves * work.steps * self.calibration.step_seconds,
            fixed=self.calibration.graph_launch_seconds + self.calibration.start_seconds,
        )

    def seconds(self, work: Work) -> float:
        """How long one launch runs, its share of the launching included."""
        return float(self.estimate(work).seconds)


@cache
def cost_model(target: Target) -> CostModel:
    """The model of the card that a target stands for. Raises UnsupportedError where there is none."""
    card = card_of(target)
    table: Mapping[str, Mapping[str, float | str]] = json.loads(_CALIBRATION.read_text())
    entry = table[f"sm_{card.architecture}"]
    limits = {key: float(value) for key, value in entry.items() if key != "measured_on"}
    return CostModel(card, Calibration(str(entry["measured_on"]), **limits))
