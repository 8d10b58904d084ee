"""Inputs of operators that the standard gives one rank, whatever the ranks of the others are.

Not here is what an operator takes as one number and as a list of one alike.
"""

from collections.abc import Mapping

from onnxc.compiler.frontend.graph import GraphNode

__all__ = ["RANKS", "fixed_rank"]

_RECURRENT = {"X": 3, "W": 3, "R": 3, "B": 2, "sequence_lens": 1, "initial_h": 3}

RANKS: Mapping[str, Mapping[str, int]] = {
    "AffineGrid": {"theta": 3, "size": 1},
    "BatchNormalization": dict.fromkeys(("scale", "B", "mean", "var", "input_mean", "input_var"), 1),
    "CenterCropPad": {"shape": 1},
    "Col2Im": {"input": 3, "image_shape": 1, "block_shape": 1},
    "ConstantOfShape": {"input": 1},
    "Conv": {"B": 1},
    "ConvTranspose": {"B": 1},
    "Expand": {"shape": 1},
    "GroupNormalization": {"scale": 1, "bias": 1},
    "GRU": _RECURRENT,
    "InstanceNormalization": {"scale": 1, "B": 1},
    "LSTM": _RECURRENT | {"initial_c": 3, "P": 2},
    "NonMaxSuppression": {"boxes": 3, "scores": 3},
    "Pad": {"pads": 1, "axes": 1},
    "QLinearConv": {"B": 1},
    "Reshape": {"shape": 1},
    "Resize": {"roi": 1, "scales": 1, "sizes": 1},
    "RNN": _RECURRENT,
    "RoiAlign": {"X": 4, "rois": 2, "batch_indices": 1},
    "Slice": dict.fromkeys(("starts", "ends", "axes", "steps"), 1),
    "Split": {"split": 1},
    "Tile": {"repeats": 1},
    "Upsample": {"scales": 1},
}


def fixed_rank(node: GraphNode, position: int) -> int | None:
    """The rank of the input at `position`; None where the standard leaves it open."""
    formal = node.schema.input(position)
    ranks = {} if node.domain else RANKS.get(node.operator, {})
    return None if formal is None else ranks.get(formal.name)
