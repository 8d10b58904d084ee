"""Kernels written by hand, small ones of different sorts: what the tests of compiling have in common."""

from onnxc.compiler.codegen_gpu.source.kernel_source import KernelParameter, KernelSource

ELEMENTWISE = """@triton.jit
def kernel(a0, a1, y0, s0):
    i = tl.program_id(0) * 1024 + tl.arange(0, 1024)
    m = i < s0
    x = tl.load(a0 + i, mask=m).to(tl.float32)
    y = tl.load(a1 + i, mask=m).to(tl.float32)
    tl.store(y0 + i, (x * y + x).to(y0.dtype.element_ty), mask=m)
"""

REDUCTION = """@triton.jit
def kernel(a0, y0, s0):
    row = tl.program_id(0)
    i = tl.arange(0, 1024)
    x = tl.load(a0 + row * s0 + i, mask=i < s0, other=0.0)
    tl.store(y0 + row, tl.sum(libdevice.tanh(x), axis=0))
"""

DOT = """@triton.jit
def kernel(a0, a1, y0, s0):
    m = tl.program_id(0) * 64 + tl.arange(0, 64)
    n = tl.program_id(1) * 64 + tl.arange(0, 64)
    k = tl.arange(0, 64)
    total = tl.zeros((64, 64), tl.float32)
    for i in range(0, s0, 64):
        a = tl.load(a0 + m[:, None] * s0 + (i + k)[None, :])
        b = tl.load(a1 + (i + k)[:, None] * 512 + n[None, :])
        total = tl.dot(a, b, total, input_precision="ieee")
    tl.store(y0 + m[:, None] * 512 + n[None, :], total)
"""

# Every thread must keep 256 values until their sum is known.
SPILLING = """@triton.jit
def kernel(a0, y0):
    i = tl.arange(0, 32768)
    x = tl.load(a0 + i)
    tl.store(y0 + i, x / tl.sum(x, axis=0))
"""


def source(text: str, *types: str, warps: int = 4, stages: int = 3, divisible: tuple[str, ...] = ()) -> KernelSource:
    """The source with the parameters that its text names."""
    header = next(line for line in text.splitlines() if line.startswith("def kernel("))
    names = [name for name in header.removeprefix("def kernel(").removesuffix("):").split(", ") if name]
    parameters = tuple(KernelParameter(name, kind) for name, kind in zip(names, types, strict=True))
    return KernelSource(text, parameters, warps, stages, divisible)


def elementwise(element: str = "fp32", text: str = ELEMENTWISE) -> KernelSource:
    """y = x * y + x, for a number of elements that is a multiple of 16."""
    return source(text, f"*{element}", f"*{element}", f"*{element}", "i32", divisible=("s0",))


def reduction() -> KernelSource:
    """The sum of the tanh of each row."""
    return source(REDUCTION, "*fp32", "*fp32", "i32")


def dot(element: str = "bf16", depth: int = 64) -> KernelSource:
    """A matrix product with tiles of 64, so many terms at a time."""
    text = DOT.replace("k = tl.arange(0, 64)", f"k = tl.arange(0, {depth})").replace("s0, 64)", f"s0, {depth})")
    return source(text, f"*{element}", f"*{element}", "*fp32", "i32", divisible=("s0",))
