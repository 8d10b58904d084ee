"""Kernels that load the sizes that grow: what they load, which programs leave, and which plans are served so."""

from dataclasses import replace

import pytest

from onnxc.compiler.codegen_gpu.fit_registers import fit_registers
from onnxc.compiler.codegen_gpu.growing_sizes import growing_sizes, growing_symbols, obstacle
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import (
    Argument,
    DeviceStep,
    KernelCode,
    KernelParameter,
    KernelSource,
)
from onnxc.compiler.codegen_gpu.source.loaded_sizes import with_loaded_sizes
from onnxc.compiler.ir.dim_functions import maximum, minimum
from onnxc.compiler.ir.dim_symbols import never_falls
from onnxc.compiler.ir.dims import Dim, Size, floordiv, mod
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_gpu.support import SM_90, make
from tests.support.fake_gpu import fake_kernels

PAST, BATCH, READ, GROWING = (Size.symbol(name) for name in ("past", "batch", "?read", "?most"))


def _code(grid: tuple[Dim, Dim, Dim], *sizes: Dim, divisible: tuple[str, ...] = ()) -> KernelCode:
    parameters = (KernelParameter("out0", "*fp32"), *(KernelParameter(f"n{k}", "i32") for k in range(len(sizes))))
    names = ", ".join(parameter.name for parameter in parameters)
    text = f"@triton.jit\ndef kernel({names}):\n    pass\n"
    arguments = (Argument("output", 0), *(Argument("size", size) for size in sizes))
    return KernelCode((DeviceStep(KernelSource(text, parameters, divisible=divisible), grid, arguments),))


def _plan(shape: str) -> KernelPlan:
    plan = plan_kernels(make([f"f32{shape}"], lambda ir, x: ir.neg(x)), gpu_plan_target(SM_90))
    return replace(plan, growing={"past": "capacity"})


def test_sizes_that_grow_are_loaded_and_programs_beyond_the_grid_leave() -> None:
    blocks = floordiv(PAST + 127, 128)
    (step,) = with_loaded_sizes(_code((blocks, BATCH, 1), PAST, BATCH, PAST * 16, divisible=("n2",)), {"past"}).steps
    assert step.source.text == (
        "@triton.jit\n"
        "def kernel(out0, n0_at, n1, n2_at, g0_at):\n"
        "    n0 = tl.load(n0_at).to(tl.int32)\n"
        "    n2 = tl.multiple_of(tl.load(n2_at).to(tl.int32), 16)\n"
        "    g0 = tl.load(g0_at).to(tl.int32)\n"
        "    if tl.program_id(0) >= g0:\n"
        "        return\n"
        "    pass\n"
    )
    assert [parameter.type for parameter in step.source.parameters] == ["*fp32", "*i64", "i32", "*i64", "*i64"]
    assert [argument.kind for argument in step.arguments] == ["output", "table", "size", "table", "table"]
    assert (step.source.divisible, step.arguments[-1].value, step.grid) == ((), blocks, (blocks, BATCH, 1))


def test_a_size_of_the_grid_that_is_known_is_loaded_once() -> None:
    (step,) = with_loaded_sizes(_code((1, PAST, PAST), PAST), {"past"}).steps
    lines = step.source.text.splitlines()
    assert [line.strip() for line in lines[2:]] == [
        "n0 = tl.load(n0_at).to(tl.int32)",
        "if tl.program_id(1) >= n0:",
        "return",
        "if tl.program_id(2) >= n0:",
        "return",
        "pass",
    ]


def test_kernels_in_which_nothing_grows_stay_what_they_are() -> None:
    code = _code((BATCH, 1, 1), BATCH)
    assert with_loaded_sizes(code, {"past"}) == code
    assert with_loaded_sizes(code, frozenset()) is code


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        (7, True),
        (PAST * BATCH + 3, True),
        (floordiv(PAST * 4 + 255, 256) * BATCH, True),
        (maximum(PAST, BATCH), True),
        (minimum(PAST, 64), True),
        (maximum(0, PAST - 5) * BATCH, True),
        (floordiv(maximum(0, PAST - 5) + 7, 8), True),
        (minimum(0, PAST - 5) * BATCH, True),
        # A number of any sign, alone.
        (PAST * 2 + minimum(7, maximum(0, GROWING)), True),
        (minimum(GROWING, 7), True),
        (maximum(0, GROWING) * BATCH, True),
        (GROWING * BATCH, True),
        (GROWING * READ, False),
        (GROWING * GROWING, False),
        (7 - GROWING, False),
        # What falls has nothing to do with what grows.
        (PAST - BATCH, True),
        (BATCH - PAST, False),
        (mod(PAST, 16), False),
        (floordiv(1000, PAST), False),
        (floordiv(PAST, READ), False),
        # What data decides may be below 0.
        (PAST * READ, False),
        (PAST * (BATCH - 1), False),
    ],
)
def test_room_for_the_limit_is_room_for_all_sizes_below_where_a_size_never_falls(size: Dim, expected: bool) -> None:
    assert never_falls(size, {"past", "?most"}) is expected


def test_the_table_of_a_plan_holds_each_size_once() -> None:
    plan = _plan("[past, 3]")
    fitted = fit_registers(plan, SM_90, fake_kernels)
    table = growing_sizes(fitted.plan, fitted.codes)
    assert any(growing_symbols(plan))
    assert len(set(table.sizes.values())) == len(table.sizes) == (table.shape or (0, 0))[0] > 0
    assert (table.shape or (0, 1))[1] == len(table.guards)


def test_outputs_that_grow_are_not_served_by_one_graph() -> None:
    fitted = fit_registers(_plan("[past, 3]"), SM_90, fake_kernels)
    assert obstacle(fitted.plan, fitted.codes) == "the size of an output grows"


def test_a_plan_in_which_nothing_grows_has_no_table() -> None:
    plan = replace(_plan("[batch, 3]"), growing={})
    fitted = fit_registers(plan, SM_90, fake_kernels)
    assert growing_sizes(fitted.plan, fitted.codes).shape is None
    assert growing_symbols(plan) == [frozenset()] * len(plan.kernels)
