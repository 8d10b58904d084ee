"""RotaryEmbedding: pairs of features turned by an angle that the position decides."""

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, at_least, floordiv
from onnxc.compiler.ir.module import Value

RULE = "ONNX RotaryEmbedding"


@operator("RotaryEmbedding", since=(23,))
def rotary_embedding(node: Node, ir: Builder) -> Value:
    """X: T[B, H, S, D] or T[B, S, H * D], caches: T[B, S, R/2], or T[P, R/2] with position_ids: i64[B, S]  ->  as X

    The first R = `rotary_embedding_dim` (or D) features of each head are turned. Caches or positions of a batch of 1
    are for each element of a larger one, as PyTorch's exporter writes them, though the standard does not say so.
    Source: https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
    """
    x = node.input("X")
    heads = _by_heads(x, node, ir)
    width = heads.shape[3]
    turned: Dim = node.int("rotary_embedding_dim") or width
    if isinstance(turned, int) and (turned % 2 or (isinstance(width, int) and not 0 <= turned <= width)):
        message = f"{turned} of {width} features cannot be turned in pairs"
        node.fail("rotary-width", message, rule=f"{RULE}, attribute rotary_embedding_dim")
    if not at_least(width, turned):
        ir.guard(width, turned, "at_least", "fewer features than rotary_embedding_dim")
    part = ir.slice_axis(heads, 3, 0, turned)
    cos, sin = (_angles(name, part, node, ir) for name in ("cos_cache", "sin_cache"))
    part = ir.with_shape(part, (*part.shape[:3], cos.shape[3] * 2))
    part = ir.rotary(part, cos, ir.with_shape(sin, cos.shape), node.flag("interleaved"))
    if turned != width:
        rest = ir.slice_axis(heads, 3, turned, width - turned)
        part = ir.with_shape(ir.concatenate([part, rest], 3), heads.shape)
    return _like(part, x, ir)


def _by_heads(x: Value, node: Node, ir: Builder) -> Value:
    """T[B, H, S, D]"""
    if x.rank == 4:
        return x
    if x.rank != 3:
        node.fail("rotary-rank", f"X has {x.rank} axes, not 3 or 4", rule=RULE)
    batch, length, hidden = x.shape
    heads = node.int("num_heads", 0)
    if heads < 1 or (isinstance(hidden, int) and hidden % heads):
        node.fail("attention-heads", f"{hidden} features for {heads} heads", rule=f"{RULE}, attribute num_heads")
    return ir.transpose(ir.reshape(x, (batch, length, heads, floordiv(hidden, heads))), (0, 2, 1, 3))


def _like(heads: Value, x: Value, ir: Builder) -> Value:
    """T[B, H, S, D] in the layout of X."""
    return heads if x.rank == 4 else ir.reshape(ir.transpose(heads, (0, 2, 1, 3)), x.shape)


def _angles(name: str, part: Value, node: Node, ir: Builder) -> Value:
    """A cache of cosines or sines for each element of `part`: T[B, H, S, R/2]"""
    cache, positions = node.input(name), node.optional("position_ids")
    if positions is not None:
        if (cache.rank, positions.rank) != (2, 2):
            message = f"{name} and position_ids have {cache.rank} and {positions.rank} axes, not 2"
            node.fail("rotary-positions", message, rule=f"{RULE}, position_ids")
        cache = ir.gather(cache, ir.wrap_negative(positions, cache.shape[0]), 0)
    if cache.rank != 3:
        node.fail("rotary-cache", f"{name} has {cache.rank} axes, not 3", rule=f"{RULE}, input {name}")
    batch, _, length, width = part.shape
    half = ir.require_equal(cache.shape[2], floordiv(width, 2), f"{name} does not have half the width", "rotary-width")
    length = ir.require_equal(cache.shape[1], length, f"the lengths of {name} and X differ", "rotary-cache")
    if cache.shape[0] != 1:
        batch = ir.require_equal(cache.shape[0], batch, f"the batches of {name} and X differ", "rotary-cache")
        cache = ir.with_shape(cache, (batch, length, half))
    cache = ir.broadcast_to(ir.with_shape(cache, (cache.shape[0], length, half)), (batch, length, half))
    return ir.broadcast(cache, (0, 2, 3), (*part.shape[:3], half))
