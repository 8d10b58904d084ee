"""Files of other formats that people pass by mistake: what each is by its first bytes, and what to do with it."""

import re

__all__ = ["HEAD_BYTES", "foreign_format"]

# A zip archive names its first member behind 30 bytes; PyTorch's is "FOLDER/data.pkl", or in newer versions a sibling.
HEAD_BYTES = 256

_FORMATS: tuple[tuple[re.Pattern[bytes], str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), advice)
    for pattern, advice in (
        (rb"version https://git-lfs", "a Git LFS pointer: run `git lfs pull` for the file itself"),
        (
            rb"PK\x03\x04.{26}[^/]{1,128}/(data\.pkl|\.format_version|\.data/)",
            "a PyTorch file: load it in PyTorch and export the model with torch.onnx.export",
        ),
        (
            rb"PK\x03\x04",
            "a zip archive: onnxc.load reads those of onnxc, unpack others",
        ),
        (rb"\x1f\x8b", "a gzip file: unpack it with gunzip"),
        (rb"\x89HDF", "an HDF5 file, such as a Keras model: convert it with tf2onnx"),
        (rb".{4}TFL3", "a TensorFlow Lite model: convert it with tf2onnx"),
        (
            rb".{4}ORTM",
            "a model in ONNX Runtime's own format, with its kernels as nodes: take the .onnx that it was made from",
        ),
        (rb"GGUF", "a GGUF file, weights without a graph: export the model that they are from to ONNX"),
        (rb".{5}\0{3}\{", "a safetensors file, weights without a graph: export the model that they are from to ONNX"),
        (
            rb"\x80[\x02-\x05]",
            "a Python pickle, as of PyTorch or scikit-learn: export it with torch.onnx.export or skl2onnx",
        ),
        (rb"\s*<", "an HTML or XML page: if it was downloaded, see in it what the server answered"),
        (rb"\s*\{", "JSON text, which is read from files that end in .json"),
        (
            rb"[\t\n\r -~]+\Z",
            "text, which is read from files that end in .onnxtxt, .textproto or .json",
        ),
    )
)


def foreign_format(head: bytes) -> str | None:
    """What a file is that begins with `head`, its first HEAD_BYTES, and what to do; None where that is not known."""
    return next((advice for pattern, advice in _FORMATS if pattern.match(head)), None)
