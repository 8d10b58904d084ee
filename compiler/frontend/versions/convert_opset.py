"""A model in another version of ai.onnx, its functions and the graphs in it too.

Everything that the model carries beside its nodes stays, but for shapes that are declared of values which have others;
what the target version cannot say is a ModelError that names the node.
"""

from collections.abc import MutableSequence, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.functions import ModelFunction, imported_opsets, node_key
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, NodeProto, OperatorSetIdProto
from onnxc.compiler.frontend.schemas import normal_domain
from onnxc.compiler.frontend.tensors import TensorStore
from onnxc.compiler.frontend.versions.change import Values
from onnxc.compiler.frontend.versions.cross import cross
from onnxc.compiler.frontend.versions.walk import NodeWalk

__all__ = ["convert_opset"]

IMPORTS_SINCE = 3
"""The IR version from which a model says which operator sets it uses."""


def convert_opset(model: ModelProto, typed: ModelProto, target: int, store: TensorStore) -> ModelProto:
    """A copy of the model in opset `target` of ai.onnx, its functions too.

    typed: the same model with the types of its values declared, as far as they are known; store: where its tensors are.
    Raises ModelError for a node that the target version cannot say.
    """
    converted = ModelProto()
    converted.CopyFrom(model)
    functions = {ModelFunction(function).key for function in model.functions}

    def converted_node(node: NodeProto, opset: int, location: Location, values: Values) -> Sequence[NodeProto]:
        return [node] if node_key(node) in functions else cross(node, opset, target, location, values)

    opset = imported_opsets(model.opset_import).get("", 1 if model.ir_version < IMPORTS_SINCE else target)
    NodeWalk(converted, store, converted_node).run(typed, opset, without_import=target)
    for function in converted.functions:
        _import(function.opset_import, target, is_needed=False)
    converted.ir_version = max(converted.ir_version, IMPORTS_SINCE)
    _import(converted.opset_import, target, is_needed=model.ir_version < IMPORTS_SINCE)
    return converted


def _import(imports: MutableSequence[OperatorSetIdProto], target: int, *, is_needed: bool) -> None:
    """Names the target where ai.onnx is imported, or must be."""
    known = [imported for imported in imports if not normal_domain(imported.domain)]
    for imported in known:
        imported.version = target
    if not known and is_needed:
        imports.append(OperatorSetIdProto(version=target))
