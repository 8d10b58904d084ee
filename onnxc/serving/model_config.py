"""The configuration of a model: what Triton's config.pbtxt says of it, as far as it means something here.

All of it may be absent. What is not known is passed over, as Triton's own keys for other back ends are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path

from google.protobuf import json_format, text_format

from onnxc.runtime.errors import InputError
from onnxc.runtime.files.plain_files import open_plain_file
from onnxc.runtime.records import record
from onnxc.serving.proto.inference_pb2 import ModelConfig

__all__ = ["CONFIG_FILE", "Configuration", "parse_config", "read_config"]

CONFIG_FILE = "config.pbtxt"
_MAX_CONFIG_BYTES = 1 << 20
_OFF = ("off", "false", "0")


@record
class Configuration:
    """What a configuration says, and the message itself."""

    message: ModelConfig = field(default_factory=ModelConfig)

    @property
    def options(self) -> Mapping[str, str]:
        """Its `parameters`."""
        return {name: value.string_value for name, value in self.message.parameters.items()}

    @property
    def may_batch(self) -> bool:
        return self.options.get("dynamic_batching", "on").lower() not in _OFF

    @property
    def generates(self) -> bool:
        """Whether the model is to be compiled as a decoder."""
        return self.options.get("generates", "off").lower() not in _OFF

    @property
    def instances(self) -> int:
        return max(1, sum(max(group.count, 1) for group in self.message.instance_group))

    def chosen(self, versions: Iterable[int]) -> tuple[int, ...]:
        """The versions to serve, of those that there are: the latest one, unless the version policy says otherwise."""
        known, policy = sorted(versions), self.message.version_policy
        kind = policy.WhichOneof("policy_choice")
        if kind == "all":
            return tuple(known)
        if kind == "specific":
            return tuple(version for version in known if version in policy.specific.versions)
        return tuple(known[-max(1, policy.latest.num_versions) :])


def read_config(folder: Path) -> Configuration:
    """The configuration in a model's folder. InputError where it cannot be read as one."""
    path = folder / CONFIG_FILE
    if not path.exists():
        return Configuration()
    with open_plain_file(path, what="the configuration") as file:
        data = file.read(_MAX_CONFIG_BYTES + 1)
    message = ModelConfig()
    try:
        if len(data) > _MAX_CONFIG_BYTES:
            raise ValueError("it is too large")
        text_format.Parse(data.decode(), message, allow_unknown_field=True)
    except (ValueError, text_format.ParseError) as problem:
        raise InputError(f"{CONFIG_FILE} of {folder.name}: {problem}", code="model-config") from problem
    return Configuration(message)


def parse_config(text: str) -> Configuration:
    """The configuration that a request to load a model brings, as JSON."""
    try:
        return Configuration(json_format.Parse(text, ModelConfig(), ignore_unknown_fields=True))
    except (json_format.ParseError, RecursionError) as problem:
        raise InputError(f"the configuration: {problem}", code="model-config") from problem
