"""Parts of models from any source: checked before, typed where a part needs it, and checked as what was made."""

from collections.abc import Mapping, Sequence

from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.parts.extract import extract_part, split_model
from onnxc.compiler.frontend.parts.merge import merge_models
from onnxc.compiler.frontend.parts.rename import rename_values, with_prefix
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, wrap_model
from onnxc.compiler.options import ModelSource
from onnxc.compiler.typed_model import typed_model

__all__ = ["extract_source", "merge_sources", "rename_source", "split_source"]


def extract_source(source: ModelSource, inputs: Sequence[str] | None, outputs: Sequence[str]) -> ModelProto:
    """The part of the model that computes some values from others."""
    loaded = read_model(source)
    return _checked(extract_part(loaded.proto, typed_model(loaded), inputs, outputs), loaded)


def split_source(source: ModelSource, values: Sequence[str]) -> tuple[ModelProto, ModelProto]:
    """The model in two, cut at these values."""
    loaded = read_model(source)
    first, second = split_model(loaded.proto, typed_model(loaded), values)
    return _checked(first, loaded), _checked(second, loaded)


def rename_source(source: ModelSource, names: Mapping[str, str], prefix: str) -> ModelProto:
    """The model with a prefix before all names, then with these other names of values."""
    loaded = _read(source)
    renamed = with_prefix(loaded.proto, prefix) if prefix else loaded.proto
    return _checked(rename_values(renamed, names), loaded)


def merge_sources(first: ModelSource, second: ModelSource, links: Mapping[str, str]) -> ModelProto:
    """Both models as one."""
    loaded, other = _read(first), _read(second)
    return _checked(merge_models(loaded.proto, other.proto, links), loaded)


def _read(source: ModelSource) -> LoadedModel:
    loaded = read_model(source)
    check_model(loaded)
    return loaded


def _checked(model: ModelProto, source: LoadedModel) -> ModelProto:
    check_model(wrap_model(model, source.folder))
    return model
