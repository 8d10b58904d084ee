"""Programs written by hand, with native code for their launches: what the tests of the runtime have in common."""

from collections.abc import Sequence
from functools import cache

import numpy as np

from onnxc.compiler.codegen_host.image import build_image
from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.target import parse_target
from onnxc.runtime.artifact import Artifact, tie_images
from onnxc.runtime.native.aligned_memory import allocate_aligned
from onnxc.runtime.program import (
    Binding,
    Body,
    Check,
    Constant,
    Host,
    JsonValue,
    Launch,
    Parameter,
    Program,
    Step,
    Symbol,
    TensorSpec,
)

HOST = parse_target("cpu")

X = np.array([1.0, -2.0, 0.5], np.float32)
SCALAR = Parameter("k", "i64", (), "i64[]")
FLAG = Parameter("flag", "bool", (), "bool[]")

# Frames: pool, weights, arena, status, s[0], s[1], inputs, outputs. All arrays are f32[N].
#
# affine: y = weights[0] * x + weights[1]. It goes through the arena, N floats of it.
# pick: y[i] = x[i] where x[i] < 100, else the status block says that the first such i is illegal.
# both: y = x + x, z = x * x, with the word of the first input behind those of two symbols.
CODE = """
define internal ptr @word(ptr %frame, i64 %n) {
  %p = getelementptr i64, ptr %frame, i64 %n
  %v = load ptr, ptr %p, align 8
  ret ptr %v
}

define i64 @affine(ptr %frame) {
  %w = call ptr @word(ptr %frame, i64 1)
  %arena = call ptr @word(ptr %frame, i64 2)
  %np = getelementptr i64, ptr %frame, i64 5
  %n = load i64, ptr %np, align 8
  %x = call ptr @word(ptr %frame, i64 7)
  %y = call ptr @word(ptr %frame, i64 8)
  %scale = load float, ptr %w, align 4
  %wb = getelementptr float, ptr %w, i64 1
  %bias = load float, ptr %wb, align 4
  br label %test
test:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %loop, label %second
loop:
  %xp = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %xp, align 4
  %m = fmul float %a, %scale
  %tp = getelementptr float, ptr %arena, i64 %i
  store float %m, ptr %tp, align 4
  %next = add i64 %i, 1
  br label %test
second:
  %k = phi i64 [ 0, %test ], [ %after, %copy ]
  %rest = icmp slt i64 %k, %n
  br i1 %rest, label %copy, label %done
copy:
  %sp = getelementptr float, ptr %arena, i64 %k
  %b = load float, ptr %sp, align 4
  %s = fadd float %b, %bias
  %yp = getelementptr float, ptr %y, i64 %k
  store float %s, ptr %yp, align 4
  %after = add i64 %k, 1
  br label %second
done:
  ret i64 0
}

define i64 @pick(ptr %frame) {
  %status = call ptr @word(ptr %frame, i64 3)
  %np = getelementptr i64, ptr %frame, i64 5
  %n = load i64, ptr %np, align 8
  %x = call ptr @word(ptr %frame, i64 7)
  %y = call ptr @word(ptr %frame, i64 8)
  br label %test
test:
  %i = phi i64 [ 0, %0 ], [ %next, %fine ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %loop, label %done
loop:
  %xp = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %xp, align 4
  %legal = fcmp olt float %a, 100.0
  br i1 %legal, label %fine, label %wrong
fine:
  %yp = getelementptr float, ptr %y, i64 %i
  store float %a, ptr %yp, align 4
  %next = add i64 %i, 1
  br label %test
wrong:
  %v = fptosi float %a to i64
  %p1 = getelementptr i64, ptr %status, i64 1
  %p2 = getelementptr i64, ptr %status, i64 2
  %p3 = getelementptr i64, ptr %status, i64 3
  store i64 1, ptr %status, align 8
  store i64 1, ptr %p1, align 8
  store i64 %v, ptr %p2, align 8
  store i64 100, ptr %p3, align 8
  br label %done
done:
  ret i64 0
}

define i64 @both(ptr %frame) {
  %np = getelementptr i64, ptr %frame, i64 5
  %n = load i64, ptr %np, align 8
  %x = call ptr @word(ptr %frame, i64 7)
  %y = call ptr @word(ptr %frame, i64 8)
  %z = call ptr @word(ptr %frame, i64 9)
  br label %test
test:
  %i = phi i64 [ 0, %0 ], [ %next, %loop ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %loop, label %done
loop:
  %xp = getelementptr float, ptr %x, i64 %i
  %a = load float, ptr %xp, align 4
  %s = fadd float %a, %a
  %q = fmul float %a, %a
  %yp = getelementptr float, ptr %y, i64 %i
  %zp = getelementptr float, ptr %z, i64 %i
  store float %s, ptr %yp, align 4
  store float %q, ptr %zp, align 4
  %next = add i64 %i, 1
  br label %test
done:
  ret i64 0
}
"""

ENTRIES = ("affine", "pick", "both")
SYMBOLS = (Symbol("N", 0, None), Symbol("K", 0, None))
VECTOR = TensorSpec("f32", ("s[0]",))
SCALE, BIAS = 3.0, 0.5


@cache
def image() -> bytes:
    """The native code of `ENTRIES` for this machine."""
    return build_image([compile_object(CODE, HOST)], ENTRIES, HOST)


def vector(name: str, size: str = "N", default: int | None = None) -> Parameter:
    """An input or output f32[size]."""
    return Parameter(name, "f32", (size,), f"f32[{size}]", default)


def host(
    function: str, inputs: Sequence[int], outputs: Sequence[int], *bindings: Binding, **attributes: JsonValue
) -> Host:
    """A step of the host function of that name."""
    return Host(function, tuple(inputs), tuple(outputs), attributes, bindings)


def launch(entry: str, inputs: Sequence[int], outputs: Sequence[int], arena_bytes: str = "4*s[0]") -> Launch:
    """A launch of vectors of N."""
    return Launch(entry, tuple(inputs), tuple(outputs), (VECTOR,) * len(outputs), arena_bytes)


def body(
    slots: int,
    parameters: Sequence[int],
    results: Sequence[int],
    steps: Sequence[Step],
    *,
    bindings: Sequence[Binding] = (Binding(0, 0, 0),),
    checks: Sequence[Check] = (),
    constants: Sequence[Constant] = (),
) -> Body:
    """A body whose first symbol is the size of its first slot."""
    return Body(
        slots, tuple(parameters), tuple(results), tuple(bindings), tuple(checks), tuple(constants), tuple(steps)
    )


def program(
    content: Body,
    inputs: Sequence[Parameter] = (vector("x"),),
    outputs: Sequence[Parameter] = (vector("y"),),
    symbols: Sequence[Symbol] = SYMBOLS,
) -> Program:
    """A program of vectors."""
    return Program("test", tuple(symbols), tuple(inputs), tuple(outputs), content)


def artifact(content: Program, weights: np.ndarray | None = None) -> Artifact:
    """The program with its native code, and scale and bias as the first weights."""
    block = allocate_aligned(64)
    block[:] = 0
    block[:8] = np.array([SCALE, BIAS], np.float32).view(np.uint8)
    if weights is not None:
        extended = allocate_aligned(64 + weights.nbytes)
        extended[:64], extended[64:] = block, weights.reshape(-1).view(np.uint8)
        block = extended
    made = Artifact(
        content,
        {str(HOST): image()},
        block,
        {"locations": ["node 0", "node 1"]},
        "a report",
        {str(HOST): HOST.features},
    )
    return tie_images(made)


AFFINE = program(body(2, [0], [1], [launch("affine", [0], [1])]))
