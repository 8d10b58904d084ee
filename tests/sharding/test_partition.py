"""Divided programs: every axes rule, every legal layout, the same results as the whole."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest

from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import BOOL
from onnxc.compiler.ir.interpreter import interpret
from onnxc.compiler.ir.module import Function, Module, Value
from onnxc.compiler.ir.primitive import PRIMITIVES
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding, parse_mesh
from onnxc.compiler.ir.types import TensorType
from onnxc.compiler.sharding.factors import factors_of, has_axes
from tests.ir.cases import CASES, Case
from tests.sharding.virtual_devices import divide, run_partition
from tests.support.arrays import assert_close

MESHES = ("d0=4", "d0=2, d1=2")
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "reshard", "enter_stage")
Layout = Mapping[int, Axes]
"""For each divided axis of a value the axes of the mesh that divide it."""

DIVIDED = [name for name in CASES if name not in COLLECTIVES]


def mesh_of(text: str) -> Mesh:
    mesh = parse_mesh(text)
    assert mesh is not None
    return mesh


def layouts(mesh: Mesh, count: int) -> Iterator[tuple[Axes, ...]]:
    """Every way to divide `count` factors: one by all axes, one by one of them, two by one each."""
    names = tuple(name for name, _ in mesh.axes)
    choices: list[Axes] = [(), *((name,) for name in names), *itertools.permutations(names, 2)]
    for chosen in itertools.product(choices, repeat=count):
        used = list(itertools.chain(*chosen))
        if used and len(used) == len(set(used)):
            yield chosen


def divided_module(case: Case, mesh: Mesh, chosen: Sequence[Axes], *, results: bool) -> Module:
    """The op of a case whose operands, and results if asked for, are divided along its factors."""
    op = case.op()
    divided = list(zip(factors_of(op), chosen, strict=True))
    sides: tuple[list[Layout], list[Layout]] = (
        [
            {axis: axes for f, axes in divided if (axis := f.operands[index]) is not None}
            for index in range(len(op.operands))
        ],
        [
            {axis: axes for f, axes in divided if (axis := f.results[index]) is not None}
            for index in range(len(op.results))
        ],
    )
    return stated_module(case, mesh, sides[0], sides[1] if results else None)


def stated_module(
    case: Case, mesh: Mesh, operand_layouts: Sequence[Layout], result_layouts: Sequence[Layout] | None
) -> Module:
    """The op of a case whose operands, and results where layouts are given, are divided so."""
    op, build = case.op(), Builder()

    def resharded(value: Value, axes: Layout) -> Value:
        sharding = Sharding(tuple(axes.get(axis, ()) for axis in range(value.rank)))
        return build.op("reshard", [value], {"mesh": str(mesh), "sharding": str(sharding)})[0]

    operands = list(map(resharded, op.operands, operand_layouts))
    made = build.op(op.name, operands, op.attributes)
    if result_layouts is not None:
        made = tuple(map(resharded, made, result_layouts))
    symbols = dict.fromkeys(sorted({name for size in case.sizes() for name in size}), (0, None))
    # A size that no operand has comes with this one.
    extent = build.parameter("extent", TensorType(BOOL, tuple(map(Size.symbol, symbols))))
    body = build.block([*op.operands, extent], made)
    return Module("m", (Function("main", body, tuple(f"y{k}" for k in range(len(made))), symbols),))


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("name", DIVIDED)
def test_each_axes_rule_holds_on_devices(name: str, mesh: str) -> None:
    grid = mesh_of(mesh)
    # What is pointwise has one rule, and one case of each shows that its names are right.
    cases = CASES[name][:1] if PRIMITIVES[name].kind == "pointwise" else CASES[name]
    for case in cases:
        op = case.op()
        factors = factors_of(op) if all(map(has_axes, (*op.operands, *op.results))) else ()
        for count, chosen in enumerate(layouts(grid, len(factors))):
            choices = list(case.sizes())
            prove(case, grid, divided_module(case, grid, chosen, results=count % 2 == 0), (choices[0], choices[-1]))


def prove(case: Case, mesh: Mesh, module: Module, choices: Sequence[Mapping[str, int]]) -> None:
    """On every device the module gives the results of the whole, for these sizes."""
    divided = divide(module, mesh)
    names = [parameter.producer.name for parameter in module.main.body.parameters]
    for sizes in choices:
        extent = np.empty([sizes[name] for name in module.main.symbols], bool)
        inputs = dict(zip(names, [*case.arrays(sizes), extent], strict=True))
        expected = interpret(module, inputs)
        for made in run_partition(divided, mesh, inputs):
            for actual, whole in zip(made, expected, strict=True):
                expect(np.asarray(actual), np.asarray(whole), exact=case.exact)


def expect(actual: np.ndarray, whole: np.ndarray, *, exact: bool) -> None:
    """Equal to the bit where sums are exact in any order; else within the rounding of sums of 8 terms of about 1."""
    if exact:
        assert actual.dtype == whole.dtype
        # NumPy does not know NaN of the types of ml_dtypes for one.
        pair = [array.astype(np.float32) if array.dtype.kind == "V" else array for array in (actual, whole)]
        np.testing.assert_array_equal(*pair, strict=True)
    else:
        assert_close(actual, whole, terms=8, magnitude=1.0)


def test_all_primitives_with_factors_are_divided() -> None:
    assert {name for name in DIVIDED if any(factors_of(case.op()) for case in CASES[name])} >= {"dot", "reduce", "add"}
    assert all(name in PRIMITIVES for name in DIVIDED)
