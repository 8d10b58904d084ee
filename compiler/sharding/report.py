"""What is told of a division over devices: the mesh, how each value is divided and why, what is exchanged."""

from onnxc.compiler.ir.module import Op, Value
from onnxc.compiler.sharding.partition import Partition
from onnxc.runtime.program import JsonValue

__all__ = ["sharding_report", "value_name"]


def sharding_report(divided: Partition) -> dict[str, JsonValue]:
    """JSON values."""
    propagation = divided.propagation
    return {
        "mesh": str(propagation.mesh),
        "collectives": [_collective(op) for op in divided.collectives()],
        "values": [
            {"value": value_name(value), "sharding": str(propagation.sharding(value)), "why": why}
            for value, why in propagation.why.items()
        ],
    }


def value_name(value: Value) -> str:
    """A parameter by its name, a result by its op and node."""
    if value.op is None:
        return value.producer.name
    return f"{value.op.name} at {value.op.location}" if value.op.location else value.op.name


def _collective(op: Op) -> JsonValue:
    """An exchange; `bytes` are those that each device brings, where sizes are known."""
    groups = op.attributes["groups"]
    assert isinstance(groups, tuple), op
    operand = op.operands[0]
    nbytes = operand.tensor.elements * operand.dtype.bits // 8
    return {
        "op": op.name,
        "groups": str(groups),
        "node": str(op.location or ""),
        "bytes": nbytes if isinstance(nbytes, int) else str(nbytes),
    }
