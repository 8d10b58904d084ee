"""Part of the builder: pointwise ops. Operands are broadcast together as in NumPy, and numbers become constants."""

from onnxc.compiler.ir.building.movement import MovementBuilder
from onnxc.compiler.ir.building.sizes import Operand
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value


class PointwiseBuilder(MovementBuilder):
    """Makes pointwise ops, one method per primitive, and short formulas of them."""

    def unary(self, name: str, x: Value) -> Value:
        """A pointwise primitive of one operand, by name."""
        return self._one(name, x)

    def binary(self, name: str, a: Operand, b: Operand) -> Value:
        """A pointwise primitive of two operands, by name."""
        return self._binary(name, a, b)

    def add(self, a: Operand, b: Operand) -> Value:
        return self._binary("add", a, b)

    def sub(self, a: Operand, b: Operand) -> Value:
        return self._binary("sub", a, b)

    def mul(self, a: Operand, b: Operand) -> Value:
        return self._binary("mul", a, b)

    def div(self, a: Operand, b: Operand) -> Value:
        return self._binary("div", a, b)

    def rem(self, a: Operand, b: Operand) -> Value:
        return self._binary("rem", a, b)

    def pow(self, a: Operand, b: Operand) -> Value:
        return self._binary("pow", a, b)

    def min(self, a: Operand, b: Operand) -> Value:
        return self._binary("min", a, b)

    def max(self, a: Operand, b: Operand) -> Value:
        return self._binary("max", a, b)

    def and_(self, a: Operand, b: Operand) -> Value:
        return self._binary("and", a, b)

    def or_(self, a: Operand, b: Operand) -> Value:
        return self._binary("or", a, b)

    def xor(self, a: Operand, b: Operand) -> Value:
        return self._binary("xor", a, b)

    def shift_left(self, a: Operand, b: Operand) -> Value:
        return self._binary("shift_left", a, b)

    def shift_right(self, a: Operand, b: Operand) -> Value:
        return self._binary("shift_right", a, b)

    def equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("equal", a, b)

    def less(self, a: Operand, b: Operand) -> Value:
        return self._binary("less", a, b)

    def less_equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("less_equal", a, b)

    def greater(self, a: Operand, b: Operand) -> Value:
        return self._binary("less", b, a)

    def greater_equal(self, a: Operand, b: Operand) -> Value:
        return self._binary("less_equal", b, a)

    def not_equal(self, a: Operand, b: Operand) -> Value:
        return self.not_(self.equal(a, b))

    def neg(self, x: Value) -> Value:
        return self._one("neg", x)

    def abs(self, x: Value) -> Value:
        return self._one("abs", x)

    def sign(self, x: Value) -> Value:
        return self._one("sign", x)

    def floor(self, x: Value) -> Value:
        return self._one("floor", x)

    def ceil(self, x: Value) -> Value:
        return self._one("ceil", x)

    def round(self, x: Value) -> Value:
        return self._one("round", x)

    def sqrt(self, x: Value) -> Value:
        return self._one("sqrt", x)

    def exp(self, x: Value) -> Value:
        return self._one("exp", x)

    def log(self, x: Value) -> Value:
        return self._one("log", x)

    def tanh(self, x: Value) -> Value:
        return self._one("tanh", x)

    def erf(self, x: Value) -> Value:
        return self._one("erf", x)

    def not_(self, x: Value) -> Value:
        return self._one("not", x)

    def select(self, condition: Value, a: Operand, b: Operand) -> Value:
        """`a` where the condition holds, else `b`."""
        x, y = self._operands(a, b)
        return self.op("select", self.broadcast_together(condition, x, y))[0]

    def cast(self, x: Value, dtype: DType, saturate: bool = True, round_mode: str = "nearest") -> Value:
        """`x` in another element type; itself where it has that already."""
        if x.dtype == dtype:
            return x
        return self._one("cast", x, dtype=dtype, saturate=saturate, round_mode=round_mode)

    def bitcast(self, x: Value, dtype: DType) -> Value:
        """The bits of `x` read as another type of the same width."""
        return self._one("bitcast", x, dtype=dtype)

    # Formulas

    def square(self, x: Value) -> Value:
        return self.mul(x, x)

    def reciprocal(self, x: Value) -> Value:
        return self.div(1, x)

    def relu(self, x: Value) -> Value:
        return self.max(x, 0)

    def sigmoid(self, x: Value) -> Value:
        """1 / (1 + exp(-x)): exact at both infinities."""
        return self.div(1, self.add(self.exp(self.neg(x)), 1))

    def clamp(self, x: Value, low: Operand, high: Operand) -> Value:
        """min(max(x, low), high): `high` wins where the bounds cross; NaN stays."""
        return self.min(self.max(x, low), high)

    def is_nan(self, x: Value) -> Value:
        return self.not_(self.equal(x, x))

    def _operands(self, *operands: Operand) -> tuple[Value, ...]:
        dtype = next(operand.dtype for operand in operands if isinstance(operand, Value))
        values = (operand if isinstance(operand, Value) else self.scalar(operand, dtype) for operand in operands)
        return self.broadcast_together(*values)

    def _binary(self, name: str, a: Operand, b: Operand) -> Value:
        return self.op(name, self._operands(a, b))[0]
