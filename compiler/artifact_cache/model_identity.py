"""Which model it is: its bytes, and those of the files that it names."""

import json

from onnxc.compiler.frontend.content_digest import ContentDigest
from onnxc.compiler.frontend.external.all_tensors import all_tensors
from onnxc.compiler.frontend.external.data_files import ExternalFiles
from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.frontend.tensor_error import TensorError

__all__ = ["model_identity"]


def model_identity(loaded: LoadedModel, digest: ContentDigest, most_bytes: int) -> str | None:
    """A text with the digests of all bytes that the model is made of; paths but those in the model do not matter.

    None where a file of its external data cannot be read, or the model takes more than `most_bytes`: then nothing more
    of it is read.
    """
    files = ExternalFiles(loaded.folder, allow_links=loaded.allow_links)
    try:
        contents = {location: (data, status) for location, data, status in map(files.content, _external_data(loaded))}
    except TensorError:
        return None
    if len(loaded.data) + sum(len(data) for data, _ in contents.values()) > most_bytes:
        return None
    digests = {str(location): digest(data, status) for location, (data, status) in contents.items()}
    return json.dumps([loaded.digest, digests], sort_keys=True)


def _external_data(loaded: LoadedModel) -> list[dict[str, str]]:
    """What each tensor in another file says of where it is."""
    return [
        {entry.key: entry.value for entry in tensor.external_data}
        for tensor, _ in all_tensors(loaded.outline)
        if tensor.data_location == TensorProto.EXTERNAL
    ]
