"""At least one op of every primitive, with symbolic sizes, and data to run it on. Several tests read this one table."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate, symbols_of
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.dtypes import BF16, BOOL, F16, F32, F64, I8, I32, I64, U8, U32, DType
from onnxc.compiler.ir.module import Attributes, Op, Parameter
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.primitives.pointwise import BINARY, COMPARE, UNARY
from onnxc.compiler.ir.types import TensorType

Make = Callable[[np.random.Generator, tuple[int, ...], Mapping[str, int]], np.ndarray]

N, M, K = (Size.symbol(name) for name in "NMK")


@dataclass(frozen=True)
class Operand:
    """The type of an operand, and what makes its elements."""

    type: TensorType
    make: Make


@dataclass(frozen=True)
class Case:
    """One op. `values` are the numbers that each symbol takes in turn; `devices` of a collective hold an operand each.

    `exact`: its results must be the same to the bit however its axes are split.
    """

    name: str
    operands: tuple[Operand, ...]
    attributes: Attributes
    values: Sequence[int] = (0, 1, 3)
    devices: int = 1
    exact: bool = True

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(operand.type) for operand in self.operands)})"

    def op(self) -> Op:
        types = tuple(operand.type for operand in self.operands)
        rule = PRIMITIVES[self.name].type_rule
        assert rule is not None, self.name
        parameters = tuple(Parameter(f"x{index}", type).value for index, type in enumerate(types))
        return Op(self.name, parameters, self.attributes, (), rule(types, self.attributes, ()))

    def sizes(self) -> Iterator[dict[str, int]]:
        """Every choice of a number for each symbol of the operands and attributes."""
        dims = [dim for operand in self.operands for dim in operand.type.known_shape]
        dims += [dim for value in self.attributes.values() if isinstance(value, tuple) for dim in value]
        symbols = sorted({symbol for dim in dims if isinstance(dim, Size) for symbol in symbols_of(dim)})
        for choice in itertools.product(self.values, repeat=len(symbols)):
            yield dict(zip(symbols, choice, strict=True))

    def arrays(self, sizes: Mapping[str, int]) -> list[np.ndarray]:
        """The operands; those of a collective, one for each device."""
        random = np.random.default_rng(17)
        return [
            operand.make(random, tuple(evaluate(dim, sizes) for dim in operand.type.known_shape), sizes)
            for operand in self.operands
            for _ in range(self.devices)
        ]


# Elements


def _numbers(dtype: DType) -> Make:
    """Small whole numbers, of which sums and products are exact in any order."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        low = 0 if dtype.kind in ("uint", "bool") else -3
        return random.integers(low, 2 if dtype.is_bool else 4, shape).astype(dtype.numpy)

    return make


def _odd_floats(dtype: DType) -> Make:
    """Fractions, and where there is room NaN, infinities and -0.0."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        array = np.asarray(random.normal(0, 2, shape)).astype(dtype.numpy)
        odd = np.array([np.nan, np.inf, -np.inf, -0.0]).astype(dtype.numpy)
        array.reshape(-1)[: min(array.size, 4)] = odd[: array.size]
        return array

    return make


def _normal(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
    return random.normal(0, 1, shape).astype(np.float32)


def tensor(dtype: DType, *shape: Dim) -> Operand:
    """An operand of small whole numbers."""
    return Operand(TensorType(dtype, shape), _numbers(dtype))


def _odd(dtype: DType, *shape: Dim) -> Operand:
    return Operand(TensorType(dtype, shape), _odd_floats(dtype))


def _fractions(*shape: Dim) -> Operand:
    return Operand(TensorType(F32, shape), _normal)


def _indices(limit: Dim, *shape: Dim) -> Operand:
    """Indices below `limit`, and one beyond, which is clamped."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        return random.integers(0, evaluate(limit, sizes) + 1, shape).astype(np.int64)

    return Operand(TensorType(I64, shape), make)


def _boxes(*shape: Dim) -> Operand:
    """Boxes that overlap now and then, some of them empty: any two corners that are opposite."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        first = random.integers(0, 6, (*shape[:-1], 2))
        return np.concatenate([first, first + random.integers(-3, 4, first.shape)], -1).astype(np.float32)

    return Operand(TensorType(F32, (*shape, 4)), make)


def _roots(*shape: Dim, dtype: DType = F64) -> Operand:
    """Cosines and sines of the parts of a turn."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        angles = 2 * np.pi * np.arange(shape[0]) / max(shape[0], 1)
        return np.stack([np.cos(angles), np.sin(angles)], 1).astype(dtype.numpy)

    return Operand(TensorType(dtype, (*shape, 2)), make)


