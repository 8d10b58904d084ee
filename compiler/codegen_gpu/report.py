"""The report of a compilation for a GPU: launches with their kernels, work and estimated times, transfers, host steps.

JSON values throughout. A size that only a call decides is a text in the names of the symbols, beside its number at
`typical_sizes`. Times are estimates of the cost model, not measurements.
"""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.codegen_gpu.kernel_work import DeviceWork, work_of
from onnxc.compiler.codegen_gpu.schedules.cards import WARP_THREADS
from onnxc.compiler.codegen_gpu.schedules.cost_model import CostModel, Work, cost_model
from onnxc.compiler.codegen_gpu.source.kernel_source import DeviceStep, KernelCode, KernelSource
from onnxc.compiler.codegen_gpu.transfers import ReportedCopy, find_transfers, host_reason, op_text
from onnxc.compiler.ir.dim_symbols import substitute
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.module import Op
from onnxc.compiler.planning.kernel_plan import KernelPlan, Variant
from onnxc.compiler.planning.reported_launches import (
    ReportedLaunch,
    amount,
    host_ops,
    reported_launches,
    total_arena_bytes,
)
from onnxc.compiler.planning.typical_sizes import TypicalSizes
from onnxc.compiler.target import Target
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import JsonValue
from onnxc.runtime.records import record

__all__ = ["make_report"]

_FEW_WARPS = 4
_SHOWN_KEY = 12


def make_report(
    plan: KernelPlan,
    codes: Sequence[KernelCode],
    kernels: Mapping[KernelSource, DeviceKernel],
    target: Target,
    why_not: str = "",
) -> JsonValue:
    """The report of a plan; `codes` are by number of the plan's kernels.

    why_not: why no graph serves calls whose sizes grow, where they do and none does.
    """
    report = _Report(plan, codes, kernels, cost_model(target), TypicalSizes(plan.function.symbols)).json()
    if plan.growing:
        return {**report, "growing": {"symbols": dict(plan.growing), "one_graph": True}}
    return {**report, "growing": {"one_graph": False, "reason": why_not}} if why_not else report


@record
class _Report:
    plan: KernelPlan
    codes: Sequence[KernelCode]
    kernels: Mapping[KernelSource, DeviceKernel]
    model: CostModel
    sizes: TypicalSizes

    def json(self) -> dict[str, JsonValue]:
        """The whole report."""
        launches = [self._launch(launch) for launch in reported_launches(self.plan, self.sizes)]
        transfers = [self._transfer(transfer) for transfer in find_transfers(self.plan)]
        totals = {
            "launches": sum(amount(launch, "launches") for launch in launches),
            "kernels": len(self.kernels),
            "flops": sum(amount(launch, "typical_flops") for launch in launches),
            "bytes": sum(amount(launch, "typical_bytes") for launch in launches),
            "arena_bytes": total_arena_bytes(self.plan, self.sizes),
            "transfers": len(transfers),
            "transferred_bytes": sum(amount(transfer, "typical_bytes") for transfer in transfers),
            "host_steps": len(list(host_ops(self.plan.body))),
            "seconds": float(f"{sum(amount(launch, 'seconds') for launch in launches):.3g}"),
        }
        calibration = self.model.calibration
        return {
            "card": self.model.card.name,
            "calibrated_on": calibration.measured_on or "data sheets: nothing was measured",
            "typical_sizes": dict(sorted(self.sizes.symbols.items())),
            "totals": totals,
            "launches": launches,
            "transfers": transfers,
            "host_steps": [_host_step(op) for op in host_ops(self.plan.body)],
            "kernels": [self._kernel(kernel) for kernel in dict.fromkeys(self.kernels.values())],
        }

    def _launch(self, reported: ReportedLaunch) -> dict[str, JsonValue]:
        """One launch of the plan, with the launches of the device that this takes, for typical calls and for others."""
        code = self.codes[reported.variant.kernel]
        return {
            **reported.json(self.sizes),
            "steps": [
                step
                for each in reported.launch.variants
                for step in self._steps(each, is_typical=each is reported.variant)
            ],
            "launches": len(code.steps),
            **self._estimate(work_of(reported.kernel), reported.own, code.steps),
        }

    def _estimate(self, work: DeviceWork, own: Mapping[str, Dim], steps: Sequence[DeviceStep]) -> dict[str, JsonValue]:
        """The time of a launch at typical sizes, and what most of it goes into."""
        if not steps:
            return {"seconds": 0.0, "bound": "nothing is launched"}
        main = next((step for step in steps if step.source.cooperative), steps[0])
        kernel = self.kernels[main.source]
        at_once = self.model.card.blocks_at_once(kernel.warps * WARP_THREADS, kernel.registers, kernel.shared_bytes)
        if work.unit != "fp32":
            # As in product_tiles.py: a few programs keep the tensor cores of a multiprocessor busy.
            at_once = min(at_once, 2 if kernel.warps <= _FEW_WARPS else 1)
        nbytes, flops = (substitute(size, own) for size in (work.read_bytes + work.written_bytes, work.flops))
        estimate = self.model.estimate(
            Work(
                memory_bytes=self.sizes.typical(nbytes),
                operations=self.sizes.typical(flops) * work.repeats,
                unit=work.unit,
                programs=max(1, self.sizes.typical(substitute(product(main.grid), own))),
                programs_per_sm=max(1, at_once),
                steps=max(1, self.sizes.typical(substitute(work.steps, own))),
            )
        )
        seconds = estimate.seconds + (len(steps) - 1) * estimate.fixed
        return {"seconds": float(f"{seconds:.3g}"), "bound": estimate.bound}

    def _steps(self, variant: Variant, *, is_typical: bool) -> Iterator[JsonValue]:
        """The launches of the device that a variant takes; what decided its schedule stands with the first.

        is_typical: whether typical calls take it.
        """
        kernel = self.plan.kernels[variant.kernel]
        own = dict(zip(kernel.symbols, variant.sizes, strict=True))
        when = " and ".join(map(str, variant.guard))
        for ordinal, step in enumerate(self.codes[variant.kernel].steps):
            why = kernel.schedule.why if ordinal == 0 else ""
            yield {
                "kernel": self.kernels[step.source].key[:_SHOWN_KEY],
                "programs": self.sizes.json(substitute(product(step.grid), own)),
                "stages": step.source.stages,
                "is_typical": is_typical,
                **({"when": when} if when else {}),
                **({"why": why} if why else {}),
            }

    def _kernel(self, kernel: DeviceKernel) -> JsonValue:
        """What the compiler made of a source."""
        threads = kernel.warps * WARP_THREADS
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
            "typical_bytes": self.sizes.typical(transfer.bytes),
            "reason": transfer.reason,
            "is_certain": transfer.is_certain,
            "in_loop": transfer.in_loop,
        }


def _host_step(op: Op) -> JsonValue:
    return {"op": op_text(op), "node": str(op.location or ""), "reason": host_reason(op)}
