"""The losses that training information can be made of: a scalar of what the model gives and what it should give."""

from collections.abc import Callable, Mapping

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto, TypeProto
from onnxc.compiler.frontend.training.making.graph_maker import GraphMaker

__all__ = ["LOSSES", "OF_CLASSES", "Loss"]

Loss = Callable[[str, TypeProto, GraphMaker], str]
"""The name of the loss, from the name and the type of what the model gives."""


def _of_classes(operator: str) -> Loss:
    """output: F[N, C, d...], labels: i64[N, d...]  ->  the mean over all labels"""

    def make(output: str, type: TypeProto, maker: GraphMaker) -> str:
        labels = TypeProto()
        labels.CopyFrom(type)
        labels.tensor_type.elem_type = TensorProto.INT64
        del labels.tensor_type.shape.dim[1:2]
        return maker.one(operator, (output, maker.input("labels", labels)), "loss")

    return make


def _of_differences(measure: str) -> Loss:
    """output, targets: F[...]  ->  the mean of a measure of their differences"""

    def make(output: str, type: TypeProto, maker: GraphMaker) -> str:
        difference = maker.one("Sub", (output, maker.input("targets", type)), "difference")
        operands = (difference, difference) if measure == "Mul" else (difference,)
        return maker.one("ReduceMean", (maker.one(measure, operands, "measure"),), "loss", {"keepdims": 0})

    return make


def _itself(output: str, type: TypeProto, maker: GraphMaker) -> str:
    """output: F[...]  ->  its mean: the model gives the loss already"""
    return maker.one("ReduceMean", (output,), "loss", {"keepdims": 0})


OF_CLASSES = ("cross_entropy", "negative_log_likelihood")
"""The losses of what has classes along axis 1."""

LOSSES: Mapping[str, Loss] = {
    "cross_entropy": _of_classes("SoftmaxCrossEntropyLoss"),
    "negative_log_likelihood": _of_classes("NegativeLogLikelihoodLoss"),
    "mean_squared_error": _of_differences("Mul"),
    "mean_absolute_error": _of_differences("Abs"),
    "output": _itself,
}
