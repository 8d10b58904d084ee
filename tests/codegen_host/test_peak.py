"""The function that a profile measures the operations of a core with."""

import pytest

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.machine import assembly
from onnxc.compiler.codegen_host.peak import SUMS, peak_function
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import load_image
from onnxc.runtime.profiling.limits import MULTIPLY_ADDS, measured_limits
from tests.codegen_host.native import HOST, NATIVE_TARGETS, module


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_every_image_counts_the_operations_that_it_does(target: Target) -> None:
    image = load_image(build_image([], [], target))
    multiply_adds = image.function(MULTIPLY_ADDS, 1)
    of_a_round = 2 * SUMS * target.vector_bits // 32
    assert [multiply_adds(rounds) for rounds in (0, 1, 1000)] == [0, of_a_round, 1000 * of_a_round]


@pytest.mark.parametrize("target", NATIVE_TARGETS, ids=str)
def test_sums_are_whole_vectors_in_registers(target: Target) -> None:
    lines = assembly(module(peak_function(target)), target).splitlines()
    product = {512: "zmm", 256: "ymm", 128: "xmm"}[target.vector_bits]
    products = [line for line in lines if "mulps" in line or "vfmadd" in line or "fmla" in line]
    assert len(products) == SUMS
    assert all(product in line and "(" not in line for line in products) or target.arch != "x86_64"
    assert not [line for line in lines if "\tcall" in line]


def test_limits_are_those_of_one_thread_times_the_threads() -> None:
    image = load_image(build_image([], [], HOST))
    limits = measured_limits(image, 3)
    assert limits.flops_per_second is not None
    assert limits.flops_per_second > 0
    assert (limits.threads, measured_limits(None, 3).flops_per_second) == (3, None)
    assert measured_limits(None, 3).bandwidths == limits.bandwidths
