"""Changes of operators towards older versions, where the signature does not tell it all.

Each adapter takes a node of the version that the table names and leaves it in the one before, or fails where that has
no word for it. What is not here is decided by `fit.py` alone.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, TensorProto
from onnxc.compiler.frontend.versions.change import FLOATS, Change
from onnxc.compiler.frontend.versions.composed_arithmetic import equal_11, mod_28
from onnxc.compiler.frontend.versions.composed_attention import attention_24, attention_25
from onnxc.compiler.frontend.versions.composed_bits import bit_shift_28
from onnxc.compiler.frontend.versions.composed_choices import arg_12, bounded, extremum_12
from onnxc.compiler.frontend.versions.composed_indexing import gather_nd_12, one_hot_11
from onnxc.compiler.frontend.versions.composed_quantization import (
    dequantize_linear,
    dequantize_linear_21,
    per_axis,
    quantize_linear,
    quantize_linear_21,
)
from onnxc.compiler.frontend.versions.composed_regions import pad_18, pad_19, resize_18
from onnxc.compiler.frontend.versions.composed_sampling import grid_sample
from onnxc.compiler.frontend.versions.compositions import COMPOSITIONS, group_normalization
from onnxc.compiler.frontend.versions.constants import CONSTANT_FIELDS
from onnxc.compiler.frontend.versions.scans import scan_to_8
from onnxc.compiler.frontend.versions.shared import input_to_attribute
from onnxc.compiler.frontend.versions.steps import Steps
from onnxc.compiler.frontend.versions.upward import BROADCASTING, REDUCTIONS, SOFTMAXES, Adapter
from onnxc.compiler.frontend.versions.widened import WIDENED

__all__ = ["DOWNWARD"]


WITH_AXES = (
    *(f"Reduce{name}" for name in (*REDUCTIONS, "Sum")),
    *("ArgMax", "ArgMin", "Compress", "Concat", "Flatten", "Gather", "Hardmax", "LogSoftmax", "Softmax", "Split"),
    *("Squeeze", "TopK", "Unsqueeze"),
)
"""Operators whose axes may count from the last one since opset 11."""

COMMUTATIVE = ("Add", "And", "Equal", "Mul", "Or", "Xor")


def _nothing(change: Change) -> None:
    """The older text says less, and means what is meant."""


def _broadcast(change: Change) -> None:
    """B is laid along axes of A that follow one another; of the others, nothing is said. They may change places."""
    first, second = (change.shape(change.input(position)) for position in (0, 1))
    if first is None or second is None or "" in (*first, *second):
        change.fail("the shapes of its inputs are not known")
    if first == second:
        return
    change.set("broadcast", 1)
    if _spread(first, second, change):
        return
    change.node.input[:] = reversed(change.node.input)
    if change.before.name not in COMMUTATIVE or not _spread(second, first, change):
        change.fail(f"its inputs broadcast in a way that is new in opset 7: {list(first)} and {list(second)}")


def _spread(first: Sequence[int | str], second: Sequence[int | str], change: Change) -> bool:
    """Whether B can be laid along A, which the node then says."""
    offset = len(first) - len(second)
    if offset < 0:
        return False
    if first[offset:] == second or set(second) == {1}:
        return True
    laid = _laid_along(first, (*(1,) * offset, *second))
    if laid:
        change.set("axis", laid.start)
        ones = [axis - offset for axis in range(offset, len(first)) if axis not in laid]
        change.set_input(1, Steps(change).over("Squeeze", change.input(1), ones))
    return bool(laid)


def _laid_along(first: Sequence[int | str], second: Sequence[int | str]) -> range:
    """The axes from the first to the last that is not 1 in B, where A has them too; else none."""
    wide = [axis for axis, size in enumerate(second) if size != 1]
    laid = range(wide[0], wide[-1] + 1)
    return laid if all(first[axis] == second[axis] for axis in laid) else range(0)


def _one_shape(change: Change) -> None:
    shapes = [change.shape(name) for name in change.node.input]
    if any(shape is None or "" in shape or shape != shapes[0] for shape in shapes):
        change.fail("its inputs are not known to have one shape")


def _gemm_7(change: Change) -> None:
    change.set("broadcast", 1)


def _gemm_11(change: Change) -> None:
    """What is added is a negative zero, which leaves all as it is, a negative zero too."""
    if not change.input(2):
        change.drop("beta")
        change.node.input[:] = [*change.node.input[:2], Steps(change).scalar(-0.0)]


def _is_test(change: Change) -> None:
    if change.before.name != "BatchNormalization" or not change.uses_output(1):
        change.set("is_test", 1)


def _depth_to_space_11(change: Change) -> None:
    """Channels of columns first are those of depth first in another order."""
    if change.text("mode") != "CRD":
        return
    shape, block = change.shape(change.input(0)), change.integer("blocksize")
    channels = shape[1] if shape is not None and len(shape) == 4 else None
    if not isinstance(channels, int):
        change.fail("its mode is CRD, and the number of its channels is not known")
    at = Steps(change)
    order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
    change.set_input(0, at("Gather", change.input(0), at.integers(*order), axis=1))
    change.drop("mode")


def _dropout_10(change: Change) -> None:
    """The mask becomes one of the type of the data."""
    if change.uses_output(1):
        change.follow("Cast", [], {"to": TensorProto.BOOL}, output=1)


def _dropout_12(change: Change) -> None:
    training = change.constant(2)
    if training is not None and training.any():
        change.fail("it is a step of training, training_mode is true")
    # Without training nothing is dropped, whatever the ratio is.
    if change.input(1) in change.values.constants:
        change.set("ratio", change.scalar(1) or 0.0)
    change.drop("seed")
    change.keep_inputs(1)


def _batch_normalization_14(change: Change) -> None:
    if change.integer("training_mode"):
        change.fail("it is a step of training, training_mode is 1")


def _cast_6(change: Change) -> None:
    names = {code: name for name, code in TensorProto.DataType.items()}
    change.set("to", names.get(change.integer("to"), "UNDEFINED"))


def _clip_11(change: Change) -> None:
    if any(name not in change.values.constants for name in change.node.input[1:] if name):
        bounded(change)
        return
    for position, name, default in ((1, "min", -np.inf), (2, "max", np.inf)):
        bound = change.scalar(position)
        change.set(name, default if bound is None else bound)
    change.keep_inputs(1)


def _clip_12(change: Change) -> None:
    if change.element(0) not in FLOATS:
        bounded(change)


def _constant_9(change: Change) -> None:
    """A constant that is no float is an initializer."""
    name = change.node.output[0]
    constant = change.values.constants.get(name)
    if constant is not None and constant.data_type not in FLOATS:
        change.store(name, constant)
        change.is_gone = True


def _constant_12(change: Change) -> None:
    """Numbers and texts of their own become a tensor."""
    attribute = change.node.attribute[0] if change.node.attribute else None
    if attribute is None or attribute.name not in CONSTANT_FIELDS:
        return
    if attribute.ref_attr_name:
        change.fail(f"{attribute.name} is a parameter of the function")
    made = change.values.constants[change.node.output[0]]
    change.drop(attribute.name)
    change.node.attribute.add(name="value", type=AttributeProto.TENSOR).t.CopyFrom(made)


def _dft_20(change: Change) -> None:
    axis = change.scalar(2)
    change.set("axis", change.axis(-2 if axis is None else int(axis)))
    change.keep_inputs(2)


def _sequence_output(change: Change) -> None:
    """All states are an output where it is asked for."""
    change.set("output_sequence", int(change.uses_output(0)))


def _grid_sample_20(change: Change) -> None:
    if change.rank(0) != 4:
        grid_sample(change)
        return
    modes = {"linear": "bilinear", "cubic": "bicubic"}
    change.set("mode", modes.get(change.text("mode"), change.text("mode")))


def _group_normalization_21(change: Change) -> None:
    shape = change.shape(change.input(0))
    if shape is None or len(shape) < 2 or shape[1] != change.integer("num_groups"):
        group_normalization(change)


def _axis_alone(change: Change) -> None:
    """Softmax over one axis; before, the axes from `axis` on were one."""
    axis, rank = change.axis(change.integer("axis", -1)), change.rank(0)
    change.set("axis", max(rank - 1, 0))
    if axis < rank - 1:
        order = [*range(rank)]
        order[axis], order[-1] = order[-1], order[axis]
        hint = f"{change.node.output[0]}/turned"
        change.set_input(0, change.make("Transpose", [change.input(0)], {"perm": order}, hint))
        change.follow("Transpose", [], {"perm": order})


def _p_relu_7(change: Change) -> None:
    """A slope goes with the channels where it has one axis."""
    slope, rank = change.shape(change.input(1)), change.rank(0)
    is_one = slope is not None and all(size == 1 for size in slope)
    if slope is None or not (is_one or (rank == 2 and len(slope) == 1) or len(slope) == rank - 1):
        change.fail("its slope is none for each channel")
    if len(slope) == rank - 1 and rank > 2 and not is_one:
        if any(size != 1 for size in slope[1:]):
            change.fail("its slope is none for each channel")
        axes = [*range(1, rank - 1)]
        hint = f"{change.node.output[0]}/slope"
        change.set_input(1, change.make("Squeeze", [change.input(1)], {"axes": axes}, hint))


def _pad_11(change: Change) -> None:
    input_to_attribute(change, 1, "pads")
    value = change.scalar(2)
    if value is not None:
        change.set("value", value)
    change.keep_inputs(1)


def _pad_2(change: Change) -> None:
    change.set("paddings", change.integers("pads") or ())
    change.drop("pads")


def _reduce(change: Change) -> None:
    input_to_attribute(change, 1, "axes")
    axes = change.integers("axes")
    if not axes:
        change.drop("axes")
    if not axes and change.integer("noop_with_empty_axes"):
        change.fail("noop_with_empty_axes is 1, and it has no axes")
    change.drop("noop_with_empty_axes")
    change.keep_inputs(1)


def _axes_to_attribute(change: Change) -> None:
    input_to_attribute(change, 1, "axes")


def _reshape_5(change: Change) -> None:
    input_to_attribute(change, 1, "shape")


def _reshape_14(change: Change) -> None:
    """A size that is no 0 means the same, whatever a 0 means."""
    shape = change.values.constants.get(change.input(1))
    sizes = None if shape is None else change.constant(1)
    if sizes is not None and sizes.all():
        change.drop("allowzero")


def _resize_11(change: Change) -> None:
    mode, nearest = change.text("coordinate_transformation_mode"), change.text("nearest_mode")
    if mode != "asymmetric" or (change.text("mode") == "nearest" and nearest != "floor"):
        change.fail(f"coordinate_transformation_mode is {mode}, nearest_mode {nearest}; it knows asymmetric and floor")
    if change.text("mode") == "cubic" or change.input(3):
        change.fail("it knows no cubic interpolation, and no sizes")
    scales = change.input(2)
    change.drop("coordinate_transformation_mode", "nearest_mode", "cubic_coeff_a", "extrapolation_value")
    change.set_input(1, scales)
    change.keep_inputs(2)


def _resize_13(change: Change) -> None:
    """Inputs that are left out become empty ones."""
    for position, hint in ((1, "roi"), (2, "scales")):
        if not change.input(position):
            change.set_input(position, change.tensor(np.zeros(0, np.float32), hint))


def _resize_19(change: Change) -> None:
    if change.text("coordinate_transformation_mode") == "half_pixel_symmetric":
        change.fail("coordinate_transformation_mode is half_pixel_symmetric")


def _resize_10(change: Change) -> None:
    change.node.op_type = "Upsample"


def _roi_align_16(change: Change) -> None:
    if change.text("coordinate_transformation_mode") != "output_half_pixel":
        change.fail("coordinate_transformation_mode is half_pixel")
    change.drop("coordinate_transformation_mode")


def _float_p(change: Change) -> None:
    change.set("p", float(change.integer("p", 2)))


def _scatter_18(change: Change) -> None:
    if change.text("reduction") in ("max", "min"):
        change.fail(f"reduction is {change.text('reduction')}")


def _optional_get_element_18(change: Change) -> None:
    """What is no optional is its own element."""
    known = change.values.types.get(change.input(0))
    if known is not None and not known.HasField("optional_type"):
        Steps(change).become("Identity", change.input(0))


def _optional_has_element_18(change: Change) -> None:
    """What is no optional is there, and what is left out is not."""
    known = change.values.types.get(change.input(0))
    if not change.input(0) or (known is not None and not known.HasField("optional_type")):
        Steps(change).become("Identity", change.tensor(np.array(bool(change.input(0))), "is_there"))


def _shape_15(change: Change) -> None:
    """A part of the shape is a slice of it."""
    start, end = change.given("start"), change.given("end")
    if not start and end is None:
        change.drop("start")
        return
    at = Steps(change)
    bounds = [bound if isinstance(bound, int) else default for bound, default in ((start, 0), (end, sys.maxsize))]
    at.become("Slice", at("Shape", change.input(0)), *(at.integers(each) for each in (*bounds, 0)))


def _scatter_elements_11(change: Change) -> None:
    change.node.op_type = "Scatter"


def _slice_10(change: Change) -> None:
    steps = change.constant(4)
    if steps is not None and (steps != 1).any():
        change.fail(f"its steps are {steps.tolist()}")
    for position, name in ((1, "starts"), (2, "ends"), (3, "axes")):
        input_to_attribute(change, position, name)
    change.keep_inputs(1)
    _axes_from_front(change)


def _split_13(change: Change) -> None:
    input_to_attribute(change, 1, "split")


def _split_18(change: Change) -> None:
    """Parts that need not be equal become ones of given sizes."""
    count = change.integer("num_outputs")
    change.drop("num_outputs")
    if not count:
        return
    shape, axis = change.shape(change.input(0)), change.axis(change.integer("axis"))
    size = shape[axis] if shape else ""
    if not isinstance(size, int):
        change.fail("the size that is split is not known")
    if size % count:
        part = -(-size // count)
        sizes = [part] * (count - 1) + [size - part * (count - 1)]
        change.set_input(1, change.tensor(np.array(sizes, np.int64), "split"))


def _tile_6(change: Change) -> None:
    change.fail("it tiles one axis alone, by a number of the type of the data")


def _top_k_10(change: Change) -> None:
    change.set("k", int(change.scalar(1) or 0))
    change.keep_inputs(1)


def _upsample_9(change: Change) -> None:
    scales = change.constant(1)
    assert scales is not None, change.node
    change.set("scales", [float(each) for each in scales])
    change.keep_inputs(1)


def _upsample_7(change: Change) -> None:
    scales = change.given("scales")
    if not isinstance(scales, tuple) or len(scales) != 4 or tuple(scales[:2]) != (1.0, 1.0):
        change.fail(f"its scales are {scales}, not those of an image's height and width")
    height, width = (float(each) for each in scales[2:])
    change.drop("scales")
    change.set("height_scale", height)
    change.set("width_scale", width)


def _average_pool_19(change: Change) -> None:
    if change.integer("ceil_mode") and (any(change.integers("pads") or ()) or change.text("auto_pad") != "NOTSET"):
        change.fail("a window that begins in the padding counts with ceil_mode")


def _quantize_linear_23(change: Change) -> None:
    if change.element(1) != TensorProto.FLOAT and change.integer("precision") != TensorProto.FLOAT:
        change.fail("it divides in the type of its scale, and not in f32")
    change.drop("precision")


def _axes_from_front(change: Change) -> None:
    """Axes that count from the last one become those that count from the first."""
    if change.integer("axis") < 0:
        change.set("axis", change.axis(change.integer("axis")))
    axes = change.integers("axes") or ()
    if any(axis < 0 for axis in axes):
        rank = change.rank(0) + (len(axes) if change.before.name == "Unsqueeze" else 0)
        change.set("axes", [axis + rank * (axis < 0) for axis in axes])


def _or_equal(operator: str) -> Adapter:
    def adapt(change: Change) -> None:
        hint = change.node.output[0]
        names = [change.make(each, change.node.input, {}, f"{hint}/{each}") for each in (operator, "Equal")]
        change.node.op_type = "Or"
        change.node.input[:] = names

    return adapt


def _equal_11(change: Change) -> None:
    WIDENED["Equal", 11](change)
    equal_11(change)


DOWNWARD: Mapping[tuple[str, int], Adapter] = {
    **COMPOSITIONS,
    **WIDENED,
    ("Equal", 11): _equal_11,
    **{(name, 7): _broadcast for name in BROADCASTING},
    **{(f"Reduce{name}", 18): _reduce for name in REDUCTIONS},
    **{(name, 13): _axes_to_attribute for name in ("Squeeze", "Unsqueeze")},
    **{(name, 13): _axis_alone for name in SOFTMAXES},
    **{(name, 11): _axes_from_front for name in WITH_AXES},
    **{(name, 12): extremum_12 for name in ("Max", "Min")},
    **{(name, 8): _one_shape for name in ("Max", "Mean", "Min", "Sum")},
    **{(name, 7): _sequence_output for name in ("RNN", "GRU", "LSTM")},
    ("Attention", 24): attention_24,
    ("Attention", 25): attention_25,
    ("AveragePool", 19): _average_pool_19,
    ("ArgMax", 12): arg_12,
    ("ArgMin", 12): arg_12,
    ("BatchNormalization", 7): _is_test,
    ("BatchNormalization", 14): _batch_normalization_14,
    ("BitShift", 28): bit_shift_28,
    ("Cast", 6): _cast_6,
    ("Clip", 11): _clip_11,
    ("Clip", 12): _clip_12,
    ("Constant", 9): _constant_9,
    ("Constant", 12): _constant_12,
    ("DepthToSpace", 11): _depth_to_space_11,
    ("DFT", 20): _dft_20,
    ("Dropout", 7): _is_test,
    ("Dropout", 10): _dropout_10,
    ("Dropout", 12): _dropout_12,
    ("Gemm", 7): _gemm_7,
    ("Gemm", 11): _gemm_11,
    ("GreaterOrEqual", 12): _or_equal("Greater"),
    ("GridSample", 20): _grid_sample_20,
    ("GroupNormalization", 21): _group_normalization_21,
    ("LessOrEqual", 12): _or_equal("Less"),
    ("GatherND", 12): gather_nd_12,
    ("GlobalLpPool", 2): _float_p,
    ("LpPool", 2): _float_p,
    ("LpPool", 18): _nothing,
    ("Mod", 28): mod_28,
    ("OneHot", 11): one_hot_11,
    ("OptionalGetElement", 18): _optional_get_element_18,
    ("OptionalHasElement", 18): _optional_has_element_18,
    ("PRelu", 7): _p_relu_7,
    ("Pad", 2): _pad_2,
    ("Pad", 11): _pad_11,
    ("Pad", 18): pad_18,
    ("Pad", 19): pad_19,
    ("DequantizeLinear", 13): per_axis(dequantize_linear),
    ("DequantizeLinear", 21): dequantize_linear_21,
    ("QuantizeLinear", 13): per_axis(quantize_linear),
    ("QuantizeLinear", 21): quantize_linear_21,
    ("QuantizeLinear", 23): _quantize_linear_23,
    ("Range", 27): _nothing,
    ("ReduceSum", 13): _reduce,
    ("Reshape", 5): _reshape_5,
    ("Reshape", 14): _reshape_14,
    ("Resize", 10): _resize_10,
    ("Resize", 11): _resize_11,
    ("Resize", 13): _resize_13,
    ("Resize", 18): resize_18,
    ("Resize", 19): _resize_19,
    ("RoiAlign", 16): _roi_align_16,
    ("Scan", 9): scan_to_8,
    ("ScatterElements", 11): _scatter_elements_11,
    ("ScatterElements", 18): _scatter_18,
    ("ScatterND", 18): _scatter_18,
    ("Shape", 15): _shape_15,
    ("Slice", 10): _slice_10,
    ("Split", 13): _split_13,
    ("Split", 18): _split_18,
    ("Tile", 6): _tile_6,
    ("TopK", 10): _top_k_10,
    ("Upsample", 7): _upsample_7,
    ("Upsample", 9): _upsample_9,
}
