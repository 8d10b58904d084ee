"""Constants as panels: where each element lies, and zeros wherever there is none, whatever was in memory before."""

import numpy as np
import pytest

from onnxc.compiler.planning.layouts import PackedPanels


@pytest.mark.parametrize("group", [1, 2, 4])
@pytest.mark.parametrize("whole", [1, 2])
@pytest.mark.parametrize("depth", [1, 3, 4, 8])
@pytest.mark.parametrize("columns", [1, 4, 5, 8])
@pytest.mark.parametrize("sums_by", [0, -3])
def test_what_no_element_fills_is_zero(columns: int, depth: int, whole: int, group: int, sums_by: int) -> None:
    matrix = np.arange(1, depth * columns + 1, dtype=np.int8).reshape(depth, columns)
    sums_by = sums_by if group == 4 else 0
    layout = PackedPanels(4, depth, columns, columns, 1, group=group, sums_by=sums_by, whole=whole)
    packed = np.full(layout.shape, 99, np.int8)
    layout.pack(matrix, packed)
    steps = -(-depth // (group * whole)) * whole
    expected = np.zeros((-(-columns // 4), steps, 4, group), np.int8)
    for (k, n), element in np.ndenumerate(matrix):
        expected[n // 4, k // group, n % 4, k % group] = element
    found = packed.reshape(expected.shape[0], -1, 4, group)
    assert np.array_equal(found[:, :steps], expected)
    if sums_by:
        sums = np.zeros(expected.shape[0] * 4, np.int32)
        sums[:columns] = matrix.sum(0, dtype=np.int32) * sums_by
        assert np.array_equal(np.ascontiguousarray(found[:, steps]).view(np.int32).ravel(), sums)
    else:
        assert found.shape[1] == steps
