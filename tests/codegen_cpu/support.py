"""Modules compiled and run natively, beside the interpreter, in memory that catches what a kernel should not touch.

Every input and output ends at a page that cannot be accessed; outputs and arenas are full of ones bits (NaN) before.
"""

import ctypes
import mmap
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod

import numpy as np

from onnxc.compiler.codegen_cpu.emit import emit
from onnxc.compiler.codegen_cpu.plan_target import cpu_plan_target
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_text import parse_dim
from onnxc.compiler.ir.dtypes import BF16, BOOL, DTYPES, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Op, Value
from onnxc.compiler.ir.primitives.pointwise import COMPARE
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.planning.check_plan import check_plan
from onnxc.compiler.planning.kernel_plan import KernelPlan, segments_of
from onnxc.compiler.planning.plan import Specialize, plan_kernels
from onnxc.compiler.target import Target
from onnxc.runtime.cpu import Image, load_image
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.values import as_array
from onnxc.runtime.native.heap import Heap
from onnxc.runtime.program import (
    STATUS_CODE,
    BindSizes,
    Body,
    Constant,
    Host,
    Launch,
    TensorSpec,
    compile_attributes,
    compile_sizes,
    numpy_dtype,
)
from onnxc.runtime.thread_pool import pool_handle
from tests.codegen_host.native import HOST, NATIVE_TARGETS

__all__ = [
    "EVERY_TARGET",
    "FLOATS",
    "HOST",
    "INTEGERS",
    "NATIVE",
    "Native",
    "Planned",
    "assert_near",
    "guarded",
    "make",
    "movements",
    "native_names",
    "odd_values",
    "precision",
    "sample",
    "tensor",
]

FLOATS = (F64, F32, F16, BF16)
INTEGERS = (I64, I32, I16, I8, U64, U32, U16, U8)
NATIVE = (*FLOATS, *INTEGERS, BOOL)

EVERY_TARGET = tuple(dict.fromkeys((HOST, *(target for target in NATIVE_TARGETS if target.name != HOST.name))))

_libc = ctypes.CDLL(None)
_STATUS_WORDS = 8


def tensor(text: str) -> TensorType:
    """The type that a text such as "f32[N, 3]" says."""
    name, _, sizes = text.removesuffix("]").partition("[")
    return TensorType(DTYPES[name], tuple(parse_dim(size) for size in sizes.split(",")) if sizes.strip() else ())


def make(types: Sequence[str | TensorType], build: Callable[..., Value | Sequence[Value]]) -> Module:
    """The module of `build(builder, *parameters)`; its parameters are x0, x1, ... of these types."""
    builder = Builder()
    parameters = [
        builder.parameter(f"x{index}", tensor(type) if isinstance(type, str) else type)
        for index, type in enumerate(types)
    ]
    symbols = dict.fromkeys(name for parameter in parameters for name in sorted(type_symbols(parameter.type)))
    builder.symbols.ranges.update(dict.fromkeys(symbols, (0, None)))
    built = build(builder, *parameters)
    results = [built] if isinstance(built, Value) else list(built)
    names = tuple(f"y{index}" for index in range(len(results)))
    block = builder.block(parameters, results)
    return Module("test", (Function("main", block, names, dict.fromkeys(symbols, (0, None))),))


def movements(ir: Builder, x: Value, indices: Value, condition: Value, padding: np.ndarray) -> list[Value]:
    """What moves the elements of x: T[m, n] and computes nothing.

    indices: i64[3], below m and n; condition: bool[m, n].
    """
    rows = ir.slice(x, (0, 0), (3, x.shape[1]), (1, 1))
    return [
        ir.transpose(x, (1, 0)),
        ir.reverse(x, 1),
        ir.concatenate([x, rows], 0),
        ir.gather(x, indices, 1),
        ir.scatter_nd(x, ir.unsqueeze(indices, (1,)), rows, "set"),
        ir.select(condition, x, ir.reverse(x, 0)),
        ir.pad(x, (1, 0), (0, 2), ir.constant(padding)),
    ]


def every_number_moved(dtype: DType, target: Target) -> list[tuple[np.ndarray, np.ndarray]]:
    """What kernels and the interpreter make of each of `movements`, of all numbers of a type of 16 bits."""

    def build(ir: Builder, x: Value, indices: Value, condition: Value) -> list[Value]:
        return movements(ir, x, indices, condition, np.array(-0.0, dtype.numpy))

    native = Native(make([f"{dtype}[256, 256]", "i64[3]", "bool[256, 256]"], build), target)
    numbers = np.arange(1 << 16, dtype=np.uint16)
    given = numbers.view(dtype.numpy).reshape(256, 256), np.array([5, 0, 255]), numbers.reshape(256, 256) % 3 == 0
    return list(zip(native(*given), native.interpreted(*given), strict=True))


