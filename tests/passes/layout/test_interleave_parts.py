"""Parts that alternate behind a turn, and joins that are turned in other ways."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.interleave_parts import interleave_parts
from tests.passes.golden import M, N, Pair, check_pair, f32
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text


def _used_between(b: Builder, x: Value, y: Value) -> tuple[Value, ...]:
    joined = b.concatenate([x, y], 1)
    return b.transpose(b.reshape(joined, (N, 2, 6)), (0, 2, 1)), b.exp(joined)


PAIRS = {
    "channels of two branches": Pair(
        (f32(N, M, 6), f32(N, M, 6)),
        lambda b, x, y: b.transpose(b.reshape(b.concatenate([x, y], 2), (N, M, 2, 6)), (0, 1, 3, 2)),
        lambda b, x, y: b.concatenate([b.reshape(x, (N, M, 6, 1)), b.reshape(y, (N, M, 6, 1))], 3),
    ),
    "of three, with pixels in one axis": Pair(
        (f32(N, M, 6),) * 3,
        lambda b, *x: b.transpose(b.reshape(b.concatenate(x, 2), (M * N, 3, 6)), (0, 2, 1)),
        lambda b, *x: b.concatenate([b.reshape(each, (M * N, 6, 1)) for each in x], 2),
    ),
    "along the first axis": Pair(
        (f32(1, M, 5), f32(1, M, 5)),
        lambda b, x, y: b.transpose(b.reshape(b.concatenate([x, y], 1), (2, M, 5)), (1, 0, 2)),
        lambda b, x, y: b.concatenate([b.reshape(x, (M, 1, 5)), b.reshape(y, (M, 1, 5))], 1),
    ),
    "parts of two sizes": Pair(
        (f32(N, 4), f32(N, 8)),
        lambda b, x, y: b.transpose(b.reshape(b.concatenate([x, y], 1), (N, 2, 6)), (0, 2, 1)),
    ),
    "more runs than parts": Pair(
        (f32(N, 6), f32(N, 6)),
        lambda b, x, y: b.transpose(b.reshape(b.concatenate([x, y], 1), (N, 3, 4)), (0, 2, 1)),
    ),
    "another axis is turned as well": Pair(
        (f32(N, M, 6), f32(N, M, 6)),
        lambda b, x, y: b.transpose(b.reshape(b.concatenate([x, y], 2), (N, M, 2, 6)), (1, 0, 3, 2)),
    ),
    "a join that is used besides": Pair((f32(N, 6), f32(N, 6)), _used_between),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_parts_that_alternate_are_joined_so(pair: str) -> None:
    check_pair(interleave_parts, PAIRS[pair])


SHUFFLED = """<ir_version: 8, opset_import: ["": 17]>
shuffled (float[n, 16, 5, 5] x, float[16, 16, 3, 3] f, float[16, 32, 1, 1] g) => (float[n, 16, 5, 5] y)
    <int64[5] apart = {-1, 2, 16, 5, 5}, int64[4] whole = {-1, 32, 5, 5}>
{
  left = Conv <pads = [1, 1, 1, 1]> (x, f)
  positive = Relu (left)
  right = Conv <pads = [1, 1, 1, 1]> (positive, f)
  both = Concat <axis = 1> (left, right)
  split = Reshape (both, apart)
  turned = Transpose <perm = [0, 2, 1, 3, 4]> (split)
  joined = Reshape (turned, whole)
  y = Conv (joined, g)
}"""


@pytest.mark.parametrize("batch", [0, 1, 3])
def test_branches_are_shuffled_by_the_launch_that_joins_them(batch: int) -> None:
    model, random = model_from_text(SHUFFLED), np.random.default_rng(0)
    run = compile_for_fake(model)
    kinds = [launch["kind"] for launch in run.executable.report()["launches"]]
    assert kinds == ["convolution", "pointwise", "convolution", "concatenate", "convolution"]
    shapes = {"x": (batch, 16, 5, 5), "f": (16, 16, 3, 3), "g": (16, 32, 1, 1)}
    inputs = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    y = run.executable.run(inputs)["y"]
    run.driver.check()
    assert (y.shape, y.dtype) == (shapes["x"], np.float32)
    np.testing.assert_allclose(y, onnxc.compile(model).run(inputs)["y"], rtol=1e-4, atol=1e-3)
