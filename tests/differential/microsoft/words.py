"""Recipes: hashes, vectors of words, rows of words that may not come back, parts of an axis."""

import numpy as np

from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe


@recipe("MurmurHash3")
def murmur_hash(draw: Draw) -> Parts:
    dtype = draw.pick(np.int32, np.uint32, np.int64, np.uint64)
    bits = draw.integers(0, 256, *draw.shape(0, 3), np.dtype(dtype).itemsize, dtype=np.uint8)
    attributes = {"seed": draw.pick(0, 1, 2**31), "positive": draw.pick(0, 1)}
    return Parts({"x": np.asarray(bits.view(dtype)[..., 0])}, {**attributes})


@recipe("WordConvEmbedding")
def word_conv_embedding(draw: Draw) -> Parts:
    words, most, filters, width = draw.size(1, 5), draw.size(3, 8), draw.size(1, 5), draw.size(1, 5)
    window, letters = draw.size(1, 3), draw.integers(0, 12, words, most, dtype=np.int32)
    # What ONNX Runtime gives for a word without a first letter is whatever was there before.
    letters[:, 0] = np.maximum(letters[:, 0], 1)
    inputs: Operands = {
        "s": letters,
        "w": draw.floats(filters, 1, window, width, dtype=np.dtype(np.float32)),
        "b": draw.floats(filters, dtype=np.dtype(np.float32)),
        "c": draw.floats(12, width, dtype=np.dtype(np.float32)),
    }
    return Parts(inputs, constants=["w", "b", "c"] if draw.flag() else [], free=["s"])


@recipe("NGramRepeatBlock")
def n_gram_repeat_block(draw: Draw) -> Parts:
    rows, size = draw.size(1, 4), draw.size(1, 4)
    inputs: Operands = {
        "ids": draw.integers(0, 3, rows, draw.size(size, 9), dtype=np.int64),
        "scores": draw.floats(rows, 6, dtype=np.dtype(np.float32)),
    }
    return Parts(inputs, {"ngram_size": size}, free=["ids", "scores"])


@recipe("UnfoldTensor")
def unfold_tensor(draw: Draw) -> Parts:
    shape = (draw.size(3, 6), draw.size(3, 6), draw.size(3, 6))
    attributes = {"dim": draw.pick(-3, -1, 0, 1), "size": draw.size(1, 3), "step": draw.size(1, 3)}
    return Parts({"x": draw.floats(*shape, dtype=np.dtype(np.float32))}, {**attributes})


@recipe("SampleOp")
def sample_op(draw: Draw) -> Parts:
    return Parts({"x": draw.values(*draw.shape(0, 3))}, free=["x"])
