"""The report of a compilation for a CPU: launches with their kernels, algorithms, work and estimated times, host steps.

JSON values throughout; the plan itself, as text, is at the end. Times are estimates of the cost model for one thread.
"""

from collections.abc import Iterator, Mapping, Sequence

from onnxc.compiler.codegen_cpu.schedules.cost_model import CostModel, cost_model
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.kernel_work import KernelWork
from onnxc.compiler.planning.reported_launches import (
    ReportedLaunch,
    amount,
    host_ops,
    reported_launches,
    total_arena_bytes,
)
from onnxc.compiler.planning.reported_memory import reported_memory, size_text
from onnxc.compiler.planning.schedules import Arithmetic, Schedule
from onnxc.compiler.planning.typical_sizes import TypicalSizes
from onnxc.compiler.target import Target
from onnxc.runtime.program import JsonValue

__all__ = ["make_report"]

OPERATIONS_OF_A_LANE = {"i8": 4.0, "u8": 4.0, "bf16": 2.0, "f64": 0.5}
"""By what is multiplied: how many operations an instruction makes where one of f32 would be. Processors without
instructions for bytes make fewer of these."""


def make_report(plan: KernelPlan, target: Target) -> JsonValue:
    """The report of a plan."""
    sizes, model = TypicalSizes(plan.function.symbols), cost_model(target)
    lanes = target.vector_bits // F32.bits
    memory = reported_memory(plan)
    launches = [
        {**_launch(reported, plan, sizes, model, lanes), **flow}
        for reported, flow in zip(reported_launches(plan, sizes), memory.launches, strict=True)
    ]
    steps = [
        {"op": op.name, "node": str(op.location or ""), "reason": _host_reason(op.name), **memory.hosts[id(op)]}
        for op in host_ops(plan.body)
    ]
    arena = total_arena_bytes(plan, sizes)
    totals: dict[str, JsonValue] = {
        "launches": len(launches),
        "kernels": len(plan.kernels),
        "flops": sum(amount(launch, "typical_flops") for launch in launches),
        "bytes": sum(amount(launch, "typical_bytes") for launch in launches),
        "arena_bytes": arena,
        "host_steps": len(steps),
        "seconds": float(f"{sum(amount(launch, 'seconds') for launch in launches):.3g}"),
    }
    return {
        "machine": str(target),
        "calibrated_on": model.machine.measured_on,
        "limits": {
            # A multiply-add of a vector is two operations in each lane.
            "flops_per_second": 2 * lanes * model.machine.vector_products_per_second,
            "memory_bytes_per_second": model.machine.memory_bytes_per_second,
        },
        "symbols": list(plan.function.symbols),
        "typical_sizes": dict(sorted(sizes.symbols.items())),
        "totals": totals,
        "launches": [*launches],
        "host_steps": [*steps],
        "memory": memory.json,
        "plan": str(plan),
    }


def _launch(
    reported: ReportedLaunch, plan: KernelPlan, sizes: TypicalSizes, model: CostModel, lanes: int
) -> Mapping[str, JsonValue]:
    """A launch at typical sizes: its work, and the larger of the times that its memory and its operations take."""
    entry = reported.json(sizes)
    memory = amount(entry, "typical_bytes") / model.machine.memory_bytes_per_second
    # A multiply-add of a vector is two operations in each lane.
    operations = amount(entry, "typical_flops") / (2 * lanes) / model.machine.vector_products_per_second
    return {
        **entry,
        "seconds": float(f"{max(memory, operations) + model.machine.launch_seconds:.3g}"),
        "bound": "memory" if memory >= operations else "operations",
        "steps": list(_variants(reported, plan)),
    }


def _variants(reported: ReportedLaunch, plan: KernelPlan) -> Iterator[JsonValue]:
    """What decided on the kernel of each variant, when it runs, and its work at any sizes of the program."""
    symbols = list(plan.function.symbols)
    for variant, work in zip(reported.launch.variants, reported.works, strict=True):
        kernel = plan.kernels[variant.kernel]
        schedule, when = kernel.schedule, " and ".join(map(str, variant.guard))
        yield {
            "kernel": f"k{variant.kernel}",
            "algorithm": str(getattr(schedule, "algorithm", "")),
            "schedule": schedule.brief if hasattr(schedule, "tile") else str(schedule.workers),
            "work": _work_texts(work, symbols),
            **({"when": when} if when else {}),
            **({"why": schedule.why} if schedule.why else {}),
            **({"operations_of_a_lane": many} if (many := _operations_of_a_lane(schedule)) != 1 else {}),
        }


def _operations_of_a_lane(schedule: Schedule) -> float:
    arithmetic = getattr(schedule, "arithmetic", None)
    return OPERATIONS_OF_A_LANE.get(arithmetic.operands, 1) if isinstance(arithmetic, Arithmetic) else 1


def _work_texts(work: KernelWork, symbols: Sequence[str]) -> JsonValue:
    """Bytes and operations as the runtime evaluates sizes, in the symbols of the report; None where data decides."""
    sizes = {"read_bytes": work.read_bytes, "written_bytes": work.written_bytes, "flops": work.flops}
    texts: dict[str, JsonValue] = {name: size_text(size, symbols) for name, size in sizes.items()}
    return None if None in texts.values() else texts


def _host_reason(name: str) -> str:
    if name in ("if", "while"):
        return "what it repeats or chooses is not native as a whole"
    return "there is no kernel for it, or for its types"
