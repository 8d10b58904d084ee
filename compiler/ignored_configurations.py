"""What devices are to do and a compilation ignores, as it may: warnings say so."""

from collections.abc import Iterable

from onnxc.compiler.diagnostics import warning
from onnxc.compiler.frontend.graph import CheckedModel, all_nodes
from onnxc.compiler.ir.module import Op
from onnxc.compiler.model_warnings import warn_of

__all__ = ["warn_of_ignored_configurations", "warn_of_undivided"]


def warn_of_ignored_configurations(model: CheckedModel) -> tuple[str, ...]:
    """The configurations that nodes of the model name, in its order; where there are any, a ModelWarning names them."""
    named = {devices.configuration for node in all_nodes(model.graph) for devices in node.devices}
    ignored = tuple(name for name in model.configurations if name in named)
    if ignored:
        listed = ", ".join(map(repr, ignored))
        message = f"the model is divided over devices by its configuration {listed}, which is ignored without config="
        warn_of([warning("ignored-configuration", message, rule="ONNX IR, multi-device configuration")])
    return ignored


def warn_of_undivided(ops: Iterable[Op]) -> None:
    """A ModelWarning for each branch or loop that every device computes whole, whatever its nodes say."""
    for op in ops:
        message = "what its bodies say of devices is ignored: shapes in them are not those outside"
        warn_of([warning("ignored-sharding", message, op.location, rule="ONNX IR, multi-device configuration")])
