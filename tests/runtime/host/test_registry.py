"""The table of meanings: complete, and silent whatever the values."""

import numpy as np

from runtime.host import MEANINGS

POINTWISE = """
    add sub mul div rem pow min max neg abs sign floor ceil round sqrt exp log sin cos tan asin acos atan sinh cosh tanh
    asinh acosh atanh erf and or xor not shift_left shift_right equal less less_equal select cast bitcast
"""
OTHERS = """
    reshape transpose broadcast slice pad concatenate constant iota sizes reduce scan_axis arg_reduce
    dot convolution reduce_window arg_reduce_window gather gather_along gather_nd scatter_along scatter_nd
    sort top_k non_zero random_bits all_reduce all_gather reduce_scatter all_to_all permute
    softmax log_softmax layer_norm rms_norm gelu attention rotary
"""


def test_every_primitive_without_effects_or_blocks_has_a_meaning() -> None:
    assert set(MEANINGS) == {*POINTWISE.split(), *OTHERS.split()}


def test_meanings_leave_the_error_state_of_the_caller_alone() -> None:
    before = np.geterr()
    MEANINGS["div"]([np.array(1.0), np.array(0.0)], {})
    assert np.geterr() == before
