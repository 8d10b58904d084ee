"""Rows of 16-bit numbers that begin anywhere, filled up with zeros before they are multiplied, for tensor cores.

Where what is summed has an odd size, as embeddings that are joined have, single elements of two bytes are loaded in the
loop that multiplies, and nothing is loaded ahead; a size that no 8 elements divide keeps the copy engine away. Where a
kernel that computes elements writes the rows anyway, it writes zeros behind each.
"""

from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import BF16, F16
from onnxc.compiler.ir.module import Module, Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.contractions import parse_dimensions, parse_equation
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, Rule, rewrite
from onnxc.runtime.records import record

ALIGNED = 8
"""Elements of 16 bits in the 16 bytes that rows begin at multiples of, where blocks and vectors are copied."""

SHORT_ROWS, FEW_CHANNELS = 8, 16
"""Rows of so many elements stay as they are, as do so few channels: those are summed with those of other taps."""


def fill_rows(module: Module) -> Module:
    """Writes rows that begin anywhere with zeros behind them before they are multiplied, but in loops and branches."""
    constants = (op for function in module.functions for op in function.body.ops if op.name == "constant")
    filling = _Filling(frozenset(constants))
    rules = [Rule("fill_depth", ("dot",), filling.depth), Rule("fill_odd_channels", ("convolution",), filling.channels)]
    return rewrite(module, rules)


@record
class _Filling:
    """The rules, and the constants outside of blocks, where what is made of constants is computed once."""

    constants: frozenset[Op]

    def depth(self, op: Op, build: Rewriter) -> Outcome:
        """dot(x, w, "mk,kn->mn") = dot(pad(x, 0), pad(w, 0), "mk,kn->mn"), k filled up with zeros in both"""
        *terms, result = parse_equation(op.text("equation"))
        for ordinal, x in enumerate(op.operands):
            w, last = op.operands[1 - ordinal], terms[ordinal][-1:]
            is_summed = bool(last) and last in terms[1 - ordinal] and last not in result
            more = _missing(x, SHORT_ROWS) if is_summed else 0
            if more and w.op in self.constants and _is_written_alone(x, build):
                left, right = (
                    _filled(each, letters.index(last), more, build)
                    for each, letters in zip(op.operands, terms, strict=True)
                )
                return build.dot(left, right, op.text("equation"), op.dtype())
        return None

    def channels(self, op: Op, build: Rewriter) -> Outcome:
        """convolution(x, w) = convolution(pad(x, 0), pad(w, 0)), an odd number of channels filled up in both"""
        (x, w), labels = op.operands, parse_dimensions(op.text("dimensions"))
        is_last = labels.x.channel == x.rank - 1 and op.int("groups") == 1
        more = _missing(x, FEW_CHANNELS) if is_last and w.op in self.constants else 0
        is_whole = all(at_least(size, 0) for size in (*op.dims("low"), *op.dims("high")))
        if more % 2 == 0 or not is_whole or not _is_written_alone(x, build):
            return None
        filled = [_filled(x, labels.x.channel, more, build), _filled(w, labels.w.input, more, build)]
        return build.op("convolution", filled, op.attributes)[0]


def _missing(x: Value, short: int) -> int:
    """How many elements rows of 16-bit floats lack that are longer than so many."""
    size: Dim = x.shape[-1] if x.rank and x.dtype in (F16, BF16) else 0
    return -size % ALIGNED if isinstance(size, int) and size > short else 0


def _filled(x: Value, axis: int, more: int, build: Rewriter) -> Value:
    return build.pad(x, [0] * x.rank, [more if each == axis else 0 for each in range(x.rank)])


def _is_written_alone(x: Value, build: Rewriter) -> bool:
    """Whether a kernel that computes elements writes `x` for one op alone.

    It does not where `x` follows a product, a sum or the like element by element, whose kernel writes it.
    """
    waiting, seen = [x], set[Value]()
    while waiting:
        value = waiting.pop()
        if value.op is None or value in seen:
            continue
        seen.add(value)
        primitive = PRIMITIVES[value.op.name]
        if primitive.elementwise or value.op.name in ("broadcast", "reshape", "transpose"):
            waiting += value.op.operands
        elif not primitive.recomputable and value.op.name != "concatenate":
            return False
    return x.op is not None and build.uses(x) == 1
