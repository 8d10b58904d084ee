"""Operators that move elements, or tell shapes: their values are exact."""

from math import prod

import numpy as np
from onnx import numpy_helper

from tests.differential.draw import Draw, Parameter, Parts, Shape, i64
from tests.differential.kinds import NAMES_TO_NUMBERS, kind_of, sparse_tensor
from tests.differential.recipes.registry import recipe


def data(d: Draw, shape: Shape, constraint: str = "T") -> np.ndarray:
    return d.tensor(constraint, shape, special=0.2)


@recipe("Shape", "Size", "NonZero", "Det")
def described(d: Draw) -> Parts:
    shape = d.shape()
    if d.schema.name == "Det":
        size = d.int(1, 4)
        return Parts([d.tensor("T", (*d.shape(0, 2), size, size), -2, 2)], accumulates=True)
    if d.schema.name == "NonZero":
        return Parts([d.tensor("T", d.shape(1, 4), -1, 1)])
    bounds = {"start": d.int(-6, 6), "end": d.int(-6, 6)}
    return Parts([data(d, shape)], d.attributes(**bounds))


@recipe("Reshape")
def reshape(d: Draw) -> Parts:
    shape = d.shape()
    x = data(d, shape)
    target = [*factors(d, x.size)] if x.size else list(shape)
    named = d.exactly(allowzero=1) if 0 in target else d.attributes(allowzero=0)
    if x.size:
        for place in range(min(len(target), len(shape))):
            if target[place] == shape[place] and d.flag(0.3) and not named.get("allowzero"):
                target[place] = 0
        if target and d.flag(0.4):
            target[d.int(0, len(target) - 1)] = -1
    elif 0 in shape and not d.has("allowzero"):
        target = [0 if size == 0 else size for size in shape]
    if d.has("shape"):
        return Parts([x], {"shape": target} | (d.exactly(consumed_inputs=[0]) if d.flag(0.3) else {}))
    return Parts([x, Parameter(i64(target))], named)


def factors(d: Draw, count: int) -> list[int]:
    """Sizes whose product is `count`."""
    sizes = []
    while count > 1 and d.flag(0.8):
        factor = d.pick([n for n in range(1, count + 1) if count % n == 0])
        sizes.append(factor)
        count //= factor
    return sizes if count == 1 else [*sizes, count]


@recipe("Transpose")
def transpose(d: Draw) -> Parts:
    shape = d.shape()
    perm = [int(i) for i in d.rng.permutation(len(shape))]
    return Parts([data(d, shape)], {"perm": perm} if d.flag(0.8) else {})


@recipe("Flatten")
def flatten(d: Draw) -> Parts:
    shape = d.shape(1 if d.since < 9 else 0, 5)
    axis = d.int(-len(shape) if d.since >= 11 else 0, len(shape))
    return Parts([data(d, shape)], {"axis": axis} if (d.flag(0.8) and len(shape)) or not shape else {})


@recipe("Squeeze")
def squeeze(d: Draw) -> Parts:
    shape = tuple(1 if d.flag(0.4) else size for size in d.shape())
    ones = [axis for axis, size in enumerate(shape) if size == 1]
    axes = (
        [axis - len(shape) if d.since >= 11 and d.flag() else axis for axis in d.sample(ones, d.int(1, len(ones)))]
        if ones and d.flag(0.7)
        else None
    )
    if d.has("axes"):
        return Parts([data(d, shape)], {"axes": axes} if axes else {})
    return Parts([data(d, shape), *([Parameter(i64(axes))] if axes else [])])


@recipe("Unsqueeze")
def unsqueeze(d: Draw) -> Parts:
    shape = d.shape(0, 3)
    rank = len(shape) + d.int(1, 3)
    axes = d.sample(range(rank), rank - len(shape))
    axes = [axis - rank if d.since >= 11 and d.flag() else axis for axis in axes]
    if d.has("axes"):
        return Parts([data(d, shape)], {"axes": axes if d.since >= 11 else sorted(axes)})
    return Parts([data(d, shape), Parameter(i64(axes))])


