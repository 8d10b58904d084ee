"""The axes rule of every primitive, proved on data: what it says may be split is split, computed and joined again."""

import itertools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, data

from onnxc.compiler.ir.dim_symbols import evaluate
from onnxc.compiler.ir.dims import product
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.meanings import numeric_attribute
from onnxc.compiler.ir.module import Op
from onnxc.compiler.ir.primitive import PRIMITIVES, AxisLink
from onnxc.runtime.host import MEANINGS
from onnxc.runtime.host.reductions import COMBINE
from tests.ir.cases import CASES, Case, M, N, structural_ops, tensor
from tests.support.arrays import assert_close

Slices = tuple[slice, ...]


@pytest.mark.parametrize("name", PRIMITIVES)
def test_what_an_axes_rule_links_can_be_split(name: str) -> None:
    if name not in CASES:
        assert PRIMITIVES[name].axes_rule(structural_ops()[name]) == ()
        return
    for case in CASES[name]:
        prove(case)


def prove(case: Case) -> None:
    """Splits the op of a case along every link, for every choice of sizes."""
    op = case.op()
    links = PRIMITIVES[case.name].axes_rule(op)
    for link in links:
        assert len(link.operands) == len(op.operands), (str(case), link)
        assert len(link.results) == len(op.results), (str(case), link)
    for sizes in case.sizes():
        arrays = case.arrays(sizes)
        whole = _compute(op, arrays, sizes, {})
        for link in links:
            _prove_link(case, link, arrays, whole, sizes)


def _prove_link(
    case: Case, link: AxisLink, arrays: Sequence[np.ndarray], whole: Sequence[np.ndarray], sizes: Mapping[str, int]
) -> None:
    place = f"{case}, {link}, {sizes}"
    count = _linked_size(case.op(), link, sizes, place)
    if link.kind not in ("map", "reduce") or count == 0:
        return
    for parts in _partitions(count):
        pieces = [_compute(case.op(), _sliced(case, link, arrays, part), sizes, _lengths(link, part)) for part in parts]
        for index, expected in enumerate(whole):
            axis = link.results[index // case.devices]
            made = [piece[index] for piece in pieces]
            if link.kind == "map":
                assert axis is not None, place
                actual = np.concatenate(made, axis)
            else:
                assert axis is None, place
                actual = made[0]
                for other in made[1:]:
                    actual = COMBINE[link.combine](actual, other)
            _assert_agrees(actual, expected, place, exact=case.exact)


def _linked_size(op: Op, link: AxisLink, sizes: Mapping[str, int], place: str) -> int:
    """How long the axes of a link are: they must all be equal, but where windows or indices stand between them."""
    values = [*zip(op.operands, link.operands, strict=True), *zip(op.results, link.results, strict=True)]
    linked = {evaluate(value.shape[axis], sizes) for value, axis in values if axis is not None}
    assert linked, place
    assert len(linked) == 1 or link.kind == "window", place
    return min(linked)


def _partitions(count: int) -> Iterator[list[slice]]:
    """All at once, one by one, and two uneven parts."""
    yield [slice(0, count)]
    yield [slice(start, start + 1) for start in range(count)]
    if count > 2:
        yield [slice(0, count - 1), slice(count - 1, count)]


def _sliced(case: Case, link: AxisLink, arrays: Sequence[np.ndarray], part: slice) -> list[np.ndarray]:
    axes = [axis for axis in link.operands for _ in range(case.devices)]
    return [
        array if axis is None else array[(slice(None),) * axis + (part,)]
        for array, axis in zip(arrays, axes, strict=True)
    ]


def _lengths(link: AxisLink, part: slice) -> Mapping[int, int]:
    """The length of each result axis that is cut."""
    return {axis: part.stop - part.start for axis in link.results if axis is not None}


def _compute(
    op: Op, arrays: Sequence[np.ndarray], sizes: Mapping[str, int], lengths: Mapping[int, int]
) -> tuple[np.ndarray, ...]:
    """The results of an op; `lengths` replace sizes in its attribute `shape`."""
    attributes = {name: numeric_attribute(value, sizes) for name, value in op.attributes.items()}
    if "shape" in attributes:
        shape = attributes["shape"]
        assert isinstance(shape, tuple)
        attributes["shape"] = tuple(lengths.get(axis, size) for axis, size in enumerate(shape))
    return MEANINGS[op.name](arrays, attributes)


def _assert_agrees(actual: np.ndarray, expected: np.ndarray, place: str, *, exact: bool) -> None:
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), place
    if exact:
        assert actual.tobytes() == expected.tobytes(), f"{place}\n{actual}\n{expected}"
    else:
        # The whole is added up in another order than its parts.
        assert_close(actual, expected, terms=16)


@given(data())
@settings(max_examples=150, deadline=None)
def test_what_any_reshape_links_can_be_split(source: DataObject) -> None:
    shape = source.draw(st.lists(st.sampled_from([N, M, 0, 1, 2, 3]), max_size=4))
    factors = [*shape, *source.draw(st.lists(st.just(1), max_size=2))]
    if source.draw(st.booleans()):
        factors = source.draw(st.permutations(factors))
    cuts = sorted(source.draw(st.sets(st.integers(0, len(factors)), max_size=4)) | {0, len(factors)})
    target = tuple(product(factors[start:stop]) for start, stop in itertools.pairwise(cuts))
    prove(Case("reshape", (tensor(F32, *shape),), {"shape": target}))


@pytest.mark.parametrize("name", CASES)
def test_a_meaning_gives_what_the_type_rule_says(name: str) -> None:
    for case in CASES[name]:
        op = case.op()
        for sizes in case.sizes():
            results = _compute(op, case.arrays(sizes), sizes, {})
            for value, result in zip(op.results, results[:: case.devices], strict=True):
                known = {**sizes, "nonzero": result.shape[-1] if result.ndim else 0}
                shape = tuple(evaluate(dim, known) for dim in value.shape)
                assert (result.dtype, result.shape) == (value.dtype.numpy, shape), f"{case} {sizes}"
