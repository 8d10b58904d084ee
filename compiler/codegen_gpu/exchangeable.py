"""Which exchanges GPUs can make: NCCL moves whatever lies in memory, and combines the types that it knows."""

from onnxc.compiler.ir.module import Module, Op, walk
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.gpu.nccl import combines

__all__ = ["expect_exchangeable"]

EXCHANGES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def expect_exchangeable(module: Module) -> None:
    """Raises UnsupportedError for the first exchange of a module that NCCL cannot make."""
    for op in walk(module.main.body):
        if op.name in EXCHANGES:
            _expect(op)


def _expect(op: Op) -> None:
    value = op.operands[0].type
    assert isinstance(value, TensorType), op
    if value.dtype.kind == "string":
        message = f"{op.name} of texts, which GPUs do not hold; compile for cpu:N"
        raise UnsupportedError(message, code="nccl-type")
    if "kind" in op.attributes and not combines(value.dtype.name, op.text("kind")):
        message = f"{op.name} combines {value.dtype.name} by {op.text('kind')}, which NCCL does not; compile for cpu:N"
        raise UnsupportedError(message, code="nccl-type")
