"""GreedySearch of com.microsoft: a decoder that is run for a prompt, then for one word after the other."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.graph import Graph
from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.loops import while_loop
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element, read_lengths
from onnxc.compiler.frontend.operators.microsoft.words import repeated_words
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import F32, I32, I64
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.records import record

RULE = "ONNX Runtime GreedySearch"
CODE = "attention-past"
LOWEST = float(np.finfo(np.float32).min)
OPERANDS = 3
"""The inputs of the decoder before the pasts: words, their positions, which keys are seen."""


@record
class _Prompt:
    """words, positions, mask: i32[B, S]; lengths: i64[B, 1], of words that are no padding; most: of a sequence."""

    words: Value
    positions: Value
    mask: Value
    lengths: Value
    most: Dim


@operator("GreedySearch", since=(1,), domain=MICROSOFT)
def greedy_search(node: Node, ir: Builder) -> Value:
    """input_ids: i32[B, S], max_length: i32[1]  ->  sequences: i32[B, max_length]

    The end of a sequence and what is behind it is pad_token_id. ONNX Runtime writes nothing behind the end of all.
    """
    if node.int("model_type") != 0 or node.has("encoder"):
        node.unsupported("the model has an encoder; ONNX Runtime searches greedily for decoders alone")
    prompt = _prompt(node, ir)
    decoder = node.graph("decoder")
    first = node.graph("init_decoder") if node.has("init_decoder") else decoder
    written = _written_prompt(prompt, node, ir)
    batch, length = prompt.words.shape
    pasts = _empty_caches(first, batch, node, ir)
    scores, caches = _run(first, (prompt.words, prompt.positions, prompt.mask), pasts, node, ir)
    ended = ir.broadcast_to(ir.constant(np.array([False])), (batch,))
    sequences, word, ended = _next_word(scores, written, ir.size(length), ended, node, ir, is_first=True)

    def build(nested: Builder, iteration: Value, carried: Sequence[Value]) -> tuple[Value, ...]:
        before, last, over, *pasts = carried
        at = nested.add(iteration, nested.size(length))
        inputs = (nested.reshape(last, (batch, 1)), _positions(prompt, iteration, nested), _mask(prompt, pasts, nested))
        rows, presents = _run(decoder, inputs, pasts, node, nested)
        after, chosen, over = _next_word(rows, before, nested.add(at, 1), over, node, nested, is_first=False)
        return _goes_on(over, nested), after, chosen, over, *presents

    rest = ir.size(prompt.most - length - 1)
    results = while_loop(node, ir, rest, _goes_on(ended, ir), (sequences, word, ended, *caches), build)
    return results[0]


def _goes_on(ended: Value, ir: Builder) -> Value:
    """bool[]: whether a sequence has not ended"""
    return ir.less(ir.reduce(ir.cast(ended, I64), "min", (0,)), 1)


# The prompt


def _prompt(node: Node, ir: Builder) -> _Prompt:
    words = of_shape(node.input("input_ids"), (None, None), "input_ids", node, ir, CODE)
    batch, length = words.shape
    given = only_element(node.input("max_length"), "max_length", node, ir)
    (most,) = read_lengths(ir.reshape(given, (1,)), "max_length", node, ir, 1)
    ir.guard(most, length + 1, "at_least", "max_length is not greater than the length of input_ids")
    is_word = ir.cast(ir.not_equal(words, node.int("pad_token_id")), I64)
    before = ir.scan_axis(is_word, "sum", 1, exclusive=True)
    mask = node.optional("attention_mask")
    shown = ir.cast(is_word, I32) if mask is None else of_shape(mask, (batch, length), "attention_mask", node, ir, CODE)
    lengths = ir.reduce(is_word, "sum", (1,), keepdims=True)
    return _Prompt(words, ir.cast(ir.mul(before, is_word), I32), shown, lengths, most)


def _written_prompt(prompt: _Prompt, node: Node, ir: Builder) -> Value:
    """i32[B, max_length]: the words, and padding behind them"""
    batch, length = prompt.words.shape
    padded = ir.pad(prompt.words, (0, 0), (0, prompt.most - length), node.int("pad_token_id"))
    return ir.with_shape(padded, (batch, prompt.most))


def _empty_caches(decoder: Graph, batch: Dim, node: Node, ir: Builder) -> tuple[Value, ...]:
    """T[2, B, N, 0, D] for each past of the decoder, which declares N and D"""
    caches = []
    for info in decoder.inputs[OPERANDS:]:
        shape = info.type.shape if isinstance(info.type, TensorType) else None
        if not isinstance(info.type, TensorType) or shape is None or len(shape) != 5:
            node.unsupported(f"input {info.name} of the decoder is {info.type}, not a past of 5 axes")
        heads, width = shape[2], shape[4]
        if not isinstance(heads, int) or not isinstance(width, int):
            node.unsupported(f"input {info.name} of the decoder does not say how many heads there are, or how wide")
        caches.append(ir.full((2, batch, heads, 0, width), 0, info.type.dtype))
    if not caches:
        node.unsupported("the decoder has no past")
    return tuple(caches)


# One word


def _run(
    decoder: Graph, inputs: Sequence[Value], pasts: Sequence[Value], node: Node, ir: Builder
) -> tuple[Value, list[Value]]:
    """f32[B, V]: scores of the word behind the last one, and the presents"""
    logits, *presents = node.lower_subgraph(decoder, (*inputs, *pasts), ir)
    if len(presents) != len(pasts) or logits.rank != 3:
        message = f"the decoder gives {len(presents)} presents for {len(pasts)} pasts, and {logits.type}"
        node.fail(CODE, message, rule=f"{RULE}, decoder")
    last = ir.slice_axis(logits, 1, logits.shape[1] - 1, 1)
    return ir.cast(ir.squeeze(last, (1,)), F32), presents


def _positions(prompt: _Prompt, iteration: Value, ir: Builder) -> Value:
    """i32[B, 1]: that of the word of an iteration"""
    return ir.cast(ir.add(prompt.lengths, iteration), I32)


def _mask(prompt: _Prompt, pasts: Sequence[Value], ir: Builder) -> Value:
    """i32[B, P + 1]: that of the prompt, and 1 behind it"""
    batch, length = prompt.words.shape
    total = pasts[0].shape[3] + 1
    column = ir.iota((total,), 0, I64)
    of_prompt = ir.gather(prompt.mask, ir.min(column, ir.sub(ir.size(length), 1)), 1)
    return ir.select(ir.broadcast_to(ir.less(column, ir.size(length)), (batch, total)), of_prompt, 1)


def _next_word(
    scores: Value, sequences: Value, length: Value, ended: Value, node: Node, ir: Builder, *, is_first: bool
) -> tuple[Value, Value, Value]:
    """The sequences with a word behind `length`: i64[] others, that word: i32[B], and which sequences have ended"""
    batch, words = scores.shape
    scores = _penalised(scores, sequences, length, node, ir)
    scores = _without_repetition(scores, sequences, length, node, ir)
    scores = _masked(scores, "vocab_mask", (words,), node, ir)
    if is_first:
        scores = _masked(scores, "prefix_vocab_mask", (batch, words), node, ir)
    scores = _long_enough(scores, length, node, ir)
    chosen = ir.cast(ir.arg_reduce(scores, "max", 1), I32)
    ended = ir.or_(ended, ir.equal(chosen, node.int("eos_token_id")))
    chosen = ir.select(ended, node.int("pad_token_id"), chosen)
    is_here = ir.equal(ir.iota((1, sequences.shape[1]), 1, I64), length)
    return ir.select(is_here, ir.reshape(chosen, (batch, 1)), sequences), chosen, ended


def _penalised(scores: Value, sequences: Value, length: Value, node: Node, ir: Builder) -> Value:
    """Scores of words that are there already, divided by the penalty, or multiplied where they are below 0"""
    given = node.optional("repetition_penalty")
    if given is None:
        return scores
    penalty = ir.cast(only_element(given, "repetition_penalty", node, ir), F32)
    is_there = ir.less(ir.iota((1, sequences.shape[1]), 1, I64), length)
    # In the place of words that are not there yet the first one is penalised again, to the same score.
    words = ir.cast(ir.select(is_there, sequences, ir.slice_axis(sequences, 1, 0, 1)), I64)
    own = ir.gather_along(scores, words, 1)
    changed = ir.select(ir.less(own, 0), ir.mul(own, penalty), ir.div(own, penalty))
    return ir.scatter_along(scores, words, changed, 1, "set")


def _without_repetition(scores: Value, sequences: Value, length: Value, node: Node, ir: Builder) -> Value:
    """Scores, the least for a word that would end a row of no_repeat_ngram_size words that is there already"""
    size = node.int("no_repeat_ngram_size")
    if size <= 0:
        return scores
    blocked = repeated_words(sequences, length, scores.shape[1], size, ir)
    return ir.select(blocked, ir.scalar(LOWEST, F32), scores)


def _masked(scores: Value, name: str, shape: tuple[Dim, ...], node: Node, ir: Builder) -> Value:
    """Scores, the least where the input `name` is 0"""
    given = node.optional(name)
    if given is None:
        return scores
    hidden = ir.equal(of_shape(given, shape, name, node, ir, CODE), 0)
    return ir.select(ir.broadcast_to(hidden, scores.shape), ir.scalar(LOWEST, F32), scores)


def _long_enough(scores: Value, length: Value, node: Node, ir: Builder) -> Value:
    """Scores, the least for the end where a sequence is below min_length"""
    given = node.optional("min_length")
    if given is None:
        return scores
    least = ir.cast(only_element(given, "min_length", node, ir), I64)
    is_end = ir.equal(ir.iota((1, scores.shape[1]), 1, I64), node.int("eos_token_id"))
    is_short = ir.and_(is_end, ir.less(length, least))
    return ir.select(ir.broadcast_to(is_short, scores.shape), ir.scalar(LOWEST, F32), scores)
