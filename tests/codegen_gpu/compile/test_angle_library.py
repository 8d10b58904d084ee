"""sin, cos and tan of kernels: LLVM compiles their text for this processor, Triton for a GPU."""

import ctypes
from collections.abc import Callable
from functools import cache

import llvmlite.binding as llvm
import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.compile import kernel_cache
from onnxc.compiler.codegen_gpu.compile.angle_library import LIBRARY, angle_symbol
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.compile.kernel_cache import kernel_key
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.scalars import ANGLES
from onnxc.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from onnxc.compiler.planning.plan import plan_kernels
from tests.codegen_gpu.sources import elementwise, source
from tests.codegen_gpu.support import SM_90, code_of, make

FLOATS = (np.float32, np.float64)

# A loop over an array, around each function.
_LOOP = """
define void @each_{symbol}(ptr %x, ptr %y, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%next, %loop]
  %from = getelementptr {T}, ptr %x, i64 %i
  %to = getelementptr {T}, ptr %y, i64 %i
  %value = load {T}, ptr %from
  %result = call {T} @{symbol}({T} %value)
  store {T} %result, ptr %to
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""


@cache
def _compiled() -> llvm.ExecutionEngine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    types = {32: "float", 64: "double"}
    loops = [_LOOP.format(symbol=angle_symbol(name, bits), T=types[bits]) for name in ANGLES for bits in types]
    module = llvm.parse_assembly("".join([LIBRARY, *loops]))
    engine = llvm.create_mcjit_compiler(module, llvm.Target.from_default_triple().create_target_machine())
    engine.finalize_object()
    return engine


def computed(name: str, x: np.ndarray) -> np.ndarray:
    y = np.empty_like(x)
    address = _compiled().get_function_address(f"each_{angle_symbol(name, 8 * x.itemsize)}")
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(address)(
        x.ctypes.data, y.ctypes.data, x.size
    )
    return y


def units_off(name: str, x: np.ndarray) -> float:
    """How far the results are from those of the C library in a wider type, in units of the last place, at most."""
    meaning: Callable[[np.ndarray], np.ndarray] = getattr(np, name)
    wanted = meaning(x.astype(np.float64 if x.dtype == np.float32 else np.longdouble))
    unit = np.spacing(np.abs(wanted).astype(x.dtype))
    return float(np.max(np.abs(computed(name, x) - wanted) / unit))


def of_all_sizes(dtype: type[np.floating], count: int) -> np.ndarray:
    """Finite numbers of all exponents, then some near multiples of π/2."""
    bits, integer = (32, np.uint32) if dtype == np.float32 else (64, np.uint64)
    rng = np.random.default_rng(bits)
    x = rng.integers(0, (1 << bits) - 1, count, dtype=integer).view(dtype)
    multiples = np.rint(rng.random(count) * 2.0 ** (np.arange(count) % 40)) * (np.pi / 2)
    return np.concatenate([x[np.isfinite(x)], multiples.astype(dtype)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("name", "f32", "f64"), [("sin", 1.6, 1.6), ("cos", 1.6, 1.6), ("tan", 3.5, 1.6)])
def test_values_of_all_sizes(name: str, f32: float, f64: float, dtype: type[np.floating]) -> None:
    found = units_off(name, of_all_sizes(dtype, 100_000))
    assert 0.49 < found < (f32 if dtype == np.float32 else f64), found


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ANGLES)
def test_borders_and_what_is_nearest_to_a_multiple(name: str, dtype: type[np.floating]) -> None:
    nearest = 16367173 * 2.0**72 if dtype == np.float32 else 6381956970095103 * 2.0**797
    borders = [2.0**17, 2.0**20, 2.0**24, 2.0**53, 2.0**64, 2.0**127, float(np.finfo(dtype).max), nearest]
    x = np.array(borders, dtype)
    around = np.concatenate([x[:-2], np.nextafter(x[:-2], dtype(0)), x[-2:]])
    assert units_off(name, np.concatenate([around, -around])) < 3.5


@pytest.mark.parametrize("dtype", FLOATS)
def test_zeros_infinities_and_nan(dtype: type[np.floating]) -> None:
    least = np.finfo(dtype).smallest_subnormal
    x = np.array([0.0, -0.0, least, -least, np.inf, -np.inf, np.nan], dtype)
    for name in ("sin", "tan"):
        y = computed(name, x)
        np.testing.assert_array_equal(y[:4].view(x.view(f"u{x.itemsize}").dtype), x[:4].view(f"u{x.itemsize}"))
        assert np.isnan(y[4:]).all()
    np.testing.assert_array_equal(computed("cos", x), np.array([1, 1, 1, 1, np.nan, np.nan, np.nan], dtype))


@pytest.mark.parametrize("dtype", [F16, BF16, F32, F64], ids=str)
def test_machine_code_has_no_stack(dtype: DType) -> None:
    module = make([f"{dtype}[N]"], lambda ir, x: [ir.unary(name, x) for name in ANGLES])
    plan = plan_kernels(module, gpu_plan_target(SM_90))
    sources = [step.source for kernel in plan.kernels for step in code_of(kernel).steps]
    assert sum(text.text.count("angles.") for text in sources) == 2 * len(ANGLES)
    assert [kernel.stack_bytes for kernel in compile_kernels(sources, SM_90, None)] == [0] * len(sources)


def test_kernels_that_call_them_are_others_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    calling = source("@triton.jit\ndef kernel(a0):\n    tl.store(a0, angles.sin(tl.load(a0)))\n", "*fp32")
    before = [kernel_key(text, "cuda:sm_90", "1") for text in (calling, elementwise())]
    monkeypatch.setattr(kernel_cache, "LIBRARY", LIBRARY + "; another")
    after = [kernel_key(text, "cuda:sm_90", "1") for text in (calling, elementwise())]
    assert before[0] != after[0]
    assert before[1] == after[1]