def _few(*shape: Dim) -> Operand:
    """Scores of which many are equal; some are NaN or infinite."""

    def make(random: np.random.Generator, shape: tuple[int, ...], sizes: Mapping[str, int]) -> np.ndarray:
        return random.choice(np.array([0.0, -0.0, 0.25, 0.5, 0.75, np.nan, np.inf, -np.inf], np.float32), shape)

    return Operand(TensorType(F32, shape), make)


def _number(value: float) -> Operand:
    return Operand(TensorType(F32, ()), lambda random, shape, sizes: np.array(value, np.float32))


# Two trees of six nodes: a branch above a branch, and a leaf that is a tree.
_LINKS = np.array([[32 * 1 + 3, 2], [16, 1], [32 * 0 + 12, 4], [16, 0], [16, 1], [16, 2]], np.int32)
_TREES = {"trees": 2, "depth": 2, "outcomes": (3, 12)}


def _links() -> Operand:
    """The links of these trees."""
    return Operand(TensorType(I32, _LINKS.shape), lambda random, shape, sizes: _LINKS)


# The table


def _window(**changes: object) -> Attributes:
    plain = {"kind": "max", "window": (1, 1, 3), "strides": (1, 1, 2), "dilations": (1, 1, 1)}
    return {**plain, "low": (0, 0, 1), "high": (0, 0, 2), **changes}


_TURNED_WINDOW: Attributes = {
    "kind": "max",
    "window": (2, 3, 1, 1),
    "strides": (1, 1, 1, 1),
    "low": (0, 1, 0, 0),
    "high": (1, 0, 0, 0),
    "dilations": (1, 1, 1, 1),
    "dimensions": "10nc",
}


def _convolution(**changes: object) -> Attributes:
    plain = {"strides": (1,), "low": (2,), "high": (1,), "dilations": (1,), "input_dilations": (1,), "groups": 1}
    return {**plain, "dtype": F32, "dimensions": "nc0,oi0->nc0", **changes}


_ATTENTION = {"scale": 0.5, "causal": False, "softcap": 0.0}
_ONESIDED = {"inverse": False, "onesided": True}
_INTEGERS_ONLY = ("and", "or", "xor", "shift_left", "shift_right")
_SAME = [
    *((name, [_odd(F32, 2, N)]) for name in UNARY if name != "not"),
    ("not", [tensor(BOOL, 2, N)]),
    ("not", [tensor(U8, N)]),
    *((name, [_odd(F32, 2, N)] * 2) for name in (*BINARY, *COMPARE) if name not in _INTEGERS_ONLY),
    *((name, [tensor(I32, N, M)] * 2) for name in (*BINARY, *COMPARE)),
    ("neg", [_odd(F16)]),
    ("add", [_odd(BF16, 1, 1)] * 2),
    ("select", [tensor(BOOL, N, 2), *[_odd(F64, N, 2)] * 2]),
]

