"""Filters as kernels read them: panels of filters, sums in the order of the schedule, phases one after the other."""

import numpy as np

from onnxc.compiler.planning.filter_layouts import FiltersInTwoForms, PackedFilters, PackedPhases, TransformedFilters

W = np.arange(2 * 3 * 2 * 3 * 4, dtype=np.float32).reshape(6, 2, 3, 4)


def test_each_panel_has_the_sums_of_its_filters_in_order() -> None:
    layout = PackedFilters(2, groups=2, sizes=W.shape, order=(1, 2, 0))
    out = np.full(layout.shape, np.nan, np.float32)
    layout.pack(W, out)
    assert layout.shape == (2, 2, 24, 2)
    # Group 1 has filters 3, 4 and 5; in its second panel zeros stand for a seventh.
    np.testing.assert_array_equal(out[1, 0], W[3:5].transpose(2, 3, 1, 0).reshape(24, 2))
    np.testing.assert_array_equal(out[1, 1, :, 0], W[5].transpose(1, 2, 0).reshape(24))
    assert not out[1, 1, :, 1].any()


def test_phases_have_the_taps_that_are_as_far_apart_as_they_are_many() -> None:
    layout = PackedPhases(PackedFilters(4, groups=1, sizes=W.shape, order=(0, 1, 2)), (2, 3))
    out = np.full(layout.shape, np.nan, np.float32)
    layout.pack(W, out)
    parts = [W[:, :, row::2, column::3] for row in range(2) for column in range(3)]
    packed = [np.concatenate([part, np.zeros((2, *part.shape[1:]), np.float32)]) for part in parts]
    expected = [part.reshape(2, 4, -1).transpose(0, 2, 1).reshape(-1) for part in packed]
    np.testing.assert_array_equal(out, np.concatenate(expected))


def test_phases_without_taps_take_no_memory() -> None:
    layout = PackedPhases(PackedFilters(8, groups=1, sizes=W.shape, order=(0, 1, 2)), (5, 1))
    out = np.full(layout.shape, np.nan, np.float32)
    layout.pack(W, out)
    assert out.size == 8 * 2 * 3 * 4
    assert not np.isnan(out).any()


def test_each_position_of_a_tile_has_its_number_of_every_filter() -> None:
    w = np.random.default_rng(0).integers(-99, 99, (5, 2, 3, 3)).astype(np.float32)
    layout = TransformedFilters(4, filters=5, channels=2)
    out = np.full(layout.shape, np.nan, np.float32)
    layout.pack(w, out)
    g = np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]])
    numbers = (g @ w @ g.T).transpose(2, 3, 1, 0).reshape(16, 2, 5)
    np.testing.assert_array_equal(out[0], numbers[..., :4])
    np.testing.assert_array_equal(out[1, ..., :1], numbers[..., 4:])
    assert not out[1, ..., 1:].any()


def test_two_forms_lie_one_behind_the_other() -> None:
    w = np.arange(5 * 2 * 3 * 3, dtype=np.float32).reshape(5, 2, 3, 3)
    parts = PackedFilters(4, groups=1, sizes=w.shape, order=(1, 2, 0)), TransformedFilters(4, filters=5, channels=2)
    expected = [np.full(part.shape, np.nan, np.float32) for part in parts]
    for part, array in zip(parts, expected, strict=True):
        part.pack(w, array)
    layout = FiltersInTwoForms(*parts)
    out = np.full(layout.shape, np.nan, np.float32)
    layout.pack(w, out)
    np.testing.assert_array_equal(out, np.concatenate([array.reshape(-1) for array in expected]))
    assert layout.summed_elements == expected[0].size
