"""Inputs of operators that have one rank by the standard: a number, or that of another input and so many axes more.

Not here is what an operator takes as one number and as a list of one alike.
"""

from collections.abc import Mapping

from onnxc.compiler.frontend.graph import GraphNode

__all__ = ["RANKS", "Rank", "fixed_rank"]

Rank = int | tuple[str, int]
"""A rank, or the name of the input that tells it and how many axes there are beyond those of that."""

_RECURRENT = {"X": 3, "W": 3, "R": 3, "B": 2, "sequence_lens": 1, "initial_h": 3}

RANKS: Mapping[str, Mapping[str, Rank]] = {
    "AffineGrid": {"theta": 3, "size": 1},
    "Attention": {"K": ("Q", 0), "V": ("Q", 0), "past_key": 4, "past_value": 4, "nonpad_kv_seqlen": 1},
    "BatchNormalization": dict.fromkeys(("scale", "B", "mean", "var", "input_mean", "input_var"), 1),
    "CausalConvWithState": {"input": 3, "weight": 3, "bias": 1, "past_state": 3},
    "CenterCropPad": {"shape": 1},
    "Col2Im": {"input": 3, "image_shape": 1, "block_shape": 1},
    "Compress": {"condition": 1},
    "ConstantOfShape": {"input": 1},
    "Conv": {"W": ("X", 0), "B": 1},
    "ConvInteger": {"w": ("x", 0)},
    "ConvTranspose": {"W": ("X", 0), "B": 1},
    "DeformConv": {"W": ("X", 0), "offset": ("X", 0), "B": 1, "mask": ("X", 0)},
    "Expand": {"shape": 1},
    "GatherElements": {"indices": ("data", 0)},
    "GridSample": {"grid": ("X", 0)},
    "GroupNormalization": {"scale": 1, "bias": 1},
    "GRU": _RECURRENT,
    "InstanceNormalization": {"scale": 1, "B": 1},
    "LinearAttention": dict.fromkeys(("query", "key", "value", "decay", "beta"), 3) | {"past_state": 4},
    "LSTM": _RECURRENT | {"initial_c": 3, "P": 2},
    "MaxUnpool": {"I": ("X", 0), "output_shape": 1},
    "NegativeLogLikelihoodLoss": {"target": ("input", -1), "weight": 1},
    "NonMaxSuppression": {"boxes": 3, "scores": 3},
    "OneHot": {"values": 1},
    "Pad": {"pads": 1, "axes": 1},
    "QLinearConv": {"w": ("x", 0), "B": 1},
    "Reshape": {"shape": 1},
    "Resize": {"roi": 1, "scales": 1, "sizes": 1},
    "ReverseSequence": {"sequence_lens": 1},
    "RNN": _RECURRENT,
    "RoiAlign": {"X": 4, "rois": 2, "batch_indices": 1},
    "RotaryEmbedding": {"sin_cache": ("cos_cache", 0), "position_ids": 2},
    "Scatter": {"indices": ("data", 0), "updates": ("data", 0)},
    "ScatterElements": {"indices": ("data", 0), "updates": ("data", 0)},
    "Slice": dict.fromkeys(("starts", "ends", "axes", "steps"), 1),
    "SoftmaxCrossEntropyLoss": {"labels": ("scores", -1), "weights": 1},
    "Split": {"split": 1},
    "STFT": {"window": 1},
    "TensorScatter": {"update": ("past_cache", 0), "write_indices": 1},
    "Tile": {"repeats": 1},
    "Upsample": {"scales": 1},
}


def fixed_rank(node: GraphNode, position: int) -> Rank | None:
    """What the standard says of the rank of the input at `position`; None where it leaves that open."""
    formal = node.schema.input(position)
    ranks = {} if node.domain else RANKS.get(node.operator, {})
    return None if formal is None else ranks.get(formal.name)
