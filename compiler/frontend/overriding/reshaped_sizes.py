"""What becomes of the target of a Reshape where sizes of its operand became others: pure arithmetic on sizes.

A Reshape keeps the order of the elements in memory, so what an axis of the operand holds lies in the result between the
same products of sizes before it and behind it. The axis of the result that lies there grows as it did.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.frontend.overriding.held_sizes import Held, HeldSize
from onnxc.compiler.frontend.overriding.size_ratios import Span, ratio_of, scaled, spans_of, stand_ins_of
from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Dim, product
from onnxc.runtime.records import record

__all__ = ["renewed_target"]


@record
class _Reshape:
    """Where the axes of the operand and of the result lie as declared.

    `free` are the axes of the result whose sizes, `sizes`, the model holds as numbers.
    """

    before: tuple[Span, ...]
    after: tuple[Span, ...]
    sizes: Sequence[Dim]
    free: Sequence[int]
    stand_ins: Mapping[str, int]

    def home(self, axis: int, part: HeldSize) -> int | None:
        """The axis of the result that grows by what an axis of the operand holds; None where that is open."""
        if part.slower is None:
            return self._home_of_any(axis, part)
        begin = self.before[axis].begin * evaluate(part.slower, self.stand_ins)
        if part.old == 1:
            return self._home_of_one(axis, begin)
        return next(iter(self._enclosing(Span(begin, begin * evaluate(part.old, self.stand_ins)))), None)

    def _enclosing(self, place: Span) -> list[int]:
        return [axis for axis in self.free if self.after[axis].encloses(place)]

    def _home_of_any(self, axis: int, part: HeldSize) -> int | None:
        """The home of what lies anywhere in an axis of the operand.

        It lies around this axis; or it is the only one within that holds the size as a number.
        """
        place = self.before[axis]
        inside = [at for at in self.free if place.encloses(self.after[at]) and self.sizes[at] == part.old != 1]
        outside = self._enclosing(place)
        return outside[0] if outside else inside[0] if len(inside) == 1 else None

    def _home_of_one(self, axis: int, point: int) -> int | None:
        """The home of what was one, such as a batch, which lies behind `point` elements in an axis of the operand.

        An axis of size 1 there, or that of the same elements as the axis of the operand, or one that lies around it.
        Between two axes it joins the inner one where that is a part of what lay behind it, such as heads; else
        the outer one, for the inner one holds features.
        """
        nothing = Span(point, point)
        units = [at for at in self.free if self.after[at] == nothing]
        same = [at for at in self.free if self.after[at] == self.before[axis]]
        enclosing = [at for at in self._enclosing(nothing) if self.after[at].begin < point < self.after[at].end]
        if units or same or enclosing:
            return axis if axis in units else (*units, *same, *enclosing)[0]
        outer = [at for at in self.free if self.after[at].begin < self.after[at].end == point]
        inner = [at for at in self.free if point == self.after[at].begin < self.after[at].end]
        behind = [span.end for span in self.before if point == span.begin < span.end]
        is_part = bool(inner and behind) and self.after[inner[0]].end < behind[0]
        return next(iter((*inner, *outer) if is_part else (*outer[-1:], *inner)), None)


def renewed_target(before: Sequence[Dim], held: Held, result: Sequence[Dim], free: Sequence[int]) -> list[Dim] | None:
    """The shape that a Reshape to `result` means where its operand was `before`; None where that is open.

    held: what the axes of the operand hold now. free: the axes of the result whose sizes the model holds as numbers.
    """
    stand_ins = stand_ins_of((*before, *result))
    if stand_ins is None or product(before) != product(result):
        return None
    reshape = _Reshape(spans_of(before, stand_ins), spans_of(result, stand_ins), result, free, stand_ins)
    target = list(result)
    for axis, parts in enumerate(held):
        for part in parts:
            home, ratio = reshape.home(axis, part), ratio_of(part.new, part.old)
            grown = None if home is None or ratio is None else scaled(target[home], ratio)
            if home is None or grown is None:
                return None
            target[home] = grown
    return target
