"""Golden pairs: a program before and after a rewrite, both made with a builder, compared as text and by results."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL, F16, F32, F64, I8, I32, I64, U8, DType
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Block, Function, Module, Op, Value, walk
from onnxc.compiler.ir.pass_builder import PassBuilder
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.prune import prune
from onnxc.compiler.ir.rewriter import map_bodies
from onnxc.compiler.ir.symbol_table import SymbolTable
from onnxc.compiler.ir.types import TensorType, type_symbols
from onnxc.compiler.ir.verifier import verify_module
from onnxc.runtime.errors import InputError
from tests.support.arrays import assert_close

Make = Callable[..., Value | tuple[Value, ...]]

N, M = Size.symbol("N"), Size.symbol("M")
RANGES: Mapping[str, tuple[int, int | None]] = {"N": (0, None), "M": (0, None)}
NAMES = ("x", "y", "z", "u", "v", "w")

ODD = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0)


def f32(*shape: int | Size) -> TensorType:
    return TensorType(F32, shape)


def f64(*shape: int | Size) -> TensorType:
    return TensorType(F64, shape)


def f16(*shape: int | Size) -> TensorType:
    return TensorType(F16, shape)


def i64(*shape: int | Size) -> TensorType:
    return TensorType(I64, shape)


def i32(*shape: int | Size) -> TensorType:
    return TensorType(I32, shape)


def i8(*shape: int | Size) -> TensorType:
    return TensorType(I8, shape)


def u8(*shape: int | Size) -> TensorType:
    return TensorType(U8, shape)


def boolean(*shape: int | Size) -> TensorType:
    return TensorType(BOOL, shape)


@dataclass(frozen=True)
class Pair:
    """What `before` makes of parameters of `types` becomes what `after` makes of them; unchanged where it is None.

    `rounds`: the results may differ in their last bits. `sizes` are the numbers that every symbol takes in turn.
    """

    types: tuple[TensorType, ...]
    before: Make
    after: Make | None = None
    rounds: bool = False
    sizes: tuple[int, ...] = (0, 1, 3)


def built(types: Sequence[TensorType], make: Make) -> Module:
    """The module of what `make(build, parameters...)` returns."""
    table = SymbolTable()
    table.ranges.update(RANGES)
    build = PassBuilder(table)
    parameters = [build.parameter(name, type) for name, type in zip(NAMES, types, strict=False)]
    made = make(build, *parameters)
    results = made if isinstance(made, tuple) else (made,)
    names = tuple(f"result{index}" for index in range(len(results)))
    # A parameter that binds both symbols, whatever the types of the others.
    body = build.block([*parameters, build.parameter("sizes", boolean(N, M))], results)
    module = Module("pair", (Function("main", body, names, RANGES),))
    verify_module(module)
    return module


def text_of(module: Module) -> str:
    """The text of `module` with dead code dropped and its ops in the order in which its results need them."""
    return print_module(map_bodies(module, lambda body, _: _in_order(prune(body))))


def _in_order(block: Block) -> Block:
    ordered: dict[Op, None] = dict.fromkeys(op for op in block.ops if op.name in ("guard", "bind_sizes"))

    def visit(value: Value) -> None:
        if value.op is not None and value.op not in ordered:
            for operand in value.op.operands:
                visit(operand)
            ordered[value.op] = None

    for result in block.results:
        visit(result)
    return Block(block.parameters, tuple(ordered), block.results)


def check_pair(rewrite: Callable[[Module], Module], pair: Pair) -> None:
    """Asserts that `rewrite` makes the one program of the other, and that both compute the same."""
    before = built(pair.types, pair.before)
    after = rewrite(before)
    verify_module(after)
    expected = before if pair.after is None else built(pair.types, pair.after)
    assert text_of(after) == text_of(expected)
    if pair.after is not None:
        assert_same_meaning(before, after, pair.sizes, rounds=pair.rounds)


def assert_same_meaning(before: Module, after: Module, sizes: Sequence[int], *, rounds: bool, odd: bool = True) -> None:
    """Asserts that both modules give the same results, or both fail, for every choice of sizes."""
    # Of 0.0 and -0.0 either may be the smaller.
    extremes = any(
        op.name in ("min", "max") or op.attributes.get("kind") in ("min", "max") for op in walk(before.main.body)
    )
    for inputs in _inputs(before, sizes, odd):
        expected, actual = _outcome(before, inputs), _outcome(after, inputs)
        assert (expected is None) == (actual is None), inputs
        for left, right in zip(expected or (), actual or (), strict=True):
            compare(left, right, rounds=rounds, zeros=not extremes)


def compare(expected: np.ndarray, actual: np.ndarray, *, rounds: bool, zeros: bool = True) -> None:
    """Asserts equality to the bit, all NaN being one, and 0.0 and -0.0 unless `zeros`; or of all but the last bits."""
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if rounds and expected.dtype.kind != "b" and expected.dtype.kind not in "iu":
        assert_close(actual, expected, terms=16)
        return
    if expected.dtype.kind == "c":
        compare(expected.real, actual.real, rounds=rounds, zeros=zeros)
        compare(expected.imag, actual.imag, rounds=rounds, zeros=zeros)
        return
    np.testing.assert_array_equal(actual, expected)
    if zeros and expected.dtype.kind not in "biuO":
        zero = expected == 0
        np.testing.assert_array_equal(np.signbit(actual)[zero], np.signbit(expected)[zero])


def _outcome(module: Module, inputs: Mapping[str, np.ndarray]) -> tuple[np.ndarray, ...] | None:
    try:
        return interpret(module, inputs)
    except InputError:
        return None


def _inputs(module: Module, sizes: Sequence[int], odd: bool) -> Iterator[dict[str, np.ndarray]]:
    parameters = module.main.body.parameters
    symbols = sorted({name for parameter in parameters for name in type_symbols(parameter.type)})
    for seed, size in enumerate(sizes):
        random = np.random.default_rng(seed)
        for values in (dict.fromkeys(symbols, size), {name: size + place for place, name in enumerate(symbols)}):
            yield {
                parameter.producer.name: elements(
                    random, parameter.dtype, tuple(evaluate(dim, values) for dim in parameter.shape), odd
                )
                for parameter in parameters
            }


def elements(random: np.random.Generator, dtype: DType, shape: tuple[int, ...], odd: bool = True) -> np.ndarray:
    """Elements of which some may be odd: NaN, infinities and both zeros; the least and the greatest integer."""
    if dtype.is_bool:
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_integer:
        array = random.integers(0 if not dtype.is_signed else -3, 4, shape).astype(dtype.numpy)
        bounds = np.iinfo(dtype.numpy)
        special: Sequence[float] = (bounds.max, bounds.min)
    else:
        array = np.asarray(random.normal(0, 2, shape)).astype(dtype.numpy)
        special = ODD
    flat = array.reshape(-1)
    if odd and flat.size > 2:
        for place, value in zip(random.permutation(flat.size)[: len(special)], special, strict=False):
            flat[place] = value
    return array
