"""What each stage makes, as text for people."""

import json
import re

from onnxc.compiler.driver import Noun
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.printer import print_module
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.encoding import encode_program


def text_of(noun: Noun) -> str:
    """The noun's text form; the bytes of tensors are left out of a model, weights and code out of an artifact."""
    if isinstance(noun, LoadedModel):
        return re.sub(r"\n *raw_data: .*", "", str(noun.outline)).rstrip()
    if isinstance(noun, Module):
        return print_module(noun)
    return artifact_text(noun) if isinstance(noun, Artifact) else str(noun)


def artifact_text(artifact: Artifact) -> str:
    """Its program as JSON, then what lies beside it."""
    members = [f"// {target}: {len(image)} bytes of code" for target, image in artifact.images.items()]
    members.append(f"// weights: {artifact.weights.nbytes} bytes")
    return "\n".join([json.dumps(encode_program(artifact.program), indent=1), *members])
