"""Device configurations that a compilation for one device ignores, as it may: a warning says so."""

import warnings

from onnxc.compiler.diagnostics import warning
from onnxc.compiler.frontend.graph import CheckedModel, all_nodes
from onnxc.runtime.errors import ModelWarning

__all__ = ["warn_of_ignored_configurations"]


def warn_of_ignored_configurations(model: CheckedModel) -> tuple[str, ...]:
    """The configurations that nodes of the model name, in its order; where there are any, a ModelWarning names them."""
    named = {devices.configuration for node in all_nodes(model.graph) for devices in node.devices}
    ignored = tuple(name for name in model.configurations if name in named)
    if ignored:
        listed = ", ".join(map(repr, ignored))
        message = f"the model is divided over devices by its configuration {listed}, which is ignored without config="
        finding = warning("ignored-configuration", message, rule="ONNX IR, multi-device configuration")
        warnings.warn(str(finding), ModelWarning, stacklevel=2)
    return ignored