_TABLE: tuple[Case, ...] = (
    *(Case(name, tuple(operands), {}) for name, operands in _SAME),
    Case("cast", (_odd(F32, N, 2),), {"dtype": I8, "saturate": True, "round_mode": "nearest"}),
    Case("bitcast", (_odd(F32, N, 2),), {"dtype": U32}),
    # Movement
    Case("reshape", (tensor(F32, N, 2, 3),), {"shape": (N, 6)}),
    Case("reshape", (tensor(F32, N, 1, M),), {"shape": (N, M)}),
    Case("reshape", (tensor(F32, N, 2, M),), {"shape": (1, N, 1, 2 * M)}),
    Case("reshape", (tensor(F32, N, 4),), {"shape": (N * 4,)}),
    Case("reshape", (tensor(F32, N, N),), {"shape": (N, 1, N)}),
    Case("reshape", (tensor(F32),), {"shape": (1, 1)}),
    Case("transpose", (tensor(F32, N, 2, M),), {"permutation": (2, 0, 1)}),
    Case("transpose", (tensor(F32),), {"permutation": ()}),
    Case("broadcast", (tensor(F32, M, 1),), {"axes": (2, 0), "shape": (N, 2, M)}),
    Case("broadcast", (tensor(F32),), {"axes": (), "shape": (N, 2)}),
    Case("slice", (tensor(F32, N, 5, 4),), {"starts": (0, 4, 0), "shape": (N, 2, 4), "steps": (1, -2, 1)}),
    Case("slice", (tensor(F32, N + 1, M),), {"starts": (N, 0), "shape": (N + 1, M), "steps": (-1, 1)}),
    Case("pad", (tensor(F32, N, 2), tensor(F32)), {"low": (0, M), "high": (0, 1)}),
    Case("concatenate", (tensor(F32, N, 2), tensor(F32, N, M)), {"axis": 1}),
    # Generators
    Case("constant", (), {"value": np.array([[1.5, np.nan], [-0.0, np.inf]], np.float32)}),
    Case("iota", (), {"shape": (N, 3), "axis": 1, "dtype": I32}),
    Case("sizes", (), {"values": (N, 2 * N + 1), "dtype": I64, "scalar": False}),
    Case("sizes", (), {"values": (N,), "dtype": I32, "scalar": True}),
    Case("random_bits", (), {"shape": (N, 3), "seed": 7}),
    # Reductions
    *(Case("reduce", (tensor(F32, N, 2, M),), {"kind": kind, "axes": (0, 2)}) for kind in ("sum", "prod")),
    *(Case("reduce", (_odd(F32, N, 2, M),), {"kind": kind, "axes": (2,)}) for kind in ("min", "max")),
    *(
        Case("reduce", (tensor(dtype, N, M),), {"kind": kind, "axes": (0,)})
        for kind in ("and", "or")
        for dtype in (BOOL, I32)
    ),
    Case("scan_axis", (tensor(F32, N, 3),), {"kind": "sum", "axis": 1, "exclusive": False, "reverse": True}),
    Case("scan_axis", (_odd(F32, 3, N),), {"kind": "max", "axis": 0, "exclusive": True, "reverse": False}),
    Case("arg_reduce", (_odd(F32, N, 3, 2),), {"kind": "min", "axis": 1, "last": True}),
    # Contractions
    Case("dot", (tensor(F32, 2, N, K), tensor(F32, 2, K, M)), {"equation": "bmk,bkn->nbm", "dtype": F32}),
    Case("dot", (tensor(I8, K), tensor(I8, K)), {"equation": "k,k->", "dtype": I32}),
    Case("dot", (tensor(F32, N, K), tensor(F32, M)), {"equation": "ak,b->ab", "dtype": F32}),
    Case("convolution", (tensor(F32, N, M, 4), tensor(F32, 2, M, 3)), _convolution()),
    Case("convolution", (tensor(F32, N, 4, 5), tensor(F32, 6, 2, 2)), _convolution(groups=2, strides=(2,))),
    Case("convolution", (tensor(F32, N, 1, 3), tensor(F32, 2, 1, 2)), _convolution(input_dilations=(3,))),
    Case("convolution", (tensor(F32, N, 4, M), tensor(F32, 2, M, 3)), _convolution(dimensions="n0c,oi0->n0c")),
    Case("convolution", (tensor(F32, 4, N, M), tensor(F32, M, 3, 2)), _convolution(dimensions="0nc,i0o->cn0")),
    Case(
        "convolution",
        (tensor(F32, N, 5, 3, 4), tensor(F32, 6, 2, 2, 1)),
        _convolution(
            groups=2,
            strides=(2, 1),
            low=(2, 0),
            high=(1, 0),
            dilations=(1, 1),
            input_dilations=(1, 2),
            dimensions="n01c,oi01->n01c",
        ),
    ),
    # Windows
    Case("reduce_window", (_odd(F32, N, 2, 5),), _window()),
    Case("reduce_window", (tensor(F32, N, 2, 5),), _window(kind="sum", dilations=(1, 1, 2))),
    Case("arg_reduce_window", (_odd(F32, N, 2, 5),), _window(dimensions="nc0")),
    Case("arg_reduce_window", (_odd(F32, 2, 4, N, 5),), _TURNED_WINDOW),
    Case(
        "arg_reduce_window",
        (_odd(F32, N, 2, 2, 4),),
        {
            "kind": "max",
            "window": (1, 1, 1, 2),
            "strides": (1, 1, 1, 1),
            "low": (0, 0, 0, 0),
            "high": (0, 0, 0, 0),
            "dilations": (1, 1, 1, 1),
            "dimensions": "nc01",
        },
    ),
    # Indexed
    Case("gather", (tensor(F32, N, 3, M), _indices(3, 2, K)), {"axis": 1}),
    Case("gather", (tensor(F32, N), _indices(N)), {"axis": 0}),
    Case("gather_along", (tensor(F32, N, 3, 4), _indices(3, N, M, 2)), {"axis": 1}),
    Case("gather_nd", (tensor(F32, N, 3, 2, M), _indices(2, N, K, 2)), {"batch_dims": 1}),
    Case("gather_nd", (tensor(F32, N, M), _indices(1, 0)), {"batch_dims": 0}),
    *(
        Case(
            "scatter_along",
            (tensor(F32, N, 3, 4), _indices(3, N, M, 2), tensor(F32, N, M, 2)),
            {"axis": 1, "kind": kind},
        )
        for kind in ("set", "add", "mul", "min", "max")
    ),
    *(
        Case("scatter_nd", (tensor(F32, 3, N, M), _indices(3, K, 1), tensor(F32, K, N, M)), {"kind": kind})
        for kind in ("set", "add", "mul", "min", "max")
    ),
    # Ordering
    Case("sort", (_odd(F32, N, 3, 2),), {"axis": 1, "descending": True}),
    Case("top_k", (_odd(F32, N, 3, 2),), {"axis": 1, "k": 2, "largest": False}),
    Case("non_zero", (tensor(I8, N, 2),), {"symbol": "nonzero"}),
    Case("true_positions", (tensor(BOOL, N),), {"count": N}, values=(0, 1, 70)),
    Case("true_positions", (tensor(BOOL, N),), {"count": 40}, values=(0, 63, 200)),
    # Collectives
    Case("reshard", (tensor(F32, N, 2),), {"mesh": "d0=2, d1=2", "sharding": "[{d1}, {}]"}),
    Case("enter_stage", (tensor(F32, N, 2),), {"stage": 1}),
    Case("all_reduce", (tensor(F32, N, 2),), {"kind": "sum", "groups": ((0, 1),)}, devices=2),
    Case("all_gather", (tensor(F32, N, 2),), {"axis": 1, "groups": ((0, 1),)}, devices=2),
    Case("reduce_scatter", (tensor(F32, N, 4),), {"kind": "max", "axis": 1, "groups": ((0, 1),)}, devices=2),
    Case("all_to_all", (tensor(F32, N, 4, 3),), {"split_axis": 1, "concat_axis": 2, "groups": ((0, 1),)}, devices=2),
    Case("permute", (tensor(F32, N, 2),), {"pairs": ((0, 1), (1, 0))}, devices=2),
    # Composites
    Case("softmax", (_fractions(N, 3, 2),), {"axis": 1}, exact=False),
    Case("masked_softmax", (_fractions(N, 3, 2),), {"axis": 1}, exact=False),
    Case("log_softmax", (_fractions(N, 3),), {"axis": 1}, exact=False),
    Case("layer_norm", (_fractions(N, 3, 4), _fractions(4), _fractions(4)), {"axis": 2, "epsilon": 1e-5}, exact=False),
    Case("rms_norm", (_fractions(N, 3, 4), _fractions(3, 4)), {"axis": 1, "epsilon": 1e-5}, exact=False),
    *(Case("gelu", (_odd(F32, N, 3),), {"approximate": name}, exact=False) for name in ("none", "tanh")),
    Case(
        "attention",
        (_fractions(N, 2, M, 3), *[_fractions(N, 2, K, 3)] * 2),
        {**_ATTENTION, "causal": True},
        exact=False,
    ),
    Case(
        "attention",
        (_fractions(N, 4, 2, 3), *[_fractions(N, 2, 3, 3)] * 2, _fractions(1, 4, 2, 3)),
        _ATTENTION,
        exact=False,
    ),
    *(
        Case(
            "attention",
            (_fractions(N, 2, M, 3), *[_fractions(N, 2, 2, 3)] * 2, _fractions(K, 1, M, 2)),
            {**_ATTENTION, "softcap": softcap},
            values=(1, 1),
            exact=False,
        )
        for softcap in (2.0, -2.0)
    ),
    Case("rotary", (_fractions(N, 3, 4), _fractions(N, 3, 2), _fractions(N, 3, 2)), {"interleaved": True}, exact=False),
    Case("rotary", (_fractions(N, 4), _fractions(N, 2), _fractions(N, 2)), {"interleaved": False}, exact=False),
    Case(
        "block_product",
        (_fractions(N, M, 7), tensor(I8, 5, 7), _fractions(5, 2)),
        {"bits": 4, "block": 4},
        exact=False,
    ),
    Case(
        "block_product",
        (_fractions(N, 8), tensor(I8, 3, 8), _fractions(3, 1), _fractions(3, 1)),
        {"bits": 8, "block": 8},
        exact=False,
    ),
    Case(
        "byte_block_product",
        (tensor(I8, N, M, 8), _fractions(N, M, 2), tensor(I8, 5, 8), _fractions(5, 2)),
        {"bits": 8, "block": 4},
        exact=False,
    ),
    Case(
        "byte_block_product",
        (tensor(I8, 12), _fractions(2), tensor(I8, 3, 12), _fractions(3, 2), _fractions(3, 2)),
        {"bits": 8, "block": 6},
        exact=False,
    ),
    Case("suppress_boxes", (_boxes(2, N), _few(2, 3, N), _number(0.25)), {"count": 4}),
    Case("suppress_boxes", (_boxes(2, N), _few(2, 3, N), _number(0.0), _number(0.5)), {"count": N}),
    Case("suppress_boxes", (_boxes(1, 40), _few(1, 1, 40), _number(0.5)), {"count": 30}),
    Case("fourier", (_fractions(N, M, 2), _roots(6)), {"inverse": False, "onesided": False}, exact=False),
    Case("fourier", (_fractions(N, 5, 1), _roots(K)), _ONESIDED, values=(1, 4, 7), exact=False),
    Case("fourier", (_fractions(2, N, 3, 1), _roots(5, dtype=F32)), {"inverse": True, "onesided": False}, exact=False),
    Case("fourier", (_fractions(N, 4, 2), _roots(8, dtype=F32)), {**_ONESIDED, "inverse": True}, exact=False),
    *(
        Case("tree_ensemble", (_odd(F32, N, 2), _fractions(6), _links()), {**_TREES, "kind": kind, "targets": 3})
        for kind in ("sum", "min", "max")
    ),
    Case(
        "tree_ensemble",
        (_odd(F64, N, 2), tensor(F64, 6), _links(), tensor(F64, 3, 4)),
        {**_TREES, "kind": "sum", "targets": 4},
    ),
)

