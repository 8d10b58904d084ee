"""Programs for a device, written by hand: native segments that launch kernels, and what the kernels do on a fake."""

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.device_code import DeviceCode, DeviceKernel
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_executable
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.program import Launch, Program
from tests.runtime.programs import BIAS, HOST, SCALE, body, launch, program
from tests.support.fake_driver import FakeDriver, Launched

BLOCK = 128

# What a kernel takes, in words of the frame (weights, arena, status, the symbol N, then inputs and outputs), with its
# types. N is the last parameter of each, and each is launched on a grid of N / 128 blocks.
SEGMENTS: Mapping[str, Sequence[tuple[int, Sequence[int]]]] = {
    # affine: arena = weights[0] * x; y = arena + weights[1].
    "affine": ((0, (7, 1, 2, 5)), (1, (2, 1, 8, 5))),
    # pick: y = x where x < 100; else the status block says that it is illegal.
    "pick": ((2, (7, 3, 8, 5)),),
    # both: y = x + x, z = x * x.
    "both": ((3, (7, 8, 9, 5)),),
}
FLOATS = ("*fp32", "*fp32", "*fp32", "i32")


def kernel(name: str, parameters: Sequence[str] = FLOATS, shared_bytes: int = 0, ctas: int = 1) -> DeviceKernel:
    """A kernel that no device could load."""
    key = name.encode().hex().ljust(64, "0")
    return DeviceKernel(
        key, name, b"\x7fELF" + name.encode(), tuple(parameters), BLOCK // 32, ctas, shared_bytes, 0, False, 16, 0, ""
    )


CODE = DeviceCode(
    "sm_90",
    (kernel("multiply", shared_bytes=64 << 10), kernel("add"), kernel("pick", ("*fp32", "*i64", "*fp32", "i32")),
     kernel("both")),
)  # fmt: skip


@cache
def image() -> bytes:
    """The native code of the segments for this machine."""
    text = "\n".join(segment_code(name, launches) for name, launches in SEGMENTS.items())
    return build_image([compile_object(text, HOST)], tuple(SEGMENTS), HOST)


def segment_code(name: str, launches: Sequence[tuple[int, Sequence[int]]]) -> str:
    """The LLVM IR of a segment, as the compiler would write it."""
    lines = [f"define i64 @{name}(ptr %frame) {{", "  %config = alloca [7 x i64], align 8",
             "  %words = alloca [8 x i64], align 8", "  %pointers = alloca [8 x i64], align 8",
             "  %table = load ptr, ptr %frame, align 8", "  %launch = load ptr, ptr %table, align 8",
             "  %streamp = getelementptr i64, ptr %table, i64 1", "  %stream = load i64, ptr %streamp, align 8",
             "  %np = getelementptr i64, ptr %frame, i64 5", "  %n = load i64, ptr %np, align 8",
             "  %many = icmp sge i64 %n, 2147483648", "  br i1 %many, label %toomany, label %counted", "toomany:",
             "  ret i64 -1", "counted:", "  %none = icmp eq i64 %n, 0",
             "  br i1 %none, label %done, label %l0"]  # fmt: skip
    for number, (index, words) in enumerate(launches):
        made = CODE.kernels[index]
        lines += [f"l{number}:", f"  %up{number} = add i64 %n, {BLOCK - 1}",
                  f"  %grid{number} = udiv i64 %up{number}, {BLOCK}",
                  f"  %ones{number} = or i64 %grid{number}, {1 << 32}",
                  f"  %fp{number} = getelementptr i64, ptr %table, i64 {2 + index}",
                  f"  %f{number} = load ptr, ptr %fp{number}, align 8"]  # fmt: skip
        # grid x and y; grid z and block x; block y and z; shared memory; stream; attributes; their number.
        fields = (f"%ones{number}", 1 | BLOCK << 32, 1 | 1 << 32, made.shared_bytes, "%stream", 0, 0)
        for place, field in enumerate(fields):
            lines += [f"  %c{number}_{place} = getelementptr i64, ptr %config, i64 {place}",
                      f"  store i64 {field}, ptr %c{number}_{place}, align 8"]  # fmt: skip
        for place in range(len(words) + 2):
            value = "0"
            if place < len(words):
                value = f"%v{number}_{place}"
                lines += [f"  %w{number}_{place} = getelementptr i64, ptr %frame, i64 {words[place]}",
                          f"  {value} = load i64, ptr %w{number}_{place}, align 8"]  # fmt: skip
            lines += [f"  %p{number}_{place} = getelementptr i64, ptr %words, i64 {place}",
                      f"  store i64 {value}, ptr %p{number}_{place}, align 8",
                      f"  %q{number}_{place} = getelementptr i64, ptr %pointers, i64 {place}",
                      f"  store ptr %p{number}_{place}, ptr %q{number}_{place}, align 8"]  # fmt: skip
        after = f"l{number + 1}" if number + 1 < len(launches) else "done"
        lines += [f"  %r{number} = call i32 %launch(ptr %config, ptr %f{number}, ptr %pointers, ptr null)",
                  f"  %bad{number} = icmp ne i32 %r{number}, 0",
                  f"  br i1 %bad{number}, label %failed{number}, label %{after}", f"failed{number}:",
                  f"  %e{number} = zext i32 %r{number} to i64", f"  ret i64 %e{number}"]  # fmt: skip
    return "\n".join([*lines, "done:", "  ret i64 0", "}"])


