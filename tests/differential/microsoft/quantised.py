"""Recipes: quantised operators.

ONNX Runtime multiplies by reciprocals and looks up tables: where a result lies between two integers by such rounding,
`steps` allows 1.
"""

import numpy as np

from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe

I8, U8 = np.dtype(np.int8), np.dtype(np.uint8)


def parameters(draw: Draw, *names: str) -> Operands:
    """A scale and a zero point for each name."""
    made: Operands = {}
    for name in names:
        made |= {f"{name}_scale": draw.scale(), f"{name}_zero": draw.zero()}
    return made


def ordered(inputs: Operands, *names: str) -> Operands:
    return {name: inputs[name] for name in names}


def but(inputs: Operands, *names: str) -> list[str]:
    """The names of all operands that are there but these."""
    return [name for name, value in inputs.items() if value is not None and name not in names]


@recipe("QLinearAdd", "QLinearMul")
def quantised_sum(draw: Draw) -> Parts:
    shape = draw.shape(1, 3)
    other = draw.pick(shape, shape[-1:], (1,))
    given = parameters(draw, "a", "b", "c") | {"a": draw.all_of(*shape), "b": draw.all_of(*other)}
    given["c_scale"] = np.array(1.0 if draw.operator == "QLinearAdd" else 64.0, np.float32)
    names = ("a", "a_scale", "a_zero", "b", "b_scale", "b_zero", "c_scale", "c_zero")
    return Parts(ordered(given, *names), free=["a"], constants=but(given, "a", "b"), steps=1)


@recipe("QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax")
def quantised_activation(draw: Draw) -> Parts:
    inputs = {"x": draw.all_of(*draw.shape(1, 3))} | parameters(draw, "x", "y")
    attributes: dict[str, object] = {}
    if draw.operator == "QLinearLeakyRelu":
        attributes["alpha"] = draw.pick(0.1, 0.3)
    else:
        # By a scale of 1/256 a result of 1 would be 256, which ONNX Runtime's Softmax of u8 wraps to 0.
        inputs["y_scale"], inputs["x_scale"] = np.array(1 / 128, np.float32), np.array(0.05, np.float32)
        inputs["y_zero"] = np.array(0 if draw.dtype == U8 else -128, draw.dtype)
    if draw.operator == "QLinearSoftmax":
        attributes = {"opset": draw.pick(11, 13), "axis": -1}
    return Parts(inputs, attributes, constants=but(inputs, "x"), steps=1, free=["x"])


@recipe("QLinearWhere")
def quantised_choice(draw: Draw) -> Parts:
    shape = draw.shape(1, 3)
    given = parameters(draw, "x", "y", "z")
    given |= {"c": draw.integers(0, 2, *shape, dtype=np.bool_), "x": draw.all_of(*shape)}
    given["other"] = draw.all_of(shape[-1])
    names = ("c", "x", "x_scale", "x_zero", "other", "y_scale", "y_zero", "z_scale", "z_zero")
    return Parts(ordered(given, *names), constants=but(given, "c", "x", "other"), steps=1)


@recipe("QLinearConcat")
def quantised_concat(draw: Draw) -> Parts:
    shape = draw.shape(1, 3)
    axis = draw.size(0, len(shape) - 1)
    given = parameters(draw, "y", "a", "b") | {"a": draw.all_of(*shape)}
    given["b"] = draw.all_of(*(draw.size() if index == axis else n for index, n in enumerate(shape)))
    names = ("y_scale", "y_zero", "a", "a_scale", "a_zero", "b", "b_scale", "b_zero")
    inputs = ordered(given, *names)
    return Parts(inputs, {"axis": axis}, constants=but(given, "a", "b"), steps=1)


def image(draw: Draw, channels: int, *, is_last: bool) -> np.ndarray:
    h, w = draw.size(4, 7), draw.size(4, 7)
    return draw.all_of(draw.size(1, 2), *((h, w, channels) if is_last else (channels, h, w)))


@recipe("QLinearAveragePool", "QLinearGlobalAveragePool")
def quantised_pool(draw: Draw) -> Parts:
    is_last = draw.flag()
    inputs = {"x": image(draw, 3, is_last=is_last)} | parameters(draw, "x", "y")
    attributes: dict[str, object] = {"channels_last": int(is_last)}
    if draw.operator == "QLinearAveragePool":
        attributes |= {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [draw.pick(1, 2)] * 2}
        attributes["count_include_pad"] = draw.pick(0, 1)
    return Parts(inputs, attributes, constants=but(inputs, "x"), steps=1)


@recipe("NhwcMaxPool")
def last_max_pool(draw: Draw) -> Parts:
    attributes = {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [draw.pick(1, 2)] * 2}
    return Parts({"x": image(draw, 3, is_last=True)}, {**attributes})


@recipe("QLinearReduceMean")
def quantised_reduction(draw: Draw) -> Parts:
    inputs = {"x": draw.all_of(3, 4)} | parameters(draw, "x", "y")
    return Parts(inputs, {"axes": [1], "keepdims": draw.pick(0, 1)}, steps=1)


