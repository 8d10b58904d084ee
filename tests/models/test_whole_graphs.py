"""Whole graphs in the style of real exports agree with ONNX Runtime, the reference or NumPy, at several sizes."""

from collections.abc import Sequence

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

import onnxc
from tests.models.graphs import CASES
from tests.models.graphs.case import GraphCase
from tests.support.arrays import assert_close
from tests.support.models import ort_session
from tests.support.probes import disagreements


def expected_outputs(case: GraphCase) -> list[Sequence[object]]:
    if case.oracle == "onnxruntime":
        session = ort_session(case.model)
        return [session.run(None, dict(feed)) for feed in case.feeds]
    if case.oracle == "reference":
        reference = ReferenceEvaluator(case.model)
        return [reference.run(None, dict(feed)) for feed in case.feeds]
    return [case.oracle(feed) for feed in case.feeds]


def assert_agrees(actual: object, expected: object, bound: float) -> None:
    """Equal types, shapes and structure; numbers within `bound` of the largest magnitude."""
    if isinstance(expected, dict):
        assert isinstance(actual, dict)
        assert actual.keys() == expected.keys()
        for key, value in expected.items():
            # The values of a map are elements of f32, given as floats of Python.
            assert type(actual[key]) is float
            assert_close(np.float32(actual[key]), np.float32(value), terms=16)
    elif isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple)
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_agrees(one, other, bound)
    elif expected is None:
        assert actual is None
    else:
        array, wanted = np.asarray(actual), np.asarray(expected)
        assert array.shape == wanted.shape
        if wanted.dtype.kind in "OUS":
            assert array.tolist() == wanted.tolist()
            return
        assert array.dtype == wanted.dtype
        if wanted.dtype.kind in "biu":
            np.testing.assert_array_equal(array, wanted)
            return
        wide, wide_wanted = array.astype(np.float64), wanted.astype(np.float64)
        finite = np.isfinite(wide_wanted)
        np.testing.assert_array_equal(wide[~finite], wide_wanted[~finite])
        scale = np.abs(wide_wanted[finite]).max(initial=0)
        assert np.abs(wide - wide_wanted)[finite].max(initial=0) <= bound * max(scale, 1e-6)


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("name", CASES)
def test_outputs_are_those_expected(name: str, target: str) -> None:
    case = CASES[name]()
    executable = onnxc.compile(case.model, target=target)
    for feed, expected in zip(case.feeds, expected_outputs(case), strict=True):
        actual = executable.run(dict(feed))
        assert list(actual) == [output.name for output in case.model.graph.output]
        assert_agrees(list(actual.values()), list(expected), case.bound)


@pytest.mark.parametrize("name", CASES)
def test_types_are_those_of_the_values(name: str) -> None:
    case = CASES[name]()
    for feed in case.feeds:
        assert not disagreements(case.model, feed)
