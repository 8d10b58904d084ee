"""Bytes and operations of kernels, against what can be counted by hand."""

import pytest

from onnxc.compiler.codegen_gpu.kernel_work import DeviceWork, work_of
from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from tests.codegen_gpu.kinds import KINDS
from tests.codegen_gpu.support import Device, make


def work(name: str, dtype: str, precision: str = "fp32") -> DeviceWork:
    types = [text.replace("T[", f"{dtype}[", 1) if text.startswith("T[") else text for text in KINDS[name].types]
    kernels = Device(make(types, KINDS[name].build), precision=precision).plan.kernels
    assert len(kernels) == 1
    return work_of(kernels[0])


def test_pointwise_ops_count_each_element_once() -> None:
    found, count = work("pointwise", "f32"), 4096 * 256
    assert (found.read_bytes, found.written_bytes) == (8 * count, 4 * count)
    # A sigmoid is four of them.
    assert found.flops == 6 * count
    assert (found.unit, found.repeats) == ("fp32", 1)


@pytest.mark.parametrize(
    ("dtype", "precision", "unit", "repeats"),
    [("f32", "fp32", "tf32", 3), ("f32", "tf32", "tf32", 1), ("bf16", "fp32", "bf16", 1), ("f16", "fp32", "fp16", 1)],
)
def test_products_count_two_operations_for_each_multiply_add(
    dtype: str, precision: str, unit: str, repeats: int
) -> None:
    found = work("contraction", dtype, precision)
    item = 4 if dtype == "f32" else 2
    assert found.read_bytes == item * (1024 * 768 + 768 * 3072 + 3072)
    assert found.written_bytes == item * 1024 * 3072
    products = 2 * 1024 * 768 * 3072
    assert isinstance(found.flops, int)
    assert products < found.flops < 1.01 * products
    assert (found.unit, found.repeats) == (unit, repeats)


def test_convolutions_and_attention_count_their_products() -> None:
    assert work("convolution", "bf16").flops == 2 * 8 * 28 * 28 * 128 * 128 * 9
    assert work("depthwise", "bf16").flops == 2 * 8 * 28 * 28 * 64 * 9
    assert work("attention", "f16").flops == 2 * 2 * 12 * 256 * 256 * (64 + 64)


@pytest.mark.parametrize(("indices", "rows"), [(10, 10), (5000, 1000)])
def test_no_more_is_read_than_is_picked(indices: int, rows: int) -> None:
    found = work("gather", "f32")
    assert evaluate(found.read_bytes, dict.fromkeys(symbols_of(found.read_bytes), indices)) == rows * 1024 + indices * 8
    assert evaluate(found.written_bytes, dict.fromkeys(symbols_of(found.written_bytes), indices)) == indices * 1024
    assert found.flops == 0


def test_movements_compute_nothing() -> None:
    assert work("concatenate", "f32").flops == 0
