"""Products of a repeated operand: the axes that repeat it are split off the batch, others stay merged."""

from collections.abc import Sequence

import numpy as np
import pytest

import onnxc
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.passes.layout.rows_of_batches import rows_of_batches
from tests.passes.golden import M, N, Pair, check_pair, f32
from tests.support.fake_gpu import compile_for_fake
from tests.support.models import model_from_text


def _merged(b: Builder, x: Value, axes: Sequence[int], shape: Sequence[Dim], merged: Sequence[Dim]) -> Value:
    return b.reshape(b.broadcast(x, axes, shape), merged)


PAIRS = {
    "a table for each image": Pair(
        (f32(N * 12, M, 64), f32(12, 50, 64)),
        lambda b, x, y: b.dot(x, _merged(b, y, (1, 2, 3), (N, 12, 50, 64), (N * 12, 50, 64)), "amk,ank->amn"),
        lambda b, x, y: b.reshape(
            b.dot(
                b.reshape(x, (N, 12, M, 64)), b.broadcast(y, (1, 2, 3), (N, 12, 50, 64)), "bcmk,bcnk->bcmn"
            ),
            (N * 12, M, 50),
        ),
        rounds=True,
    ),
    "on the left": Pair(
        (f32(12, 50, 64), f32(N * 12, 64, M)),
        lambda b, x, y: b.dot(_merged(b, x, (1, 2, 3), (N, 12, 50, 64), (N * 12, 50, 64)), y, "amk,akn->amn"),
        lambda b, x, y: b.reshape(
            b.dot(
                b.broadcast(x, (1, 2, 3), (N, 12, 50, 64)), b.reshape(y, (N, 12, 64, M)), "bcmk,bckn->bcmn"
            ),
            (N * 12, 50, M),
        ),
        rounds=True,
    ),
    "keys of several heads": Pair(
        (f32(N, 8, 5, 64), f32(N, 2, 7, 64)),
        lambda b, x, y: b.dot(x, _merged(b, y, (0, 1, 3, 4), (N, 2, 4, 7, 64), (N, 8, 7, 64)), "abmk,abnk->abmn"),
        lambda b, x, y: b.reshape(
            b.dot(
                b.reshape(x, (N, 2, 4, 5, 64)),
                b.broadcast(y, (0, 1, 3, 4), (N, 2, 4, 7, 64)),
                "acdmk,acdnk->acdmn",
            ),
            (N, 8, 5, 7),
        ),
        rounds=True,
    ),
    "merged and not repeated": Pair(
        (f32(N * 12, M, 64), f32(N, 12, 50, 64)),
        lambda b, x, y: b.dot(x, b.reshape(y, (N * 12, 50, 64)), "amk,ank->amn"),
    ),
    "repeated along columns": Pair(
        (f32(5, 64), f32(7, 64)),
        lambda b, x, y: b.dot(x, _merged(b, y, (1, 2), (3, 7, 64), (21, 64)), "mk,nk->mn"),
    ),
    "repeated along what is summed": Pair(
        (f32(5, 192), f32(7, 64)),
        lambda b, x, y: b.dot(x, _merged(b, y, (0, 2), (7, 3, 64), (7, 192)), "mk,nk->mn"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_axes_that_repeat_an_operand_are_split_off_the_batch(pair: str) -> None:
    check_pair(rows_of_batches, PAIRS[pair])


TABLE = """<ir_version: 8, opset_import: ["": 17]>
agraph (float[batch, 3, rows, 16] x, float[3, 20, 16] table) => (float[merged, rows, 20] y) {
  shape = Shape (x)
  zero = Constant <value = int64[1] {0}> ()
  one = Constant <value = int64[1] {1}> ()
  batch = Slice (shape, zero, one)
  rest = Constant <value = int64[3] {3, 20, 16}> ()
  wide = Concat <axis = 0> (batch, rest)
  repeated = Expand (table, wide)
  all = Constant <value = int64[3] {-1, 20, 16}> ()
  merged = Reshape (repeated, all)
  turned = Transpose <perm = [0, 2, 1]> (merged)
  two = Constant <value = int64[1] {2}> ()
  three = Constant <value = int64[1] {3}> ()
  rows = Slice (shape, two, three)
  minus = Constant <value = int64[1] {-1}> ()
  width = Constant <value = int64[1] {16}> ()
  flat = Concat <axis = 0> (minus, rows, width)
  left = Reshape (x, flat)
  y = MatMul (left, turned)
}"""


@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (1, 7), (2, 1), (3, 40)])
def test_a_table_is_multiplied_by_the_rows_of_all_images(batch: int, rows: int) -> None:
    rng = np.random.default_rng(7)
    x = rng.standard_normal((batch, 3, rows, 16)).astype(np.float32)
    table = rng.standard_normal((3, 20, 16)).astype(np.float32)
    y = onnxc.compile(model_from_text(TABLE))(x, table)
    assert y.shape == (batch * 3, rows, 20)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y.reshape(batch, 3, rows, 20), x @ table.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (2, 1), (3, 40)])
def test_a_table_is_multiplied_by_the_rows_of_all_images_on_a_gpu(batch: int, rows: int) -> None:
    run, rng = compile_for_fake(model_from_text(TABLE)), np.random.default_rng(7)
    x = rng.standard_normal((batch, 3, rows, 16)).astype(np.float32)
    table = rng.standard_normal((3, 20, 16)).astype(np.float32)
    y = run.executable.run({"x": x, "table": table})["y"]
    run.driver.check()
    assert (y.shape, y.dtype) == ((batch * 3, rows, 20), np.float32)
    np.testing.assert_allclose(y.reshape(batch, 3, rows, 20), x @ table.transpose(0, 2, 1), rtol=1e-5, atol=1e-5)


def test_a_repeated_table_is_not_written_on_a_gpu() -> None:
    report = compile_for_fake(model_from_text(TABLE)).executable.report()
    assert [launch["kind"] for launch in report["launches"]] == ["contraction"]


def test_a_repeated_table_is_not_written() -> None:
    report = onnxc.compile(model_from_text(TABLE)).report()
    assert [launch["kind"] for launch in report["launches"]] == ["contraction"]
