"""Convolutions between DequantizeLinear and QuantizeLinear: of bytes or of floats, as a processor is faster."""

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.compiler.driver import run_stages
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.planning.schedules import ConvolutionSchedule
from tests.codegen_cpu.support import HOST
from tests.support.models import model_from_text

WITH_DOTS, WITHOUT = "cpu:x86-64-v4+avx512vnni", "cpu:x86-64-v3"
ENOUGH, FEW = 32, 31
"""Channels from which transforming images pays."""

WEIGHTS = np.random.default_rng(0).integers(-128, 128, (ENOUGH, ENOUGH, 3, 3)).astype(np.int8)


def qdq(channels: int = ENOUGH, taps: int = 3, stride: int = 1, pixels: str = "12, H") -> onnx.ModelProto:
    """u8 -> u8 by filters of i8, with a scale for each."""
    pad = taps // 2
    model = model_from_text(f"""
        <ir_version: 10, opset_import: ["": 21]>
        g (uint8[1, {channels}, {pixels}] x, int8[{ENOUGH}, {channels}, {taps}, {taps}] w)
            => (uint8[1, {ENOUGH}, A, B] y)
        <float sx = {{0.02}}, uint8 zx = {{117}}, float[{ENOUGH}] sw = {{{", ".join(["0.01"] * ENOUGH)}}},
         float sy = {{0.9}}, uint8 zy = {{120}}> {{
            xf = DequantizeLinear(x, sx, zx)
            wf = DequantizeLinear<axis = 0>(w, sw)
            z = Conv<pads = [{pad}, {pad}, {pad}, {pad}], strides = [{stride}, {stride}]>(xf, wf)
            y = QuantizeLinear(z, sy, zy)
        }}""")
    weights = np.ascontiguousarray(WEIGHTS[:, :channels, :taps, :taps])
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    del model.graph.input[1]
    return model


def algorithms(model: onnx.ModelProto, target: str) -> set[str]:
    """What the plan for a target convolves by."""
    stages = dict(run_stages(model, make_options(target=target)))
    plan = stages["plan"]
    assert isinstance(plan, KernelPlan)
    schedules = [kernel.schedule for kernel in plan.kernels]
    return {schedule.algorithm for schedule in schedules if isinstance(schedule, ConvolutionSchedule)}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (qdq(), {"winograd", "rows"}),
        (qdq(pixels="12, 12"), {"winograd"}),
        (qdq(pixels="9, 11"), {"bytes"}),
        (qdq(channels=FEW), {"bytes"}),
        (qdq(taps=1), {"bytes"}),
        (qdq(stride=2), {"bytes"}),
    ],
    ids=["open", "144 pixels", "99 pixels", "few channels", "1 x 1", "stride 2"],
)
def test_without_dot_products_fewer_products_of_floats_are_faster(model: onnx.ModelProto, expected: set[str]) -> None:
    assert algorithms(model, WITHOUT) == expected


def test_with_dot_products_bytes_are() -> None:
    assert algorithms(qdq(), WITH_DOTS) == {"bytes"}


@pytest.mark.skipif(not HOST.has("avx2"), reason="the machine cannot execute it")
@pytest.mark.parametrize("width", [1, 3, 12, 17])
def test_values_are_those_of_the_standard(width: int) -> None:
    model = qdq()
    x = np.random.default_rng(1).integers(0, 256, (1, ENOUGH, 12, width)).astype(np.uint8)
    found = onnxc.compile(model, target=WITHOUT).run({"x": x})["y"]
    expected = onnxc.compile(model, target="interpreter").run({"x": x})["y"]
    assert found.dtype == expected.dtype
    assert found.shape == expected.shape
    apart = np.abs(found.astype(int) - expected.astype(int))
    # Where a sum lies between two integers, its last bits decide.
    assert apart.max() <= 1
    assert np.mean(apart != 0) < 0.005
    assert len(np.unique(expected)) > 50 * min(width, 3) / 3
