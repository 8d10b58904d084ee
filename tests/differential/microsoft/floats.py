"""Recipes: activations, products, convolutions and normalisations."""

import numpy as np

from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe

ACTIVATIONS: dict[str, dict[str, object]] = {
    "Relu": {}, "Sigmoid": {}, "Tanh": {}, "LeakyRelu": {"activation_alpha": 0.25},
    "HardSigmoid": {"activation_alpha": 0.3, "activation_beta": 0.4},
}  # fmt: skip
PARAMETERS = {"LeakyRelu": [0.25], "HardSigmoid": [0.3, 0.4]}


@recipe("Gelu", "QuickGelu")
def activation(draw: Draw) -> Parts:
    x = draw.floats(*draw.shape(0, 4), scale=3)
    alpha = {"alpha": draw.pick(1.0, -2.0, 1.702)} if draw.operator == "QuickGelu" and draw.flag() else {}
    return Parts({"x": x}, {**alpha}, free=["x"])


@recipe("BiasGelu", "FastGelu", "BiasAdd", "BiasSplitGelu")
def biased(draw: Draw) -> Parts:
    shape = draw.shape(1, 4) if draw.operator in ("BiasGelu", "FastGelu") else (draw.size(), draw.size(), 8)
    inputs: Operands = {"x": draw.floats(*shape), "bias": draw.floats(shape[-1])}
    if draw.operator == "FastGelu" and draw.flag(0.3):
        inputs["bias"] = None
    if draw.operator == "BiasAdd":
        inputs["skip"] = draw.floats(*shape)
    # ONNX Runtime computes the tangent of FastGelu in f32, whatever the type is.
    return Parts(inputs, tolerance=2.0**-14 if draw.operator == "FastGelu" and draw.dtype == np.float64 else 0.0)


@recipe("BiasSoftmax")
def bias_softmax(draw: Draw) -> Parts:
    shape = draw.size(), draw.size(), draw.size(), draw.size()
    inner = draw.flag()
    bias = (shape[0], 1, 1, shape[3]) if inner else (1, 1, shape[2], shape[3])
    return Parts({"x": draw.floats(*shape), "bias": draw.floats(*bias)}, {"axis": 3, "is_inner_broadcast": int(inner)})


# Products


@recipe("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation")
def matrix_product(draw: Draw) -> Parts:
    batch, m, k, n = draw.shape(0, 2), draw.size(), draw.size(), draw.size()
    turned = draw.flag(), draw.flag()
    a = draw.floats(*batch, *((k, m) if turned[0] else (m, k)))
    b = draw.floats(*(batch if draw.flag() else ()), *((n, k) if turned[1] else (k, n)))
    attributes: dict[str, object] = {"transA": int(turned[0]), "transB": int(turned[1])}
    attributes["alpha"] = draw.pick(1.0, 0.125, -2.0)
    if draw.operator == "FusedMatMulActivation":
        attributes["activation"] = draw.pick("Relu", "Sigmoid", "Tanh")
    return Parts({"a": a, "b": b}, attributes, free=["a", "b"])


@recipe("FusedGemm")
def fused_gemm(draw: Draw) -> Parts:
    m, k, n, turned = draw.size(), draw.size(), draw.size(), draw.flag()
    c = draw.pick((n,), (m, n), (1, n), (m, 1), None)
    inputs: Operands = {
        "a": draw.values(m, k),
        "b": draw.values(*((n, k) if turned else (k, n))),
        "c": None if c is None else draw.values(*c),
    }
    name = draw.pick(*ACTIVATIONS)
    attributes = {"activation": name, "transB": int(turned), **ACTIVATIONS[name]}
    return Parts(inputs, {**attributes, "alpha": 0.5, "beta": draw.pick(1.0, 2.0)}, free=["a"])


@recipe("GemmFastGelu")
def gemm_fast_gelu(draw: Draw) -> Parts:
    k, n = draw.size(), draw.size()
    return Parts({"x": draw.floats(draw.size(), k), "w": draw.floats(k, n), "bias": draw.floats(n)})


# Convolutions