@recipe("QLinearConv")
def quantised_convolution(draw: Draw) -> Parts:
    is_last, group = draw.flag(), draw.pick(1, 2)
    given = parameters(draw, "x", "y") | {"x": image(draw, 4, is_last=is_last)}
    given |= {"w": draw.weights(6, 4 // group, 3, 3, dtype=I8), "w_scale": np.full(6, draw.scale())}
    given |= {"w_zero": np.zeros(6, np.int8), "y_scale": np.array(64.0, np.float32)}
    given["b"] = draw.integers(-100, 100, 6) if draw.flag() else None
    names = ("x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "y_zero", "b")
    attributes = {"channels_last": int(is_last), "group": group, "pads": [1, 1, 1, 1]}
    return Parts(ordered(given, *names), {**attributes}, constants=but(given, "x"), steps=1)


@recipe("QGemm")
def quantised_gemm(draw: Draw) -> Parts:
    m, k, n, turned = draw.size(), draw.size(), draw.size(), draw.flag()
    is_float, per_column = draw.flag(), draw.flag()
    b_type = U8 if draw.dtype == U8 and draw.flag() else I8
    inputs: Operands = {
        "a": draw.all_of(m, k),
        "a_scale": draw.scale(),
        "a_zero": draw.zero(),
        "b": draw.weights(*((n, k) if turned else (k, n)), dtype=b_type),
        "b_scale": np.full(n, draw.scale()) if per_column else draw.scale(),
        "b_zero": np.zeros(n, b_type) if per_column else draw.zero(b_type),
        "c": draw.integers(-1000, 1000, n) if draw.flag() else None,
    }
    if not is_float:
        inputs |= {"y_scale": np.array(64.0, np.float32), "y_zero": draw.zero()}
    return Parts(inputs, {"transB": int(turned)}, constants=but(inputs, "a"), free=["a"], steps=1)


@recipe("MatMulIntegerToFloat", "DynamicQuantizeMatMul")
def scaled_product(draw: Draw) -> Parts:
    m, k, n, per_column = draw.size(), draw.size(2), draw.size(), draw.flag()
    is_dynamic = draw.operator == "DynamicQuantizeMatMul"
    b_type = draw.pick(I8, U8) if is_dynamic or draw.dtype == U8 else I8
    scale = np.full(n, draw.scale()) if per_column else draw.scale()
    given: Operands = {
        "a": draw.floats(m, k) if is_dynamic else draw.all_of(m, k),
        "a_scale": draw.scale(),
        "a_zero": None if is_dynamic else draw.zero(),
        "b": draw.weights(k, n, dtype=b_type),
        "b_scale": scale,
        "b_zero": np.full(n, draw.zero(b_type)) if per_column else draw.zero(b_type),
        "bias": draw.floats(n) if draw.flag() else None,
    }
    long = ("a", "b", "a_scale", "b_scale", "a_zero", "b_zero", "bias")
    inputs = ordered(given, *(("a", "b", "b_scale", "b_zero", "bias") if is_dynamic else long))
    return Parts(inputs, constants=but(inputs, "a"), free=["a"])


@recipe("MatMulInteger16")
def wide_product(draw: Draw) -> Parts:
    low = 0 if draw.dtype.kind == "u" else -99
    k = draw.size()
    kind = draw.dtype.type
    return Parts({"a": draw.integers(low, 99, 3, k, dtype=kind), "b": draw.integers(low, 99, k, 4, dtype=kind)})


@recipe("MulInteger")
def integer_product(draw: Draw) -> Parts:
    shape = draw.shape()
    return Parts({"a": draw.all_of(*shape), "az": draw.zero(), "b": draw.all_of(*shape), "bz": draw.zero()})


@recipe("QuantizeLinear", "DequantizeLinear")
def linear(draw: Draw) -> Parts:
    is_float = draw.dtype.kind == "f"
    kind = draw.pick(U8, I8, np.dtype(np.uint16), np.dtype(np.int16)) if is_float else draw.dtype
    shape, axis = draw.shape(1, 3), None if draw.flag() else -1
    count = () if axis is None else shape[axis:]
    x = draw.floats(*shape, scale=20) if is_float else draw.all_of(*shape)
    low = 0 if kind.itemsize > 2 else draw.size(0, 9)
    scale = np.asarray(draw.rng.choice([0.25, 0.5, 1.0], count)).astype(draw.dtype if is_float else np.float32)
    inputs: Operands = {"x": x, "scale": scale, "zero": np.full(count, low, kind)}
    return Parts(inputs, {} if axis is None else {"axis": axis}, free=["x"] if axis is None else [])


@recipe("QEmbedLayerNormalization")
def quantised_embedding(draw: Draw) -> Parts:
    names = ("word", "position", "segment", "gamma", "beta")
    rows = {"word": (10, 8), "position": (6, 8), "segment": (2, 8), "gamma": (8,), "beta": (8,)}
    given = [name for name in names if name != "segment" or draw.flag()]
    b, s = draw.size(), draw.size()

    # ONNX Runtime's kernel takes tables of u8 alone.
    inputs: Operands = {
        "ids": draw.integers(0, 10, b, s),
        "segments": draw.integers(0, 2, b, s) if "segment" in given else None,
        **{name: draw.all_of(*rows[name], dtype=U8) if name in given else None for name in names},
        "mask": draw.integers(0, 2, b, s) if draw.flag() else None,
        **{f"{name}_scale": np.array(0.05, np.float32) if name in given else None for name in names},
        **{f"{name}_zero": draw.zero(U8) if name in given else None for name in names},
    }
    return Parts(inputs, {"epsilon": 1e-5}, outputs=["y", "index"])
