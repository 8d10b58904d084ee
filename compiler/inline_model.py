"""A model from any source with its functions expanded, and operators that are functions of others."""

from collections.abc import Collection, Mapping

from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.functions import imported_opsets
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.inlining.expand_operators import expand_operators, operators_among
from onnxc.compiler.frontend.inlining.inline import inline_functions
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, rewritten
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.limits import Limits, make_limits
from onnxc.compiler.model_versions import convert_checked
from onnxc.compiler.model_warnings import warn_of
from onnxc.compiler.options import ModelSource
from onnxc.compiler.typed_model import typed_model
from onnxc.runtime.errors import ModelError, UnsupportedError

__all__ = ["expand_functions"]


def expand_functions(
    source: ModelSource,
    functions: Collection[str] | None = None,
    limits: Limits | Mapping[str, int] | None = None,
    allow_links: bool = False,
    opset: int | None = None,
) -> ModelProto:
    """The model with its functions, or those of these names, expanded where they are called.

    Names of operators of ai.onnx are those that are expanded besides.
    """
    within = make_limits(limits)
    loaded, checked = check_or_repair(read_model(source, opset=opset, allow_links=allow_links), within)
    warn_of(finding for finding in checked.warnings if finding.code in ("unknown-domain", "unknown-operator"))
    if functions is None:
        return _inlined(loaded, checked, within, None)
    operators = operators_among(functions, loaded.proto)
    inlined = _inlined(loaded, checked, within, [name for name in functions if name not in operators])
    if not operators:
        return inlined
    return _expanded(rewritten(loaded, inlined), frozenset(operators.values()), within)


def _inlined(
    loaded: LoadedModel, checked: CheckedModel, within: Limits, functions: Collection[str] | None
) -> ModelProto:
    """The model with its own functions expanded, in one opset where they have several."""
    try:
        return inline_functions(loaded.proto, functions)
    except UnsupportedError as conflict:
        if conflict.code != "opset-conflict":
            raise
        return inline_functions(_in_one_opset(loaded, checked, within, conflict), functions)


def _expanded(loaded: LoadedModel, operators: Collection[str], within: Limits) -> ModelProto:
    """The model with these operators expanded, which has been checked."""
    checked = check_model(loaded, limits=within)
    store = TensorStore(ExternalFiles(loaded.folder, allow_links=loaded.allow_links), limits=within)
    typed = typed_model(loaded, checked, whole_functions=True)
    expanded = expand_operators(loaded.proto, typed, operators, store)
    check_model(rewritten(loaded, expanded), limits=within)
    return expanded


def _in_one_opset(loaded: LoadedModel, checked: CheckedModel, within: Limits, conflict: UnsupportedError) -> ModelProto:
    """The model and its functions in the newest version of ai.onnx that one of them uses; else raises the conflict."""
    model = loaded.proto
    imports = [model.opset_import, *(function.opset_import for function in model.functions)]
    newest = max(imported_opsets(each).get("", 1) for each in imports)
    try:
        return convert_checked(loaded, checked, newest, within)
    except ModelError:
        raise conflict from None