def execute(fake: FakeDriver, launched: Launched) -> None:
    """What the kernels do."""
    *addresses, n = map(int, launched.values)
    name = launched.kernel.name
    if name == "pick":
        x, status, y = (fake.view(a, t, s) for a, t, s in zip(addresses, "fqf", ((n,), (8,), (n,)), strict=True))
        illegal = x >= 100
        y[:] = np.where(illegal, 0, x)
        if illegal.any():
            status[:4] = 1, 1, int(x[illegal.argmax()]), 100
        return
    if name == "both":
        x, y, z = (fake.view(address, "f", (n,)) for address in addresses)
        y[:], z[:] = x + x, x * x
        return
    x, weights, y = (fake.view(a, "f", s) for a, s in zip(addresses, ((n,), (2,), (n,)), strict=True))
    y[:] = x * weights[0] if name == "multiply" else x + weights[1]


def fake_driver(**options: object) -> FakeDriver:
    """A driver with the kernels, which it can execute."""
    fake = FakeDriver(CODE, **options)
    fake.execute = lambda launched: execute(fake, launched)
    return fake


def artifact(content: Program, weights: np.ndarray | None = None) -> Artifact:
    """The program for a device, with scale and bias as the first weights."""
    block = allocate_aligned(64 + (0 if weights is None else weights.nbytes))
    block[:] = 0
    block[:8] = np.array([SCALE, BIAS], np.float32).view(np.uint8)
    if weights is not None:
        block[64:] = weights.reshape(-1).view(np.uint8)
    locations = ["node 0", "node 1"] if "pick" in repr(content) else []
    made = Artifact(
        content, {str(HOST): image()}, block, {"locations": locations}, "a report",
        {str(HOST): HOST.features}, CODE,
    )  # fmt: skip
    return tie_images(made)


def executable(fake: FakeDriver, content: Program, weights: np.ndarray | None = None, **options: bool) -> Executable:
    """The program on the fake device."""
    return make_executable(artifact(content, weights), driver=fake.driver, **options)


def step(entry: str, inputs: Sequence[int], outputs: Sequence[int]) -> Launch:
    """A launch of vectors of N."""
    return launch(entry, inputs, outputs)


AFFINE = program(body(2, [0], [1], [launch("affine", [0], [1])]))
PICK = program(body(2, [0], [1], [launch("pick", [0], [1])]))


def affine(x: np.ndarray) -> np.ndarray:
    """What `AFFINE` gives."""
    return x * np.float32(SCALE) + np.float32(BIAS)
