"""What a derivative rule is, and the table of them. The rules themselves are in `derivatives/`, one file per kind.

A rule is the transpose of the linear map that an op is near its operands: given what flows back to its results, it
builds what flows back to its operands.
"""

from collections.abc import Callable, Mapping, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.types import MapType, OptionalType, SequenceType, ShapedType, TensorType, Type
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.records import record


@record
class Step:
    """One op on the way back: the gradients of its results, None where nothing flows; which operands are wanted."""

    op: Op
    gradients: tuple[Value | None, ...]
    wanted: tuple[bool, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.op.operands

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.op.operands[0]

    @property
    def y(self) -> Value:
        """The first result."""
        return self.op.results[0]

    @property
    def gradient(self) -> Value:
        """The gradient of the first result, to which something flows."""
        (gradient, *_) = self.gradients
        assert gradient is not None, self.op.name
        return gradient


Gradients = Sequence[Value | None]
Derivative = Callable[[Step, Builder], Gradients]
"""The gradient of each operand, of its very type; None for zeros, and for what is not wanted."""

_DERIVATIVES: dict[str, Derivative] = {}
DERIVATIVES: Mapping[str, Derivative] = _DERIVATIVES


class NotDifferentiable(UnsupportedError):
    """An op without a derivative stands in the way; `reason` and `location` say which, and where."""

    def __init__(self, op: Op, reason: str) -> None:
        where = f"\n  --> {op.location}" if op.location is not None else ""
        super().__init__(f"{reason}{where}", code="not-differentiable")
        self.reason = reason
        self.location: Location | None = op.location


def derivative(*names: str) -> Callable[[Derivative], Derivative]:
    """Registers the decorated function as the derivative of the primitives `names`."""

    def register(rule: Derivative) -> Derivative:
        for name in names:
            assert name in PRIMITIVES, name
            assert name not in _DERIVATIVES, name
            _DERIVATIVES[name] = rule
        return rule

    return register


def carries_gradient(type: Type) -> bool:
    """Whether values of `type` have gradients: floats do; integers, booleans, texts and host values do not."""
    return isinstance(type, TensorType) and type.shape is not None and type.dtype.is_float


def holds_floats(type: Type) -> bool:
    """Whether what is computed from a value of `type` may have a slope: one with gradients, or one that lacks them."""
    match type:
        case ShapedType(dtype):
            return dtype.is_float or dtype.is_complex
        case SequenceType(element) | OptionalType(element):
            return holds_floats(element)
        case MapType(value=value):
            return holds_floats(value)


def zeros_like(x: Value, build: Builder) -> Value:
    """Zeros of the type of `x`."""
    return build.full(x.shape, 0, x.dtype)


def independent(x: Value, build: Builder) -> Value:
    """`x` as a value of its own, so that what depends on it here is kept apart from what depends on it elsewhere."""
    return build.op("reshape", [x], {"shape": x.shape})[0]
