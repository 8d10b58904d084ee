"""Steps that layers of models are made of: convolutions, products, attention, normalisations of images."""

from math import prod

import numpy as np

from benchmarks.chains.chain import Chain, Tensor

MOST_PRODUCTS, MOST_RESULTS = 6e8, 3_000_000
"""What a step may take: some tens of milliseconds on one core, and 12 MB."""

HEAD = 32
"""The features of a head of attention."""


def convolve(chain: Chain) -> None:
    """Of any kind that models have; some transposed, half with an activation behind."""
    x = chain.pick()
    spatial, drawn = len(x.shape) - 2, chain.random
    if spatial not in (1, 2, 3):
        return
    channels = x.shape[1]
    groups = drawn.choice([1, 1, 1, channels, 2 - channels % 2, 4 if channels % 4 == 0 else 1])
    filters = channels if groups == channels else drawn.choice([channels, min(2 * channels, 256), 16, 32, 64])
    filters = max(filters // groups * groups, groups)
    window = [drawn.choice([1, 1, 3, 3, 3, 5, 2])] * spatial
    if drawn.random() < 0.15:
        window = [drawn.choice([1, 3, 5]) for _ in range(spatial)]
    stride, dilation = drawn.choice([1, 1, 1, 2]), drawn.choice([1, 1, 1, 1, 2])
    reach = [(size - 1) * dilation for size in window]
    pads = [each // 2 * drawn.choice([1, 1, 0]) for each in reach]
    if any(size <= each for size, each in zip(x.shape[2:], reach, strict=True)):
        return
    is_transposed = groups == 1 and stride == 2 and dilation == 1 and drawn.random() < 0.15
    if is_transposed:
        sizes = [2 * (n - 1) + k - 2 * p for n, k, p in zip(x.shape[2:], window, pads, strict=True)]
    else:
        sizes = [(n + 2 * p - r - 1) // stride + 1 for n, p, r in zip(x.shape[2:], pads, reach, strict=True)]
    shape = [x.shape[0], filters, *sizes]
    terms = channels // groups * prod(window)
    if prod(shape) * terms > MOST_PRODUCTS or prod(shape) > MOST_RESULTS or min(sizes) < 1:
        return
    if is_transposed:
        weights = chain.weights(channels, filters, *window, terms=terms)
        chain.add("ConvTranspose", [x, weights], shape, strides=[2] * spatial, pads=pads * 2)
        return
    inputs = [x, chain.weights(filters, channels // groups, *window, terms=terms)]
    inputs += [chain.weights(filters)] if drawn.random() < 0.7 else []
    convolved = chain.add(
        "Conv", inputs, shape,
        kernel_shape=window, strides=[stride] * spatial, dilations=[dilation] * spatial, pads=pads * 2, group=groups,
    )  # fmt: skip
    if drawn.random() < 0.5:
        chain.add(drawn.choice(["Relu", "Sigmoid", "HardSwish", "LeakyRelu"]), [convolved], shape)


def pool(chain: Chain) -> None:
    x = chain.pick()
    spatial = len(x.shape) - 2
    window, stride = chain.random.choice([2, 3, 3]), chain.random.choice([1, 2, 2])
    pads = chain.random.choice([0, window // 2]) if window == 3 else 0
    if spatial not in (1, 2, 3) or min(x.shape[2:]) <= window:
        return
    shape = [*x.shape[:2], *((size + 2 * pads - window) // stride + 1 for size in x.shape[2:])]
    chain.add(
        chain.random.choice(["MaxPool", "AveragePool"]), [x], shape,
        kernel_shape=[window] * spatial, strides=[stride] * spatial, pads=[pads] * (2 * spatial),
    )  # fmt: skip


def multiply(chain: Chain) -> None:
    """By a matrix, mostly with a bias."""
    x = chain.pick()
    inner = x.shape[-1]
    if inner > 4096 or (chain.is_symbolic and chain.kind not in ("tokens", "rows")):
        return
    columns = chain.random.choice([inner, 64, 128, 256, 10, min(2 * inner, 800)])
    if x.size * columns > MOST_PRODUCTS:
        return
    shape = [*x.shape[:-1], columns]
    product = chain.add("MatMul", [x, chain.weights(inner, columns, terms=inner)], shape)
    if chain.random.random() < 0.7:
        chain.add("Add", [product, chain.weights(columns)], shape)


def attend(chain: Chain) -> None:
    """Attention of tokens to each other, some with what is added to the scores."""
    x = chain.pick()
    if len(x.shape) != 3 or chain.is_symbolic or x.shape[2] % HEAD or x.shape[1] > 400:
        return
    batch, tokens, features = x.shape
    heads = features // HEAD
    queries, values = (_heads(chain, x, [0, 2, 1, 3]) for _ in range(2))
    keys = _heads(chain, x, [0, 2, 3, 1])
    square = [batch, heads, tokens, tokens]
    scores = chain.add("Mul", [chain.add("MatMul", [queries, keys], square), chain.scalar(HEAD**-0.5)], square)
    if chain.random.random() < 0.4:
        table = chain.random.choice([(1, 1, tokens, tokens), (heads, tokens, tokens), (1, heads, 1, tokens)])
        scores = chain.add("Add", [scores, chain.weights(*table)], square)
    weights = chain.add("Softmax", [scores], square, axis=-1)
    mixed = chain.add("MatMul", [weights, values], values.shape)
    turned = chain.add("Transpose", [mixed], [batch, tokens, heads, HEAD], perm=[0, 2, 1, 3])
    chain.add("Reshape", [turned, chain.integers(*x.shape)], x.shape)


def _heads(chain: Chain, x: Tensor, order: list[int]) -> Tensor:
    batch, tokens, features = x.shape
    product = chain.add("MatMul", [x, chain.weights(features, features, terms=features)], x.shape)
    shape = [batch, tokens, features // HEAD, HEAD]
    split = chain.add("Reshape", [product, chain.integers(*shape)], shape)
    return chain.add("Transpose", [split], [shape[axis] for axis in order], perm=order)


def normalize(chain: Chain) -> None:
    """An image by its groups, its channels or by constants."""
    x = chain.pick()
    if len(x.shape) != 4:
        return
    channels = x.shape[1]
    scale, bias = chain.weights(channels), chain.weights(channels)
    match chain.random.choice(["groups", "instance", "batch"]):
        case "groups":
            groups = chain.random.choice([each for each in (1, 2, 4, 8, 32) if channels % each == 0])
            chain.add("GroupNormalization", [x, scale, bias], x.shape, num_groups=groups)
        case "instance":
            chain.add("InstanceNormalization", [x, scale, bias], x.shape)
        case _:
            variance = chain.constant(np.abs(chain.rng.standard_normal(channels)).astype(np.float32) + 0.5)
            chain.add("BatchNormalization", [x, scale, bias, chain.weights(channels), variance], x.shape)


def squeeze_and_excite(chain: Chain) -> None:
    x = chain.pick()
    if len(x.shape) != 4:
        return
    batch, channels = x.shape[:2]
    few = max(channels // 4, 1)
    means = chain.add("GlobalAveragePool", [x], [batch, channels, 1, 1])
    small = chain.add("Conv", [means, chain.weights(few, channels, 1, 1, terms=channels)], [batch, few, 1, 1])
    small = chain.add("Relu", [small], small.shape)
    gate = chain.add("Conv", [small, chain.weights(channels, few, 1, 1, terms=few)], means.shape)
    chain.add("Mul", [x, chain.add("Sigmoid", [gate], gate.shape)], x.shape)


def pool_all(chain: Chain) -> None:
    x = chain.pick()
    if len(x.shape) > 2:
        chain.add("GlobalAveragePool", [x], [*x.shape[:2], *[1] * (len(x.shape) - 2)])
