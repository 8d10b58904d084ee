"""The key of an artifact: a digest of all that it is compiled from. What is equal gives the same bytes."""

import hashlib
import importlib
import json
from dataclasses import replace

from onnxc.compiler.artifact_cache.compiler_identity import compiler_identity
from onnxc.compiler.artifact_cache.known_digests import KnownDigests
from onnxc.compiler.artifact_cache.model_identity import model_identity
from onnxc.compiler.frontend.custom.operators import NO_OPERATORS, CustomOperators, OnnxFunction
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.options import CompileOptions
from onnxc.compiler.target import Target
from onnxc.runtime.errors import DeviceError

__all__ = ["artifact_key"]


def artifact_key(loaded: LoadedModel, options: CompileOptions, kind: str, most_bytes: int) -> str | None:
    """The digest, in hexadecimal; None for what cannot be told from others, or takes more than `most_bytes`.

    kind: what is made of the model, for it may be several things with the same options.
    """
    target, operators = _known_target(options.target), _operators(options.operators)
    if target is None or operators is None:
        return None
    model = model_identity(loaded, KnownDigests(options.cache).digest, most_bytes)
    if model is None:
        return None
    # Their texts have all that options hold, a new one too, but for what operators do.
    options = replace(options, target=target, operators=NO_OPERATORS, threads=None, cache=None)
    described = [compiler_identity(), kind, model, operators, repr(options)]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _known_target(target: Target) -> Target | None:
    """The target, a GPU of this machine by its architecture; None where there is no such GPU."""
    if target.kind != "cuda" or target.name:
        return target
    try:
        # Processors do without all that is needed for a device.
        driver = importlib.import_module("onnxc.runtime.gpu.load").this_driver()
        architecture = importlib.import_module("onnxc.runtime.gpu.device").properties_of(driver, 0).architecture
    except DeviceError:
        return None
    return replace(target, name=architecture, arch=architecture)


def _operators(operators: CustomOperators) -> list[tuple[str, str]] | None:
    """Custom operators by what they do; None where one is a function of Python, which may do anything."""
    described = []
    for operator in operators.operators:
        if not isinstance(operator.body, OnnxFunction):
            return None
        proto = operator.body.proto.SerializeToString(deterministic=True)
        described.append((str(operator), hashlib.sha256(proto).hexdigest()))
    return described
