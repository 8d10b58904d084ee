"""Tensors that safetensors files have by other names than the model: what is renamed is named by its bytes there."""

from onnxc.compiler.frontend.external.all_tensors import all_tensors
from onnxc.compiler.frontend.external.data_files import ExternalFiles, is_stored_by_name
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, StringStringEntryProto, TensorProto

__all__ = ["keep_bytes"]


def keep_bytes(renamed: ModelProto, model: ModelProto, files: ExternalFiles) -> None:
    """Makes the tensors of `renamed` mean the bytes that they mean in `model`, which has the same in the same order."""
    for (tensor, _), (before, _) in zip(all_tensors(renamed), all_tensors(model), strict=True):
        entries = {str(entry.key): str(entry.value) for entry in before.external_data}
        is_external = before.data_location == TensorProto.EXTERNAL and tensor.name != before.name
        if is_external and is_stored_by_name(entries):
            stored = files.stored(entries, before.name)
            own = {**entries, "offset": str(stored.start), "length": str(stored.end - stored.start)}
            del tensor.external_data[:]
            tensor.external_data.extend(StringStringEntryProto(key=key, value=text) for key, text in own.items())
