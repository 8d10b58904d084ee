"""Loads and stores of some lanes of a vector; memory of the others is not touched.

Masks of 32 and 64 bits came with AVX, those of bytes with AVX-512. Without them LLVM writes a branch for each lane, so
that whether all lanes count is asked first. What is known while the code is written takes no mask at all.
"""

from collections.abc import Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, constant, intrinsic_suffix, vector_shape

__all__ = ["every_lane", "masked_load", "masked_store", "takes_masks", "whole_store"]

_WITH_AVX = frozenset(("float", "double", "i32", "i64"))

# LLVM 22 moved the alignment of both from an argument to an attribute; it still reads the argument.


def masked_load(
    f: FunctionBuilder, type: str, pointer: Reg, mask: Reg, align: int = 1, passthru: Reg | None = None
) -> Reg:
    """The lanes of the mask; the others are `passthru`, undefined without."""
    other = passthru.text if passthru is not None else "poison"
    arguments = (pointer, constant("i32", align), mask, Reg(other, type))

    def masked() -> tuple[Reg]:
        return (f.intrinsic(f"llvm.masked.load.{intrinsic_suffix(type)}.p0", type, *arguments),)

    if mask.is_literal or takes_masks(f, type):
        return masked()[0]
    return f.if_(every_lane(f, mask), lambda: (f.load(type, pointer, align),), masked)[0]


def whole_store(f: FunctionBuilder, selected: Reg, pointer: Reg, align: int = 1) -> None:
    """Stores what a select of new and old lanes gave, as a whole vector, so that what loads it next need not wait.

    With AVX, LLVM would store the new lanes under a mask. What is stored so can be loaded once it is in the cache.
    """
    f.store(f.held(selected, "v") if "avx" in f.features else selected, pointer, align)


def masked_store(f: FunctionBuilder, value: Reg, pointer: Reg, mask: Reg, align: int = 1) -> None:
    """Stores the lanes of the mask."""
    lanes = _known_lanes(mask)
    # LLVM 22 writes the wide element where a truncated vector is stored under a constant mask of one lane.
    if lanes is not None and sum(lanes) == 1:
        lane = lanes.index(True)
        f.store(f.extract(value, lane), f.gep(pointer, lane, value.element))
        return
    is_slow = bool(f.features) and "avx512f" not in f.features
    if is_slow and lanes is not None and sorted(lanes, reverse=True) == lanes:
        _store_first(f, value, pointer, sum(lanes))
        return
    count = f.lanes_of_tail(mask)
    if is_slow and count is not None:
        _store_tail(f, value, pointer, count)
        return

    def masked() -> None:
        name = f"llvm.masked.store.{intrinsic_suffix(value.type)}.p0"
        f.call(name, "void", value, pointer, constant("i32", align), mask)

    if mask.is_literal or takes_masks(f, value.type):
        masked()
    else:
        f.if_(every_lane(f, mask), lambda: f.store(value, pointer, align), masked)


def _store_first(f: FunctionBuilder, value: Reg, pointer: Reg, count: int) -> None:
    """Stores the first lanes in parts of powers of two: processors with AVX2 take several times as long for a mask."""
    done, part = 0, value.lanes
    while done < count:
        if part <= count - done:
            f.store(_lanes(f, value, done, part), f.gep(pointer, done, value.element))
            done += part
        part //= 2


def _store_tail(f: FunctionBuilder, value: Reg, pointer: Reg, count: Int) -> None:
    """Stores the first lanes, whose number only the call knows, in parts of powers of two."""

    def rest() -> None:
        left, place = value, pointer
        while left.lanes > 1:
            left, place = _store_half(f, left, place, count)

    f.if_(f.icmp("eq", count, value.lanes), lambda: f.store(value, pointer), rest)


def _store_half(f: FunctionBuilder, left: Reg, place: Reg, count: Int) -> tuple[Reg, ...]:
    """Stores the first half of what is left where all of it counts; what is left then, and where."""
    half = left.lanes // 2
    low, high = (_lanes(f, left, start, half) for start in (0, half))

    def store() -> Sequence[Reg]:
        f.store(low, place)
        return high, f.gep(place, half, left.element)

    return f.if_(f.icmp("ne", f.and_(count, half), 0), store, lambda: (low, place))


def _lanes(f: FunctionBuilder, vector: Reg, start: int, count: int) -> Reg:
    return f.shuffle(vector, None, range(start, start + count)) if count > 1 else f.extract(vector, start)


def takes_masks(f: FunctionBuilder, type: str) -> bool:
    """Whether the processor has masks for such lanes; where nothing is known of it, it is taken to."""
    has_any = "avx" in f.features and vector_shape(type)[1] in _WITH_AVX
    return not f.features or "avx512bw" in f.features or has_any


def every_lane(f: FunctionBuilder, mask: Reg) -> Reg:
    """Whether a mask holds for all lanes."""
    bits = f"i{mask.lanes}"
    return f.icmp("eq", f.convert("bitcast", mask, bits), constant(bits, -1))


def _known_lanes(mask: Reg) -> list[bool] | None:
    """What a mask says of each lane, where that is known."""
    if not mask.text.startswith("<"):
        return None
    return [lane.split()[-1] == "true" for lane in mask.text[1:-1].split(",")]
