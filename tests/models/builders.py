"""Small seeded models of the kinds that exporters write, with symbolic sizes; no torch needed.

Each builder has the shape of a known architecture at a fraction of its width; `writer.py` knows the patterns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from onnx import ModelProto

from benchmarks.inputs import InputSpec
from tests.models.writer import SizeOf, Style, Writer

ROWS = {"one": {"batch": 1}, "prime": {"batch": 7}, "large": {"batch": 33}}
IMAGES = {"one": {"batch": 1}, "prime": {"batch": 3}, "large": {"batch": 8}}
TEXTS = {
    "one": {"batch": 1, "sequence": 1},
    "prime": {"batch": 3, "sequence": 13},
    "large": {"batch": 4, "sequence": 64},
}
STEPS = {
    "one": {"batch": 1, "sequence": 1, "past": 1},
    "empty": {"batch": 2, "sequence": 5, "past": 0},
    "prime": {"batch": 3, "sequence": 1, "past": 13},
    "large": {"batch": 2, "sequence": 2, "past": 127},
}
HEIGHTS = {
    "one": {"batch": 1, "height": 4, "width": 4},
    "prime": {"batch": 3, "height": 28, "width": 44},
    "large": {"batch": 2, "height": 64, "width": 48},
}
VOCABULARY, POSITIONS = 101, 160
WIDTH, HEADS, LAYERS = 32, 4, 2
HEAD = WIDTH // HEADS


@dataclass(frozen=True)
class Built:
    """A model, how to draw its inputs, and the sizes to try it at."""

    model: ModelProto
    inputs: tuple[InputSpec, ...]
    sizes: Mapping[str, Mapping[str, int]]


def mlp(style: Style) -> Built:
    """x: f32[N, 24] -> f32[N, 5]"""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 24)
    for inputs, outputs in ((24, 33), (33, 16)):
        x = w.node("Relu", w.gemm(x, inputs, outputs))
    w.output(w.gemm(x, 16, 5), "y", np.float32, "batch", 5)
    return Built(w.model("mlp"), (image("x", 24),), ROWS)


def resnet(style: Style) -> Built:
    """x: f32[N, 3, 33, 33] -> f32[N, 10]: strided stem, residual blocks with and without a projected shortcut."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, 33, 33)
    x = w.node("Relu", w.batch_norm(w.conv(x, 3, 8, 7, stride=2), 8))
    x = w.node("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2], ceil_mode=0)
    inputs = 8
    for outputs, stride in ((8, 1), (16, 2)):
        y = w.node("Relu", w.batch_norm(w.conv(x, inputs, outputs, 3, stride=stride), outputs))
        y = w.batch_norm(w.conv(y, outputs, outputs, 3), outputs)
        if stride != 1:
            x = w.batch_norm(w.conv(x, inputs, outputs, 1, stride=stride), outputs)
        x, inputs = w.node("Relu", w.node("Add", y, x)), outputs
    w.output(w.gemm(w.global_pool(x), 16, 10), "y", np.float32, "batch", 10)
    return Built(w.model("resnet"), (image("x", 3, 33, 33),), IMAGES)


def mobile(style: Style) -> Built:
    """x: f32[N, 3, 24, 24] -> f32[N, 10]: depthwise convolutions, ReLU6, SiLU, squeeze and excite."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, 24, 24)
    x = w.clip(w.batch_norm(w.conv(x, 3, 8, 3, stride=2), 8), 0, 6)
    for kernel in (3, 5):
        y = w.silu(w.batch_norm(w.conv(x, 8, 48, 1), 48))
        y = w.clip(w.batch_norm(w.conv(y, 48, 48, kernel, groups=48), 48), 0, 6)
        gate = w.silu(w.conv(w.global_pool(y, keep=True), 48, 4, 1))
        y = w.node("Mul", y, w.node("Sigmoid", w.conv(gate, 4, 48, 1)))
        x = w.node("Add", x, w.batch_norm(w.conv(y, 48, 8, 1), 8))
    w.output(w.gemm(w.global_pool(x), 8, 10), "y", np.float32, "batch", 10)
    return Built(w.model("mobile"), (image("x", 3, 24, 24),), IMAGES)


def convnext(style: Style) -> Built:
    """x: f32[N, 3, 32, 32] -> f32[N, 10]: 7x7 depthwise, layer norm between transposes, layer scale."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, 32, 32)
    x = w.conv(x, 3, 16, 3, stride=2)
    for _ in range(2):
        y = w.layer_norm(w.transpose(w.conv(x, 16, 16, 7, groups=16), 0, 2, 3, 1), 16)
        y = w.linear(w.gelu(w.linear(y, 16, 64)), 64, 16)
        x = w.node("Add", x, w.transpose(w.node("Mul", w.weight(16, scale=0.1), y), 0, 3, 1, 2))
    w.output(w.gemm(w.global_pool(x), 16, 10), "y", np.float32, "batch", 10)
    return Built(w.model("convnext"), (image("x", 3, 32, 32),), IMAGES)


def unet(style: Style) -> Built:
    """x: f32[N, 3, H, W] -> f32[N, 2, H, W], H and W symbolic multiples of 4."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, "height", "width")
    top = w.node("Relu", w.conv(x, 3, 8, 3))
    middle = w.node("Relu", w.conv(halve(w, top), 8, 16, 3))
    bottom = w.node("Relu", w.conv(halve(w, middle), 16, 32, 3))
    up = w.node(
        "ConvTranspose", bottom, w.weight(32, 16, 2, 2), w.weight(16, scale=0.1), kernel_shape=[2, 2], strides=[2, 2]
    )
    merged = w.node("Relu", w.conv(w.concat([middle, up], 1), 32, 16, 3))
    larger = w.node(
        "Resize",
        merged,
        "",
        w.constant([1, 1, 2, 2], np.float32),
        coordinate_transformation_mode="half_pixel",
        cubic_coeff_a=-0.75,
        mode="linear",
        nearest_mode="floor",
    )
    merged = w.node("Relu", w.conv(w.concat([top, larger], 1), 24, 8, 3))
    w.output(w.conv(merged, 8, 2, 1), "y", np.float32, "batch", 2, "height", "width")
    return Built(w.model("unet"), (image("x", 3, "height", "width"),), HEIGHTS)


def halve(w: Writer, x: str) -> str:
    return w.node("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=0)


def encoder(style: Style) -> Built:
    """BERT: ids, mask, segments i64[N, S] -> hidden f32[N, S, D], pooled f32[N, D]"""
    w = Writer(style)
    ids = w.input("input_ids", np.int64, "batch", "sequence")
    mask = w.input("attention_mask", np.int64, "batch", "sequence")
    segments = w.input("token_type_ids", np.int64, "batch", "sequence")
    length = w.size(ids, 1)
    positions = w.arange(length)
    words = w.node("Gather", w.weight(VOCABULARY, WIDTH, scale=1.0), ids, axis=0)
    kinds = w.node("Gather", w.weight(2, WIDTH, scale=1.0), segments, axis=0)
    places = w.node("Gather", w.weight(POSITIONS, WIDTH, scale=1.0), w.unsqueeze(positions, 0), axis=0)
    x = w.layer_norm(w.node("Add", w.node("Add", words, kinds), places), WIDTH)
    allowed = w.allowed(mask, positions, positions, causal=False)
    for _ in range(LAYERS):
        q, k, v = (w.heads(w.linear(x, WIDTH, WIDTH), HEADS, HEAD) for _ in range(3))
        mixed = w.linear(w.merge_heads(w.attention(q, k, v, HEAD, allowed)), WIDTH, WIDTH)
        x = w.layer_norm(w.node("Add", mixed, x), WIDTH)
        x = w.layer_norm(w.node("Add", w.linear(w.gelu(w.linear(x, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH), x), WIDTH)
    first = w.node("Gather", x, w.constant(0), axis=1)
    w.output(x, "last_hidden_state", np.float32, "batch", "sequence", WIDTH)
    w.output(w.node("Tanh", w.gemm(first, WIDTH, WIDTH)), "pooler_output", np.float32, "batch", WIDTH)
    inputs = (
        ids_spec(),
        mask_spec("sequence"),
        InputSpec("token_type_ids", "int64", ("batch", "sequence"), "integers", 2),
    )
    return Built(w.model("encoder"), inputs, TEXTS)


def vision(style: Style) -> Built:
    """ViT: f32[N, 3, 32, 32] -> f32[N, 10]: patches by a strided convolution, a class token expanded over the batch."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, 32, 32)
    weight, bias = w.weight(WIDTH, 3, 8, 8, scale=0.1), w.weight(WIDTH, scale=0.1)
    patches = w.node(
        "Conv", x, weight, bias, kernel_shape=[8, 8], strides=[8, 8], pads=[0] * 4, dilations=[1, 1], group=1
    )
    tokens = w.transpose(w.reshape(patches, SizeOf(patches, 0), WIDTH, -1), 0, 2, 1)
    token = w.expand(
        w.weight(1, 1, WIDTH), SizeOf(x, 0), -1 if style == "legacy" else 1, -1 if style == "legacy" else WIDTH
    )
    x = w.node("Add", w.concat([token, tokens], 1), w.weight(1, 17, WIDTH))
    for _ in range(LAYERS):
        y = w.layer_norm(x, WIDTH)
        q, k, v = (w.heads(w.linear(y, WIDTH, WIDTH), HEADS, HEAD) for _ in range(3))
        x = w.node("Add", w.linear(w.merge_heads(w.attention(q, k, v, HEAD, None)), WIDTH, WIDTH), x)
        x = w.node("Add", w.linear(w.gelu(w.linear(w.layer_norm(x, WIDTH), WIDTH, 64)), 64, WIDTH), x)
    first = w.node("Gather", w.layer_norm(x, WIDTH), w.constant(0), axis=1)
    w.output(w.gemm(first, WIDTH, 10), "y", np.float32, "batch", 10)
    return Built(w.model("vision"), (image("x", 3, 32, 32),), IMAGES)


def pyramid(style: Style) -> Built:
    """Segformer: f32[N, 3, 32, 32] -> f32[N, 64, D]: tokens go back to an image, whose keys a convolution thins out."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 3, 32, 32)
    tokens = w.layer_norm(to_tokens(w, w.conv(x, 3, WIDTH, 7, stride=4)), WIDTH)
    y = w.layer_norm(tokens, WIDTH)
    picture = w.reshape(w.transpose(y, 0, 2, 1), SizeOf(y, 0), WIDTH, 8, 8)
    weight, bias = w.weight(WIDTH, WIDTH, 2, 2, scale=0.1), w.weight(WIDTH, scale=0.1)
    fewer = w.node("Conv", picture, weight, bias, kernel_shape=[2, 2], strides=[2, 2], pads=[0] * 4)
    thin = w.layer_norm(to_tokens(w, fewer), WIDTH)
    q, k, v = (w.heads(w.linear(part, WIDTH, WIDTH), HEADS, HEAD) for part in (y, thin, thin))
    mixed = w.linear(w.merge_heads(w.attention(q, k, v, HEAD, None)), WIDTH, WIDTH)
    w.output(w.node("Add", mixed, tokens), "y", np.float32, "batch", 64, WIDTH)
    return Built(w.model("pyramid"), (image("x", 3, 32, 32),), IMAGES)


def to_tokens(w: Writer, x: str) -> str:
    """[N, C, H, W] -> [N, H * W, C]"""
    return w.transpose(w.reshape(x, SizeOf(x, 0), WIDTH, -1), 0, 2, 1)


def windows(style: Style) -> Built:
    """Swin: f32[N, 14, 14, D] -> same: shifted windows, padded to their multiple, a learned bias on the scores."""
    w = Writer(style)
    x = w.input("x", np.float32, "batch", 14, 14, WIDTH)
    rolled = roll(w, roll(w, x, 1), 2)
    padded = w.node("Pad", rolled, w.constant([0, 0, 0, 0, 0, 2, 2, 0]), w.scalar(0), mode="constant")
    tiles = w.reshape(padded, SizeOf(padded, 0), 4, 4, 4, 4, WIDTH)
    flat = w.reshape(w.transpose(tiles, 0, 1, 3, 2, 4, 5), -1, 16, WIDTH)
    q, k, v = (w.heads(w.linear(flat, WIDTH, WIDTH), HEADS, HEAD) for _ in range(3))
    scores = w.node("Mul", w.node("MatMul", q, w.swap_last(k)), w.scalar(HEAD**-0.5))
    biased = w.node("Add", scores, w.weight(1, HEADS, 16, 16, scale=0.5))
    mixed = w.merge_heads(w.node("MatMul", w.node("Softmax", biased, axis=-1), v))
    back = w.reshape(mixed, -1, 4, 4, 4, 4, WIDTH)
    grid = w.reshape(w.transpose(back, 0, 1, 3, 2, 4, 5), -1, 16, 16, WIDTH)
    cut = w.slice(w.slice(grid, 1, 0, 14), 2, 0, 14)
    w.output(w.node("Add", x, cut), "y", np.float32, "batch", 14, 14, WIDTH)
    return Built(w.model("windows"), (image("x", 14, 14, WIDTH),), IMAGES)


def roll(w: Writer, x: str, axis: int) -> str:
    """The axis turned by two places, as torch.roll is exported."""
    return w.concat([w.slice(x, axis, 2, 2**63 - 1), w.slice(x, axis, 0, 2)], axis)


def decoder(style: Style) -> Built:
    """GPT-2 step: ids i64[N, S], mask i64[N, P+S], past keys and values f32[N, H, P, D] -> logits, grown cache."""
    w = Writer(style)
    ids = w.input("input_ids", np.int64, "batch", "sequence")
    mask = w.input("attention_mask", np.int64, "batch", "past + sequence")
    past = cache_inputs(w, HEADS)
    start, length = w.size(past[0], 2), w.size(ids, 1)
    queries = w.node("Add", w.arange(length), start)
    keys = w.arange(w.node("Add", start, length))
    table = w.weight(VOCABULARY, WIDTH, scale=1.0)
    places = w.node("Gather", w.weight(POSITIONS, WIDTH, scale=1.0), w.unsqueeze(queries, 0), axis=0)
    x = w.node("Add", w.node("Gather", table, ids, axis=0), places)
    allowed = w.allowed(mask, queries, keys, causal=True)
    for layer in range(LAYERS):
        y = conv1d(w, w.layer_norm(x, WIDTH), WIDTH, 3 * WIDTH)
        q, k, v = (w.heads(part, HEADS, HEAD) for part in split_three(w, y))
        k, v = (grow(w, past[2 * layer + i], new, layer, i, HEADS) for i, new in enumerate((k, v)))
        x = w.node("Add", conv1d(w, w.merge_heads(w.attention(q, k, v, HEAD, allowed)), WIDTH, WIDTH), x)
        y = w.gelu_tanh(conv1d(w, w.layer_norm(x, WIDTH), WIDTH, 4 * WIDTH))
        x = w.node("Add", x, conv1d(w, y, 4 * WIDTH, WIDTH))
    logits = w.node("MatMul", w.layer_norm(x, WIDTH), w.transpose(table, 1, 0))
    w.output(logits, "logits", np.float32, "batch", "sequence", VOCABULARY)
    return Built(w.model("decoder"), (ids_spec(), mask_spec("past + sequence"), *cache_specs(HEADS)), STEPS)


def conv1d(w: Writer, x: str, inputs: int, outputs: int) -> str:
    """GPT-2's linear layer: two dimensions, Gemm, and back."""
    flat = w.reshape(x, -1, inputs)
    y = w.node("Gemm", flat, w.weight(inputs, outputs), w.weight(outputs, scale=0.1), alpha=1.0, beta=1.0)
    return w.reshape(y, SizeOf(x, 0), SizeOf(x, 1), outputs)


def split_three(w: Writer, x: str) -> list[str]:
    if w.is_legacy:
        return w.node_outputs("Split", 3, x, w.constant([WIDTH] * 3), axis=2)
    return w.node_outputs("Split", 3, x, axis=2, num_outputs=3)


def llama(style: Style) -> Built:
    """Llama step: like `decoder`, with RMS norm, rotary positions, two key heads for four query heads, gated SiLU."""
    w = Writer(style)
    groups = 2
    ids = w.input("input_ids", np.int64, "batch", "sequence")
    mask = w.input("attention_mask", np.int64, "batch", "past + sequence")
    past = cache_inputs(w, groups)
    start, length = w.size(past[0], 2), w.size(ids, 1)
    queries = w.node("Add", w.arange(length), start)
    keys = w.arange(w.node("Add", start, length))
    x = w.node("Gather", w.weight(VOCABULARY, WIDTH, scale=1.0), ids, axis=0)
    allowed = w.allowed(mask, queries, keys, causal=True)
    cos, sin = rotary_tables(w, queries)
    for layer in range(LAYERS):
        y = w.rms_norm(x, WIDTH)
        q = rotate(w, w.heads(w.linear(y, WIDTH, WIDTH, bias=False), HEADS, HEAD), cos, sin)
        k = rotate(w, w.heads(w.linear(y, WIDTH, groups * HEAD, bias=False), groups, HEAD), cos, sin)
        v = w.heads(w.linear(y, WIDTH, groups * HEAD, bias=False), groups, HEAD)
        k, v = (grow(w, past[2 * layer + i], new, layer, i, groups) for i, new in enumerate((k, v)))
        k, v = (repeat_heads(w, x, groups) for x in (k, v))
        mixed = w.merge_heads(w.attention(q, k, v, HEAD, allowed))
        x = w.node("Add", x, w.linear(mixed, WIDTH, WIDTH, bias=False))
        y = w.rms_norm(x, WIDTH)
        gate = w.silu(w.linear(y, WIDTH, 80, bias=False))
        y = w.node("Mul", gate, w.linear(y, WIDTH, 80, bias=False))
        x = w.node("Add", x, w.linear(y, 80, WIDTH, bias=False))
    logits = w.linear(w.rms_norm(x, WIDTH), WIDTH, VOCABULARY, bias=False)
    w.output(logits, "logits", np.float32, "batch", "sequence", VOCABULARY)
    return Built(w.model("llama"), (ids_spec(), mask_spec("past + sequence"), *cache_specs(groups)), STEPS)


def rotary_tables(w: Writer, positions: str) -> tuple[str, str]:
    """cos and sin of position times frequency: f32[1, 1, S, HEAD]"""
    frequencies = w.tensor((10000.0 ** -(np.arange(HEAD // 2) / (HEAD // 2))).astype(np.float32))
    column = w.node("Cast", w.unsqueeze(positions, 0, 2), to=1)
    angles = w.node("Mul", column, frequencies)
    both = w.concat([angles, angles], -1)
    return w.unsqueeze(w.node("Cos", both), 1), w.unsqueeze(w.node("Sin", both), 1)


def rotate(w: Writer, x: str, cos: str, sin: str) -> str:
    half = HEAD // 2
    swapped = w.concat([w.node("Neg", w.slice(x, 3, half, 2**63 - 1)), w.slice(x, 3, 0, half)], -1)
    return w.node("Add", w.node("Mul", x, cos), w.node("Mul", swapped, sin))


def repeat_heads(w: Writer, x: str, groups: int) -> str:
    """[N, G, T, D] -> [N, H, T, D], each head given to H / G queries."""
    each = HEADS // groups
    wide = w.expand(w.unsqueeze(x, 2), SizeOf(x, 0), groups, each, SizeOf(x, 2), HEAD)
    return w.reshape(wide, SizeOf(x, 0), HEADS, SizeOf(x, 2), HEAD)


def cache_inputs(w: Writer, heads: int) -> list[str]:
    return [w.input(spec.name, np.float32, "batch", heads, "past", HEAD) for spec in cache_specs(heads)]


def cache_specs(heads: int) -> tuple[InputSpec, ...]:
    names = [f"past.{layer}.{part}" for layer in range(LAYERS) for part in ("key", "value")]
    return tuple(InputSpec(name, "float32", ("batch", heads, "past", HEAD), "normal", 0) for name in names)


def grow(w: Writer, past: str, new: str, layer: int, part: int, heads: int) -> str:
    """The cache with the new keys or values behind it, which is also an output."""
    grown = w.concat([past, new], -2)
    name = f"present.{layer}.{('key', 'value')[part]}"
    w.output(grown, name, np.float32, "batch", heads, "past + sequence", HEAD)
    return grown


def image(name: str, *sizes: int | str) -> InputSpec:
    return InputSpec(name, "float32", ("batch", *sizes), "image" if len(sizes) > 1 else "normal", 0)


def ids_spec() -> InputSpec:
    return InputSpec("input_ids", "int64", ("batch", "sequence"), "integers", VOCABULARY)


def mask_spec(length: str) -> InputSpec:
    return InputSpec("attention_mask", "int64", ("batch", length), "mask", 0)


BUILDERS: Mapping[str, Callable[[Style], Built]] = {
    "mlp": mlp,
    "resnet": resnet,
    "mobile": mobile,
    "convnext": convnext,
    "unet": unet,
    "encoder": encoder,
    "vision": vision,
    "pyramid": pyramid,
    "windows": windows,
    "decoder": decoder,
    "llama": llama,
}
