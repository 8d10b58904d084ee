"""What a model may say in place of an operator that has no lowering; nothing here knows which ones have."""

from functools import cache

from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.schemas import all_schemas, is_standard

_GENERAL = "no lowering of this operator version"
_SAVE = "let ONNX Runtime save the model with its optimisation level ORT_ENABLE_BASIC, which writes standard operators"
_QDQ = "quantise the model in the format QDQ, whose operators are the standard's"
_TRAINING = "it belongs to training; export the model for inference"
_TEXTS = "it works on texts; do it before the model is called, which onnxc.extract makes begin at its result"
_GENERATION = "it is a whole search; export the decoder and search outside of it"
_DEVICE = "ONNX Runtime has it for one kind of device; export the model without that provider's optimisations"

# operator of com.microsoft: what to do
_ADVICE = {
    "BeamSearch": _GENERATION,
    "BiasDropout": _TRAINING,
    "BifurcationDetector": _GENERATION,
    "BitmaskBiasDropout": _TRAINING,
    "BitmaskDropout": _TRAINING,
    "DecoderAttention": "use MultiHeadAttention with past_key and past_value, or the standard's Attention-23",
    "DecoderMaskedSelfAttention": "use Attention with past, without a shared buffer",
    "DequantizeBFP": _DEVICE,
    "DequantizeWithOrder": _QDQ,
    "EPContext": "it holds code for one device; compile the model from which it was made",
    "GemmFloat8": "use MatMul between DequantizeLinear and QuantizeLinear",
    "LongformerAttention": "export the attention as MatMul and Softmax",
    "PagedAttention": "use GroupQueryAttention, or the standard's Attention-24",
    "QuantizeBFP": _DEVICE,
    "QuantizeWithOrder": _QDQ,
    "Sampling": _GENERATION,
    "Snpe": "it holds code for one device; compile the model from which it was made",
    "Tokenizer": _TEXTS,
    "WhisperBeamSearch": _GENERATION,
}


# domain of others: what to do
_OF_DOMAIN = {
    "ai.onnx.contrib": "it is of onnxruntime-extensions, for texts, images and sounds; do that outside the model",
    "mmdeploy": "it is of MMDeploy; export without its custom operators",
    "org.pytorch.aten": "PyTorch could not export it; try torch.onnx.export(..., dynamo=True)",
    "pkg.onnxscript.torch_lib": "the function that it calls is not in the model; save the model with its functions",
    "trt.plugins": "it is a plugin of TensorRT; export without plugins",
}
_OTHERS = "give the model a function of its name that is made of standard operators, or export without it"


def advice(domain: str, operator: str) -> str:
    """Why the operator cannot be compiled, and what to do about it where that is known."""
    if is_standard(domain):
        return _GENERAL
    if domain != MICROSOFT:
        nearest = _nearest(operator)
        known = f"; the nearest of the standard is {nearest}" if nearest else ""
        return f"{_GENERAL}; {_OF_DOMAIN.get(domain, _OTHERS)}{known}"
    if operator.startswith("QOrdered"):
        return f"{_GENERAL}; {_QDQ}"
    return f"{_GENERAL}; {_ADVICE.get(operator, _SAVE)}"


def _nearest(operator: str) -> str | None:
    """The standard's operator of the longest name that is in that of another, FusedGelu for instance."""
    written = operator.lower().replace("_", "")
    within = [name for name in _standard_names() if name.lower() in written]
    return max(within, key=len, default=None)


@cache
def _standard_names() -> tuple[str, ...]:
    return tuple(sorted({schema.name for schema in all_schemas() if not schema.domain and len(schema.name) > 2}))
