"""Random bits that are counted, not drawn: (seed, element index) decides each, whatever the layout or the threads."""

from collections.abc import Sequence

from onnxc.compiler.ir.dtypes import U32
from onnxc.compiler.ir.module import Attributes, Block
from onnxc.compiler.ir.primitive import Inline, Primitive, define, no_axes, tensors
from onnxc.compiler.ir.primitives.movement import dims_of, int_of
from onnxc.compiler.ir.types import TensorType, Type


def _random_bits(operands: Sequence[Type], attributes: Attributes, blocks: Sequence[Block]) -> tuple[Type, ...]:
    tensors(operands, 0)
    int_of(attributes, "seed")
    return (TensorType(U32, dims_of(attributes, "shape")),)


define(Primitive("random_bits", "random", _random_bits, no_axes, kernel=Inline(cost=30)))
