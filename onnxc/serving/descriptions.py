"""What the server says of itself and of its models, as JSON objects; gRPC makes its messages of the same ones."""

from collections.abc import Mapping, Sequence

from google.protobuf import json_format

import onnxc
from onnxc.runtime.program import JsonValue
from onnxc.runtime.signature import TensorInfo
from onnxc.serving.model_registry import IndexEntry, ModelRegistry
from onnxc.serving.served_model import PLATFORM, ServedModel

__all__ = ["EXTENSIONS", "index", "model_config", "model_metadata", "server_metadata", "statistics"]

EXTENSIONS = (
    "binary_tensor_data", "model_configuration", "model_repository", "statistics", "system_shared_memory", "logging",
    "generate",
)  # fmt: skip
_TYPES = {"BYTES": "TYPE_STRING"}

Object = Mapping[str, JsonValue]


def server_metadata() -> Object:
    """Name, version and the extensions that there are."""
    return {"name": "onnxc", "version": onnxc.__version__, "extensions": EXTENSIONS}


def model_metadata(model: ServedModel, versions: Sequence[int]) -> Object:
    """The signature of a model; -1 stands for sizes that a call decides."""
    return {
        "name": model.name,
        "versions": [str(version) for version in versions],
        "platform": PLATFORM,
        "inputs": [_tensor(model, info) for info in model.inputs],
        "outputs": [_tensor(model, info) for info in model.outputs],
    }


def _tensor(model: ServedModel, info: TensorInfo) -> Object:
    return {"name": info.name, "datatype": model.datatype(info.name), "shape": _shape(info)}


def _shape(info: TensorInfo) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in info.shape or ()]


def model_config(model: ServedModel) -> Object:
    """The configuration that holds, written or not; sizes are without the batch where requests are joined."""
    first = int(model.rules.max_rows > 1)
    config: Object = {
        "name": model.name,
        "platform": PLATFORM,
        "backend": PLATFORM,
        "max_batch_size": model.rules.max_rows if first else 0,
        "input": [{**_config_tensor(model, info, first), "optional": info.optional} for info in model.inputs],
        "output": [_config_tensor(model, info, first) for info in model.outputs],
        "instance_group": [{"name": model.name, "count": model.rules.instances, "kind": "KIND_CPU"}],
        "version_policy": _policy(model),
        "parameters": {name: {"string_value": text} for name, text in model.configuration.options.items()},
    }
    if not first:
        return config
    policy: Object = {
        "default_timeout_microseconds": model.rules.timeout_ns // 1000,
        "allow_timeout_override": True,
        "max_queue_size": model.rules.max_queue,
    }
    delay = model.rules.delay_ns // 1000
    batching: Object = {
        "preserve_ordering": False,
        "max_queue_delay_microseconds": delay,
        "default_queue_policy": policy,
    }
    return {**config, "dynamic_batching": batching}


def _policy(model: ServedModel) -> Object:
    policy = model.configuration.message.version_policy
    if policy.WhichOneof("policy_choice") is None:
        return {"latest": {"num_versions": 1}}
    entries: Object = json_format.MessageToDict(policy, preserving_proto_field_name=True)
    return entries


def _config_tensor(model: ServedModel, info: TensorInfo, first: int) -> Object:
    datatype = model.datatype(info.name)
    return {"name": info.name, "data_type": _TYPES.get(datatype, f"TYPE_{datatype}"), "dims": _shape(info)[first:]}


def statistics(models: Sequence[ServedModel]) -> Object:
    """What models have done so far."""
    entries = [{"name": model.name, "version": str(model.version), **model.statistics.to_json()} for model in models]
    return {"model_stats": entries}


def index(registry: ModelRegistry, *, ready_only: bool) -> list[Object]:
    """The models of the repository with their states."""
    return [_entry(entry) for entry in registry.index(ready_only=ready_only)]


def _entry(entry: IndexEntry) -> Object:
    return {"name": entry.name, "version": entry.version, "state": entry.state, "reason": entry.reason}
