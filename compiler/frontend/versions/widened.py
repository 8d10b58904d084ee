"""Element types that came later, downwards: the node computes in a wider type that holds them exactly."""

from collections.abc import Collection, Mapping

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import Adapter

__all__ = ["WIDENED"]

NARROW = (TensorProto.INT8, TensorProto.INT16, TensorProto.UINT8, TensorProto.UINT16)
SHORT_FLOATS: Mapping[int, int] = {TensorProto.BFLOAT16: TensorProto.FLOAT}
TO_INTEGERS: Mapping[int, int] = {**dict.fromkeys(NARROW, TensorProto.INT32), TensorProto.UINT32: TensorProto.INT64}
TO_FLOATS: Mapping[int, int] = {
    **dict.fromkeys(NARROW, TensorProto.FLOAT),
    **dict.fromkeys((TensorProto.INT32, TensorProto.UINT32), TensorProto.DOUBLE),
}
TO_BYTES: Mapping[int, int] = {TensorProto.BOOL: TensorProto.UINT8}


def _compared(types: Mapping[int, int]) -> Adapter:
    """Operands are compared in another type; the result is a boolean in any."""

    def adapt(change: Change) -> None:
        wide = types.get(change.element(0))
        if wide is not None:
            change.node.input[:] = [Steps(change).cast(name, wide) for name in change.node.input]

    return adapt


def _through(types: Mapping[int, int]) -> Adapter:
    """The first operand is folded in another type, and the result brought back."""

    def adapt(change: Change) -> None:
        narrow = change.element(0)
        wide = types.get(narrow)
        if wide is not None:
            change.set_input(0, Steps(change).cast(change.input(0), wide))
            change.follow("Cast", [], {"to": narrow})

    return adapt


def _wrapped(types: Collection[int]) -> Adapter:
    """Operands of these types are computed with in i32; what their own type does not hold wraps, as it does there."""

    def adapt(change: Change) -> None:
        narrow = change.element(0)
        if narrow in types:
            change.node.input[:] = [Steps(change).cast(name, TensorProto.INT32) for name in change.node.input]
            change.follow("Cast", [], {"to": narrow})

    return adapt


WIDENED: Mapping[tuple[str, int], Adapter] = {
    **{(name, 14): _wrapped(NARROW) for name in ("Add", "Div", "Mul", "Sub")},
    ("Equal", 11): _compared(TO_INTEGERS),
    ("Equal", 13): _compared(SHORT_FLOATS),
    ("Greater", 9): _compared(TO_FLOATS),
    ("Greater", 13): _compared(SHORT_FLOATS),
    ("Less", 9): _compared(TO_FLOATS),
    ("Less", 13): _compared(SHORT_FLOATS),
    ("ReduceMax", 20): _through(TO_BYTES),
    ("ReduceMin", 20): _through(TO_BYTES),
}
