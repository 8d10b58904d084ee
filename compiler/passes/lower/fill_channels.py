"""Images of three channels with a fourth one of zeros, and their padding in memory, for tensor cores.

Single elements of 2 bytes are what a first convolution gathers otherwise, each with an address and a mask of its own;
of four channels it copies 8 bytes at a time. Windows of one pixel read each element once, as the copy would.
"""

from onnxc.compiler.ir.dims import at_least
from onnxc.compiler.ir.module import Attribute, Module, Op
from onnxc.compiler.ir.primitives.contractions import parse_dimensions
from onnxc.compiler.ir.rewriter import Outcome, Rewriter, rewrite, rule

FILLED = {3: 4, 5: 8, 6: 8, 7: 8}
"""How many channels there are in place of how few."""


def fill_channels(module: Module) -> Module:
    """Writes images of few channels with more of them before they are convolved."""
    return rewrite(module, [fill_first])


@rule("convolution")
def fill_first(op: Op, build: Rewriter) -> Outcome:
    """convolution(x, w) = convolution(pad(x, 0), pad(w, 0)), the channels filled up with zeros in both"""
    (x, w), labels = op.operands, parse_dimensions(op.text("dimensions"))
    channels = w.shape[labels.w.input]
    filled = FILLED.get(channels, 0) if isinstance(channels, int) else 0
    taps = [w.shape[axis] for axis in labels.w.spatial]
    if not filled or taps == [1] * len(taps):
        return None
    if build.known_array(w) is None or not _is_plain(op) or labels.x.channel != x.rank - 1:
        return None
    low, high = (labels.x.arranged(0, 0, op.dims(name)) for name in ("low", "high"))
    more = labels.x.arranged(0, filled - channels, (0,) * (x.rank - 2))
    image = build.pad(x, low, [size + added for size, added in zip(high, more, strict=True)])
    none = [0] * w.rank
    filters = build.pad(w, none, [filled - channels if axis == labels.w.input else 0 for axis in range(w.rank)])
    zeros = (0,) * (x.rank - 2)
    attributes: dict[str, Attribute] = {**op.attributes, "low": zeros, "high": zeros}
    return build.op("convolution", [image, filters], attributes)[0]


def _is_plain(op: Op) -> bool:
    """Whether all channels of floats are summed up, and nothing is cut off of the image."""
    is_whole = all(at_least(size, 0) for size in (*op.dims("low"), *op.dims("high")))
    return op.int("groups") == 1 and set(op.ints("input_dilations")) == {1} and op.dtype().is_float and is_whole
