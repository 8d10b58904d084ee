"""16-bit floats on processors without instructions for them: against a search among all numbers."""

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, Int, Reg
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import Target, parse_target
from onnxc.runtime.cpu import host_architecture, load_image
from tests.codegen_host.native import NATIVE_TARGETS, module, write

DTYPES = {"float": np.float32, "double": np.float64, "half": np.float16, "bfloat": ml_dtypes.bfloat16}
TARGETS = ([parse_target("cpu:x86-64")] if host_architecture() == "x86_64" else []) + NATIVE_TARGETS


def convert(x: npt.NDArray[np.generic], op: str, source: str, result: str, target: Target) -> npt.NDArray[np.generic]:
    def body(f: FunctionBuilder, x: Reg, out: Reg, n: Reg) -> None:
        def step(i: Int) -> None:
            value = f.load(source, f.gep(x, i, source))
            f.store(f.convert(op, value, result), f.gep(out, i, result))

        f.loop(0, n, 1, step)

    text = module(write("f", [("ptr", "x"), ("ptr", "out"), ("i64", "n")], body))
    image = load_image(build_image([compile_object(text, target)], ["f"], target))
    out = np.empty(x.shape, DTYPES[result])
    image.function("f", 3)(x.ctypes.data, out.ctypes.data, x.size)
    return out


def interesting(dtype: type[np.floating]) -> npt.NDArray[np.generic]:
    """Random bits; every half and bfloat; what is halfway between two of them, exactly and nearly."""
    bits = np.arange(1 << 16, dtype=np.uint16)
    with np.errstate(all="ignore"):
        exact = np.concatenate([bits.view(kind).astype(np.float64) for kind in (np.float16, ml_dtypes.bfloat16)])
        middle = (exact[:-1] + exact[1:]) / 2
        values = np.concatenate([exact, middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
        random = np.random.default_rng(0).integers(0, 1 << 63, 100_000, np.int64).view(np.float64)
        narrow = values.astype(dtype)
        near = np.concatenate([np.nextafter(narrow, dtype(np.inf)), np.nextafter(narrow, dtype(-np.inf))])
        return np.concatenate([narrow, near, -random.astype(dtype)])


def nearest_even(x: npt.NDArray[np.generic], result: str) -> npt.NDArray[np.uint16]:
    """The bits of the nearest 16-bit number, found among all of them; the even one of two that are equally near."""
    infinity = int(np.array(np.inf, DTYPES[result]).view(np.uint16))
    numbers = np.arange(infinity, dtype=np.uint16).view(DTYPES[result]).astype(np.float64)
    # Infinity begins where the next number would be, if the exponent had room for it.
    numbers = np.append(numbers, 2 * numbers[-1] - numbers[-2])
    size = np.abs(x.astype(np.float64))
    below = np.minimum(np.searchsorted(numbers, size, side="right") - 1, infinity - 1)
    middle = (numbers[below] + numbers[below + 1]) / 2
    up = (size > middle) | ((size == middle) & (below % 2 == 1))
    return (below + up + np.signbit(x) * 0x8000).astype(np.uint16)


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("source", ["float", "double"])
@pytest.mark.parametrize("result", ["half", "bfloat"])
def test_narrowing_rounds_to_the_nearest_even(source: str, result: str, target: Target) -> None:
    x = interesting(DTYPES[source])
    got = convert(x, "fptrunc", source, result, target)
    numbers = ~np.isnan(x)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    np.testing.assert_array_equal(got[numbers].view(np.uint16), nearest_even(x[numbers], result))


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("source", ["half", "bfloat"])
def test_widening_is_exact(source: str, target: Target) -> None:
    x = np.arange(1 << 16, dtype=np.uint16).view(DTYPES[source])
    got = convert(x, "fpext", source, "float", target)
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float32)
    numbers = ~np.isnan(expected)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    np.testing.assert_array_equal(got[numbers].view(np.uint32), expected[numbers].view(np.uint32))
