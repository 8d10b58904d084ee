"""Models that generate: what `onnxc` says of decoders. Importing this loads neither NumPy nor the compiler."""

import importlib
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from onnxc.compiler.frontend.custom.operators import CustomOperator
    from onnxc.compiler.limits import Limits
    from onnxc.compiler.options import CacheOption, DimRange, ModelSource
    from onnxc.runtime.decoding.decoder import Decoder

__all__ = ["compile_decoder", "load_decoder"]


def compile_decoder(
    model: "ModelSource",
    target: str = "cpu",
    dims: "Mapping[str, DimRange] | None" = None,
    precision: str = "fp32",
    threads: int | None = None,
    cache: "CacheOption" = None,
    limits: "Limits | Mapping[str, int] | None" = None,
    operators: "Sequence[CustomOperator]" = (),
    allow_links: bool = False,
    opset: int | None = None,
    max_length: int | None = None,
) -> "Decoder":
    """The decoder of a model whose `present` outputs are its `past` inputs with rows behind them: `generate(prompt)`.

    New rows are written into the memory of the cache, which a session keeps; nothing is copied but when it grows
    (docs/decoding.md).
    target: "cpu", another processor, "cpu:x86-64-v3", or a GPU, "cuda:sm_90"; "cuda" is the one here. max_length: the
    most tokens of a sequence; None means as many as the model has positions for, where it says.
    dims, precision, threads, cache, limits, operators, allow_links, opset: as for `compile`.

    Raises ModelError, UnsupportedError, InputError.
    """
    with importlib.import_module("onnxc.compiler.jobs.rare_collections").rare_collections():
        options = importlib.import_module("onnxc.compiler.options").make_options(
            target,
            dims,
            precision=precision,
            threads=threads,
            cache=cache,
            limits=limits,
            operators=operators,
            allow_links=allow_links,
            opset=opset,
        )
        compiled_artifact = importlib.import_module("onnxc.compiler.artifact_cache.cached_artifact").compiled_artifact
        make_decoder = importlib.import_module("onnxc.runtime.decoding.load_decoder").make_compiled_decoder
        decoder: Decoder = make_decoder(compiled_artifact(model, options, "decoder"), options.threads, max_length)
        return decoder


def load_decoder(
    path: str | os.PathLike[str],
    weights: Literal["mapped", "resident"] = "mapped",
    threads: int | None = None,
    max_length: int | None = None,
    device: int = 0,
) -> "Decoder":
    """The decoder that `Decoder.save` wrote; no compiler is needed.

    weights, threads, device: as for `load`. max_length: as for `compile_decoder`.

    Raises DeviceError where the file is damaged or made for another machine, InputError where there is none, or it
    holds no decoder.
    """
    load_file = importlib.import_module("onnxc.runtime.decoding.load_decoder").load_decoder
    decoder: Decoder = load_file(path, weights, threads, max_length, device)
    return decoder
