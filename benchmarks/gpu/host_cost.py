"""What a call of a model for a GPU costs on the host: microseconds against a driver whose functions return at once.

    python -m benchmarks.gpu.host_cost --models DIR [--only NAME,...] [--out FILE]

Needs neither a GPU nor Triton: kernels are not compiled, because nothing runs them. Inputs lie on the device. "same" is
the call that is replayed from a graph, "growing" one whose symbolic sizes are larger by one in every call, as in
generation. A real driver adds about 2 microseconds for each launch outside of a graph.
"""

import argparse
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.gpu.emitted import emitted
from benchmarks.gpu.stub_driver import StubDriver
from benchmarks.inputs import ModelSpec, read_manifest, size_of
from onnxc.compiler.options import ModelSource, make_options
from onnxc.runtime.gpu.arrays import DeviceArray
from onnxc.runtime.gpu.device import Device
from onnxc.runtime.gpu.executable import DeviceExecutable
from onnxc.runtime.load import make_executable
from tests.support.fake_gpu import fake_kernels

__all__ = ["HostCost", "Stubbed", "arrays_at", "host_cost", "on_stub", "table_of"]

MODELS = ("bert_base", "resnet50", "gpt2_decode", "llama_small_decode")

# Calls of a round, whose median is taken, and rounds, of whose medians the least is.
CALLS, ROUNDS = 60, 5

# The functions that the table counts in each growing call, and their columns.
WATCHED = {"cuMemAlloc_v2": "allocations", "cuStreamSynchronize": "waits", "cuGraphInstantiateWithFlags": "captures"}


@dataclass(frozen=True, eq=False)
class Stubbed:
    """A model on a device that does nothing, and what the driver counts."""

    executable: DeviceExecutable
    stub: StubDriver
    device: Device


@dataclass(frozen=True)
class HostCost:
    """A row of the table: microseconds of the thread in a call, and what of `WATCHED` a growing call needs."""

    model: str
    inputs: int
    outputs: int
    launches: int
    same_us: float
    growing_us: float
    watched: Mapping[str, float]


def on_stub(model: ModelSource, precision: str = "bf16") -> Stubbed:
    """The model compiled but for its kernels, on the stub."""
    options = make_options("cuda:sm_90", precision=precision, cache=False)
    stub = StubDriver()
    executable = make_executable(emitted(model, options, fake_kernels), driver=stub.driver)
    assert isinstance(executable, DeviceExecutable)
    return Stubbed(executable, stub, Device(stub.driver))


def arrays_at(stubbed: Stubbed, spec: ModelSpec, sizes: Mapping[str, int]) -> list[DeviceArray]:
    """Inputs on the device, at addresses that nothing reads."""
    first = 0x7E00_0000_0000
    shapes = [tuple(size_of(size, sizes) for size in item.shape) for item in spec.inputs]
    return [
        DeviceArray(stubbed.device, first + (k << 32), shape, np.dtype(item.dtype), stubbed)
        for k, (item, shape) in enumerate(zip(spec.inputs, shapes, strict=True))
    ]


def host_cost(stubbed: Stubbed, spec: ModelSpec, calls: int = CALLS, rounds: int = ROUNDS) -> HostCost:
    """The row of a model."""
    sizes = spec.sizes["one"]
    same = arrays_at(stubbed, spec, sizes)
    growing = [arrays_at(stubbed, spec, _grown(sizes, step)) for step in range(1, calls * rounds + 1)]
    same_us = min(_median_us(stubbed, [same] * calls) for _ in range(rounds))
    before = stubbed.stub.calls
    growing_us = min(_median_us(stubbed, growing[k * calls : (k + 1) * calls]) for k in range(rounds))
    watched = {label: (stubbed.stub.calls[name] - before[name]) / len(growing) for name, label in WATCHED.items()}
    run = stubbed.executable
    return HostCost(spec.name, len(run.inputs), len(run.outputs), launches_of(stubbed), same_us, growing_us, watched)


def launches_of(stubbed: Stubbed) -> int:
    """How many kernels a call launches, by the report."""
    report = stubbed.executable.report()
    assert isinstance(report, Mapping)
    return int(report["totals"]["launches"])


def table_of(rows: Sequence[HostCost]) -> str:
    """The rows as a table of Markdown."""
    head = ["model", "inputs", "outputs", "launches", "same us", "growing us", *WATCHED.values()]
    lines = [head, ["---"] * len(head)]
    for row in rows:
        counts = [f"{row.watched[label]:.2f}" for label in WATCHED.values()]
        cells = [row.inputs, row.outputs, row.launches, f"{row.same_us:.0f}", f"{row.growing_us:.0f}"]
        lines.append([row.model, *map(str, cells), *counts])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _grown(sizes: Mapping[str, int], step: int) -> dict[str, int]:
    """The sizes of a later call: what is cached grows in generation, in other models the batch does."""
    growing = [name for name in sizes if "past" in name] or [next(iter(sizes))]
    return {name: size + step * (name in growing) for name, size in sizes.items()}


def _median_us(stubbed: Stubbed, feeds: Sequence[Sequence[DeviceArray]]) -> float:
    """The median microseconds of the thread in a call."""
    run, took = stubbed.executable, []
    for feed in feeds:
        started = time.thread_time_ns()
        result = run(*feed)
        took.append(time.thread_time_ns() - started)
        del result
    return statistics.median(took) / 1000


def main() -> int:
    """Prints the table, and writes it where asked to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host_cost", description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, required=True, metavar="DIR", help="a folder of exported models")
    parser.add_argument("--only", type=lambda text: tuple(text.split(",")), default=MODELS, metavar="NAME,...")
    parser.add_argument("--out", type=Path, metavar="FILE", help="the table is written here too")
    options = parser.parse_args()
    specs = {spec.name: spec for spec in read_manifest(options.models)}
    missing = [name for name in options.only if name not in specs]
    if missing:
        parser.error(f"{options.models} has no {', '.join(missing)}; it has {', '.join(specs)}")
    rows = []
    for name in options.only:
        rows.append(host_cost(on_stub(str(specs[name].path)), specs[name]))
        print(table_of(rows[-1:]).splitlines()[-1], flush=True)
    if options.out is not None:
        options.out.write_text(table_of(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
