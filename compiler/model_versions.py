"""A model from any source in another version of the operator set ai.onnx, checked before and after."""

from collections.abc import Mapping

from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, wrap_model
from onnxc.compiler.frontend.schemas import newest_opset
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.versions.convert_opset import convert_opset
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits, make_limits
from onnxc.compiler.option_types import expect_integer
from onnxc.compiler.options import ModelSource
from onnxc.compiler.typed_model import typed_model
from onnxc.runtime.errors import InputError

__all__ = ["convert_checked", "convert_source"]


def convert_source(
    source: ModelSource,
    opset: int,
    limits: Limits | Mapping[str, int] | None = None,
    allow_links: bool = False,
) -> ModelProto:
    """The model in that opset of ai.onnx.

    Raises InputError for an opset that there is not, ModelError where the model is wrong or a node cannot be said.
    """
    newest = newest_opset("")
    version = expect_integer("opset", opset)
    if newest is None or not 1 <= version <= newest:
        raise InputError(f"opset is {opset}, expected 1 to {newest}", code="opset-range")
    within = make_limits(limits)
    loaded, checked = check_or_repair(read_model(source, allow_links=allow_links), within)
    return convert_checked(loaded, checked, version, within)


def convert_checked(
    loaded: LoadedModel, checked: CheckedModel, opset: int, within: Limits = DEFAULT_LIMITS
) -> ModelProto:
    """The model, which was checked, in an opset that there is."""
    store = TensorStore(ExternalFiles(loaded.folder, allow_links=loaded.allow_links), limits=within)
    typed = typed_model(loaded, checked, whole_functions=True)
    converted = convert_opset(loaded.proto, typed, opset, store)
    check_model(wrap_model(converted, loaded.folder, allow_links=loaded.allow_links), limits=within)
    return converted
