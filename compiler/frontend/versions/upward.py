"""Changes of operators towards newer versions, where the signature does not tell it all.

Each adapter takes a node of the version before and leaves it in the version after; the table names the opset that
brought the change. What is not here is decided by `fit.py` alone.
"""

from collections.abc import Callable, Mapping

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.scans import scan_to_9
from onnxc.compiler.frontend.versions.shared import integers_to_input, scalar_to_input

__all__ = ["UPWARD", "Adapter"]

Adapter = Callable[[Change], None]

# Operators that change in the same way, by the versions in which they do.
BROADCASTING = ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less")
SOFTMAXES = ("Softmax", "LogSoftmax", "Hardmax")
REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "SumSquare")


def _nothing(change: Change) -> None:
    """The text says more in the newer version, and means what was meant."""


def _broadcast(change: Change) -> None:
    """B was laid along the axes of A from `axis` on; now both are aligned at their last axes."""
    axis = change.given("axis")
    if change.integer("broadcast") and isinstance(axis, int):
        rank, other = change.rank(0), change.rank(1)
        behind = rank - (axis + rank * (axis < 0)) - other
        if behind > 0:
            axes = [*range(other, other + behind)]
            name = change.make("Unsqueeze", [change.input(1)], {"axes": axes}, f"{change.node.output[0]}/aligned")
            change.set_input(1, name)
    change.drop("axis", "broadcast")


def _gemm_7(change: Change) -> None:
    change.drop("broadcast")


def _is_test(change: Change) -> None:
    if change.integer("is_test") != 1 and not (change.before.name == "BatchNormalization" and change.uses_output(1)):
        change.fail("it is a step of training, is_test is 0")
    change.drop("is_test")


def _attention_24(change: Change) -> None:
    if change.integer("is_causal") and change.input(4):
        change.fail("a causal mask leaves out other keys behind a past")


def _batch_normalization_9(change: Change) -> None:
    if change.integer("spatial", 1) != 1:
        change.fail("spatial is 0: it has statistics for each element")
    change.drop("spatial")


def _batch_normalization_14(change: Change) -> None:
    if any(change.uses_output(position) for position in (1, 2, 3, 4)):
        change.fail("its outputs of training are others")


def _dropout_10(change: Change) -> None:
    """The mask was of the type of the data."""
    if change.uses_output(1):
        change.follow("Cast", [], {"to": change.element(0) or TensorProto.FLOAT}, output=1)


def _dropout_12(change: Change) -> None:
    # ratio is a tensor of any float type; f32 holds what the attribute did.
    change.set_input(1, change.tensor(np.array(change.real("ratio", 0.5), np.float32), "ratio"))
    change.drop("ratio")


def _cast_6(change: Change) -> None:
    name = change.text("to").upper()
    codes = dict(TensorProto.DataType.items())
    if name not in codes:
        change.fail(f"to is {name!r}, which is no type")
    change.set("to", codes[name])


def _concat_4(change: Change) -> None:
    if not change.has("axis"):
        change.set("axis", 1)


def _clip_11(change: Change) -> None:
    for position, name in ((1, "min"), (2, "max")):
        scalar_to_input(change, name, position, change.real(name, 0.0))


def _axis_coerced(change: Change) -> None:
    """The axes from `axis` on were one; now it is that axis alone."""
    axis, rank = change.integer("axis", 1), change.rank(0)
    change.set("axis", -1)
    if rank == 0 or axis in (-1, rank - 1):
        return
    data, hint = change.input(0), change.node.output[0]
    shape = change.make("Shape", [data], {}, f"{hint}/shape")
    change.set_input(0, change.make("Flatten", [data], {"axis": axis + rank * (axis < 0)}, f"{hint}/flat"))
    change.follow("Reshape", [shape], {})


def _whole_p(change: Change) -> None:
    p = change.real("p", 2.0)
    if p != int(p):
        change.fail(f"p is {p}")
    change.set("p", int(p))


def _grid_sample_20(change: Change) -> None:
    modes = {"bilinear": "linear", "bicubic": "cubic"}
    change.set("mode", modes.get(change.text("mode"), change.text("mode")))


