"""Operators that move elements and compute nothing."""

from collections.abc import Iterator, Sequence
from itertools import permutations, product

from benchmarks.operators.case import OperatorCase, case, operand
from benchmarks.operators.forms import in_forms

TYPES = ("float32", "float16", "uint8", "int64")


def cases() -> Iterator[OperatorCase]:
    yield from _transposes()
    yield from _joined()
    yield from _cut()
    yield from _filled()
    yield from _blocks()


def _transposes() -> Iterator[OperatorCase]:
    for rank, shape in ((2, (512, 768)), (3, (16, 197, 384)), (4, (4, 32, 56, 60)), (4, (1, 128, 12, 64))):
        for perm in permutations(range(rank)):
            if perm == tuple(range(rank)):
                continue
            moved = case(f"Transpose<perm = {list(perm)}>(x)", operand("x", "float32", shape))
            yield from in_forms([moved], "symbolic", "open")
            yield from (
                case(f"Transpose<perm = {list(perm)}>(x)", operand("x", dtype, shape))
                for dtype in TYPES[1:]
                if rank < 4
            )
    for dtype, shape in product(TYPES, ((1, 3, 224, 224), (1, 224, 224, 3), (8, 64, 28, 28), (8, 28, 28, 64))):
        turned = [0, 2, 3, 1] if shape[1] in (3, 64) else [0, 3, 1, 2]
        moved = case(f"Transpose<perm = {turned}>(x)", operand("x", dtype, shape))
        yield from in_forms([moved], "sliced", "last sliced", "split", "after", "before")
    for shape in ((1, 8400, 84), (1, 84, 8400), (100, 4)):
        yield case(
            "Transpose<perm = [1, 0]>(x)" if len(shape) == 2 else "Transpose<perm = [0, 2, 1]>(x)",
            operand("x", "float32", shape),
        )
    # Windows of Swin, heads of attention, shuffled channels.
    yield from (
        case("Transpose<perm = [0, 1, 3, 2, 4, 5]>(x)", operand("x", dtype, (1, 8, 7, 8, 7, 96))) for dtype in TYPES
    )
    yield from (
        case("Transpose<perm = [0, 2, 1, 3, 4]>(x)", operand("x", dtype, (1, 4, 58, 28, 28))) for dtype in TYPES
    )
    yield from (
        case("Transpose<perm = [2, 0, 3, 1, 4]>(x)", operand("x", dtype, (1, 197, 3, 12, 64))) for dtype in TYPES
    )


def _joined() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], int]] = (
        ((1, 64, 56, 56), 1), ((1, 56, 56, 64), 3), ((128, 384), 1), ((128, 384), 0), ((1, 128, 12, 64), 1),
        ((1, 12, 128, 64), 2), ((8400, 4), 1), ((1, 4, 8400), 1), ((8400, 1), 1),
    )  # fmt: skip
    for (shape, axis), dtype in product(shapes, TYPES):
        parts = operand("a", dtype, shape), operand("b", dtype, shape)
        joined = case(f"Concat<axis = {axis}>(a, b)", *parts)
        yield from (
            in_forms([joined], "symbolic", "open", "sliced", "split", "transposed", "after", "before")
            if dtype == "float32"
            else [joined]
        )
        yield case(f"Concat<axis = {axis}>(a, b, c)", *parts, operand("c", dtype, shape))
    yield case(
        "Concat<axis = 2>(past, new)",
        operand("past", "float32", (1, 12, 511, 64)),
        operand("new", "float32", (1, 12, 1, 64)),
    )