def native_names(dtype: DType, names: Sequence[str], count: int, is_native: Callable[[Op], bool]) -> list[str]:
    """The pointwise primitives of `count` operands that have kernels for the element type."""
    builder = Builder()
    parameters = [builder.parameter(f"x{index}", TensorType(dtype, (3,))) for index in range(count)]
    types = {name: dtype if name not in COMPARE else BOOL for name in names}
    ops = {name: Op(name, tuple(parameters), {}, (), (TensorType(types[name], (3,)),)) for name in names}
    return [name for name, op in ops.items() if is_native(op)]


class Planned(ABC):
    """A module with its plan, which can be called; `status` is what the kernels of the last call reported."""

    module: Module
    plan: KernelPlan
    status: np.ndarray

    @abstractmethod
    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results."""

    def check(self, *arrays: np.ndarray, bound: float = 0.0, reports: bool = False) -> None:
        """The results are those of the interpreter; floats within `bound`, a part of the largest one of the result.

        Nothing may be reported, unless the test knows that something `reports`.
        """
        for found, wanted in zip(self(*arrays), self.interpreted(*arrays), strict=True):
            assert_near(found, wanted, bound)
        assert reports or not self.status[STATUS_CODE], self.status

    def interpreted(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results by the interpreter."""
        names = [parameter.producer.name for parameter in self.module.main.body.parameters]
        with np.errstate(all="ignore"), warnings.catch_warnings():
            # Sums over nothing, of infinities and of integers that wrap are meant.
            warnings.simplefilter("ignore")
            return tuple(map(as_array, interpret(self.module, dict(zip(names, arrays, strict=True)))))

    def kernels(self) -> list[str]:
        """The kinds of the kernels that serve every call; a launch may have others for some sizes."""
        launches = (launch for segment in segments_of(self.plan.body.steps) for launch in segment.launches)
        return [self.plan.kernels[ordinal].kind for ordinal in sorted({each.general.kernel for each in launches})]