@recipe("Expand")
def expand(d: Draw) -> Parts:
    first, second = d.broadcast(2)
    return Parts([data(d, first), Parameter(i64(second))])


@recipe("Tile")
def tile(d: Draw) -> Parts:
    if d.since == 1:
        shape = d.shape(1, 4)
        dtype = d.dtype("T")
        return Parts(
            [
                data(d, shape),
                Parameter(np.array(d.int(1, 3), dtype)),
                Parameter(np.array(d.int(0, len(shape) - 1), dtype)),
            ]
        )
    shape = d.shape(0, 4)
    return Parts([data(d, shape), Parameter(i64([d.int(0, 3) for _ in shape]))])


@recipe("Concat")
def concat(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    axis = d.axis(len(shape))
    if d.since == 1 and d.flag(0.3) and len(shape) > 1:
        axis = 1
    shapes = [
        [d.size() if i == axis % len(shape) else size for i, size in enumerate(shape)] for _ in range(d.int(1, 4))
    ]
    return Parts([data(d, tuple(s)) for s in shapes], {} if d.since == 1 and axis == 1 else {"axis": axis})


@recipe("Split")
def split(d: Draw) -> Parts:
    count = d.int(1, 4)
    shape = list(d.shape(1, 4))
    axis = d.axis(len(shape), since=2)
    is_equal = d.flag(0.4)
    sizes = [d.size()] * count if is_equal else [d.size() for _ in range(count)]
    if "num_outputs" in d.schema.attributes and is_equal:
        size = d.size()
        each = -(-size // count)
        sizes = [each] * (count - 1) + [size - each * (count - 1)]
        if sizes[-1] < 0 or (size == 0 and count > 1):
            sizes = [2] * count
    shape[axis] = sum(sizes)
    x = data(d, tuple(shape))
    named: dict[str, object] = {"axis": axis} if axis or d.flag() else {}
    if is_equal and (d.has("num_outputs") or d.flag()):
        return Parts([x], named | d.exactly(num_outputs=count), count)
    if d.since == 1 and d.flag():
        return Parts([x, Parameter(np.array(sizes, d.dtype("T")))], named, count)
    if d.has("split"):
        return Parts([x], named | {"split": sizes}, count)
    return Parts([x, Parameter(i64(sizes))], named, count)


@recipe("Slice")
def slice_axes(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    axes = d.axes(len(shape), 1, since=10)
    if d.flag(0.3):
        axes = list(range(d.int(1, len(shape))))
    has_steps = d.since >= 10 and d.flag()
    steps = [d.pick([1, 1, 2, 3, -1, -2]) if has_steps else 1 for _ in axes]
    far = d.pick([7, 7, 2**31 - 1, 2**63 - 1])
    starts = [d.pick([d.int(-7, 7), 0, far if step < 0 else 0]) for step in steps]
    ends = [d.pick([d.int(-7, 7), far if step > 0 else -far]) for step in steps]
    if d.since < 10:
        named: dict[str, object] = {"starts": starts, "ends": ends}
        return Parts([data(d, shape)], named if axes == list(range(len(axes))) and d.flag() else named | {"axes": axes})
    dtype = d.dtype("Tind")
    if dtype == np.int32:
        starts, ends = (np.clip(np.array(v, np.int64), -(2**31), 2**31 - 1).tolist() for v in (starts, ends))
    given = [data(d, shape), *(Parameter(np.array(v, dtype)) for v in (starts, ends))]
    without = axes == list(range(len(axes))) and d.flag()
    if has_steps:
        return Parts([*given, None if without else Parameter(np.array(axes, dtype)), Parameter(np.array(steps, dtype))])
    return Parts(given if without else [*given, Parameter(np.array(axes, dtype))])


@recipe("Pad")
def pad(d: Draw) -> Parts:
    mode = d.pick(["constant", "constant", "reflect", "edge", *(["wrap"] if d.since >= 19 else [])])
    shape = d.shape(1, 4, empty=mode == "constant")
    axes = d.axes(len(shape), 1) if d.takes("axes") and d.flag() else None
    used = shape if axes is None else tuple(shape[axis] for axis in axes)
    most = {"constant": 3, "edge": 3, "reflect": 2, "wrap": 2}[mode]
    low = 0 if mode != "constant" or d.flag() else -1
    amounts = [[d.int(low, min(most, size - 1) if mode in ("reflect",) else most) for size in used] for _ in range(2)]
    if low < 0:
        amounts = [[max(a, -(size // 2)) for a, size in zip(side, used, strict=True)] for side in amounts]
    pads = [*amounts[0], *amounts[1]]
    x = data(d, shape)
    named = {"mode": mode} if mode != "constant" or d.flag() else {}
    if not d.takes("pads"):
        return Parts([x], named | d.exactly(pads=pads, paddings=pads) | d.attributes(value=d.real(-3, 3)))
    value = Parameter(d.tensor("T", (), -3, 3)) if d.flag() else None
    if axes is None:
        return Parts([x, Parameter(i64(pads)), *([value] if value else [])], named)
    return Parts([x, Parameter(i64(pads)), value, Parameter(np.array(axes, d.dtype("Tind")))], named)


@recipe("CenterCropPad")
def center_crop_pad(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    axes = d.axes(len(shape), 1) if d.flag() else None
    target = [d.size() for _ in (shape if axes is None else axes)]
    named = {} if axes is None else {"axes": axes}
    return Parts([data(d, shape), Parameter(np.array(target, d.dtype("Tind")))], named)


@recipe("DepthToSpace", "SpaceToDepth")
def blocks(d: Draw) -> Parts:
    block = d.int(1, 3)
    n, c, h, w = (d.size(empty=False) for _ in range(4))
    shape = (n, c * block**2, h, w) if d.schema.name == "DepthToSpace" else (n, c, h * block, w * block)
    return Parts([data(d, shape)], {"blocksize": block} | d.attributes(mode=d.pick(["DCR", "CRD"])))


@recipe("Trilu")
def trilu(d: Draw) -> Parts:
    k = [Parameter(np.array(d.int(-4, 4)))] if d.flag(0.6) else []
    return Parts([data(d, (*d.shape(0, 2), d.size(), d.size())), *k], d.attributes(upper=d.int(0, 1)))


@recipe("EyeLike")
def eye_like(d: Draw) -> Parts:
    x = d.tensor("T1", (d.size(), d.size()))
    named = d.attributes(k=d.int(-3, 3))
    if d.flag():
        return Parts([x], named | {"dtype": NAMES_TO_NUMBERS[d.dtype("T2")]})
    return Parts([x], named, kinds={0: kind_of(x)})


@recipe("ConstantOfShape")
def constant_of_shape(d: Draw) -> Parts:
    shape = Parameter(i64(d.shape()))
    if d.flag(0.2):
        return Parts([shape], kinds={0: "tensor(float)"})
    return Parts([shape], {"value": numpy_helper.from_array(d.tensor("T2", (1,), special=0.2), "value")})


@recipe("Constant")
def constant(d: Draw) -> Parts:
    if d.has("sparse_value") and d.flag(0.15):
        dims = [d.int(1, 4) for _ in range(d.int(1, 2))]
        places = np.sort(d.rng.permutation(prod(dims))[: d.int(0, prod(dims))]).astype(np.int64)
        sparse = sparse_tensor(d.tensor("float", places.shape, 1, 5), places, dims)
        return Parts([], {"sparse_value": sparse}, kinds={0: "tensor(float)"})
    kinds = [name for name in d.schema.attributes if name not in ("value", "sparse_value")]
    if kinds and d.flag(0.3):
        name = d.pick(sorted(kinds))
        count = d.int(0, 3)
        base = name.removeprefix("value_").rstrip("s")
        values = {
            "int": [d.int(-9, 9) for _ in range(count)],
            "float": [d.real(-3, 3) for _ in range(count)],
            "string": ["a", "", "ü"][:count],
        }[base]
        kind = {"int": "tensor(int64)", "float": "tensor(float)", "string": "tensor(string)"}[base]
        one = {"int": 7, "float": 0.25, "string": "hello"}[base]
        if name.endswith("s") and not values:
            values = [one]
        return Parts([], {name: values if name.endswith("s") else one}, kinds={0: kind})
    return Parts([], {"value": numpy_helper.from_array(data(d, d.shape()), "value")})


@recipe("Range")
def range_of(d: Draw) -> Parts:
    delta = d.pick([1, 2, 3, -1, -2])
    start = d.int(-5, 5)
    limit = start + delta * d.int(0, 6) + d.int(-1, 1)
    scale = 0.5 if d.dtype("T").kind == "f" and d.flag() else 1
    values = [np.array(v * scale).astype(d.dtype("T")) for v in (start, limit, delta)]
    return Parts([Parameter(v) for v in values], d.attributes(stash_type=1))


@recipe("Compress")
def compress(d: Draw) -> Parts:
    shape = d.shape(1, 4)
    axis = d.axis(len(shape)) if d.flag(0.6) else None
    most = prod(shape) if axis is None else shape[axis]
    return Parts(
        [data(d, shape), Parameter(d.tensor("bool", (d.int(0, most),)))], {} if axis is None else {"axis": axis}
    )


@recipe("ReverseSequence")
def reverse_sequence(d: Draw) -> Parts:
    shape = d.shape(2, 4, empty=False)
    batch = d.int(0, 1)
    lengths = [d.int(1, shape[1 - batch]) for _ in range(shape[batch])]
    named = {"batch_axis": batch, "time_axis": 1 - batch} if batch == 0 or d.flag() else {}
    return Parts([data(d, shape), Parameter(i64(lengths))], named)


@recipe("Unique")
def unique(d: Draw) -> Parts:
    shape = d.shape(1, 3, empty=False)
    x = d.tensor("X" if False else "T", shape, -2, 3)
    if x.dtype.kind == "f":
        x = np.round(x)
    names = ["out0", *(f"out{i}" if d.flag() else "" for i in (1, 2, 3))]
    while names[-1] == "":
        names.pop()
    return Parts([x], d.attributes(sorted=d.int(0, 1), axis=d.axis(len(shape))), names)


@recipe("TopK")
def top_k(d: Draw) -> Parts:
    shape = d.shape(1, 4, empty=False)
    axis = d.axis(len(shape))
    x = d.tensor("T", shape, -9, 9)
    k = d.int(1 if d.since == 1 else 0, shape[axis])
    named = d.attributes(largest=d.int(0, 1)) | ({"axis": axis} if axis not in (-1, len(shape) - 1) or d.flag() else {})
    return Parts([x], named | {"k": k}, 2) if d.since == 1 else Parts([x, Parameter(i64([k]))], named, 2)


@recipe("Col2Im")
def col2im(d: Draw) -> Parts:
    spatial = d.int(1, 3)
    image = [d.int(3, 6) for _ in range(spatial)]
    block = [d.int(1, 2) for _ in range(spatial)]
    strides = [d.int(1, 2) for _ in range(spatial)]
    dilations = [d.int(1, 2) for _ in range(spatial)]
    pads = [d.int(0, 1) for _ in range(2 * spatial)]
    given = {"strides": strides, "dilations": dilations, "pads": pads}
    ones = {"strides": [1] * spatial, "dilations": [1] * spatial, "pads": [0] * (2 * spatial)}
    kept = {name: value for name, value in given.items() if d.flag()}
    used = ones | kept
    count = prod(
        (image[i] + used["pads"][i] + used["pads"][i + spatial] - used["dilations"][i] * (block[i] - 1) - 1)
        // used["strides"][i]
        + 1
        for i in range(spatial)
    )
    kind = "float" if d.dtype("T").kind == "O" else "T"
    x = d.tensor(kind, (d.int(1, 2), d.int(1, 2) * prod(block), count), -5, 5)
    return Parts([x, Parameter(i64(image)), Parameter(i64(block))], dict(kept), kinds={0: kind_of(x)}, accumulates=True)
