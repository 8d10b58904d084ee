"""What a launch costs on one thread of a CPU, from its products, its bytes and what a launch takes by itself.

The limits are data, in machines.json, by the width of vectors; `measured_on` names the processor that they were
measured on (`python -m benchmarks.cpu_limits`). Only comparisons are meant: which panel, which algorithm.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from onnxc.compiler.target import Target
from onnxc.runtime.records import record

__all__ = ["CostModel", "Machine", "cost_model"]

_MACHINES = Path(__file__).with_name("machines.json")


@record
class Machine:
    """The limits of one core.

    vector_products_per_second: multiply-adds of whole vectors of f32, from the caches. memory_bytes_per_second: of what
    no cache holds, read in order. second_cache_bytes: the cache of a core behind the first.
    """

    measured_on: str
    vector_products_per_second: float
    memory_bytes_per_second: float
    launch_seconds: float
    second_cache_bytes: float


@record
class CostModel:
    """The model of one kind of processor."""

    machine: Machine

    def seconds(self, vector_products: float, memory_bytes: float) -> float:
        """How long a launch takes that makes so many multiply-adds of vectors and goes over so many bytes.

        The two are added up: one core overlaps them in part only.
        """
        machine = self.machine
        products = vector_products / machine.vector_products_per_second
        return products + memory_bytes / machine.memory_bytes_per_second + machine.launch_seconds


@cache
def cost_model(target: Target) -> CostModel:
    """The model for a target, by the width of its vectors."""
    table: Mapping[str, Mapping[str, float | str]] = json.loads(_MACHINES.read_text())
    entry = table[str(target.vector_bits)]
    limits = {key: float(value) for key, value in entry.items() if key != "measured_on"}
    return CostModel(Machine(str(entry["measured_on"]), **limits))
