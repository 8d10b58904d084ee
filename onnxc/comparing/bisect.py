"""The smallest part of a model whose outputs differ between two engines, and inputs that show it."""

from collections.abc import Sequence

import numpy as np

from onnxc.comparing.compare import all_values, differs, known_types
from onnxc.comparing.comparison import Comparison
from onnxc.comparing.minimal import minimal
from onnxc.comparing.model_cuts import array_type, keep_nodes
from onnxc.comparing.sides import Side, embedded_model
from onnxc.comparing.size_cuts import smaller_sizes
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TypeProto
from onnxc.measuring.runtimes import Feed
from onnxc.runtime.errors import InputError, OnnxcError
from onnxc.runtime.records import record

__all__ = ["Bisection", "bisect"]


@record
class Bisection:
    """A model and its inputs, for which the engines still differ."""

    model: ModelProto
    feed: Feed


def bisect(a: Side, b: Side, feed: Feed, comparison: Comparison) -> Bisection:
    """The part that shows the difference of `comparison`, which is of these sides and inputs.

    Its inputs are what `b`, which is taken for right, computes for them. Raises InputError where the sides are of two
    models, or agree.
    """
    if a.model != b.model:
        raise InputError("a difference between two models has no smallest part: bisect one", code="bisect-models")
    if comparison.first is None:
        raise InputError("the sides do not differ, so there is nothing to find", code="bisect-same")
    search = _Search(a, b, feed)
    ordinals = search.nodes([each.name for each in comparison.inner if not each.is_same])
    model, inputs = search.part(ordinals)
    return Bisection(*smaller_sizes(model, inputs, lambda cut, given: differs(a, b, cut, given)))


class _Search:
    """A model, with what the trusted side gives for each of its values."""

    def __init__(self, a: Side, b: Side, feed: Feed) -> None:
        self.a, self.b = a, b
        self.model = embedded_model(a.model)
        self.values = {**feed, **_values(b, self.model, feed)}
        self.types = known_types(self.model) | _array_types(self.values)

    def nodes(self, suspects: Sequence[str]) -> list[int]:
        """The nodes that show it: one that makes a suspect, else a part of all."""
        makers = {name: ordinal for ordinal, node in enumerate(self.model.graph.node) for name in node.output}
        for name in suspects:
            if self.shows([makers[name]]):
                return [makers[name]]
        every = [*range(len(self.model.graph.node))]
        if not self.shows(every):
            raise InputError("the difference does not show when it is looked for again", code="bisect-same")
        return minimal(every, self.shows)

    def shows(self, ordinals: Sequence[int]) -> bool:
        """Whether these nodes, given what the trusted side computed before them, differ."""
        return differs(self.a, self.b, *self.part(ordinals))

    def part(self, ordinals: Sequence[int]) -> tuple[ModelProto, Feed]:
        """These nodes as a model, and its inputs."""
        part = keep_nodes(self.model, ordinals, self.types)
        inputs = {info.name: self.values[info.name] for info in part.graph.input if info.name in self.values}
        return part, inputs


def _values(side: Side, model: ModelProto, feed: Feed) -> dict[str, object]:
    try:
        return dict(all_values(side, model)(feed))
    except OnnxcError:
        return {}


def _array_types(values: Feed) -> dict[str, TypeProto]:
    return {name: array_type(value) for name, value in values.items() if isinstance(value, np.ndarray)}