def _group_normalization_21(change: Change) -> None:
    """A scale and a bias for each group become those of each channel."""
    shape, groups = change.shape(change.input(0)), change.integer("num_groups")
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    if not isinstance(channels, int) or groups < 1 or channels % groups:
        change.fail("the number of its channels is not known")
    for position in (1, 2):
        hint = f"{change.node.output[0]}/{change.before.inputs[position].name}"
        column = change.tensor(np.array([groups, 1], np.int64), "column")
        repeated = change.tensor(np.array([groups, channels // groups], np.int64), "repeated")
        flat = change.tensor(np.array([channels], np.int64), "channels")
        made = change.make("Reshape", [change.input(position), column], {}, hint)
        made = change.make("Expand", [made, repeated], {}, hint)
        change.set_input(position, change.make("Reshape", [made, flat], {}, hint))


def _one_hot_11(change: Change) -> None:
    if change.element(0) not in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64):
        change.fail("a negative index was none of the classes, and counts from the last one there")


def _p_relu_7(change: Change) -> None:
    """A slope of one axis went with the channels."""
    slope, rank = change.shape(change.input(1)), change.rank(0)
    if slope is None or len(slope) != 1:
        change.fail("the shape of its slope is not known")
    if slope != (1,) and rank > 2:
        axes = [*range(1, rank - 1)]
        hint = f"{change.node.output[0]}/slope"
        change.set_input(1, change.make("Unsqueeze", [change.input(1)], {"axes": axes}, hint))


def _pad_2(change: Change) -> None:
    change.set("pads", change.integers("paddings") or ())
    change.drop("paddings")


def _pad_11(change: Change) -> None:
    integers_to_input(change, "pads", 1)
    scalar_to_input(change, "value", 2, change.real("value", 0.0))


def _axes_to_input(change: Change) -> None:
    integers_to_input(change, "axes", 1)


def _reshape_5(change: Change) -> None:
    integers_to_input(change, "shape", 1)


def _resize_11(change: Change) -> None:
    """Coordinates were asymmetric, and the nearest one the one below."""
    change.set("coordinate_transformation_mode", "asymmetric")
    change.set("nearest_mode", "floor")
    scales = change.input(1)
    change.set_input(1, change.tensor(np.zeros(0, np.float32), "roi"))
    change.set_input(2, scales)


def _resize_13(change: Change) -> None:
    if change.text("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        change.fail("coordinate_transformation_mode is tf_half_pixel_for_nn")


def _roi_align_16(change: Change) -> None:
    change.set("coordinate_transformation_mode", "output_half_pixel")


def _scatter_11(change: Change) -> None:
    change.node.op_type = "ScatterElements"


def _slice_10(change: Change) -> None:
    for position, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        integers_to_input(change, name, position)


def _split_2(change: Change) -> None:
    if change.input(1):
        split = change.constant(1)
        assert split is not None, change.node
        change.set("split", [int(each) for each in split])
        change.keep_inputs(1)
    if not change.has("axis"):
        change.set("axis", 0)


def _split_13(change: Change) -> None:
    integers_to_input(change, "split", 1)


def _split_18(change: Change) -> None:
    if not change.input(1):
        change.set("num_outputs", len(change.node.output))


def _tile_6(change: Change) -> None:
    tiles, axis = change.scalar(1), change.scalar(2)
    repeats = np.ones(change.rank(0), np.int64)
    repeats[change.axis(int(axis or 0))] = int(tiles or 0)
    change.set_input(1, change.tensor(repeats, "repeats"))
    change.keep_inputs(2)


def _top_k_10(change: Change) -> None:
    change.set_input(1, change.tensor(np.array([change.integer("k")], np.int64), "k"))
    change.drop("k")


def _upsample_7(change: Change) -> None:
    change.set("scales", [1.0, 1.0, change.real("height_scale", 1.0), change.real("width_scale", 1.0)])
    change.drop("height_scale", "width_scale")


def _upsample_9(change: Change) -> None:
    scales = change.given("scales")
    assert isinstance(scales, tuple), change.node
    change.set_input(1, change.tensor(np.array(scales, np.float32), "scales"))
    change.drop("scales")


def _upsample_10(change: Change) -> None:
    change.node.op_type = "Resize"


def _average_pool_19(change: Change) -> None:
    if change.integer("ceil_mode") and (any(change.integers("pads") or ()) or change.text("auto_pad") != "NOTSET"):
        change.fail("a window that begins in the padding counts with ceil_mode")


def _dft_20(change: Change) -> None:
    change.set_input(2, change.tensor(np.array(change.integer("axis", 1), np.int64), "axis"))
    change.drop("axis")


def _quantize_linear_23(change: Change) -> None:
    """The division was in f32, whatever the type of the scale."""
    if change.element(1) != TensorProto.FLOAT:
        change.set("precision", TensorProto.FLOAT)


UPWARD: Mapping[tuple[str, int], Adapter] = {
    **{(name, 7): _broadcast for name in BROADCASTING},
    **{(f"Reduce{name}", 18): _axes_to_input for name in REDUCTIONS},
    **{(name, 13): _axes_to_input for name in ("ReduceSum", "Squeeze", "Unsqueeze")},
    **{(name, 13): _axis_coerced for name in SOFTMAXES},
    ("Attention", 24): _attention_24,
    ("AveragePool", 19): _average_pool_19,
    ("BatchNormalization", 7): _is_test,
    ("BatchNormalization", 9): _batch_normalization_9,
    ("BatchNormalization", 14): _batch_normalization_14,
    ("Cast", 6): _cast_6,
    ("Clip", 11): _clip_11,
    ("Concat", 4): _concat_4,
    ("DFT", 20): _dft_20,
    ("Dropout", 7): _is_test,
    ("Dropout", 10): _dropout_10,
    ("Dropout", 12): _dropout_12,
    ("Gemm", 7): _gemm_7,
    ("GlobalLpPool", 2): _whole_p,
    ("GridSample", 20): _grid_sample_20,
    ("GroupNormalization", 21): _group_normalization_21,
    ("LpPool", 2): _whole_p,
    ("LpPool", 18): _nothing,
    ("OneHot", 11): _one_hot_11,
    ("PRelu", 7): _p_relu_7,
    ("Pad", 2): _pad_2,
    ("Pad", 11): _pad_11,
    ("QuantizeLinear", 23): _quantize_linear_23,
    ("Range", 27): _nothing,
    ("Reshape", 5): _reshape_5,
    ("Resize", 11): _resize_11,
    ("Resize", 13): _resize_13,
    ("Resize", 18): _nothing,
    ("Resize", 19): _nothing,
    ("RoiAlign", 16): _roi_align_16,
    ("Scan", 9): scan_to_9,
    ("Scatter", 11): _scatter_11,
    ("Slice", 10): _slice_10,
    ("Split", 2): _split_2,
    ("Split", 13): _split_13,
    ("Split", 18): _split_18,
    ("Tile", 6): _tile_6,
    ("TopK", 10): _top_k_10,
    ("Upsample", 7): _upsample_7,
    ("Upsample", 9): _upsample_9,
    ("Upsample", 10): _upsample_10,
}
