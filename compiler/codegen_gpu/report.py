"""The report of a compilation for a GPU: launches with their kernels, work and estimated times, transfers, host steps.

JSON values throughout. A size that only a call decides is a text in the names of the symbols, beside its number at
`typical_sizes`. Times are estimates of the cost model, not measurements.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from onnxc.compiler.codegen_gpu.kernel_work import KernelWork, work_of
from onnxc.compiler.codegen_gpu.schedules.cost_model import CostModel, Work, cost_model
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.transfers import ReportedCopy, find_transfers, host_reason, op_text
from onnxc.compiler.ir.dim_symbols import evaluate, substitute, symbols_of
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import (
    Guard,
    GuardStep,
    KernelPlan,
    Launch,
    Loop,
    OpStep,
    Region,
    Segment,
    Variant,
    regions_of,
    walk_steps,
)
from onnxc.compiler.target import Target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import JsonValue

__all__ = ["TYPICAL_SIZE", "make_report"]

TYPICAL_SIZE = 32
"""What a size that only a call decides is taken for, within its range."""

_WARP_THREADS, _FEW_WARPS = 32, 4
_SHOWN_KEY = 12


def make_report(
    plan: KernelPlan, codes: Sequence[KernelCode], kernels: Mapping[KernelSource, DeviceKernel], target: Target
) -> JsonValue:
    """The report of a plan; `codes` are by number of the plan's kernels."""
    return _Report(plan, codes, kernels, cost_model(target), _Sizes(plan.function.symbols)).json()


class _Sizes:
    """Sizes as texts, and as numbers at typical values of the symbols, which are collected in `symbols`."""

    def __init__(self, ranges: Mapping[str, tuple[int, int | None]]) -> None:
        self._ranges = ranges
        self.symbols: dict[str, int] = {}

    def number(self, dim: Dim) -> int:
        """The size where every symbol is typical."""
        for name in sorted(symbols_of(dim)):
            low, high = self._ranges.get(name, (0, None))
            typical = max(low, TYPICAL_SIZE)
            self.symbols[name] = typical if high is None else min(high, typical)
        return evaluate(dim, self.symbols)

    def json(self, dim: Dim) -> JsonValue:
        """A number; or where it has symbols, its text and its typical value."""
        return dim if isinstance(dim, int) else {"size": str(dim), "typical": self.number(dim)}