def _cut() -> Iterator[OperatorCase]:
    shapes: Sequence[tuple[tuple[int, ...], int]] = (
        ((1, 128, 56, 56), 1), ((1, 56, 56, 128), 3), ((128, 2304), 1), ((1, 84, 8400), 1), ((8400, 84), 1),
        ((512, 768), 0),
    )  # fmt: skip
    for (shape, axis), dtype in product(shapes, TYPES):
        size, x = shape[axis], operand("x", dtype, shape)
        yield case(f"Split<axis = {axis}, num_outputs = 2>(x)", x, outputs="y, rest")
        for begin, end, step in ((size // 4, size // 4 * 3, 1), (0, size, 2), (size - 1, -size - 1, -1)):
            constants = (
                f"int64[1] b = {{{begin}}}, int64[1] e = {{{end}}}, int64[1] a = {{{axis}}}, int64[1] s = {{{step}}}"
            )
            cut = case("Slice(x, b, e, a, s)", x, constants=constants)
            yield from in_forms([cut], "symbolic", "open", "transposed") if dtype == "float32" and axis else [cut]
    for shape in ((1, 64, 56, 56), (1, 128, 768)):
        rank = len(shape)
        flat = case("Flatten(x)", operand("x", "float32", shape))
        yield from in_forms([flat], "transposed", "symbolic")
        inner = ", ".join(map(str, [shape[0], -1, shape[-1]]))
        yield from in_forms(
            [case("Reshape(x, s)", operand("x", "float32", shape), constants=f"int64[3] s = {{{inner}}}")],
            "transposed",
            "symbolic",
            "sliced",
        )
        yield case("Unsqueeze(x, a)", operand("x", "float32", shape), constants=f"int64[1] a = {{{rank - 1}}}")
        yield from in_forms(
            [case("Squeeze(x, a)", operand("x", "float32", shape), constants="int64[1] a = {0}")], "transposed"
        )


def _filled() -> Iterator[OperatorCase]:
    pads = {"constant": (1, 1), "reflect": (3, 3), "edge": (2, 1), "wrap": (2, 2)}
    for (mode, (low, high)), dtype in product(pads.items(), TYPES):
        constants = f"int64[8] p = {{0,0,{low},{low},0,0,{high},{high}}}"
        padded = case(f'Pad<mode = "{mode}">(x, p)', operand("x", dtype, (1, 64, 56, 56)), constants=constants)
        yield from (
            in_forms([padded], "symbolic", "open", "transposed", "sliced", "after") if dtype == "float32" else [padded]
        )
    last = "int64[6] p = {0,0,8,0,0,8}"
    yield from (
        case(f'Pad<mode = "{mode}">(x, p)', operand("x", "float32", (1, 128, 768)), constants=last) for mode in pads
    )
    yield from (
        case(
            f'Pad<mode = "{mode}">(x, p)',
            operand("x", "float32", (1, 56, 56, 64)),
            constants="int64[8] p = {0,1,1,0,0,1,1,0}",
        )
        for mode in pads
    )
    image = "int64[8] p = {0,0,1,1,0,0,1,1}"
    for mode, dtype in product(pads, TYPES):
        padded = case(f'Pad<mode = "{mode}">(x, p)', operand("x", dtype, (1, 3, 224, 224)), constants=image)
        yield from in_forms([padded], "open")
    for mode, shape in product(pads, ((8, 8000), (8, 16000))):
        line = "int64[4] p = {0,200,0,200}"
        yield case(f'Pad<mode = "{mode}">(x, p)', operand("x", "float32", shape), constants=line)
    volume = "int64[10] p = {0,0,1,1,1,0,0,1,1,1}"
    yield case("Pad(x, p)", operand("x", "float32", (1, 16, 8, 28, 28)), constants=volume)
    yield case("Pad(x, p)", operand("x", "float32", (1, 32, 56, 56)), operand("p", "int64", (8,), "limits", 2))
    shapes: Sequence[tuple[tuple[int, ...], tuple[int, ...]]] = (
        ((1, 1, 128, 128), (1, 12, 1, 1)), ((128, 1), (1, 768)), ((1, 768), (128, 1)), ((64, 96), (2, 3)),
        ((1, 8, 1, 64), (1, 1, 128, 1)),
    )  # fmt: skip
    for (shape, repeats), dtype in product(shapes, TYPES):
        full = ", ".join(str(size * count) for size, count in zip(shape, repeats, strict=True))
        x, rank = operand("x", dtype, shape), len(shape)
        yield case("Tile(x, r)", x, constants=f"int64[{rank}] r = {{{', '.join(map(str, repeats))}}}")
        if shape != (64, 96):
            yield from in_forms([case("Expand(x, r)", x, constants=f"int64[{rank}] r = {{{full}}}")], "symbolic")
    yield case("ConstantOfShape(s)", operand("s", "int64", (2,), "divisors", 300))
    yield case(
        "Range(a, b, c)",
        operand("a", "int64", (), "integers", 2),
        operand("b", "int64", (), "limits", 100000),
        operand("c", "int64", (), "divisors", 2),
    )
    for upper, dtype in product((0, 1), ("float32", "int64")):
        yield case(f"Trilu<upper = {upper}>(x)", operand("x", dtype, (12, 256, 256)))
    yield case("EyeLike<k = 1>(x)", operand("x", "float32", (512, 512)))


def _blocks() -> Iterator[OperatorCase]:
    for dtype, mode in product(TYPES, ("DCR", "CRD")):
        yield case(f'DepthToSpace<blocksize = 2, mode = "{mode}">(x)', operand("x", dtype, (1, 256, 32, 32)))
    for dtype in TYPES:
        yield case("SpaceToDepth<blocksize = 2>(x)", operand("x", dtype, (1, 64, 64, 64)))
        yield case(
            "ReverseSequence<batch_axis = 1, time_axis = 0>(x, n)",
            operand("x", dtype, (50, 16, 256)),
            operand("n", "int64", (16,), "divisors", 50),
        )
