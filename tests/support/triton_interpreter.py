"""Kernel sources executed by Triton's interpreter on host memory, without a GPU and without torch.

The interpreter is chosen when triton is imported, so this module must be the first to import it in its process; sources
are compiled in processes of their own, which know nothing of it.
"""

import linecache
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache
from hashlib import sha256
from types import SimpleNamespace

os.environ["TRITON_INTERPRET"] = "1"

import ml_dtypes
import numpy as np
import triton
import triton.language as tl
from triton.runtime import interpreter

from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.program import PARSING_ATTEMPTS
from tests.support.turns import Turns, meet

__all__ = ["execute", "grid_of"]


def execute(source: KernelSource, grid: tuple[int, int, int], values: Sequence[int]) -> None:
    """Runs every program of `grid`; `values` are the numbers and the addresses on the host.

    One after another, but for programs that wait for each other: these take turns.
    """
    function = _function(source.text)
    arguments = [_tensor(parameter.type, value) for parameter, value in zip(source.parameters, values, strict=True)]
    programs = [(x, y, z) for x in range(grid[0]) for y in range(grid[1]) for z in range(grid[2])]
    with grid_of(grid):
        if "meet(" in source.text:
            Turns(programs, lambda: function(*arguments)).run()
            return
        with np.errstate(all="ignore"):
            for program in programs:
                interpreter.interpreter_builder.set_grid_idx(*program)
                function(*arguments)


@contextmanager
def grid_of(grid: tuple[int, int, int]) -> Iterator[None]:
    """The grid of the launch; that of another one behind it, as garbage that is collected may end a stream."""
    builder = interpreter.interpreter_builder
    before = getattr(builder, "grid_dim", grid), getattr(builder, "grid_idx", (0, 0, 0))
    builder.set_grid_dim(*grid)
    try:
        yield
    finally:
        builder.grid_dim, builder.grid_idx = before


def _tensor(type: str, value: int) -> tl.tensor:
    """A parameter as the kernel sees it."""
    found = tl.str_to_ty(type, None)
    number = np.uint64 if type.startswith("*") else {"i32": np.int32, "i64": np.int64}[type]
    return tl.tensor(interpreter.TensorHandle(np.array([value], number), found), found)


@cache
def _function(text: str) -> Callable[..., None]:
    name = f"<kernel {sha256(text.encode()).hexdigest()[:16]}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, object] = {"triton": triton, "tl": tl, "libdevice": _LIBRARY, "angles": _LIBRARY}
    names["__name__"] = "kernels"
    exec(compile(text, name, "exec"), names)
    names["meet"] = meet
    kernel = names["kernel"]
    assert isinstance(kernel, interpreter.InterpretedFunction), "triton was imported before this module"
    return _rewritten(kernel)


def _rewritten(kernel: interpreter.InterpretedFunction) -> Callable[..., None]:
    """The kernel as the interpreter calls it, although threads that parse at once disturb each other.

    Python 3.11 keeps the depth of the trees it makes for all of them together (python/cpython#106905), and the threads
    of other devices parse sizes meanwhile.
    """
    for _ in range(PARSING_ATTEMPTS):
        with suppress(SystemError):
            function: Callable[..., None] = kernel.rewrite()
            return function
    raise AssertionError(f"{kernel} cannot be parsed")


def _library_function(meaning: str) -> Callable[..., tl.tensor]:
    """A function of CUDA's device library, which the interpreter lacks, by the meaning of a primitive."""

    def call(*operands: tl.tensor) -> tl.tensor:
        arrays = np.broadcast_arrays(*(operand.handle.data for operand in operands))
        (result,) = MEANINGS[meaning](arrays, {})
        handle = interpreter.TensorHandle(result.astype(arrays[0].dtype), operands[0].dtype)
        widest = max(operands, key=lambda operand: operand.handle.data.size)
        return tl.tensor(handle, widest.type)

    return call


_NAMES = {"rint": "round", "fmod": "rem"} | {
    name: name
    for name in (
        "exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
        "erf", "pow",
    )
}  # fmt: skip
_LIBRARY = SimpleNamespace(**{name: _library_function(meaning) for name, meaning in _NAMES.items()})


