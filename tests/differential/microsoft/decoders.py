"""Recipes: attention of decoders with a cache that they write over."""

import numpy as np

from tests.differential.microsoft.attention import HEADS
from tests.differential.microsoft.draw import Draw, Operands, Parts, recipe

LAYOUTS, BLOCK, ROWS = (1, 2), 16, 4


def block_lists(draw: Draw) -> Operands:
    """Blocks of keys that rows of blocks see, their own among them, for one or more layouts."""
    rows, columns = [], []
    for _ in range(draw.pick(*LAYOUTS)):
        seen = [[c for c in range(r + 1) if c == r or draw.flag()] for r in range(ROWS)]
        rows.append(np.cumsum([0, *map(len, seen)]))
        columns.append([column for own in seen for column in own])
    width = max(map(len, columns))
    padded = [own + [-1] * (width - len(own)) for own in columns]
    return {"rows": np.array(rows, np.int32), "columns": np.array(padded, np.int32)}


@recipe("SparseAttention")
def sparse_attention(draw: Draw) -> Parts:
    b, groups, depth, heads = draw.size(1, 3), 2, 16, draw.pick(2, 4)
    total = draw.size(2, BLOCK * ROWS)
    s, packed, rotary = total if draw.flag() else 1, draw.flag(0.3), draw.pick(0, 1)
    inputs: Operands = {"q": draw.floats(b, s, (heads + 2 * groups if packed else heads) * depth)}
    inputs |= {name: None if packed else draw.floats(b, s, groups * depth) for name in ("k", "v")}
    inputs |= {name: draw.floats(b, groups, BLOCK * ROWS, depth) for name in ("past_k", "past_v")}
    # Of other lengths in one batch, ONNX Runtime reads scores where it has not written them.
    inputs |= {**block_lists(draw), "total": np.array([total], np.int32), "lengths": np.full(b, total, np.int32)}
    if rotary:
        phase = np.arange(BLOCK * ROWS)[:, None] / 10.0 ** np.arange(depth // 2)
        inputs |= {"cos": np.cos(phase).astype(draw.dtype), "sin": np.sin(phase).astype(draw.dtype)}
    attributes: dict[str, object] = {"num_heads": heads, "kv_num_heads": groups, "sparse_block_size": BLOCK}
    attributes |= {"do_rotary": rotary, "rotary_interleaved": draw.pick(0, 1), "scale": draw.pick(0.0, 0.2)}
    return Parts(
        inputs,
        attributes,
        outputs=["y", "present_k", "present_v"],
        constants=["rows", "columns"] if draw.flag() else [],
        shared={"present_k": "past_k", "present_v": "past_v"},
    )


@recipe("DecoderMaskedMultiHeadAttention")
def decoder_masked_attention(draw: Draw) -> Parts:
    batch, beams, depth, room = draw.size(1, 3), draw.pick(1, 2, 3), draw.size(), draw.size(3, 8)
    rows, hidden, past, across = batch * beams, HEADS * depth, draw.size(0, room - 1), draw.flag(0.3)
    keys = room if across else past + 1
    with_beams = beams > 1 and not across
    mask = draw.integers(0, 2, rows, keys)
    mask[:, -1] = 1
    inputs: Operands = {"q": draw.floats(rows, 1, hidden)}
    inputs |= {
        name: draw.floats(rows, HEADS, room, depth) if across else draw.floats(rows, 1, hidden) for name in ("k", "v")
    }
    inputs["mask"] = mask if draw.flag() else None
    scores = draw.floats(*draw.pick((1, HEADS, 1, keys), (rows, HEADS, 1, keys), (rows, 1, 1, keys)))
    if with_beams:
        # ONNX Runtime takes the bias of another head and beam.
        scores = np.tile(scores[:1, :1], (rows, HEADS, 1, 1))
    inputs["scores"] = None if across or draw.flag() else scores
    inputs |= {name: None if across else draw.floats(rows, HEADS, room, depth) for name in ("past_k", "past_v")}
    inputs["past"] = None if across else np.array([past], np.int32)
    inputs["width"] = np.array([beams], np.int32) if with_beams else None
    inputs["sources"] = draw.integers(0, beams, batch, beams, room) if with_beams else None
    inputs["bias"] = draw.floats(3 * hidden) if draw.flag() else None
    attributes: dict[str, object] = {"num_heads": HEADS, "past_present_share_buffer": int(not across)}
    return Parts(inputs, attributes, outputs=["y"] if across else ["y", "present_k", "present_v"])
