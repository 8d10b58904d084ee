"""Products whose blocks warps of their own copy: candidates that sweeps time; their values, and their machine code."""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.gpu.sweeps import needed_kernels
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.cubin import instruction_counts
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.module import Module, Value
from onnxc.compiler.planning.choose_schedules import KernelProblem, cases_of, rank_schedules
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.compiler.planning.schedules import Arithmetic, ContractionSchedule, Tile, Warps
from onnxc.compiler.target import Target, parse_target
from tests.codegen_gpu.support import SM_80, SM_90, Device, make, sample

TRITON = importlib.util.find_spec("triton")
assert TRITON is not None
assert TRITON.origin is not None
DISASSEMBLER = Path(TRITON.origin).parent / "backends" / "nvidia" / "bin" / "nvdisasm"


def _plain(ir: Builder, a: Value, b: Value) -> Value:
    return ir.dot(a, b, "mk,kn->mn")


def _finished(ir: Builder, x: Value, w: Value, bias: Value) -> Value:
    return ir.gelu(ir.add(ir.dot(x, w, "bmk,nk->bmn"), bias))


def _biased(ir: Builder, x: Value, w: Value, bias: Value) -> Value:
    return ir.max(ir.add(ir.dot(x, w, "mk,nk->mn"), bias), 0.0)


def _handing(module: Module, target: Target = SM_90) -> tuple[list[ContractionSchedule], int]:
    """The candidates with warps of their own for copies, and how many are ranked before the first of them."""
    plan_target = gpu_plan_target(target)
    kernel = plan_kernels(module, plan_target).kernels[-1]
    problem = KernelProblem(kernel.kind, kernel.block)
    *_, (_, case) = cases_of(problem, plan_target)
    ranked = rank_schedules(problem, plan_target, case, plan_target.candidates(problem, case))
    schedules = [schedule for _, schedule in ranked if isinstance(schedule, ContractionSchedule)]
    before = next((place for place, schedule in enumerate(schedules) if schedule.hands_over), len(schedules))
    return [schedule for schedule in schedules if schedule.hands_over], before


@pytest.mark.parametrize("resident", [1, 2])
def test_values(resident: int) -> None:
    """Results in rows of another shape, columns and a depth that fill no tile, and more tiles than programs."""
    schedule = ContractionSchedule(
        algorithm="tiles", tile=Tile(128, 256, 64), arithmetic=Arithmetic("bf16", F32), workers=Warps(8, 3),
        block_copies=True, resident=resident, hands_over=True, program_bytes=256, programs=resident,
    )  # fmt: skip
    device = Device(make(["bf16[2, 77, 72]", "bf16[328, 72]", "bf16[328]"], _finished), schedule=schedule)
    (step,) = device.code(0).steps
    assert product(step.grid) == resident
    assert "warp_specialize=True" in step.source.text
    device.check(*(sample(BF16, *shape) for shape in ((2, 77, 72), (328, 72), (328,))), bound=2e-2)


BEGINS = ("USETMAXREG", "HGMMA", "UTMALDG")

MODULES: dict[str, tuple[list[str], Callable[..., Value]]] = {
    "plain": (["bf16[8192, 4096]", "bf16[4096, 4096]"], _plain),
    "f16": (["f16[8192, 4096]", "f16[4096, 4096]"], _plain),
    "rows of a call": (["bf16[M, 768]", "bf16[768, 2304]"], _plain),
    "columns that fill no tile": (["bf16[8192, 72]", "bf16[72, 4104]"], _plain),
    "gelu": (["bf16[64, 128, 768]", "bf16[3072, 768]", "bf16[3072]"], _finished),
    "relu": (["bf16[8192, 768]", "bf16[1024, 768]", "bf16[1024]"], _biased),
}


@pytest.mark.parametrize("name", MODULES)
def test_registers_are_handed_over_and_none_is_on_the_stack(name: str) -> None:
    types, build = MODULES[name]
    module = make(types, build)
    (schedule,), before = _handing(module)
    # Without a measurement it is timed, not taken.
    assert before > 0
    device = Device(module, schedule=schedule)
    (step,) = device.code(0).steps
    (kernel,) = compile_kernels([step.source], SM_90, None)
    counts = instruction_counts(kernel.cubin, DISASSEMBLER)
    begins = {begin: sum(count for each, count in counts.items() if each.startswith(begin)) for begin in BEGINS}
    assert all(begins.values()), begins
    assert (kernel.warps, kernel.stack_bytes) == (12, 0)
    assert kernel.warps * 32 * kernel.registers <= 65536
    assert kernel.scratch_bytes <= schedule.program_bytes


def test_sweeps_time_it() -> None:
    texts = [source.text for source in needed_kernels(SM_90, "full")]
    assert any("warp_specialize=True" in text for text in texts)


@pytest.mark.parametrize(
    ("types", "target"),
    [
        (["bf16[8192, 4096]", "bf16[4096, 4096]"], SM_80),
        (["bf16[8192, 4096]", "bf16[4096, 4096]"], parse_target("cuda:sm_100")),
        (["f32[8192, 4096]", "f32[4096, 4096]"], SM_90),
        (["bf16[8192, 4096]", "bf16[4096, 255]"], SM_90),
        (["bf16[127, 4096]", "bf16[4096, 4096]"], SM_90),
        (["bf16[1, 4096]", "bf16[4096, 4096]"], SM_90),
        (["bf16[8192, 0]", "bf16[0, 4096]"], SM_90),
    ],
    ids=str,
)
def test_other_products_have_no_such_candidate(types: list[str], target: Target) -> None:
    plan_target = gpu_plan_target(target)
    kernels = plan_kernels(make(types, _plain), plan_target).kernels
    assert not any(getattr(kernel.schedule, "hands_over", False) for kernel in kernels)
    problems = [KernelProblem(kernel.kind, kernel.block) for kernel in kernels if kernel.kind == "contraction"]
    cases = [(problem, case) for problem in problems for _, case in cases_of(problem, plan_target)]
    assert not any(
        getattr(each, "hands_over", False) for problem, case in cases for each in plan_target.candidates(problem, case)
    )