def _fold(ops: interpreter.ReduceOps, tensors: Sequence[tl.tensor]) -> list[tl.tensor]:
    """A fold by a function of the kernel's own: neighbours come together until one is left.

    Triton calls the function once for each element, which takes it minutes. Sizes of blocks are powers of two.
    """
    parts = [np.moveaxis(x.handle.data, ops.axis, 0) for x in tensors]
    while len(parts[0]) > 1:
        left, right = ([ops.to_tensor(p[i::2], x.dtype) for p, x in zip(parts, tensors, strict=True)] for i in (0, 1))
        result = ops.combine_fn.fn(*left, *right)
        parts = [y.handle.data for y in (result if isinstance(result, tuple) else (result,))]
    shaped = [np.moveaxis(part, 0, ops.axis) if ops.keep_dims else part[0] for part in parts]
    return [ops.to_tensor(part, x.dtype) for part, x in zip(shaped, tensors, strict=True)]


_BYTES = {tl.float8e4nv: ml_dtypes.float8_e4m3fn, tl.float8e5: ml_dtypes.float8_e5m2}


def _patch() -> None:
    """What Triton 3.6 to 3.9 get wrong: bf16 and 8-bit floats, kept as bits, conditions spread, extrema of NaN.

    And what is slow: folds by functions of a kernel, and tests of each sum of indices for overflow.
    """
    builder, handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
    original, original_cast = builder.create_dot, builder.cast_impl

    def cast_impl(self: object, x: interpreter.TensorHandle, target: tl.dtype) -> object:
        before, after = x.dtype.scalar, target.scalar
        if after == tl.bfloat16 and (before == tl.float32 or before.is_int()):
            return handle(x.data.astype(ml_dtypes.bfloat16).view(np.uint16), after)
        if (before, after) == (tl.bfloat16, tl.float32):
            return handle(x.data.view(ml_dtypes.bfloat16).astype(np.float32), after)
        return original_cast(self, x, target)

    builder.cast_impl = cast_impl

    def widened(operand: interpreter.TensorHandle) -> np.ndarray:
        data: np.ndarray = operand.data
        if operand.dtype.scalar == tl.bfloat16:
            return (data.astype(np.uint32) << 16).view(np.float32)
        if operand.dtype.scalar in _BYTES:
            return data.view(_BYTES[operand.dtype.scalar]).astype(np.float32)
        return data

    def create_dot(self: object, a: object, b: object, d: interpreter.TensorHandle, *rest: object) -> object:
        if d.data.dtype.kind != "f":
            return original(self, a, b, d, *rest)
        x, y = (widened(operand).astype(d.data.dtype, copy=False) for operand in (a, b))
        return handle(np.matmul(x, y) + d.data, d.dtype.scalar)

    original_splat = builder.create_splat

    def create_splat(self: object, type: object, x: interpreter.TensorHandle) -> object:
        spread = original_splat(self, type, x)
        return handle(spread.data.astype(bool), tl.int1) if x.data.dtype == bool else spread

    builder.create_dot = create_dot
    builder.create_splat = create_splat
    builder.create_minnumf = lambda self, a, b: self.binary_op(a, b, np.fmin)
    builder.create_maxnumf = lambda self, a, b: self.binary_op(a, b, np.fmax)
    interpreter.ReduceOps.generic_reduce = _fold
    interpreter.interpreter_builder.options = replace(interpreter.interpreter_builder.options, sanitize_overflow=False)


def _enter_for_good() -> None:
    """The language means the interpreter from here on.

    Triton enters it anew at each launch and at each call of a function, which took a third of the time of the tests.
    """
    interpreter._patch_lang(SimpleNamespace(__globals__={"tl": tl, "core": tl.core}))
    interpreter._patch_lang = lambda function: None
    tl.tensor.__index__ = lambda self: int(np.asarray(self.handle.data).reshape(-1)[0])


_patch()
_enter_for_good()
