"""The builder for passes, which rebuild what has been typed already."""

from collections.abc import Sequence
from typing import NoReturn

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value


class PassBuilder(Builder):
    """A builder for passes: the model typed once, so what does not type now is a defect of ours and not the model's.

    A float that is broadcast stays a scalar; other small constants fold as in any builder.
    """

    def may_fold(self, name: str, operands: Sequence[Value]) -> bool:
        """Whether an op whose operands are known is replaced by its result."""
        return name != "broadcast" or not operands[0].dtype.is_float

    def fail(self, code: str, message: str, values: Sequence[str] = (), rule: str = "") -> NoReturn:
        """An AssertionError."""
        raise AssertionError(f"{message}: {', '.join(values)} at {self.location}")
