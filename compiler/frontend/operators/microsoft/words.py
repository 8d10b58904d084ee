"""Operators of com.microsoft on words that are numbers: hashes, vectors of words, rows that may not come back."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape
from onnxc.compiler.frontend.operators.tensor.gather import expect_in_range
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least
from onnxc.compiler.ir.dtypes import BOOL, F32, I32, I64, U32, U64
from onnxc.compiler.ir.module import Value

CODE = "words-shape"
NEGATIVE_INFINITY = float("-inf")


# Hashes


@operator("MurmurHash3", since=(1,), domain=MICROSOFT)
def murmur_hash_3(node: Node, ir: Builder) -> Value:
    """X: T[...] of 32 or 64 bits  ->  Y: u32[...], or i32[...] with positive = 0: the 32-bit hash of each element

    Source: A. Appleby, MurmurHash3_x86_32, public domain.
    """
    x = node.input("X")
    if x.dtype.bits not in (32, 64):
        node.unsupported(f"X is {x.type}; hash texts before the model is called")
    digest = ir.full(x.shape, node.int("seed") % 2**32, U32)
    for block in _blocks(x, ir):
        mixed = ir.mul(_rotated(ir.mul(block, 0xCC9E2D51), 15, ir), 0x1B873593)
        digest = ir.add(ir.mul(_rotated(ir.xor(digest, mixed), 13, ir), 5), 0xE6546B64)
    digest = ir.xor(digest, x.dtype.itemsize)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35)):
        digest = ir.mul(ir.xor(digest, ir.shift_right(digest, shift)), factor)
    digest = ir.xor(digest, ir.shift_right(digest, 16))
    return digest if node.flag("positive") else ir.bitcast(digest, I32)


def _blocks(x: Value, ir: Builder) -> list[Value]:
    """u32[...]: the bits of each element, the lowest first"""
    if x.dtype.bits == 32:
        return [x if x.dtype == U32 else ir.bitcast(x, U32)]
    bits = x if x.dtype == U64 else ir.bitcast(x, U64)
    return [ir.cast(ir.and_(part, 0xFFFFFFFF), U32) for part in (bits, ir.shift_right(bits, 32))]


def _rotated(x: Value, count: int, ir: Builder) -> Value:
    return ir.or_(ir.shift_left(x, count), ir.shift_right(x, 32 - count))


# Vectors


@operator("WordConvEmbedding", since=(1,), domain=MICROSOFT)
def word_conv_embedding(node: Node, ir: Builder) -> Value:
    """Sequence: i32[S, L] of words, W: f32[M, 1, K, D], B: f32[M], C: f32[V, D]  ->  f32[S, M]

    The greatest of tanh(W * windows of K vectors of letters + B), over the windows in a word of as many letters as it
    has above 0, or K where it has fewer. A word whose first letter is not above 0 is none: its vector is 0.
    """
    words, filters, bias, letters = node.inputs("Sequence", "W", "B", "C")
    words = of_shape(words, (None, None), "Sequence", node, ir, CODE)
    letters = of_shape(letters, (None, None), "C", node, ir, CODE)
    width = letters.shape[1]
    filters = of_shape(filters, (None, 1, None, width), "W", node, ir, CODE)
    count, _, window, _ = filters.shape
    bias = of_shape(bias, (count,), "B", node, ir, CODE)
    for name, size in (("embedding_size", count), ("conv_window_size", window), ("char_embedding_size", width)):
        if node.has(name):
            ir.require_equal(size, node.int(name), f"{name} is not the size that the inputs have", CODE)
    most = words.shape[1]
    if at_least(window, most + 1):
        node.fail(CODE, f"windows of {window} letters, and words of {most}", rule="ONNX Runtime WordConvEmbedding, W")
    ir.guard(most, window, "at_least", "the windows of W are longer than the words of Sequence")
    is_letter = ir.cast(ir.greater(words, 0), I64)
    is_word = ir.greater(ir.slice_axis(words, 1, 0, 1), 0)
    lengths = ir.max(ir.reduce(is_letter, "sum", (1,), keepdims=True), ir.size(window))
    lengths = ir.select(is_word, lengths, 0)
    read = ir.select(ir.less(ir.iota((1, most), 1, I64), lengths), words, 0)
    expect_in_range(read, letters.shape[0], node, ir)
    vectors = ir.transpose(ir.gather(letters, ir.cast(read, I64), 0), (0, 2, 1))
    taps = ir.transpose(ir.reshape(filters, (count, window, width)), (0, 2, 1))
    sums = ir.add(ir.convolution(vectors, taps, [1], [0], [0], [1]), ir.reshape(bias, (1, count, 1)))
    last = ir.sub(lengths, ir.size(window))
    exists = ir.less_equal(ir.iota((1, 1, sums.shape[2]), 2, I64), ir.unsqueeze(last, (2,)))
    best = ir.reduce(ir.select(exists, ir.tanh(sums), ir.scalar(NEGATIVE_INFINITY, F32)), "max", (2,))
    return ir.select(is_word, best, 0)


# Rows of words


@operator("NGramRepeatBlock", since=(1,), domain=MICROSOFT)
def n_gram_repeat_block(node: Node, ir: Builder) -> Value:
    """input_ids: i64[B, L], scores: f32[B, V]  ->  scores, -inf for a word that would end ngram_size words in a row

    that are in input_ids already.
    """
    size, scores = node.int("ngram_size"), node.input("scores")
    if size < 1:
        node.fail("attribute-range", f"ngram_size is {size}", rule="ONNX Runtime NGramRepeatBlock, ngram_size")
    scores = of_shape(scores, (None, None), "scores", node, ir, CODE)
    words = of_shape(node.input("input_ids"), (scores.shape[0], None), "input_ids", node, ir, CODE)
    expect_in_range(words, scores.shape[1], node, ir)
    batch, length = words.shape
    # What no row reaches, so that there is a word even where none is given.
    padded = ir.concatenate([words, ir.full((batch, 1), 0, words.dtype)], 1)
    blocked = repeated_words(padded, ir.size(length), scores.shape[1], size, ir)
    return ir.select(blocked, ir.scalar(NEGATIVE_INFINITY, F32), scores)


def repeated_words(words: Value, length: Value, vocabulary: Dim, size: int, ir: Builder) -> Value:
    """words: I[B, L], length: i64[]  ->  bool[B, V]: what would end `size` words in a row that are there already

    There are the first `length` of the words; L is not 0.
    """
    batch, most = words.shape
    ordinal = ir.broadcast_to(ir.iota((1, most), 1, I64), (batch, most))

    def ahead(offset: int) -> Value:
        return ir.gather_along(words, ir.min(ir.add(ordinal, offset), ir.size(most - 1)), 1)

    is_repeated = ir.less(ir.add(ordinal, size - 1), length)
    for offset in range(size - 1):
        last = ir.max(ir.add(ir.sub(length, size - 1), offset), 0)
        is_repeated = ir.and_(is_repeated, ir.equal(ahead(offset), ir.gather(words, ir.reshape(last, (1,)), 1)))
    ends, none = ir.cast(ahead(size - 1), I64), ir.full((batch, vocabulary), 0, I64)
    return ir.cast(ir.scatter_along(none, ends, ir.cast(is_repeated, I64), 1, "max"), BOOL)
