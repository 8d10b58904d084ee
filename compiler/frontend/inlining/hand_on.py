"""What a call says of itself, given to the nodes that it becomes where they do not say it themselves."""

from collections.abc import Callable

from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto, NodeDeviceConfigurationProto, NodeProto

__all__ = ["hand_on", "readable"]


def hand_on(
    node: NodeProto, call: NodeProto, find: Callable[[str], str], function: FunctionProto | None = None
) -> None:
    """Gives a node what the call that it is part of says, then what the function says.

    find: the name that a value of the call has where the node is.
    """
    said: list[NodeProto | FunctionProto] = [call] if function is None else [call, function]
    keys = {entry.key for entry in node.metadata_props}
    for entry in (entry for each in said for entry in each.metadata_props):
        if entry.key not in keys:
            keys.add(entry.key)
            node.metadata_props.append(entry)
    text = next((each.doc_string for each in (node, *said) if each.doc_string), "")
    if text and not node.doc_string:
        node.doc_string = readable(text)
    configured = {configuration.configuration_id for configuration in node.device_configurations}
    for configuration in call.device_configurations:
        if configuration.configuration_id not in configured:
            _configure(node, configuration, find)


def _configure(node: NodeProto, configuration: NodeDeviceConfigurationProto, find: Callable[[str], str]) -> None:
    """Gives a node the stage of the call, and the shardings of those values of the call that it takes or gives."""
    made = NodeDeviceConfigurationProto()
    made.CopyFrom(configuration)
    del made.sharding_spec[:]
    own = {name for name in (*node.input, *node.output) if name}
    for spec in configuration.sharding_spec:
        final = find(spec.tensor_name)
        if final in own:
            made.sharding_spec.add().CopyFrom(spec)
            made.sharding_spec[-1].tensor_name = final
    if made.sharding_spec or made.HasField("pipeline_stage"):
        node.device_configurations.append(made)


def readable(text: str | bytes) -> str:
    """Documentation, which need not be UTF-8, but can only be written so."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text
