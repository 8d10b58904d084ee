"""What a primitive is: the tables that every op name must answer. The primitives themselves are in `primitives/`.

The meaning of a primitive is `onnxc.runtime.host.MEANINGS[name]`; primitives without one (`if`, `guard`, ...) are run
by the interpreter itself and are marked `structural`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Literal

from onnxc.compiler.ir.module import Attributes, Block, Op
from onnxc.compiler.ir.types import TensorType, Type
from onnxc.runtime.records import record

Kind = Literal[
    "pointwise",
    "movement",
    "generator",
    "shape",
    "reduction",
    "contraction",
    "window",
    "indexed",
    "ordering",
    "random",
    "control",
    "collective",
    "composite",
    "native",
    "host",
]

AnchorKind = Literal[
    "concatenate",
    "reduction",
    "contraction",
    "convolution",
    "window",
    "scatter",
    "scan",
    "ordering",
    "attention",
    "block_product",
    "recurrence",
    "suppress_boxes",
    "compaction",
    "tree_ensemble",
    "fourier",
    "native_call",
]
"""The kinds of kernels that are named after their anchors."""

ElementClass = Literal["any elements", "numbers", "floats", "integers or truth values"]
"""Element types that a primitive may take, by what they are called."""


@record
class Anchor:
    """The op is the anchor of a kernel of the kind, which is computed once and as a whole."""

    kind: AnchorKind


@record
class Inline:
    """An element is computed wherever it is wanted, at any index inside of a kernel and again in another.

    `cost` is the work for one element, in simple instructions. `elementwise`: element i of the result is a function of
    the elements i of the operands, which have its shape; such an op may follow what an anchor computes.
    `exact`: of floats of some bits it makes floats of so many bits, and nothing is rounded.
    """

    cost: int
    elementwise: bool = False
    exact: bool = False


class TypeRuleError(ValueError):
    """Operands or attributes that a primitive does not take."""


@record
class AxisLink:
    """One fact of an axes rule: these operand axes and these result axes run together.

    `map`: computing on slices of the operands and joining the results equals computing on the whole. `reduce`: the
    results of slices are combined by `combine` instead. `window` and `gather`: a result element depends on several,
    or on data-chosen, elements of the operand axis. An operand or result that does not have the axis has None.
    is_even: slices must all be of one size, none filled up with elements that stand for nothing.
    """

    kind: Literal["map", "reduce", "window", "gather"]
    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    combine: str = ""
    is_even: bool = False


TypeRule = Callable[[Sequence[Type], Attributes, Sequence[Block]], tuple[Type, ...]]
AxesRule = Callable[[Op], tuple[AxisLink, ...]]


@record
class Primitive:
    """The tables and facts of one primitive; what every one must state has no default.

    `type_rule` is None where the op declares its result types itself (control flow, host functions, callers' kernels).
    `kernel`: how generated code computes it; None where it does not, and the op is a step of its own.
    `takes`: the element types of its operands, where the type rule leaves this to lowerings.
    `effects`: may not be removed, duplicated or moved across another effect. Those of an op with blocks are theirs.
    `captures`: how many of the last operands are captures of the op's blocks, whose last parameters they are.
    `binds`: the attribute with the names of the symbols that are known after the op.
    """

    name: str
    kind: Kind
    type_rule: TypeRule | None
    axes_rule: AxesRule
    kernel: Anchor | Inline | None = field(kw_only=True)
    takes: ElementClass = "any elements"
    effects: bool = False
    structural: bool = False
    captures: Callable[[Op], int] | None = None
    binds: str | None = None

    @property
    def anchor(self) -> AnchorKind | None:
        """The kind of kernel whose anchor the op is."""
        return self.kernel.kind if isinstance(self.kernel, Anchor) else None

    @property
    def recomputable(self) -> bool:
        """Whether an element can be computed again wherever it is wanted."""
        return isinstance(self.kernel, Inline)

    @property
    def cost(self) -> int | None:
        """The work of computing an element again; None where that cannot be."""
        return self.kernel.cost if isinstance(self.kernel, Inline) else None

    @property
    def elementwise(self) -> bool:
        """Whether element i of the result is a function of the elements i of the operands, wherever it is computed."""
        return isinstance(self.kernel, Inline) and self.kernel.elementwise

    @property
    def exact(self) -> bool:
        """Whether floats of some bits make floats of so many bits."""
        return isinstance(self.kernel, Inline) and self.kernel.exact

    @property
    def is_view(self) -> bool:
        """Whether the result is the operand stepped through in another way: a movement that takes no instruction."""
        return self.kind == "movement" and self.cost == 0

    @property
    def picks(self) -> bool:
        """Whether an element of the result is the element of the first operand that the second says."""
        return self.kind == "indexed" and self.recomputable


_PRIMITIVES: dict[str, Primitive] = {}
PRIMITIVES: Mapping[str, Primitive] = _PRIMITIVES


def define(primitive: Primitive) -> None:
    """Adds `primitive` to the vocabulary; its name must be new."""
    assert primitive.name not in _PRIMITIVES, primitive.name
    _PRIMITIVES[primitive.name] = primitive


def tensors(operands: Sequence[Type], count: int | None = None) -> tuple[TensorType, ...]:
    """`operands` as tensor types of known rank, `count` of them."""
    if count is not None and len(operands) != count:
        raise TypeRuleError(f"takes {count} operands, got {len(operands)}")
    checked = tuple(operand for operand in operands if isinstance(operand, TensorType) and operand.shape is not None)
    if len(checked) != len(operands):
        raise TypeRuleError(f"takes tensors of known rank, got {', '.join(map(str, operands))}")
    return checked


def no_axes(op: Op) -> tuple[AxisLink, ...]:
    """The axes rule of a primitive of which no axis can be split."""
    return ()
