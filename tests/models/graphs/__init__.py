"""Whole graphs in the style of real exports, by kind."""

from collections.abc import Callable, Mapping

from tests.models.graphs import classical, control_flow, quantized, recurrent, transformers, versions, vision
from tests.models.graphs.case import GraphCase

CASES: Mapping[str, Callable[[], GraphCase]] = {
    **transformers.CASES,
    **vision.CASES,
    **recurrent.CASES,
    **control_flow.CASES,
    **classical.CASES,
    **quantized.CASES,
    **versions.CASES,
}