CASES: Mapping[str, tuple[Case, ...]] = {
    name: tuple(case for case in _TABLE if case.name == name) for name in dict.fromkeys(case.name for case in _TABLE)
}

STRUCTURAL = """\
module "structural" {
function main(%x: f32[N, 2], %n: i64[1], %c: bool[]) -> ("a", "b", "stacked") where N in [0, ...] {
  bind_sizes %n {symbols = ["?size0"]}
  guard {left = N, message = "the sizes differ", relation = "equal", right = ?size0}
  %0 = if %c, %x : f32[if0, 2]
    block(%captured0: f32[N, 2]) {
      %1 = constant {value = f32[0, 2] []} : f32[0, 2]
      return %1
    }
    block(%captured0_1 "captured0": f32[N, 2]) {
      return %captured0_1
    }
  %2 = constant {value = i64[] 3} : i64[]
  %3, %4 = while %2, %c, %x, %c {carried = 1, scans = 1, symbol = "steps"} : f32[N, 2], f32[steps, N, 2]
    block(%iteration: i64[], %state: f32[N, 2], %again: bool[]) {
      %5 = neg %state : f32[N, 2]
      return %again, %5, %state
    }
  %6 = call %3 {function = "negate"} : f32[N, 2]
  %7 = host %6 {function = "unchanged", mode = "any"} : f32[N, 2]
  %8 = native_call %6 {access = "whole", llvm = "", operator = "B", path = "a:b", scalars = [], triton = ""} : f32[N, 2]
  %9, %10 = recurrence %7, %x {carried = 1, scans = 1, trips = 3} : f32[N, 2], f32[3, N, 2]
    block(%iteration_1 "iteration": i64[], %state_1 "state": f32[N, 2], %captured0_2 "captured0": f32[N, 2]) {
      %11 = add %state_1, %captured0_2 : f32[N, 2]
      return %11, %state_1
    }
  return %0, %9, %4
}
function negate(%x: f32[M, 2]) -> ("y") where M in [0, ...] {
  %0 = neg %x : f32[M, 2]
  return %0
}
}"""


def structural_ops() -> Mapping[str, Op]:
    """One op of each primitive that has no meaning of its own."""
    ops = parse_module(STRUCTURAL).main.body.ops
    return {op.name: op for op in ops if op.name not in CASES}
