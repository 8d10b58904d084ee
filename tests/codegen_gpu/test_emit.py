"""Artifacts for a GPU: the native functions of segments call the driver as they should; a fake one runs the kernels."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from onnxc.compiler.codegen_gpu.emit import emit
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BF16, F32
from onnxc.compiler.ir.module import Value
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.runtime.cpu import load_image
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.program import TOO_MANY_ELEMENTS, Launch, compile_sizes
from tests.codegen_gpu.support import SM_90, make, sample
from tests.codegen_host.native import HOST
from tests.support.arrays import assert_close
from tests.support.fake_gpu import fake_kernels
from tests.support.triton_interpreter import execute, grid_of, interpreter


class LaunchConfig(ctypes.Structure):
    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.c_void_p), ("attribute_count", ctypes.c_uint),
    )  # fmt: skip


DESCRIPTORS_BYTES = 256
"""What Triton asks for in each program that describes both operands of a product."""

LaunchFunction = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(LaunchConfig), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class Run:
    """A module emitted for sm_90; calls of its one segment, with what the driver was asked for."""

    def __init__(self, types: list[str], build: Callable[..., Value | Sequence[Value]]) -> None:
        plan = plan_kernels(make(types, build), gpu_plan_target(SM_90))
        self.sources: list[KernelSource] = []

        def compile_kernels(sources: Sequence[KernelSource]) -> list[DeviceKernel]:
            self.sources = list(sources)
            described = ["make_tensor_descriptor" in source.text for source in sources]
            return [
                replace(kernel, scratch_bytes=DESCRIPTORS_BYTES * has_some)
                for kernel, has_some in zip(fake_kernels(sources), described, strict=True)
            ]

        self.artifact = emit(plan, SM_90, HOST, compile_kernels)
        self.calls: list[tuple[int, tuple[int, ...], tuple[int, ...], int]] = []
        self.results = iter(())
        self.own_memory: list[int] = []
        self.arena = np.zeros(1 << 20, np.uint8)

    def __call__(self, symbols: Sequence[int], arrays: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> int:
        (launch,) = (step for step in self.artifact.program.body.steps if isinstance(step, Launch))
        image = load_image(next(iter(self.artifact.images.values())))

        def run(
            config: "ctypes._Pointer[LaunchConfig]",
            function: int,
            parameters: "ctypes._Pointer[ctypes.c_void_p]",
            _: int,
        ) -> int:
            found = config.contents
            source = self.sources[function - 1]
            values = []
            for place, parameter in enumerate(source.parameters):
                width = ctypes.c_int32 if parameter.type == "i32" else ctypes.c_uint64
                values.append(ctypes.cast(parameters[place], ctypes.POINTER(width)).contents.value)
            grid = tuple(found.grid)
            self.calls.append((function - 1, grid, tuple(found.block), found.stream))
            trailing = parameters[len(source.parameters)]
            self.own_memory.append(ctypes.cast(trailing, ctypes.POINTER(ctypes.c_uint64)).contents.value)
            result = next(self.results, 0)
            if result == 0:
                execute(source, grid, values)
            return result

        callback = LaunchFunction(run)
        address = ctypes.cast(callback, ctypes.c_void_p).value or 0
        table = (ctypes.c_int64 * (2 + len(self.sources)))(address, 0x1234, *range(1, len(self.sources) + 1))
        status = np.zeros(8, np.int64)
        pointers = [x.ctypes.data for x in (self.artifact.weights, self.arena, status)]
        words = [ctypes.addressof(table), *pointers, 0, *symbols, *(x.ctypes.data for x in (*arrays, *outputs))]
        frame = (ctypes.c_int64 * len(words))(*words)
        result: int = image.function(launch.entry, 1)(ctypes.addressof(frame))
        return result


def test_a_segment_launches_its_kernels_in_order() -> None:
    weight = sample(F32, 5)

    def build(ir: Builder, x: Value) -> Value:
        y = ir.transpose(ir.add(x, ir.constant(weight)), (1, 0))
        return [ir.exp(x), ir.mul(y, 2.0)]

    run = Run(["f32[N, 5]"], build)
    x = sample(F32, 3, 5)
    first, second = np.empty((3, 5), np.float32), np.empty((5, 3), np.float32)
    assert run([3], [x], [first, second]) == 0
    assert_close(first, np.exp(x))
    np.testing.assert_array_equal(second, (x + weight).T * 2)
    assert [call[0] for call in run.calls] == [0, 1]
    assert all((stream == 0x1234 and block == (32, 1, 1)) or block[1:] == (1, 1) for _, _, block, stream in run.calls)


def test_empty_grids_are_not_launched() -> None:
    run = Run(["f32[N]"], lambda ir, x: ir.exp(x))
    assert run([0], [np.empty(0, np.float32)], [np.empty(0, np.float32)]) == 0
    assert run.calls == []


@pytest.mark.parametrize(
    "build",
    [
        lambda ir, x: ir.reduce(x, "sum", (0,)),
        lambda ir, x: ir.arg_reduce(x, "max", 0, False),
        lambda ir, x: ir.scan_axis(x, "sum", 0, False, False),
        lambda ir, x: ir.sort(x, 0, False)[0],
        lambda ir, x: ir.top_k(x, 1, 0, True)[0],
    ],
    ids=["reduce", "arg_reduce", "scan", "sort", "top_k"],
)
def test_long_lines_of_which_there_are_none_need_no_memory_to_share(build: Callable[..., Value]) -> None:
    run = Run(["f32[N, 0]"], build)
    assert run([9000], [np.empty((9000, 0), np.float32)], [np.empty((9000, 0), np.float32)]) == 0
    assert run.calls == []


def test_the_first_error_of_the_driver_ends_the_call() -> None:
    run = Run(["f32[N]"], lambda ir, x: [ir.exp(x), ir.reduce(x, "sum", (0,))])
    run.results = iter((0, 701))
    x, outputs = sample(F32, 4), [np.empty(4, np.float32) for _ in range(2)]
    assert run([4], [x], outputs) == 701
    run.calls.clear()
    run.results = iter((700,))
    assert run([4], [x], outputs) == 700
    assert len(run.calls) == 1


@pytest.mark.parametrize(("size", "result"), [(1 << 31, TOO_MANY_ELEMENTS), (1 << 40, TOO_MANY_ELEMENTS)])
def test_more_elements_than_indices_reach(size: int, result: int) -> None:
    run = Run(["f32[N]"], lambda ir, x: ir.exp(x))
    assert run([size], [np.empty(1, np.float32)], [np.empty(1, np.float32)]) == result
    assert run.calls == []


def test_large_arrays_of_known_size_have_wide_indices() -> None:
    run = Run([f"f32[{1 << 31}]"], lambda ir, x: ir.exp(x))
    (source,) = run.sources
    assert ".to(tl.int64)" in source.text
    symbolic = Run(["f32[N, 16]"], lambda ir, x: ir.exp(x))
    (source,) = symbolic.sources
    assert source.divisible == ("n0",)


def test_programs_that_describe_block_copies_have_memory_of_their_own() -> None:
    def build(ir: Builder, x: Value, y: Value) -> Value:
        return ir.exp(ir.transpose(ir.dot(x, y, "mk,kn->mn"), (1, 0)))

    run = Run(["bf16[N, 64]", "bf16[64, 1024]"], build)
    (launch,) = (step for step in run.artifact.program.body.steps if isinstance(step, Launch))
    for rows, has_memory in ((128, True), (3, False)):
        run.own_memory.clear()
        run.calls.clear()
        (arena_bytes,) = compile_sizes([launch.arena_bytes])([rows])
        x, y = sample(BF16, rows, 64), sample(BF16, 64, 1024)
        assert run([rows], [x, y], [np.empty((1024, rows), BF16.numpy)]) == 0
        offsets = [address - run.arena.ctypes.data for address in run.own_memory if address]
        assert len(offsets) == has_memory
        for offset in offsets:
            programs = run.calls[0][1][0] * run.calls[0][1][1] * run.calls[0][1][2]
            assert offset % 128 == 0
            # Behind the result of the product, which the transposition reads.
            assert rows * 1024 * 2 <= offset <= arena_bytes - DESCRIPTORS_BYTES * programs


def test_a_launch_within_another_leaves_that_one_its_grid() -> None:
    """Garbage that is collected may end a stream, and so run a kernel in the middle of another."""
    builder = interpreter.interpreter_builder
    with grid_of((4, 1, 1)):
        builder.set_grid_idx(3, 0, 0)
        with grid_of((1, 2, 1)):
            builder.set_grid_idx(0, 1, 0)
        assert (builder.grid_dim, builder.grid_idx) == ((4, 1, 1), (3, 0, 0))
