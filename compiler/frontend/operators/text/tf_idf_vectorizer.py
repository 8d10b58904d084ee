"""TfIdfVectorizer: how often each of many n-grams stands in a row of tokens, weighted or not.

Tokens become their indices among all tokens of the pool, texts on the host; counting is arithmetic that compiles.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.lookups import positions, texts
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dim_functions import maximum
from onnxc.compiler.ir.dtypes import F32, I64
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

MOST_DISTANCES = 1000
"""How far apart the tokens of an n-gram may be: every distance is code of its own. An estimate,
far above the skips of text models."""

RULE = "ONNX TfIdfVectorizer"


@record
class Grams:
    """All n-grams of one length: their tokens [count, length] as indices in the vocabulary, and their ordinals."""

    tokens: np.ndarray
    ordinals: np.ndarray


@operator("TfIdfVectorizer", since=(9,))
def tf_idf_vectorizer(node: Node, ir: Builder) -> Value:
    """X: T[C] or T[N, C]  ->  f32[K] or f32[N, K], K = max(ngram_indexes) + 1

    An n-gram of tokens that are d apart counts for every d up to max_skip_count + 1; a single token counts once.
    Source: https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html
    """
    x = node.input("X")
    if x.rank not in (1, 2):
        node.fail("tf-idf-rank", f"X is {x.type}, of neither rank 1 nor 2", rule=f"{RULE}, X")
    columns = np.array(node.ints("ngram_indexes"), np.int64)
    _expect_legal(columns, node)
    vocabulary, grams = _pool(x, columns.size, node)
    rows = x if x.rank == 2 else ir.unsqueeze(x, (0,))
    tokens = positions(rows if rows.dtype.is_string else ir.cast(rows, I64), vocabulary, ir)
    width = int(columns.max(initial=-1)) + 1
    total = ir.full((rows.shape[0], width), 0.0, F32)
    for length_grams in grams:
        counts = _counts(tokens, length_grams, node, ir)
        weighted = _weighted(counts, length_grams.ordinals, node, ir)
        targets = ir.broadcast_to(ir.constant(columns[length_grams.ordinals]), weighted.shape)
        total = ir.scatter_along(total, targets, weighted, 1, "add")
    return total if x.rank == 2 else ir.squeeze(total, (0,))


def _expect_legal(columns: np.ndarray, node: Node) -> None:
    """What the text asks of the attributes by themselves."""
    if (columns < 0).any():
        message = f"ngram_indexes is {list(node.ints('ngram_indexes'))}, which has a negative one"
        node.fail("ngram-indexes", message, rule=f"{RULE}, ngram_indexes")
    least, most, skips = (node.int(name) for name in ("min_gram_length", "max_gram_length", "max_skip_count"))
    if not 1 <= least <= most:
        message = f"min_gram_length is {least} and max_gram_length {most}"
        node.fail("ngram-lengths", message, rule=f"{RULE}, max_gram_length")
    if most > len(node.ints("ngram_counts")):
        message = f"max_gram_length is {most}, ngram_counts has {len(node.ints('ngram_counts'))} entries"
        node.fail("ngram-counts", message, rule=f"{RULE}, ngram_counts")
    if skips < 0:
        node.fail("attribute-range", f"max_skip_count is {skips}, below 0", rule=f"{RULE}, max_skip_count")
    if node.has("weights") and len(node.floats("weights")) != columns.size:
        message = f"there are {len(node.floats('weights'))} weights for {columns.size} n-grams"
        node.fail("ngram-weights", message, rule=f"{RULE}, weights")


def _pool(x: Value, count: int, node: Node) -> tuple[np.ndarray, Sequence[Grams]]:
    """The distinct tokens of the pool, and its n-grams by length, of those lengths that are wanted."""
    name = "pool_strings" if x.dtype.is_string else "pool_int64s"
    if node.has("pool_strings") and node.has("pool_int64s"):
        node.fail("ngram-pool", "both pool_strings and pool_int64s are given", rule=f"{RULE}, pool_*")
    if not node.has(name):
        node.fail("ngram-pool", f"X is {x.dtype}, and {name} is not given", rule=f"{RULE}, {name}")
    pool = texts(node.strings(name)) if x.dtype.is_string else np.array(node.ints(name), np.int64)
    vocabulary, indices = np.unique(pool, return_inverse=True)
    starts = [*node.ints("ngram_counts"), pool.size]
    grams, gram_count = [], 0
    for length, (start, end) in enumerate(pairwise(starts), start=1):
        if not 0 <= start <= end <= pool.size or (end - start) % length:
            message = f"ngram_counts is {starts[:-1]}, the pool has {pool.size} tokens"
            node.fail("ngram-counts", message, rule=f"{RULE}, ngram_counts")
        tokens = indices[start:end].reshape(-1, length)
        ordinals = np.arange(gram_count, gram_count + len(tokens))
        gram_count += len(tokens)
        if node.int("min_gram_length") <= length <= node.int("max_gram_length") and len(tokens):
            grams.append(Grams(tokens, ordinals))
    if gram_count != count:
        node.fail("ngram-indexes", f"{gram_count} n-grams have {count} indexes", rule=f"{RULE}, ngram_indexes")
    return vocabulary, grams


def _counts(tokens: Value, grams: Grams, node: Node, ir: Builder) -> Value:
    """f32[N, count]: how often each n-gram stands in each row."""
    rows, size = tokens.shape
    count, length = grams.tokens.shape
    total = ir.full((rows, count), 0.0, F32)
    last = node.int("max_skip_count") + 1 if length > 1 else 1
    if isinstance(size, int) and length > 1:
        last = min(last, max(size - 1, 0) // (length - 1))
    if last > MOST_DISTANCES:
        node.unsupported(f"tokens may be {last} apart, beyond {MOST_DISTANCES}; give the input a shape with shapes=")
    for distance in range(1, last + 1):
        windows = maximum(size - (length - 1) * distance, 0)
        matches = None
        for ordinal in range(length):
            seen = ir.unsqueeze(ir.slice_axis(tokens, 1, ordinal * distance, windows), (2,))
            equal = ir.equal(seen, ir.constant(grams.tokens[:, ordinal].astype(np.int64)))
            matches = equal if matches is None else ir.and_(matches, equal)
        assert matches is not None, grams
        total = ir.add(total, ir.reduce(ir.cast(matches, F32), "sum", (1,)))
    return total


def _weighted(counts: Value, ordinals: np.ndarray, node: Node, ir: Builder) -> Value:
    """The counts (TF), whether there are any (IDF), times the weights."""
    mode = node.choice("mode", ("TF", "IDF", "TFIDF"))
    if mode == "IDF":
        counts = ir.min(counts, 1.0)
    if mode == "TF" or not node.has("weights"):
        return counts
    weights = np.array(node.floats("weights"), np.float32)
    return ir.mul(counts, ir.constant(weights[ordinals]))
