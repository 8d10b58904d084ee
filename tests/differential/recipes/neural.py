"""Products of matrices, normalizations, resampling of images, and losses."""

import numpy as np

from tests.differential.draw import Draw, Parameter, Parts, i64
from tests.differential.recipes.registry import recipe


def matrices(d: Draw) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes that MatMul takes, vectors included."""
    m, k, n = d.size(), d.size(), d.size()
    first, second = d.broadcast(2, 2)
    a = (*first, m, k) if d.flag(0.8) else (k,)
    b = (*second, k, n) if d.flag(0.8) else (k,)
    return a, b


@recipe("MatMul")
def matmul(d: Draw) -> Parts:
    a, b = matrices(d)
    return Parts([d.tensor("T", a, -4, 4), d.tensor("T", b, -4, 4)], accumulates=True)


@recipe("MatMulInteger")
def matmul_integer(d: Draw) -> Parts:
    a, b = matrices(d)
    x, y = d.tensor("T1", a, -128, 255), d.tensor("T2", b, -128, 255)
    zero = d.tensor("T1", (a[-2],) if len(a) == 2 and d.flag(0.3) else (), -9, 99)
    other = d.tensor("T2", (b[-1],) if len(b) == 2 and d.flag(0.3) else (), -9, 99)
    return Parts([x, y, *d.pick([[], [zero], [zero, other], [None, other]])])


@recipe("QLinearMatMul")
def qlinear_matmul(d: Draw) -> Parts:
    m, k, n = d.size(empty=False), d.size(empty=False), d.size(empty=False)
    first, second = d.broadcast(2, 2, empty=False)
    scale = d.dtype("TS") if "TS" in d.types else np.dtype(np.float32)
    inputs = [
        d.tensor("T1", (*first, m, k), -128, 200),
        Parameter(d.tensor(scale, (), 0.01, 0.05)), Parameter(d.tensor("T1", (), -5, 99)),
        d.tensor("T2", (*second, k, n), -128, 200),
        Parameter(d.tensor(scale, (), 0.01, 0.05)), Parameter(d.tensor("T2", (), -5, 99)),
        Parameter(d.tensor(scale, (), 0.2, 1)), Parameter(d.tensor("T3", (), -5, 99)),
    ]  # fmt: skip
    return Parts(inputs)


@recipe("Gemm")
def gemm(d: Draw) -> Parts:
    m, k, n = d.size(), d.size(), d.size()
    flip_a, flip_b = d.int(0, 1), d.int(0, 1)
    a = d.tensor("T", (k, m) if flip_a else (m, k), -4, 4)
    b = d.tensor("T", (n, k) if flip_b else (k, n), -4, 4)
    named = {"transA": flip_a} if flip_a else {}
    named |= {"transB": flip_b} if flip_b else {}
    is_float = d.dtype("T").kind not in "iu"
    named |= d.attributes(alpha=d.real(-2, 2), beta=d.real(-2, 2)) if is_float else d.attributes(alpha=2.0, beta=-1.0)
    if d.since >= 11 and d.flag(0.3):
        return Parts([a, b], named, accumulates=True)
    if d.has("broadcast"):
        shape = d.pick([(m, n), (n,), ()])
        if d.flag(0.4):
            shape = (m, n)
        if shape != (m, n) or d.flag():
            named["broadcast"] = 1
    else:
        shape = d.part_of((m, n))
    return Parts([a, b, d.tensor("T", shape, -4, 4)], named, accumulates=True)


EQUATIONS = (
    ("ij,jk->ik", "ij", "jk"), ("ij->ji", "ij"), ("ii->i", "ii"), ("ij->", "ij"), ("i,j->ij", "i", "j"),
    ("bij,bjk->bik", "bij", "bjk"), ("...ij,...jk->...ik", "bij", "bjk"), ("ij,jk", "ij", "jk"), ("ii", "ii"),
    ("...ii->...i", "bii"), ("ab,cd,bc->ad", "ab", "cd", "bc"), (" i j , j k -> k i ", "ij", "jk"),
    ("bhqd,bhkd->bhqk", "bhqd", "bhkd"),
    ("i,->i", "i", ""), ("...,...->...", "ab", "ab"), ("ijk->kij", "ijk"), ("iji->j", "iji"),
)  # fmt: skip


@recipe("Einsum")
def einsum(d: Draw) -> Parts:
    equation, *terms = d.pick(EQUATIONS)
    sizes = {letter: d.size() for letter in sorted(set("".join(terms)))}
    shapes = [tuple(sizes[letter] for letter in term) for term in terms]
    return Parts([d.tensor("T", shape, -3, 3) for shape in shapes], {"equation": equation}, accumulates=True)


@recipe("BatchNormalization")
def batch_normalization(d: Draw) -> Parts:
    channels = d.int(1, 4)
    rank = d.pick([2, 3, 4, 5]) if d.since >= 7 else 4
    shape = (d.int(1, 3), channels, *(d.int(1, 3) for _ in range(rank - 2)))
    is_spatial = not (d.has("spatial") and d.flag(0.3))
    scale_type, stat_type = {1: ("T1", "T2")}.get(int(d.since >= 15), ("T", "U" if d.since >= 14 else "T"))
    sizes = (channels,) if is_spatial else shape[1:]
    inputs = [d.tensor("T", shape, -4, 4)]
    inputs += [Parameter(d.tensor(scale_type, sizes, -2, 2)) for _ in range(2)]
    inputs += [Parameter(d.tensor(stat_type, sizes, -2, 2)), Parameter(d.tensor(stat_type, sizes, 0.1, 2))]
    named = d.attributes(epsilon=d.pick([1e-5, 1e-3, 0.1]), momentum=d.pick([0.9, 0.5]))
    named |= d.exactly(is_test=1, consumed_inputs=[0, 0, 0, 1, 1]) | ({} if is_spatial else {"spatial": 0})
    outputs = 1
    if d.has("training_mode") and d.flag(0.4):
        named["training_mode"] = 1
        outputs = 3
    return Parts(inputs, named, outputs, accumulates=True)


@recipe("InstanceNormalization")
def instance_normalization(d: Draw) -> Parts:
    shape = (d.int(1, 3), d.int(1, 3), *d.shape(1, 3, empty=False))
    inputs = [
        d.tensor("T", shape, -4, 4),
        Parameter(d.tensor("T", shape[1:2], -2, 2)),
        Parameter(d.tensor("T", shape[1:2], -2, 2)),
    ]
    return Parts(inputs, d.attributes(epsilon=1e-3, consumed_inputs=[0, 0, 0]), accumulates=True)


@recipe("GroupNormalization")
def group_normalization(d: Draw) -> Parts:
    groups = d.int(1, 3)
    shape = (d.int(1, 2), groups * d.int(1, 3), *d.shape(1, 3, empty=False))
    count = groups if d.since < 21 else shape[1]
    inputs = [
        d.tensor("T", shape, -4, 4),
        Parameter(d.tensor("T", (count,), -2, 2)),
        Parameter(d.tensor("T", (count,), -2, 2)),
    ]
    return Parts(
        inputs, {"num_groups": groups} | d.attributes(epsilon=1e-3, stash_type=1), accumulates=True, precision="float32"
    )


@recipe("LayerNormalization", "RMSNormalization")
def layer_normalization(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape), since=1)
    is_rms = d.schema.name == "RMSNormalization"
    scale = d.part_of(shape[axis:]) if d.flag(0.3) else shape[axis:]
    inputs = [d.tensor("T", shape, -4, 4), Parameter(d.tensor("V" if is_rms else "T", scale, -2, 2))]
    if not is_rms and d.flag():
        inputs.append(Parameter(d.tensor("T", d.part_of(shape[axis:]), -2, 2)))
    named = d.attributes(epsilon=d.pick([1e-5, 1e-3]))
    if axis % len(shape) != len(shape) - 1 or d.flag():
        named["axis"] = axis
    if is_rms:
        return Parts(inputs, named, accumulates=True, precision="float32")
    # Of f64 too the statistics are f32.
    kinds = {1: "tensor(float)", 2: "tensor(float)"}
    outputs = d.pick([1, 1, 2, 3, ["out0", "", "out2"]])
    return Parts(inputs, named, outputs, kinds, accumulates=True, precision="float32")


@recipe("LRN")
def lrn(d: Draw) -> Parts:
    shape = (d.int(1, 2), d.int(1, 6), *d.shape(1, 3, empty=False))
    named = {"size": d.int(1, 5)} | d.attributes(alpha=d.real(0.01, 1), beta=d.real(0.3, 1), bias=d.real(0.5, 2))
    return Parts([d.tensor("T", shape, -4, 4)], named, accumulates=True)


@recipe("GridSample")
def grid_sample(d: Draw) -> Parts:
    rank = 2 if d.since < 20 else d.pick([2, 2, 3])
    n = d.int(1, 2)
    x = d.tensor("T1", (n, d.int(1, 2), *(d.int(1, 5) for _ in range(rank))), -9, 9)
    grid = d.tensor("T2", (n, *(d.int(1, 4) for _ in range(rank)), rank), -1.3, 1.3)
    modes = (
        ["bilinear", "nearest", "bicubic"] if d.since < 20 else ["linear", "nearest", *(["cubic"] if rank == 2 else [])]
    )
    named = d.attributes(padding_mode=d.pick(["zeros", "border", "reflection"]), align_corners=d.int(0, 1))
    is_float = x.dtype.kind in "fc" or x.dtype.name == "bfloat16"
    named |= d.attributes(mode=d.pick(modes)) if is_float else {"mode": "nearest"}
    return Parts([x, grid], named, accumulates=True)


@recipe("AffineGrid")
def affine_grid(d: Draw) -> Parts:
    rank = d.pick([2, 3])
    n = d.int(1, 2)
    theta = d.tensor("T1", (n, rank, rank + 1), -2, 2)
    size = i64([n, d.int(1, 3), *(d.int(1, 4) for _ in range(rank))])
    return Parts([theta, Parameter(size)], d.attributes(align_corners=d.int(0, 1)), accumulates=True)


def is_interpolated(dtype: np.dtype) -> bool:
    """Whether the type has a value between two others."""
    return dtype.kind not in "Ob"


@recipe("Upsample")
def upsample(d: Draw) -> Parts:
    x = d.tensor("T", (d.int(1, 2), d.int(1, 2), d.int(1, 4), d.int(1, 4)), -9, 9)
    scales = [d.pick([1.0, 2.0, 1.5, 3.0]) for _ in range(2)]
    mode = d.attributes(mode=d.pick(["nearest", "bilinear" if d.since == 1 else "linear"]))
    if not is_interpolated(x.dtype):
        mode = {}
    if d.since == 1:
        return Parts([x], mode | {"height_scale": scales[0], "width_scale": scales[1]})
    full = [1.0, 1.0, *scales]
    if d.since == 7:
        return Parts([x], mode | {"scales": full})
    return Parts([x, Parameter(np.array(full, np.float32))], mode)


@recipe("Resize")
def resize(d: Draw) -> Parts:
    shape = (d.int(1, 2), d.int(1, 2), d.int(2, 5), d.int(2, 5))
    x = d.tensor("T" if d.since == 10 else "T1", shape, -9, 9)
    scales = np.array([1, 1, *(d.pick([0.5, 0.6, 1, 1.5, 2, 3]) for _ in range(2))], np.float32)
    if d.since == 10:
        mode = d.pick(["nearest", "linear"]) if is_interpolated(x.dtype) else "nearest"
        return Parts([x, Parameter(scales)], d.attributes(mode=mode), accumulates=True)
    mode = d.pick(["nearest", "nearest", "linear", "cubic"]) if is_interpolated(x.dtype) else "nearest"
    coordinates = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize"]
    coordinates += ["tf_half_pixel_for_nn"] if d.since == 11 else []
    coordinates += ["half_pixel_symmetric"] if d.since >= 19 else []
    transform = d.pick(coordinates)
    named = d.attributes(
        mode=mode,
        nearest_mode=d.pick(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]),
        cubic_coeff_a=-0.5,
        exclude_outside=d.int(0, 1),
        extrapolation_value=0.25,
    )
    used = named.get("mode", "nearest")
    if d.flag(0.8) or transform == "tf_crop_and_resize":
        named["coordinate_transformation_mode"] = transform
    if used != "cubic" or transform == "tf_crop_and_resize":
        named.pop("exclude_outside", None)
    if d.flag(0.25) and used != "nearest" and named.get("coordinate_transformation_mode") != "tf_crop_and_resize":
        named |= d.exactly(antialias=1)
    axes = None
    if d.has("axes") and d.flag(0.3):
        axes = [2, 3]
        named["axes"] = axes
        scales = scales[2:]
    roi = None
    if named.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        first = [0] * (len(scales) - 2) + [0.1, 0.2]
        roi = Parameter(np.array([*first, *([1] * (len(scales) - 2)), 0.8, 0.9], d.dtype("T2")))
    if d.flag(0.4):
        target = [d.int(1, 8), d.int(1, 8)]
        if d.has("keep_aspect_ratio_policy") and d.flag(0.4) and axes:
            named["keep_aspect_ratio_policy"] = d.pick(["stretch", "not_larger", "not_smaller"])
        sizes = i64(target if axes else [*shape[:2], *target])
        if d.since == 11:
            return Parts(
                [x, roi or Parameter(np.zeros(0, d.dtype("T2"))), Parameter(np.zeros(0, np.float32)), Parameter(sizes)],
                named,
                accumulates=True,
            )
        return Parts([x, roi, None, Parameter(sizes)], named, accumulates=True)
    if d.since == 11:
        roi = roi or Parameter(np.zeros(0, d.dtype("T2")))
    return Parts([x, roi, Parameter(scales)], named, accumulates=True)


@recipe("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(d: Draw) -> Parts:
    classes, extra = d.int(2, 5), d.shape(0, 2, empty=False)
    n = d.int(1, 4)
    x = d.tensor("T", (n, classes, *extra), -4, 2)
    target = d.tensor("Tind", (n, *extra), 0, classes - 1)
    weight = [Parameter(d.tensor("T", (classes,), 0.1, 2))] if d.flag() else []
    named = d.attributes(reduction=d.pick(["none", "mean", "sum"]))
    if d.flag(0.4):
        named["ignore_index"] = d.int(-1, classes - 1)
        if named["ignore_index"] == -1:
            target.reshape(-1)[0] = -1
        elif (target == named["ignore_index"]).all():
            target.reshape(-1)[0] = (named["ignore_index"] + 1) % classes
    outputs = d.int(1, len(d.schema.outputs))
    return Parts([x, target, *weight], named, outputs, accumulates=True)
