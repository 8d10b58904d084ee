"""What the rules of one scope share: the model's facts, the opsets imported, the attribute parameters in reach."""

from collections.abc import Collection, Mapping
from dataclasses import field

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.checks.findings import Findings, listed
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators
from onnxc.compiler.frontend.functions import FunctionKey, ModelFunction, node_key
from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto, SparseTensorProto, TensorProto
from onnxc.compiler.frontend.tensor_error import TensorError
from onnxc.compiler.frontend.tensors import TensorStore, read_sparse_tensor, read_tensor
from onnxc.compiler.limits import DEFAULT_LIMITS, Limits
from onnxc.runtime.records import record

EXTERNAL_KEYS = frozenset(("location", "offset", "length", "checksum", "basepath"))
"""The keys that external data has by the standard, and "basepath", which onnx's own writer adds."""


@record
class Context:
    """The facts for the nodes of the main graph, or of one function.

    `parameters` are the names of the function's attribute parameters; None outside functions.
    `configurations` are the device configurations with their numbers of devices.
    `used_domains` collects the domains whose schemas were asked for. `operators` are those that the caller brings.
    """

    findings: Findings
    ir_version: int
    opsets: Mapping[str, int]
    functions: Mapping[FunctionKey, ModelFunction]
    store: TensorStore
    parameters: Collection[str] | None = None
    limits: Limits = DEFAULT_LIMITS
    configurations: Mapping[str, int] = field(default_factory=dict)
    used_domains: set[str] = field(default_factory=set)
    operators: CustomOperators = NO_OPERATORS

    def called(self, node: NodeProto) -> ModelFunction | None:
        """The function of the model that a node calls; it goes before an operator of the same name."""
        return self.functions.get(node_key(node)) if self.functions else None


def check_tensor(tensor: TensorProto | SparseTensorProto, what: str, location: Location, context: Context) -> None:
    """Reports what is wrong with a constant; `what` names it, as in 'initializer "w"'."""
    try:
        if isinstance(tensor, TensorProto):
            read_tensor(tensor, context.store)
        else:
            read_sparse_tensor(tensor, context.store)
    except TensorError as problem:
        context.findings.error(problem.code, f"{what}: {problem}", location, rule="ONNX IR, TensorProto")
    for part in (tensor,) if isinstance(tensor, TensorProto) else (tensor.values, tensor.indices):
        unknown = [repr(entry.key) for entry in part.external_data if entry.key not in EXTERNAL_KEYS]
        if unknown:
            message = f"{what}: entries of its data that mean nothing are ignored: {listed(unknown)}"
            context.findings.warning("external-data-key", message, location, rule="ONNX IR, external data")
