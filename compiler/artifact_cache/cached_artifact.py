"""A model's artifact: from the cache, else compiled and kept there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

from onnxc.compiler.artifact_cache.artifact_folder import MOST_BYTES, ArtifactFolder
from onnxc.compiler.artifact_cache.artifact_key import artifact_key
from onnxc.compiler.artifact_cache.known_digests import KnownDigests
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.compiler.jobs.rare_collections import import_for_good
from onnxc.compiler.model_warnings import give_again, noted_warnings
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.runtime.artifact import Artifact

__all__ = ["LEAST_SECONDS", "CompileModel", "Kind", "cached_artifact", "compiled_artifact"]

CompileModel = Callable[[LoadedModel, CompileOptions], Artifact]
Kind = Literal["model", "decoder"]

LEAST_SECONDS = 0.1
"""What was made sooner is not kept: many small models in one process, as tests have them, would fill the folder. The
first of a process takes longer, since it imports the compiler, in 0.15 s on a Zen 5 and up to 1.1 s. Of a model of 8
launches keeping takes 1.5 ms and finding 2 ms, with 15 ms once for the digest of the compiler; compiling takes 0.3 s.
"""

_WARNINGS = "warnings"


def compiled_artifact(source: ModelSource, options: CompileOptions, kind: Kind = "model") -> Artifact:
    """The artifact as if it was just compiled: the cache may lose its file at any time, so it knows none.

    Raises what compiling raises.
    """
    return replace(cached_artifact(source, options, kind), file=None)


def cached_artifact(
    source: ModelSource, options: CompileOptions, kind: Kind = "model", compile_model: CompileModel | None = None
) -> Artifact:
    """The artifact of a model, with its file where the cache has it now.

    kind: what is made of the model. compile_model: another way to make the very same, for those who show how far it is.
    Warnings are given again for an artifact from the cache. Raises what compiling raises.
    """
    compile_model = compile_model or _COMPILERS[kind]
    digest = KnownDigests(options.cache).digest
    loaded = read_model(source, opset=options.opset, allow_links=options.allow_links, digest=digest)
    key = None if options.cache is None else artifact_key(loaded, options, kind, MOST_BYTES)
    if options.cache is None or key is None:
        return _with_warnings(compile_model, loaded, options)
    folder = ArtifactFolder(options.cache)
    kept = folder.load(key)
    if kept is not None:
        give_again(_warnings(kept))
        return kept
    started = time.perf_counter()
    artifact = _with_warnings(compile_model, loaded, options)
    if time.perf_counter() - started < LEAST_SECONDS:
        return artifact
    # Files of external data may have been replaced meanwhile, before the compiler opened them.
    is_unchanged = artifact_key(loaded, options, kind, MOST_BYTES) == key
    return folder.store(key, artifact) if is_unchanged else artifact


def _with_warnings(compile_model: CompileModel, loaded: LoadedModel, options: CompileOptions) -> Artifact:
    """The artifact, whose provenance has the warnings that compiling it gave."""
    with noted_warnings() as texts:
        artifact = compile_model(loaded, options)
    return replace(artifact, provenance={**artifact.provenance, _WARNINGS: texts}) if texts else artifact


def _warnings(artifact: Artifact) -> list[str]:
    texts = artifact.provenance.get(_WARNINGS)
    return [text for text in texts if isinstance(text, str)] if isinstance(texts, list) else []


# The stages are imported when they are needed: what is in the cache does without.


def _compile(loaded: LoadedModel, options: CompileOptions) -> Artifact:
    stages, verb = ("driver", "compile_model") if options.config is None else ("compile_for_devices", "divide_model")
    artifact: Artifact = getattr(import_for_good(f"onnxc.compiler.{stages}"), verb)(loaded, options)
    return artifact


def _compile_decoder(loaded: LoadedModel, options: CompileOptions) -> Artifact:
    compile_model = import_for_good("onnxc.compiler.compile_decoder").decoder_artifact
    artifact: Artifact = compile_model(loaded, options)
    return artifact


_COMPILERS: Mapping[Kind, CompileModel] = {"model": _compile, "decoder": _compile_decoder}
