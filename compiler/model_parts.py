"""Parts of models from any source: checked before, typed where a part needs it, and checked as what was made."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from onnxc.compiler.checked_model import check_or_repair
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.external.all_tensors import all_tensors
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.external.keep_bytes import keep_bytes
from onnxc.compiler.frontend.functions import imported_opsets
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.parts.extract import extract_part, split_model
from onnxc.compiler.frontend.parts.merge import Links, merge_models
from onnxc.compiler.frontend.parts.rename import rename_values, with_node_prefix, with_prefix
from onnxc.compiler.frontend.parts.repair import repaired
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TensorProto
from onnxc.compiler.frontend.read import LoadedModel, read_model, wrap_model
from onnxc.compiler.model_versions import convert_checked
from onnxc.compiler.option_types import expect_mapping, expect_names, expect_text
from onnxc.compiler.options import ModelSource
from onnxc.compiler.typed_model import typed_model
from onnxc.runtime.errors import InputError

__all__ = ["extract_source", "merge_sources", "rename_source", "repair_source", "split_source"]


def extract_source(source: ModelSource, inputs: Sequence[str] | None, outputs: Sequence[str]) -> ModelProto:
    """The part of the model that computes some values from others."""
    given = None if inputs is None else expect_names("inputs", inputs)
    wanted = expect_names("outputs", outputs)
    loaded, checked = _read(source)
    return _checked(extract_part(loaded.proto, typed_model(loaded, checked), given, wanted), loaded)


def split_source(source: ModelSource, values: Sequence[str]) -> tuple[ModelProto, ModelProto]:
    """The model in two, cut at these values."""
    names = expect_names("values", values)
    loaded, checked = _read(source)
    first, second = split_model(loaded.proto, typed_model(loaded, checked), names)
    return _checked(first, loaded), _checked(second, loaded)


def rename_source(source: ModelSource, names: Mapping[str, str], prefix: str, node_prefix: str) -> ModelProto:
    """The model with a prefix before all names, one before those of nodes, then with these other names of values."""
    texts = {f"names[{name!r}]": other for name, other in expect_mapping("names", names).items()}
    for option, text in (*texts.items(), ("prefix", prefix), ("node_prefix", node_prefix)):
        expect_text(option, text)
    loaded, _ = _read(source)
    renamed = with_prefix(loaded.proto, prefix) if prefix else loaded.proto
    renamed = with_node_prefix(renamed, node_prefix) if node_prefix else renamed
    renamed = rename_values(renamed, names)
    keep_bytes(renamed, loaded.proto, ExternalFiles(loaded.folder, allow_links=loaded.allow_links))
    return _checked(renamed, loaded)


def repair_source(source: ModelSource) -> ModelProto:
    """The model without the errors that can be mended; it may have no others."""
    loaded = read_model(source)
    return _checked(repaired(loaded.proto), loaded)


def merge_sources(first: ModelSource, second: ModelSource, links: Links, shared: Iterable[str] = ()) -> ModelProto:
    """Both models as one; the one in an older version of ai.onnx is converted to that of the other."""
    sides = expect_mapping("links", links)
    for name, side in sides.items():
        if not isinstance(side, str):
            expect_names(f"links[{name!r}]", side)
    names = expect_names("shared", shared)
    pair = _read(first), _read(second)
    folder = _data_folder([loaded for loaded, _ in pair])
    newest = max(_opset(loaded) for loaded, _ in pair)
    ours, theirs = (
        convert_checked(loaded, checked, newest) if 0 < _opset(loaded) < newest else loaded.proto
        for loaded, checked in pair
    )
    merged = merge_models(ours, theirs, sides, names)
    check_model(wrap_model(merged, folder))
    return merged


def _data_folder(models: Iterable[LoadedModel]) -> Path | None:
    """The folder of the files that have weights of the models; None where no model has such.

    Raises InputError where there are several: what the models say of their files means another file in each.
    """
    tensors = ((tensor, loaded.folder) for loaded in models for tensor, _ in all_tensors(loaded.outline))
    folders = dict.fromkeys(folder for tensor, folder in tensors if tensor.data_location == TensorProto.EXTERNAL)
    if len(folders) > 1:
        message = f"weights are in files of several folders, {listed(map(str, folders))}: write the models whole first"
        raise InputError(f"{message}, with onnxc.save_model", code="weights-in-several-folders")
    return next(iter(folders), None)


def _opset(loaded: LoadedModel) -> int:
    """The version of ai.onnx that a model imports, 0 for none."""
    return imported_opsets(loaded.outline.opset_import).get("", 0)


def _read(source: ModelSource) -> tuple[LoadedModel, CheckedModel]:
    return check_or_repair(read_model(source))


def _checked(model: ModelProto, source: LoadedModel) -> ModelProto:
    check_model(wrap_model(model, source.folder))
    return model
