"""What a primitive is: the tables that every op name must answer. The primitives themselves are in `primitives/`.

The meaning of a primitive is `onnxc.runtime.host.MEANINGS[name]`; primitives without one (`if`, `guard`, ...) are run
by the interpreter itself and are marked `structural`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from onnxc.compiler.ir.module import Attributes, Block, Op, Value
from onnxc.compiler.ir.types import TensorType, Type

if TYPE_CHECKING:
    from onnxc.compiler.ir.builder import Builder

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
    "host",
]


class TypeRuleError(ValueError):
    """Operands or attributes that a primitive does not take."""


@dataclass(frozen=True)
class AxisLink:
    """One fact of an axes rule: these operand axes and these result axes run together.

    `map`: computing on slices of the operands and joining the results equals computing on the whole. `reduce`: the
    results of slices are combined by `combine` instead. `window` and `gather`: a result element depends on several,
    or on data-chosen, elements of the operand axis. An operand or result that does not have the axis has None.
    """

    kind: Literal["map", "reduce", "window", "gather"]
    operands: tuple[int | None, ...]
    results: tuple[int | None, ...]
    combine: str = ""


TypeRule = Callable[[Sequence[Type], Attributes, Sequence[Block]], tuple[Type, ...]]
AxesRule = Callable[[Op], tuple[AxisLink, ...]]
Decompose = Callable[[Op, "Builder"], tuple[Value, ...]]


@dataclass(frozen=True)
class Primitive:
    """The tables of one primitive.

    `type_rule` is None where the op declares its result types itself (control flow and host functions).
    `effects`: may not be removed, duplicated or moved across another effect.
    """

    name: str
    kind: Kind
    type_rule: TypeRule | None
    axes_rule: AxesRule
    effects: bool = False
    structural: bool = False
    decompose: Decompose | None = None


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
    found = tuple(operand for operand in operands if isinstance(operand, TensorType) and operand.shape is not None)
    if len(found) != len(operands):
        raise TypeRuleError(f"takes tensors of known rank, got {', '.join(map(str, operands))}")
    return found


def no_axes(op: Op) -> tuple[AxisLink, ...]:
    """The axes rule of a primitive of which no axis can be split."""
    return ()
