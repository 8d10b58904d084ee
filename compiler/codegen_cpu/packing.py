"""Packing B into panels on the way; constants are packed when the program is compiled (planning/layouts.py)."""

from collections.abc import Sequence

from onnxc.compiler.codegen_host.llvm_ir import FunctionBuilder, as_reg
from onnxc.compiler.codegen_host.llvm_values import Int, Reg, vector_type

UNPACKED_BYTES = 16
"""Within so many, one instruction interleaves two registers: 16x16 bytes take 64 of them, exchanges 100."""


def pack_panel(
    f: FunctionBuilder,
    source: Reg,
    panel: Reg,
    strides: tuple[Int, Int],
    sizes: tuple[Int, Int],
    shape: tuple[int, int],
    element: str,
) -> None:
    """panel[k][j] = source[k * k stride + j * n stride] for k < depth, with zeros from column `left` on.

    `strides` are (k, n), `sizes` (depth, left), `shape` the panel's (vectors, lanes).
    """
    (k_stride, n_stride), (depth, left), (vectors, lanes) = strides, sizes, shape
    if k_stride == 1 and n_stride != 1:
        _pack_transposed(f, source, panel, n_stride, sizes, shape, element)
        return
    vector, width = vector_type(element, lanes), vectors * lanes
    masks = [f.tail_mask(lanes, f.sub(left, column * lanes)) for column in range(vectors)]
    places = vector_type("i64", lanes)
    steps = None if n_stride == 1 else f.mul(f.lane_ids(places), f.splat(as_reg(n_stride), lanes))

    def row(k: Int) -> None:
        start = f.gep(source, f.mul(k, k_stride), element)
        for column, mask in enumerate(masks):
            address = f.gep(start, f.mul(n_stride, column * lanes), element)
            zero = f.constant(vector, 0.0)
            if steps is None:
                x = f.masked_load(vector, address, mask, passthru=zero)
            else:
                x = f.gather(vector, address, steps, mask, passthru=zero)
            f.store(x, f.gep(panel, f.add(f.mul(k, width), column * lanes), element), align=64)

    f.loop(0, depth, 1, row)


def _pack_transposed(
    f: FunctionBuilder,
    source: Reg,
    panel: Reg,
    n_stride: Int,
    sizes: tuple[Int, Int],
    shape: tuple[int, int],
    element: str,
) -> None:
    """As `pack_panel` for a B that is dense along k: squares of `lanes` by `lanes` are turned in registers."""
    (depth, left), (vectors, lanes) = sizes, shape
    vector, width = vector_type(element, lanes), vectors * lanes
    zero = f.constant(vector, 0.0)

    def square(k: Int, column: int) -> None:
        mask = f.tail_mask(lanes, f.sub(depth, k))
        rows = []
        for lane in range(lanes):
            exists = f.icmp("sgt", left, column * lanes + lane) if isinstance(left, Reg) else None
            if exists is None and isinstance(left, int) and left <= column * lanes + lane:
                rows.append(zero)
                continue
            start = f.gep(source, f.add(f.mul(n_stride, column * lanes + lane), k), element)
            lanes_here = mask if exists is None else f.and_(mask, f.splat(exists, lanes))
            rows.append(f.masked_load(vector, start, lanes_here, passthru=zero))
        for lane, turned in enumerate(turn_square(f, rows)):
            address = f.gep(panel, f.add(f.mul(f.add(k, lane), width), column * lanes), element)
            inside = f.icmp("slt", f.add(k, lane), depth)
            f.masked_store(turned, address, f.splat(inside, lanes), align=64)

    for column in range(vectors):
        f.loop(0, depth, lanes, lambda k, column=column: square(k, column))


def turn_square(f: FunctionBuilder, rows: Sequence[Reg]) -> list[Reg]:
    """The square matrix of `rows` transposed: by exchanging ever larger squares, or bytes by unpacking."""
    if rows[0].element == "i8" and len(rows) <= UNPACKED_BYTES:
        return _unpack_square(f, rows)
    turned, lanes, distance = list(rows), len(rows), 1
    while distance < lanes:
        following = list(turned)
        for row in range(lanes):
            if row & distance:
                continue
            a, b = turned[row], turned[row + distance]
            low = [lane if not lane & distance else lanes + (lane ^ distance) for lane in range(lanes)]
            high = [lane ^ distance if not lane & distance else lanes + lane for lane in range(lanes)]
            following[row], following[row + distance] = f.shuffle(a, b, low), f.shuffle(a, b, high)
        turned, distance = following, distance * 2
    return turned


def _unpack_square(f: FunctionBuilder, rows: Sequence[Reg]) -> list[Reg]:
    """Row i and the row half a square below interleave, as often as a side has bits."""
    turned, lanes = list(rows), len(rows)
    half = lanes // 2
    low = [lane for pair in range(half) for lane in (pair, lanes + pair)]
    high = [half + lane for lane in low]
    for _ in range(lanes.bit_length() - 1):
        pairs = zip(turned[:half], turned[half:], strict=True)
        turned = [f.shuffle(a, b, lanes) for a, b in pairs for lanes in (low, high)]
    return turned
