"""A checked model with the types of its values declared, as far as inference knows its nodes."""

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.infer import annotate_model, infer_types
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits
from onnxc.runtime.errors import UnsupportedError

__all__ = ["typed_model"]


def typed_model(loaded: LoadedModel, limits: Limits = DEFAULT_LIMITS, *, whole_functions: bool = False) -> ModelProto:
    """The model with the types of its values; as it declares them, where a node is not known.

    whole_functions: with those of what functions are given, where all calls agree.

    Raises ModelError where the model is wrong.
    """
    checked = check_model(loaded, limits=limits)
    try:
        return annotate_model(loaded, checked, infer_types(checked), whole_functions=whole_functions)
    except UnsupportedError:
        return loaded.proto