@recipe("FusedConv", "NhwcConv", "NhwcFusedConv")
def convolution(draw: Draw) -> Parts:
    is_last, group, n = draw.operator.startswith("Nhwc"), draw.pick(1, 2), draw.size(1, 2)
    x = draw.floats(n, 4, draw.size(5, 8), draw.size(5, 8))
    w = draw.floats(6, 4 // group, 3, 3)
    inputs: Operands = {"x": x, "w": w, "b": draw.floats(6) if draw.flag() else None}
    attributes: dict[str, object] = {"group": group, "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]}
    if draw.operator != "NhwcConv":
        name = draw.pick(*ACTIVATIONS)
        attributes["activation"] = name
        attributes |= {"activation_params": PARAMETERS[name]} if name in PARAMETERS else {}
        if draw.flag():
            inputs["z"] = draw.floats(n, 6, *x.shape[2:])
    if is_last:
        turned = ("x", "w", "z") if draw.operator == "NhwcConv" else ("x", "z")
        inputs |= {name: inputs[name].transpose(0, 2, 3, 1).copy() for name in turned if inputs.get(name) is not None}  # type: ignore[union-attr]
    return Parts(inputs, attributes)


@recipe("ConvTransposeWithDynamicPads")
def transposed_convolution(draw: Draw) -> Parts:
    pads = draw.integers(0, 2, 4, dtype=np.int64)
    inputs: Operands = {
        "x": draw.floats(draw.size(1, 2), 3, draw.size(3), draw.size(3)),
        "w": draw.floats(3, 2, 3, 3),
        "pads": pads,
        "b": draw.floats(2) if draw.flag() else None,
    }
    return Parts(inputs, {"strides": [draw.pick(1, 2)] * 2}, constants=["pads"])


# Normalisations


@recipe("LayerNormalization", "SimplifiedLayerNormalization")
def layer_normalization(draw: Draw) -> Parts:
    shape = draw.shape(2, 4)
    axis = -draw.size(1, len(shape))
    inputs: Operands = {"x": draw.floats(*shape), "scale": draw.floats(*shape[axis:])}
    if draw.operator == "LayerNormalization" and draw.flag():
        inputs["bias"] = draw.floats(*shape[axis:])
    # f16 of one element, or near equal ones: what is divided by a small deviation is rounding.
    return Parts(inputs, {"axis": axis, "epsilon": 0.1}, opset=13)


@recipe("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")
def skip_normalization(draw: Draw) -> Parts:
    b, s, width = draw.size(), draw.size(), 8 * draw.size(1, 3)
    inputs: Operands = {
        "x": draw.floats(b, s, width),
        "skip": draw.floats(*draw.pick((b, s, width), (1, s, width), (s, width))),
        "gamma": draw.floats(width),
    }
    if draw.operator == "SkipLayerNormalization":
        inputs["beta"] = draw.floats(width) if draw.flag() else None
    if draw.flag():
        inputs["bias"] = draw.floats(width)
    outputs = draw.pick(("y",), ("y", "", "", "sum"))
    return Parts(inputs, {"epsilon": draw.pick(1e-5, 0.1)}, outputs=outputs)


@recipe("EmbedLayerNormalization")
def embedding(draw: Draw) -> Parts:
    b, s, width, has_segments = draw.size(), draw.size(), 8, draw.flag()
    inputs: Operands = {
        "ids": draw.integers(0, 10, b, s),
        "segments": draw.integers(0, 2, b, s) if has_segments else None,
        "word": draw.floats(10, width),
        "position": draw.floats(6, width),
        "segment": draw.floats(2, width) if has_segments else None,
        "gamma": draw.floats(width),
        "beta": draw.floats(width),
        "mask": draw.integers(0, 2, b, s) if draw.flag() else None,
    }
    if draw.flag():
        inputs["positions"] = draw.integers(0, 6, b, s)
    return Parts(inputs, {"mask_index_type": 1}, outputs=["y", "index", "sum"])


@recipe("GroupNorm", "SkipGroupNorm")
def group_norm(draw: Draw) -> Parts:
    shape = draw.size(1, 2), draw.size(), draw.size(), 8
    inputs: Operands = {"x": draw.floats(*shape), "gamma": draw.floats(8), "beta": draw.floats(8)}
    if draw.operator == "SkipGroupNorm":
        inputs |= {"skip": draw.floats(*shape), "bias": draw.floats(8)}
    return Parts(inputs, {"groups": draw.pick(1, 2, 4), "activation": draw.pick(0, 1)})
