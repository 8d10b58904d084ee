"""What a model may say in place of an operator that has no lowering; nothing here knows which ones have."""

from onnxc.compiler.frontend.operator_domains import MICROSOFT, NCHWC

_GENERAL = "no lowering of this operator version"
_SAVE = "let ONNX Runtime save the model with its optimisation level ORT_ENABLE_BASIC, which writes standard operators"
_BLOCKS = (
    "its weights lie in blocks of 8 or 16 channels, which depends on the processor that saved the model and is not in "
    "it; let ONNX Runtime save the model with its optimisation level ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
)
_QDQ = "quantise the model in the format QDQ, whose operators are the standard's"
_TRAINING = "it belongs to training; export the model for inference"
_TEXTS = "it works on texts; do it before the model is called"
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
    "DecoderMaskedMultiHeadAttention": "use MultiHeadAttention with past_key and past_value, without a shared buffer",
    "DecoderMaskedSelfAttention": "use Attention with past, without a shared buffer",
    "DequantizeBFP": _DEVICE,
    "DequantizeWithOrder": _QDQ,
    "EPContext": "it holds code for one device; compile the model from which it was made",
    "GemmFloat8": "use MatMul between DequantizeLinear and QuantizeLinear",
    "GreedySearch": _GENERATION,
    "LongformerAttention": "export the attention as MatMul and Softmax",
    "MurmurHash3": _TEXTS,
    "PackedAttention": "keep the padding: let the optimiser write Attention",
    "PackedMultiHeadAttention": "keep the padding: let the optimiser write MultiHeadAttention",
    "PagedAttention": "use GroupQueryAttention, or the standard's Attention-24",
    "QuantizeBFP": _DEVICE,
    "QuantizeWithOrder": _QDQ,
    "Sampling": _GENERATION,
    "Snpe": "it holds code for one device; compile the model from which it was made",
    "SparseAttention": "use GroupQueryAttention",
    "Tokenizer": _TEXTS,
    "WhisperBeamSearch": _GENERATION,
    "WordConvEmbedding": _TEXTS,
}


def advice(domain: str, operator: str) -> str:
    """Why the operator cannot be compiled, and what to do about it where that is known."""
    if domain == NCHWC:
        return f"{_GENERAL}; {_BLOCKS}"
    if domain != MICROSOFT:
        return _GENERAL
    if operator.startswith("QOrdered"):
        return f"{_GENERAL}; {_QDQ}"
    return f"{_GENERAL}; {_ADVICE.get(operator, _SAVE)}"
