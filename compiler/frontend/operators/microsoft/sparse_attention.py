"""SparseAttention of com.microsoft: attention with a cache, in which a query sees some blocks of the keys before it.

Which ones is listed for each layout of blocks: row r of blocks of queries sees the blocks of keys from
block_row_indices[r] on, up to the next row's, in block_col_indices. Head n has layout n modulo their count.
"""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_domains import MICROSOFT
from onnxc.compiler.frontend.operator_helpers.attention_heads import (
    PAST,
    attended,
    grouped_heads,
    join_heads,
    written_behind,
)
from onnxc.compiler.frontend.operator_helpers.attention_masks import LOWEST
from onnxc.compiler.frontend.operator_helpers.shape_inputs import of_shape, only_element, read_lengths
from onnxc.compiler.frontend.operators.microsoft.group_query_attention import turned_heads
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dtypes import BOOL, F32, I64
from onnxc.compiler.ir.module import Value

RULE = "ONNX Runtime SparseAttention"
CODE = "attention-mask"
NEGATIVE_INFINITY = float("-inf")


@operator("SparseAttention", since=(1,), domain=MICROSOFT)
def sparse_attention(node: Node, ir: Builder) -> tuple[Value, Value, Value]:
    """query: T[B, S, N * D], key, value: T[B, S, G * D], past_key, past_value: T[B, G, C, D], block_row_indices: i32[L,

    R + 1], block_col_indices: i32[L, J], key_total_sequence_lengths: i32[B]  ->  output: T[B, S, N * D], and the past
    with the new tokens in it. Or query: T[B, S, (N + 2 G) * D] with all three.
    """
    q, k, v = grouped_heads(node, ir)
    batch, _, length, _ = q.shape
    past_k, past_v = (
        of_shape(node.input(name), (batch, k.shape[1], None, k.shape[3]), name, node, ir, PAST)
        for name in ("past_key", "past_value")
    )
    past_v = of_shape(past_v, past_k.shape, "past_value", node, ir, PAST)
    before = _lengths_before(q, past_k, node, ir)
    positions = ir.add(ir.reshape(before, (batch, 1)), ir.iota((1, length), 1, I64))
    if node.flag("do_rotary", False):
        q, k = turned_heads(q, k, positions, node, ir)
    k, v = (written_behind(past, new, before, ir) for past, new in ((past_k, k), (past_v, v)))
    bias = _bias(q, k, positions, node, ir)
    return join_heads(attended(q, k, v, bias, node, ir), ir), k, v


def _lengths_before(q: Value, past: Value, node: Node, ir: Builder) -> Value:
    """i64[B]: how many tokens of each batch are in its cache before the new ones; none where these are all of them"""
    batch, _, length, _ = q.shape
    given = only_element(node.input("total_sequence_length"), "total_sequence_length", node, ir)
    (total,) = read_lengths(ir.reshape(given, (1,)), "total_sequence_length", node, ir, 1)
    ir.guard(past.shape[2], total, "at_least", "total_sequence_length is more than past_key has room for")
    ends = of_shape(node.input("key_total_sequence_lengths"), (batch,), "key_total_sequence_lengths", node, ir, PAST)
    before = ir.max(ir.sub(ir.cast(ends, I64), ir.size(length)), 0)
    return ir.select(ir.equal(ir.size(total), ir.size(length)), 0, before)


# Blocks


def _bias(q: Value, k: Value, positions: Value, node: Node, ir: Builder) -> Value:
    """f32[B, N, S, C]: minus infinity for the keys behind a query, the least number for those in hidden blocks"""
    (batch, heads, length, _), keys = q.shape, k.shape[2]
    size = node.int("sparse_block_size")
    if size < 1:
        node.fail("attribute-range", f"sparse_block_size is {size}", rule=f"{RULE}, sparse_block_size")
    table = _visible_blocks(node, ir)
    layouts, rows, _ = table.shape
    if not isinstance(layouts, int) or not isinstance(heads, int):
        node.unsupported("the number of layouts of blocks is only known at run time")
    if layouts < 1 or heads % layouts:
        node.fail(CODE, f"{heads} heads do not take turns among {layouts} layouts", rule=f"{RULE}, block_row_indices")
    last = ir.sub(ir.size(rows), 1)
    row = ir.min(ir.div(positions, size), last)
    column = ir.min(ir.div(ir.iota((keys,), 0, I64), size), last)
    shown = ir.gather(ir.gather(table, row, 1), column, 3)
    by_layout = ir.transpose(shown, (1, 0, 2, 3))
    shape = (batch, heads // layouts, layouts, length, keys)
    visible = ir.reshape(ir.broadcast(by_layout, (0, 2, 3, 4), shape), (batch, heads, length, keys))
    is_before = ir.less_equal(ir.iota((1, 1, 1, keys), 3, I64), ir.reshape(positions, (batch, 1, length, 1)))
    bias = ir.select(visible, ir.scalar(0, F32), ir.scalar(LOWEST, F32))
    return ir.select(is_before, bias, ir.scalar(NEGATIVE_INFINITY, F32))


def _visible_blocks(node: Node, ir: Builder) -> Value:
    """bool[L, R, R]: which blocks of keys a row of blocks sees; a row that lists as many as there are up to it, all"""
    starts, columns = (ir.cast(x, I64) for x in node.inputs("block_row_indices", "block_col_indices"))
    if starts.rank != 2 or starts.shape[1] == 0:
        node.fail(CODE, f"block_row_indices is {starts.type}", rule=f"{RULE}, block_row_indices")
    layouts, rows = starts.shape[0], starts.shape[1] - 1
    columns = of_shape(columns, (layouts, None), "block_col_indices", node, ir, CODE)
    listed = columns.shape[1]
    ends = ir.slice(starts, (0, 1), (layouts, rows))
    is_behind = ir.less_equal(ir.unsqueeze(ends, (2,)), ir.iota((1, 1, listed), 2, I64))
    # What is behind the last row belongs to a row that is cut off.
    row = ir.reduce(ir.cast(is_behind, I64), "sum", (1,))
    column = ir.clamp(columns, 0, ir.sub(ir.size(rows), 1))
    layout = ir.iota((layouts, listed), 0, I64)
    indices = ir.concatenate([ir.unsqueeze(x, (2,)) for x in (layout, row, column)], 2)
    empty, ones = ir.full((layouts, rows + 1, rows), 0, I64), ir.full((layouts, listed), 1, I64)
    table = ir.slice_axis(ir.scatter_nd(empty, indices, ones, "max"), 1, 0, rows)
    counts = ir.sub(ends, ir.slice(starts, (0, 0), (layouts, rows)))
    is_full = ir.equal(counts, ir.add(ir.iota((1, rows), 1, I64), 1))
    return ir.or_(ir.cast(table, BOOL), ir.unsqueeze(is_full, (2,)))
