"""Code that a caller wrote in Triton: each access, at odd sizes and in each element type, and what a GPU has not."""

import numpy as np
import pytest

import onnxc
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.compiler.codegen_gpu.source.element_types import COMPUTED_DTYPES
from onnxc.compiler.ir.dtypes import DTYPES
from onnxc.compiler.ir.primitives.native import LONGEST_ROW, no_triton
from onnxc.runtime.errors import InputError
from tests.codegen_gpu.callers_code import affine, centred, turned
from tests.codegen_gpu.kinds import sources_of
from tests.codegen_gpu.support import SM_90, Device, make
from tests.support import host_functions
from tests.support.models import model_from_text


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(), (0, 3), (1, 1), (33, 65)])
def test_elements(dtype: str, shape: tuple[int, ...]) -> None:
    sizes = ", ".join("ABC"[: len(shape)])
    device = Device(make([f"{dtype}[{sizes}]"], affine))
    x = np.random.default_rng(0).standard_normal(shape).astype(DTYPES[dtype].numpy)
    if x.size > 4:
        x.flat[:4] = np.nan, np.inf, -np.inf, -0.0
    (y,) = device(x)
    assert y.dtype == x.dtype
    assert y.shape == shape
    # Of NaN in ml_dtypes NumPy does not know that it is one.
    expected = host_functions.affine(x.astype(np.float64), 0.5, -1).astype(x.dtype)
    np.testing.assert_array_equal(y.astype(np.float64), expected.astype(np.float64))


@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (3, 0), (33, 5), (2, 3, 1000), (2, LONGEST_ROW)])
def test_rows(shape: tuple[int, ...]) -> None:
    sizes = ", ".join((*"AB"[: len(shape) - 1], str(shape[-1])))
    device = Device(make([f"f32[{sizes}]"], centred))
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    (y,) = device(x)
    assert y.shape == shape
    if x.size:
        np.testing.assert_allclose(y, host_functions.centred(x), atol=2e-6)


@pytest.mark.parametrize("shape", [(0, 4), (1, 1), (37, 41)])
def test_the_whole_in_one_program(shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape), dtype=np.int64).reshape(shape)
    (y,) = Device(make(["i64[A, B]"], turned))(x)
    np.testing.assert_array_equal(y, x.T, strict=True)


def test_operands_are_read_as_they_are_moved_and_the_whole_is_dense() -> None:
    x = np.random.default_rng(0).standard_normal((6, 10)).astype(np.float32)
    (y,) = Device(make(["f32[A, 10]"], lambda ir, v: affine(ir, ir.transpose(v, (1, 0)))))(x)
    np.testing.assert_array_equal(y, x.T * np.float32(0.5) - 1)
    (y,) = Device(make(["f32[6, A]"], lambda ir, v: centred(ir, ir.transpose(v, (1, 0)))))(x)
    np.testing.assert_allclose(y, host_functions.centred(x.T), atol=2e-6)
    (y,) = Device(make(["f32[6, 10]"], lambda ir, v: turned(ir, ir.slice_axis(v, 1, 2, 5))))(x)
    np.testing.assert_array_equal(y, x[:, 2:7].T)
    (y,) = Device(make(["f32[]"], lambda ir, v: turned(ir, ir.broadcast(v, (), (3, 2)))))(np.float32(7))
    np.testing.assert_array_equal(y, np.full((2, 3), 7, np.float32))
    (y,) = Device(make(["i64[A, 2]"], lambda ir, v: turned(ir, ir.reshape(ir.sizes([v.shape[0]]), (1, 1)))))(
        np.zeros((4, 2), np.int64)
    )
    np.testing.assert_array_equal(y, [[4]])


def test_types_without_kernels_are_those_of_no_other_kernel() -> None:
    for dtype in (dtype for dtype in DTYPES.values() if not dtype.is_string):
        for build in (affine, turned):
            module = make([f"{dtype.name}[2, 3]"], build)
            (op,) = module.main.body.ops
            assert bool(no_triton(op)) == (dtype not in COMPUTED_DTYPES), dtype


def test_rows_that_no_block_holds_have_no_kernel() -> None:
    for size, said in (("N", "theirs is N"), (str(LONGEST_ROW + 1), "up to 8193 elements")):
        (op,) = make([f"f32[2, {size}]"], centred).main.body.ops
        assert said in no_triton(op)


@pytest.mark.parametrize("kind", ["native_call_elements", "native_call_rows", "native_call_whole"])
def test_the_compiler_takes_it(kind: str) -> None:
    (kernel,) = compile_kernels(sources_of(kind, "f32"), SM_90, None)
    assert kernel.stack_bytes == 0


def test_what_the_compiler_refuses_names_the_operator() -> None:
    operator = onnxc.custom_operator(
        "Wrong", "my.ops", inputs=["x"], outputs=["y"], access="elements",
        types=lambda node: [(node.input("x").dtype, node.input("x").shape)],
        triton="@triton.jit\ndef wrong(x):\n    return tl.no_such_function(x)\n",
    )  # fmt: skip
    head = '<ir_version: 10, opset_import: ["" : 21, "my.ops" : 1]>'
    model = model_from_text(f"{head} g (float[N] x) => (float[N] y) {{ y = my.ops.Wrong (x) }}")
    with pytest.raises(InputError, match=r"(?s)my\.ops\.Wrong-1.*no_such_function") as problem:
        onnxc.compile(model, "cuda:sm_90", operators=[operator], cache=False)
    assert problem.value.code == "triton-code"
