"""Lanes of several vectors brought together, in place of gathers where what is wanted lies close together."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, register, vector_shape, vector_type

LARGEST_SHUFFLED_STRIDE = 4
"""Beyond it a gather touches less memory than whole vectors would. An estimate; strides of models are 1 to 3, or the
window itself."""


def pick_lanes(f: FunctionBuilder, vectors: Sequence[Reg], picks: Sequence[int]) -> Reg:
    """The vector of the elements `picks` of the vectors, counted through all of them."""
    lanes = vectors[0].lanes
    result: Reg | None = None
    for ordinal, vector in enumerate(vectors):
        first = ordinal * lanes
        here = [pick - first if first <= pick < first + lanes else -1 for pick in picks]
        if max(here) < 0:
            continue
        if result is None:
            result = f.shuffle(vector, None, here)
        else:
            # Lanes of the vectors before are in their own place already.
            earlier = [lane if pick < first else -1 for lane, pick in enumerate(picks)]
            merged = [max(a, b + len(picks) if b >= 0 else -1) for a, b in zip(earlier, here, strict=True)]
            result = f.shuffle(result, vector, merged)
    assert result is not None, picks
    return result


def is_shuffled(step: Int) -> TypeGuard[int]:
    """Whether elements so far apart are loaded as whole vectors and taken apart."""
    return (isinstance(step, int) and 1 < abs(step) <= LARGEST_SHUFFLED_STRIDE) or step == -1


def load_strided(f: FunctionBuilder, vector: str, address: Reg, step: int) -> Reg:
    """The elements `step` apart, the first one at an address, as whole vectors; nothing beyond is touched."""
    lanes, element = vector_shape(vector)
    low, span = min(0, (lanes - 1) * step), (lanes - 1) * abs(step) + 1
    starts = [low + min(start, span - lanes) for start in range(0, span, lanes)]
    parts = [f.load(vector, f.gep(address, start, element)) for start in starts]
    picks = []
    for lane in range(lanes):
        ordinal = max(k for k, start in enumerate(starts) if start <= lane * step)
        picks.append(ordinal * lanes + lane * step - starts[ordinal])
    return pick_lanes(f, parts, picks)


def load_first_strided(f: FunctionBuilder, vector: str, address: Reg, step: int, count: Int) -> Reg:
    """The same for the first `count` lanes alone, at least one, where the step is positive.

    Rows of 32 u8 two apart took 4.7 us by a gather, lane by lane, with vectors of 64 lanes.
    """
    lanes, element = vector_shape(vector)
    span = f.add(f.mul(f.sub(count, 1), step), 1)
    starts = [start for start in range(0, lanes * step, lanes) if not (isinstance(span, int) and span <= start)]
    zeros = f.constant(vector, 0)
    parts = [
        masked_load(f, vector, f.gep(address, start, element), f.tail_mask(lanes, f.sub(span, start)), passthru=zeros)
        for start in starts
    ]
    # Lanes that do not count have elements of those that do.
    return pick_lanes(f, parts, [pick % (len(parts) * lanes) for pick in range(0, lanes * step, step)])


_PERMUTATIONS: Mapping[str, tuple[str, str]] = {
    "<8 x float>": ("avx2", "llvm.x86.avx2.permps"),
    "<8 x i32>": ("avx2", "llvm.x86.avx2.permd"),
    "<16 x float>": ("avx512f", "llvm.x86.avx512.permvar.sf.512"),
    "<16 x i32>": ("avx512f", "llvm.x86.avx512.permvar.si.512"),
}
"""The instruction set and the instruction that brings any lane of a vector to any other."""


def can_permute(type: str, f: FunctionBuilder) -> bool:
    """Whether one instruction permutes a vector as data says."""
    return type in _PERMUTATIONS and _PERMUTATIONS[type][0] in f.features


def permute(x: Reg, lanes: Reg, f: FunctionBuilder) -> Reg:
    """The lane of `x` that each of `lanes`, i64 and less than there are, names."""
    words = register(f.convert("trunc", lanes, vector_type("i32", x.lanes)))
    return f.intrinsic(_PERMUTATIONS[x.type][1], x.type, x, words)
