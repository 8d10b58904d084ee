"""Products with weights of few bits: integers less a zero point, times a scale, both for blocks of neighbours along k.

What quantises weights alone comes to `block_product`, whatever operators say so; where rows are quantised too, to bytes
in the same blocks, it is `byte_block_product`, whose sums within a block are exact. Codes are kept as i8, a byte for
each; how they are packed is the layout of the kernel that reads them.
"""

from collections.abc import Callable, Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import I8
from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, TypeRuleError, define, tensors
from onnxc.compiler.ir.types import TensorType, Type

_WIDTHS = (2, 4, 8)
"""The bits that a code may have."""


def _block_product(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: T[d..., K], codes: i8[N, K], scales: U[N, B], zeros: U[N, B] if any  ->  T[d..., N]

    B = ceil(K / block). result[d, n] = Σ x[d, k] (codes[n, k] - zeros[n, b]) scales[n, b], with b = k // block; codes
    are signed integers of `bits` bits. 16-bit floats are computed in f32.
    """
    x, codes, scales, *zeros = tensors(operands)
    columns, *_ = _expect_weights(x, codes, scales, zeros, attributes)
    if not x.dtype.is_float or not scales.dtype.is_float:
        raise TypeRuleError(f"x {x} and scales {scales} are not floats")
    return (TensorType(x.dtype, (*x.known_shape[:-1], columns)),)


def _byte_block_product(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    """x: i8[d..., K], steps: T[d..., B], codes: i8[N, K], scales, zeros: T[N, B]  ->  T[d..., N]

    As block_product of x[d, k] steps[d, b]; zeros may be absent, and K is B blocks. result[d, n] = Σ steps[d, b]
    scales[n, b] Σ x[d, k] (codes[n, k] - zeros[n, b]), the inner sums over the k of block b.
    """
    x, steps, codes, scales, *zeros = tensors(operands)
    columns, count, block = _expect_weights(x, codes, scales, zeros, attributes)
    if x.dtype != I8 or steps.dtype != scales.dtype or not steps.dtype.is_float:
        raise TypeRuleError(f"x {x} is no i8, or steps {steps} and scales {scales} are not floats of one type")
    if steps.known_shape != (*x.known_shape[:-1], count) or x.known_shape[-1] != block * count:
        raise TypeRuleError(f"{steps} are no steps of blocks of {x}")
    return (TensorType(steps.dtype, (*x.known_shape[:-1], columns)),)


def _expect_weights(
    x: TensorType, codes: TensorType, scales: TensorType, zeros: Sequence[TensorType], attributes: Attributes
) -> tuple[Dim, int, int]:
    """N, B and the block of weights that fit together, and to rows x."""
    bits, block = attributes.get("bits"), attributes.get("block")
    if bits not in _WIDTHS or not isinstance(block, int) or block < 1:
        raise TypeRuleError(f"bits are {bits} in blocks of {block}")
    if not x.rank or codes.dtype != I8 or codes.rank != 2 or x.known_shape[-1] != codes.known_shape[1]:
        raise TypeRuleError(f"x {x} and codes {codes} do not fit")
    columns, depth = codes.known_shape
    if not isinstance(depth, int):
        raise TypeRuleError(f"the depth of {codes} is not known")
    count = -(-depth // block)
    spread = TensorType(scales.dtype, (columns, count))
    if len(zeros) > 1 or any(each != spread for each in (scales, *zeros)):
        raise TypeRuleError(f"the scales {scales} and zero points {zeros} are not {spread}")
    return columns, count, block


def _links_of(rows: int) -> Callable[[Op], tuple[AxisLink, ...]]:
    """The axes of a product whose first `rows` operands have the axes of its rows; the others are of its columns."""

    def axes(op: Op) -> tuple[AxisLink, ...]:
        x, weights = op.operands[0], op.operands[rows:]
        of_rows = [AxisLink("map", (*(axis,) * rows, *(None for _ in weights)), (axis,)) for axis in range(x.rank - 1)]
        return (*of_rows, AxisLink("map", (*(None,) * rows, *(0 for _ in weights)), (x.rank - 1,)))

    return axes


define(Primitive("block_product", "composite", _block_product, _links_of(1), kernel=Anchor("block_product")))
define(Primitive("byte_block_product", "composite", _byte_block_product, _links_of(2), kernel=Anchor("block_product")))