@dataclass(frozen=True)
class _Report:
    plan: KernelPlan
    codes: Sequence[KernelCode]
    kernels: Mapping[KernelSource, DeviceKernel]
    model: CostModel
    sizes: _Sizes

    def json(self) -> JsonValue:
        """The whole report."""
        segments = [(segment, in_loop) for segment, in_loop in _segments(self.plan.body)]
        launches = [self._launch(launch, in_loop) for segment, in_loop in segments for launch in segment.launches]
        transfers = [self._transfer(transfer) for transfer in find_transfers(self.plan)]
        arenas = [segment.arena_bytes for segment, _ in segments]
        arena = max(arenas, key=self.sizes.number, default=0)
        totals = {
            "launches": sum(_int(launch, "launches") for launch in launches),
            "kernels": len(self.kernels),
            "flops": sum(_int(launch, "typical_flops") for launch in launches),
            "bytes": sum(_int(launch, "typical_bytes") for launch in launches),
            "arena_bytes": self.sizes.json(arena),
            "transfers": len(transfers),
            "transferred_bytes": sum(_int(transfer, "typical_bytes") for transfer in transfers),
            "host_steps": len(list(_host_steps(self.plan.body))),
            "seconds": float(f"{sum(map(_seconds, launches)):.3g}"),
        }
        calibration = self.model.calibration
        return {
            "card": self.model.card.name,
            "calibrated_on": calibration.measured_on or "data sheets: nothing was measured",
            "typical_sizes": dict(sorted(self.sizes.symbols.items())),
            "totals": totals,
            "launches": launches,
            "transfers": transfers,
            "host_steps": [_host_step(op) for op in _host_steps(self.plan.body)],
            "kernels": [self._kernel(kernel) for kernel in dict.fromkeys(self.kernels.values())],
        }

    def _launch(self, launch: Launch, in_loop: bool) -> dict[str, JsonValue]:
        """One launch of the plan, with the launches of the device that this takes, for typical calls and for others."""
        variant = next(each for each in launch.variants if self._is_typical(each.guard))
        kernel, code = self.plan.kernels[variant.kernel], self.codes[variant.kernel]
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        work = work_of(kernel)
        read, written, flops = (substitute(size, own) for size in (work.read_bytes, work.written_bytes, work.flops))
        return {
            "kind": kernel.kind,
            "node": str(launch.location or ""),
            "ops": ", ".join(dict.fromkeys(op.name for op in kernel.block.ops if op.name != "constant")),
            "schedule": str(kernel.schedule),
            "steps": [step for each in launch.variants for step in self._steps(each)],
            "launches": len(code.steps),
            "read_bytes": self.sizes.json(read),
            "written_bytes": self.sizes.json(written),
            "flops": self.sizes.json(flops),
            "typical_bytes": self.sizes.number(read) + self.sizes.number(written),
            "typical_flops": self.sizes.number(flops),
            **self._estimate(work, own, code.steps),
            "in_loop": in_loop,
        }

    def _estimate(self, work: KernelWork, own: Mapping[str, Dim], steps: Sequence[DeviceStep]) -> dict[str, JsonValue]:
        """The time of a launch at typical sizes, and what most of it goes into."""
        if not steps:
            return {"seconds": 0.0, "bound": "nothing is launched"}
        kernel = self.kernels[steps[0].source]
        at_once = self.model.card.blocks_at_once(kernel.warps * _WARP_THREADS, kernel.registers, kernel.shared_bytes)
        if work.unit != "fp32":
            # As in product_tiles.py: a few programs keep the tensor cores of a multiprocessor busy.
            at_once = min(at_once, 2 if kernel.warps <= _FEW_WARPS else 1)
        nbytes, flops = (substitute(size, own) for size in (work.read_bytes + work.written_bytes, work.flops))
        estimate = self.model.estimate(
            Work(
                memory_bytes=self.sizes.number(nbytes),
                operations=self.sizes.number(flops) * work.repeats,
                unit=work.unit,
                programs=max(1, self.sizes.number(substitute(product(steps[0].grid), own))),
                programs_per_sm=max(1, at_once),
            )
        )
        seconds = estimate.seconds + (len(steps) - 1) * estimate.fixed
        return {"seconds": float(f"{seconds:.3g}"), "bound": estimate.bound}

    def _steps(self, variant: Variant) -> Iterator[JsonValue]:
        """The launches of the device that a variant takes; what decided its schedule stands with the first."""
        kernel = self.plan.kernels[variant.kernel]
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        when = " and ".join(map(str, variant.guard))
        for ordinal, step in enumerate(self.codes[variant.kernel].steps):
            why = kernel.schedule.why if ordinal == 0 else ""
            yield {
                "kernel": self.kernels[step.source].key[:_SHOWN_KEY],
                "programs": self.sizes.json(substitute(product(step.grid), own)),
                "stages": step.source.stages,
                **({"when": when} if when else {}),
                **({"why": why} if why else {}),
            }

    def _is_typical(self, guard: Guard) -> bool:
        """Whether a variant serves typical calls."""
        sized = ((each, self.sizes.number(each.size)) for each in guard)
        return all(size >= each.low and (each.high is None or size <= each.high) for each, size in sized)

    def _kernel(self, kernel: DeviceKernel) -> JsonValue:
        """What the compiler made of a source."""
        threads = kernel.warps * _WARP_THREADS
        return {
            "key": kernel.key[:_SHOWN_KEY],
            "warps": kernel.warps,
            "registers": kernel.registers,
            "stack_bytes": kernel.stack_bytes,
            "shared_bytes": kernel.shared_bytes,
            "scratch_bytes_per_block": kernel.scratch_bytes,
            "blocks_per_sm": self.model.card.blocks_at_once(threads, kernel.registers, kernel.shared_bytes),
            "cubin_bytes": len(kernel.cubin),
        }

    def _transfer(self, transfer: ReportedCopy) -> dict[str, JsonValue]:
        return {
            "direction": transfer.direction,
            "value": transfer.value,
            "bytes": self.sizes.json(transfer.bytes),
            "typical_bytes": self.sizes.number(transfer.bytes),
            "reason": transfer.reason,
            "is_certain": transfer.is_certain,
            "in_loop": transfer.in_loop,
        }


def _segments(region: Region, in_loop: bool = False) -> Iterator[tuple[Segment, bool]]:
    """The segments of a region and those within its steps, and whether a loop repeats them."""
    for step in region.steps:
        if isinstance(step, Segment):
            yield step, in_loop
        for inner in regions_of(step):
            yield from _segments(inner, in_loop or isinstance(step, Loop))


def _host_steps(region: Region) -> Iterator[Op]:
    """The ops over data that run on the host; comparing sizes is none."""
    return (
        step.op for step in walk_steps(region.steps) if isinstance(step, OpStep) and not isinstance(step, GuardStep)
    )


def _host_step(op: Op) -> JsonValue:
    return {"op": op_text(op), "node": str(op.location or ""), "reason": host_reason(op)}


def _seconds(launch: Mapping[str, JsonValue]) -> float:
    value = launch["seconds"]
    assert isinstance(value, float), value
    return value


def _int(entry: Mapping[str, JsonValue], name: str) -> int:
    value = entry[name]
    assert isinstance(value, int), (name, value)
    return value
