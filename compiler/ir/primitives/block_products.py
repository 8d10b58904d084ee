"""Products with weights of few bits: integers less a zero point, times a scale, both for blocks of neighbours along k.

What quantises weights alone comes to this, whatever operators say so. Codes are kept as i8, a byte for each; how they
are packed is the layout of the kernel that reads them.
"""

from collections.abc import Sequence

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
    bits, block = attributes.get("bits"), attributes.get("block")
    if bits not in _WIDTHS or not isinstance(block, int) or block < 1:
        raise TypeRuleError(f"bits are {bits} in blocks of {block}")
    if not x.rank or codes.dtype != I8 or codes.rank != 2 or x.known_shape[-1] != codes.known_shape[1]:
        raise TypeRuleError(f"x {x} and codes {codes} do not fit")
    columns, depth = codes.known_shape
    if not isinstance(depth, int):
        raise TypeRuleError(f"the depth of {codes} is not known")
    spread = TensorType(scales.dtype, (columns, -(-depth // block)))
    if len(zeros) > 1 or any(each != spread for each in (scales, *zeros)):
        raise TypeRuleError(f"the scales {scales} and zero points {zeros} are not {spread}")
    if not x.dtype.is_float or not scales.dtype.is_float:
        raise TypeRuleError(f"x {x} and scales {scales} are not floats")
    return (TensorType(x.dtype, (*x.known_shape[:-1], columns)),)


def _axes(op: Op) -> tuple[AxisLink, ...]:
    x, *weights = op.operands
    rows = [AxisLink("map", (axis, *(None for _ in weights)), (axis,)) for axis in range(x.rank - 1)]
    return (*rows, AxisLink("map", (None, *(0 for _ in weights)), (x.rank - 1,)))


define(Primitive("block_product", "composite", _block_product, _axes, kernel=Anchor("block_product")))
