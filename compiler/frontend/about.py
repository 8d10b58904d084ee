"""What a model says of itself beside its computation, in words for people; nothing here changes what it computes."""

from collections.abc import Mapping

from onnxc.compiler.frontend.checks.findings import listed
from onnxc.compiler.frontend.functions import ModelFunction
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto

__all__ = ["about_model", "free_text"]


def about_model(model: ModelProto) -> Mapping[str, str]:
    """By a word for each, what the model says: only what it does say."""
    said = {
        "producer": f"{free_text(model.producer_name)} {free_text(model.producer_version)}".strip(),
        "domain": model.domain,
        "model version": str(model.model_version) if model.HasField("model_version") else "",
        "documentation": free_text(model.doc_string),
        "documentation of the graph": free_text(model.graph.doc_string),
        "functions": listed(map(ModelFunction, model.functions), none=""),
        "training": f"{len(model.training_info)} algorithms" if model.training_info else "",
        "devices": listed((f"{each.name}: {each.num_devices}" for each in model.configuration), none=""),
    }
    return {word: text for word, text in said.items() if text}


def free_text(text: str | bytes) -> str:
    """Free text, which need not be UTF-8."""
    return text.decode(errors="replace") if isinstance(text, bytes) else text
