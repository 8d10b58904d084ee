"""Inputs of operators that have one rank by the standard: a number, or that of another input and so many axes more.

An input of one element, which operators take as a number and as a list of one alike, has rank 0 whatever it comes in.
"""

from collections.abc import Mapping

from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.frontend.schemas import is_standard

__all__ = ["BLOCKED", "ELEMENT", "RANKS", "Rank", "fixed_rank"]

ELEMENT = "one element"

Rank = int | tuple[str, int] | str
"""A rank; the name of the input that tells it and how many axes there are beyond those of that; or ELEMENT."""

_LIMITS = ("max_output_boxes_per_class", "iou_threshold", "score_threshold")
_MEL = ("num_mel_bins", "dft_length", "sample_rate", "lower_edge_hertz", "upper_edge_hertz")
_SCALARS = ("x_scale", "x_zero_point", "y_scale", "y_zero_point")
_STEP = {"R": ELEMENT, "T": ELEMENT}
_REDUCED = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
_RECURRENT = {"X": 3, "W": 3, "R": 3, "B": 2, "sequence_lens": 1, "initial_h": 3}

RANKS: Mapping[str, Mapping[str, Rank]] = {
    **dict.fromkeys(("Adagrad", "Adam", "Momentum"), _STEP),
    "AffineGrid": {"theta": 3, "size": 1},
    "Attention": {"K": ("Q", 0), "V": ("Q", 0), "past_key": 4, "past_value": 4, "nonpad_kv_seqlen": 1},
    "BatchNormalization": dict.fromkeys(("scale", "B", "mean", "var", "input_mean", "input_var"), 1),
    "BlackmanWindow": {"size": ELEMENT},
    "CausalConvWithState": {"input": 3, "weight": 3, "bias": 1, "past_state": 3},
    "CenterCropPad": {"shape": 1},
    "Col2Im": {"input": 3, "image_shape": 1, "block_shape": 1},
    "Compress": {"condition": 1},
    "ConstantOfShape": {"input": 1},
    "Conv": {"W": ("X", 0), "B": 1},
    "ConvInteger": {"w": ("x", 0), "x_zero_point": ELEMENT},
    "ConvTranspose": {"W": ("X", 0), "B": 1},
    "CumProd": {"axis": ELEMENT},
    "CumSum": {"axis": ELEMENT},
    "DeformConv": {"W": ("X", 0), "offset": ("X", 0), "B": 1, "mask": ("X", 0)},
    "DequantizeLinear": {"x_zero_point": ("x_scale", 0)},
    "DFT": {"dft_length": ELEMENT, "axis": ELEMENT},
    "Dropout": {"ratio": ELEMENT, "training_mode": ELEMENT},
    "Expand": {"shape": 1},
    "GatherElements": {"indices": ("data", 0)},
    "GridSample": {"grid": ("X", 0)},
    "GroupNormalization": {"scale": 1, "bias": 1},
    "GRU": _RECURRENT,
    "HammingWindow": {"size": ELEMENT},
    "HannWindow": {"size": ELEMENT},
    "If": {"cond": ELEMENT},
    "InstanceNormalization": {"scale": 1, "B": 1},
    "LinearAttention": dict.fromkeys(("query", "key", "value", "decay", "beta"), 3) | {"past_state": 4},
    "Loop": {"M": ELEMENT, "cond": ELEMENT},
    "LSTM": _RECURRENT | {"initial_c": 3, "P": 2},
    "MaxUnpool": {"I": ("X", 0), "output_shape": 1},
    "MelWeightMatrix": dict.fromkeys(_MEL, ELEMENT),
    "NegativeLogLikelihoodLoss": {"target": ("input", -1), "weight": 1},
    "NonMaxSuppression": dict.fromkeys(_LIMITS, ELEMENT) | {"boxes": 3, "scores": 3},
    "OneHot": {"values": 1, "depth": ELEMENT},
    "Pad": {"pads": 1, "constant_value": ELEMENT, "axes": 1},
    "QLinearConv": dict.fromkeys(_SCALARS, ELEMENT) | {"w": ("x", 0), "w_zero_point": ("w_scale", 0), "B": 1},
    "QuantizeLinear": {"y_zero_point": ("y_scale", 0)},
    "Range": {"start": ELEMENT, "limit": ELEMENT, "delta": ELEMENT},
    **{f"Reduce{kind}": {"axes": 1} for kind in _REDUCED},
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
    "STFT": {"window": 1, "frame_step": ELEMENT, "frame_length": ELEMENT},
    "TensorScatter": {"update": ("past_cache", 0), "write_indices": 1},
    "Tile": {"repeats": 1},
    "TopK": {"K": ELEMENT},
    "Trilu": {"k": ELEMENT},
    "Upsample": {"scales": 1},
}

BLOCKED = ("x_scale", "y_scale")
"""Scales that have the rank of `x` where each is that of a block."""


def fixed_rank(node: GraphNode, position: int) -> Rank | None:
    """What the standard says of the rank of the input at `position`; None where it leaves that open."""
    formal = node.schema.input(position)
    if formal is None or not is_standard(node.domain):
        return None
    if formal.name in BLOCKED and node.attributes.get("block_size"):
        return "x", 0
    return RANKS.get(node.operator, {}).get(formal.name)
