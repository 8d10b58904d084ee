"""Lanes of several vectors brought together, in place of gathers where what is wanted lies close together."""

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_masks import masked_load, takes_masks
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


def load_strided(f: FunctionBuilder, vector: str, address: Reg, step: int, mask: Reg | None = None) -> Reg:
    """The elements `step` apart, the first one at an address; 0 in lanes that a mask excludes.

    As whole vectors, which are taken apart. Nothing beyond the elements that count is touched: of all lanes the last
    vector is loaded further in front, of the first ones each under a mask. Other masks are for a gather.
    """
    if mask is None:
        return _whole(f, vector, address, step)
    count = f.lanes_of_tail(mask)
    if count is not None and takes_masks(f, vector):
        return _first_lanes(f, vector, address, step, count)
    lanes, _ = vector_shape(vector)
    steps = f.constant(vector_type("i64", lanes), [lane * step for lane in range(lanes)])
    return f.gather(vector, address, steps, mask, passthru=f.constant(vector, 0))


def _whole(f: FunctionBuilder, vector: str, address: Reg, step: int) -> Reg:
    lanes, element = vector_shape(vector)
    low, span = min(0, (lanes - 1) * step), (lanes - 1) * abs(step) + 1
    starts = [low + min(start, span - lanes) for start in range(0, span, lanes)]
    parts = [f.load(vector, f.gep(address, start, element)) for start in starts]
    picks = []
    for lane in range(lanes):
        ordinal = max(k for k, start in enumerate(starts) if start <= lane * step)
        picks.append(ordinal * lanes + lane * step - starts[ordinal])
    return pick_lanes(f, parts, picks)


def _first_lanes(f: FunctionBuilder, vector: str, address: Reg, step: int, count: Int) -> Reg:
    """The same for the first `count` lanes alone.

    8,192 rows of 32 u8 two apart took 193 us by gathers, lane by lane, with vectors of 64 lanes, and take 21.
    """
    lanes, element = vector_shape(vector)
    apart, span, zeros = abs(step), (lanes - 1) * abs(step) + 1, f.constant(vector, 0)
    # Where the elements that count begin and end, from the lowest place of a lane on.
    first: Int = 0 if step > 0 else f.mul(f.sub(lanes, count), apart)
    stop: Int = f.add(f.mul(f.sub(count, 1), apart), 1) if step > 0 else span

    def part(start: int) -> Reg:
        begin, end = f.sub(first, start), f.sub(stop, start)
        if (isinstance(begin, int) and begin >= lanes) or (isinstance(end, int) and end <= 0):
            return zeros
        place = f.gep(address, start + min(0, (lanes - 1) * step), element)
        return masked_load(f, vector, place, _between(f, lanes, begin, end), passthru=zeros)

    picks = [lane * apart if step > 0 else (lanes - 1 - lane) * apart for lane in range(lanes)]
    return pick_lanes(f, [part(start) for start in range(0, span, lanes)], picks)


def _between(f: FunctionBuilder, lanes: int, first: Int, stop: Int) -> Reg:
    """The mask of the lanes from one on to another."""
    if isinstance(first, int) and isinstance(stop, int):
        return f.constant(vector_type("i1", lanes), [first <= lane < stop for lane in range(lanes)])
    below = f.tail_mask(lanes, stop)
    if isinstance(first, int) and first <= 0:
        return below
    return f.and_(below, f.xor(f.tail_mask(lanes, first), f.constant(below.type, 1)))


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