class Native(Planned):
    """A module compiled for a target; `threads` may change between calls."""

    def __init__(
        self, module: Module, target: Target = HOST, threads: int = 1, specialize: Specialize | None = None
    ) -> None:
        self.module, self.target, self.threads = module, target, threads
        self.plan = plan_kernels(module, cpu_plan_target(target), specialize)
        check_plan(self.plan)
        self.artifact = emit(self.plan, target)
        self.status = np.zeros(_STATUS_WORDS, np.int64)

    @cached_property
    def image(self) -> Image:
        return load_image(next(iter(self.artifact.images.values())))

    def __call__(self, *arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        """The results; `status` is what the kernels reported."""
        program = self.artifact.program
        self.status[:] = 0
        return self._run(program.body, arrays, [0] * len(program.symbols))

    def _run(self, body: Body, arrays: Sequence[np.ndarray], symbols: list[int]) -> tuple[np.ndarray, ...]:
        slots: dict[int, np.ndarray] = dict(zip(body.parameters, map(guarded, arrays), strict=True))
        for binding in body.bindings:
            symbols[binding.symbol] = slots[binding.slot].shape[binding.axis]
        for constant in body.constants:
            slots[constant.slot] = self._constant(constant)
        for step in body.steps:
            match step:
                case Launch():
                    self._launch(step, slots, symbols)
                case Host():
                    attributes = compile_attributes(step.attributes)(symbols)
                    results = MEANINGS[step.function]([slots[slot] for slot in step.inputs], attributes)
                    slots.update(zip(step.outputs, map(guarded, results), strict=True))
                    for binding in step.bindings:
                        symbols[binding.symbol] = slots[binding.slot].shape[binding.axis]
                case BindSizes():
                    for symbol, value in zip(step.symbols, slots[step.slot].tolist(), strict=True):
                        symbols[symbol] = value
        return tuple(slots[slot] for slot in body.results)

    def _constant(self, constant: Constant) -> np.ndarray:
        dtype, shape = numpy_dtype(constant.spec.dtype), compile_sizes(constant.spec.shape)([])
        data = self.artifact.weights[constant.offset : constant.offset + prod(shape) * dtype.itemsize]
        return data.view(dtype).reshape(shape)

    def _launch(self, step: Launch, slots: dict[int, np.ndarray], symbols: list[int]) -> None:
        specs = {k: spec for k, spec in enumerate(step.specs) if k not in step.late}
        outputs = {
            k: guarded(np.empty(compile_sizes(spec.shape)(symbols), numpy_dtype(spec.dtype)), poison=True)
            for k, spec in specs.items()
        }
        arena = guarded(np.empty(compile_sizes([step.arena_bytes])(symbols), np.uint8), poison=True)
        pool, heap = pool_handle(self.image, self.threads), Heap(step.buffers)
        inputs = [slots[slot] for slot in step.inputs]
        fixed = (pool.address, *(x.ctypes.data for x in (self.artifact.weights, arena, self.status)), heap.address)
        given = [outputs[k].ctypes.data if k in outputs else 0 for k in range(len(step.specs))]
        words = [*fixed, *symbols, *(x.ctypes.data for x in inputs), *given, *[0] * step.array_words]
        frame = (ctypes.c_int64 * len(words))(*words)
        self.image.function(step.entry, 1)(ctypes.addressof(frame))
        for symbol in step.binds:
            symbols[symbol] = frame[len(fixed) + symbol]
        if not self.status[STATUS_CODE]:
            for k in step.late:
                address = frame[len(fixed) + len(symbols) + len(inputs) + k]
                outputs[k] = _copied(address, step.specs[k], symbols)
        slots.update((step.outputs[k], array) for k, array in outputs.items())


def _copied(address: int, spec: TensorSpec, symbols: Sequence[int]) -> np.ndarray:
    """The array that a call has left in memory of its own."""
    array = np.empty(compile_sizes(spec.shape)(symbols), numpy_dtype(spec.dtype))
    ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array


def guarded(x: np.ndarray, poison: bool = False) -> np.ndarray:
    """A copy that ends where a page begins that cannot be accessed; `poison` fills it with ones instead.

    The array keeps its pages mapped.
    """
    page = mmap.PAGESIZE
    whole = max(-(-x.nbytes // page), 1) * page
    mapping = mmap.mmap(-1, whole + page)
    block = np.frombuffer(mapping, np.uint8)
    # 1 byte beyond is a fault, and the address of an empty array is the fault itself.
    assert _libc.mprotect(ctypes.c_void_p(block.ctypes.data + whole), ctypes.c_size_t(page), 0) == 0
    part = block[whole - x.nbytes : whole]
    part[:] = 0xFF
    guarded: np.ndarray = part.view(x.dtype).reshape(x.shape) if x.nbytes else np.empty(x.shape, x.dtype)
    if not poison:
        guarded[...] = x
    return guarded


def assert_near(actual: np.ndarray, expected: np.ndarray, bound: float = 0.0) -> None:
    """Equal element types and shapes; NaN and infinities in the same places; the difference within `bound`.

    A bound of 0 asks for equal numbers. Else it is a part of the largest finite magnitude that is expected.
    """
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if bound == 0 or expected.dtype.kind in "biu" or not expected.size:
        equal = (actual == expected) | ((actual != actual) & (expected != expected))
        assert equal.all(), f"{actual[~equal][:4]} where {expected[~equal][:4]} is expected"
        return
    wide, wanted = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(wanted)
    np.testing.assert_array_equal(wide[~finite], wanted[~finite])
    scale = np.abs(wanted[finite]).max(initial=0.0)
    error = np.abs(wide[finite] - wanted[finite]).max(initial=0.0)
    assert error <= bound * scale, f"the largest difference is {error / scale:.2e} of the largest magnitude"


def precision(dtype: DType) -> float:
    """What rounding once may make of the largest number, with room for two."""
    return {"f64": 1e-14, "f32": 1e-6, "f16": 2e-3, "bf16": 2e-2}.get(dtype.name, 0.0)


def sample(dtype: DType, *shape: int, seed: int = 0) -> np.ndarray:
    """Random elements: around 0, small where they are integers."""
    random = np.random.default_rng((seed, *shape))
    if dtype.is_float:
        return random.standard_normal(shape).astype(dtype.numpy)
    low = -4 if dtype.is_signed else 0
    return random.integers(low, 2 if dtype.is_bool else 5, shape).astype(dtype.numpy)


_ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-40, 1e30, -1e30, np.inf, -np.inf, np.nan)


def odd_values(dtype: DType) -> np.ndarray:
    """What arithmetic of a type meets at its ends: NaN, infinities, -0.0, the least and the greatest integer."""
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.array(_ODD_FLOATS).astype(dtype.numpy)
    if dtype.is_bool:
        return np.array([False, True])
    greatest = 2 ** (dtype.bits - dtype.is_signed) - 1
    least = -greatest - 1 if dtype.is_signed else 0
    numbers = [0, 1, 2, 3, 7, greatest, greatest - 1, least, least + 1]
    return np.array([*numbers, -1, -2, -7] if dtype.is_signed else numbers, dtype.numpy)
