"""A checked model with the types of its values declared, as far as inference knows its nodes."""

from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.infer import annotate_model, infer_types
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.runtime.errors import UnsupportedError

__all__ = ["typed_model"]


def typed_model(loaded: LoadedModel, checked: CheckedModel, *, whole_functions: bool = False) -> ModelProto:
    """The model, which was checked, with the types of its values; as it declares them, where a node is not known.

    whole_functions: with those of what functions are given, where all calls agree.

    Raises ModelError where the model is wrong.
    """
    try:
        return annotate_model(loaded, checked, infer_types(checked), whole_functions=whole_functions)
    except UnsupportedError:
        return loaded.proto
