"""The smallest model that fails as a model does: fewer nodes, outputs, attributes and weights, and smaller sizes."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from onnxc.comparing.attempt import Attempts, Job
from onnxc.comparing.minimal import minimal
from onnxc.comparing.model_cuts import declared_types, keep_nodes
from onnxc.comparing.sides import embedded_model
from onnxc.comparing.size_cuts import smaller_sizes
from onnxc.compiler.frontend.check import check_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, TypeProto, ValueInfoProto
from onnxc.compiler.frontend.read import wrap_model
from onnxc.compiler.typed_model import typed_model
from onnxc.runtime.errors import InputError
from onnxc.runtime.records import record

__all__ = ["Reduction", "reduce_model"]

Shows = Callable[[ModelProto], bool]


@record
class Reduction:
    """A model that still fails, what it says, how many nodes there were, and how many models were tried."""

    model: ModelProto
    outcome: str
    nodes_before: int
    attempts: int


def reduce_model(
    path: Path, fails: str, job: Job, attempts: Attempts, say: Callable[[str], None] = lambda _: None
) -> Reduction:
    """The smallest model found that fails with `fails`: the code of an error, or a part of what is said.

    say: is told what is being done. Raises InputError where the model does not fail so.
    """
    model, before = embedded_model(path), attempts.count

    def shows(cut: ModelProto) -> bool:
        say(f"reducing {path.name}: {attempts.count - before} models tried, the last of {len(cut.graph.node)} nodes")
        return fails in attempts.outcome(cut, job)

    said = attempts.outcome(model, job)
    if fails not in said:
        came = said.strip() or "it compiles and runs"
        raise InputError(f"{path} does not fail with {fails!r}: {came}", code="reduce-no-failure")
    small = _reduced(model, shows)
    outcome = attempts.outcome(small, job).strip()
    return Reduction(small, outcome, len(model.graph.node), attempts.count - before)


def _reduced(model: ModelProto, shows: Shows) -> ModelProto:
    """Each kind of part in turn, until none of them makes it smaller."""
    types = _types(model)
    while True:
        before = model.ByteSize()
        for step in (_fewer_nodes, _fewer_outputs, _fewer_attributes, _fewer_weights):
            model = step(model, types, shows)
        model, _ = smaller_sizes(model, {}, lambda cut, _: shows(cut))
        if model.ByteSize() >= before:
            return model


def _types(model: ModelProto) -> Mapping[str, TypeProto]:
    """What is declared, and what inference finds for the most nodes from the first on that do not make it fail."""
    declared = declared_types(model)
    low, high, inferred = 0, len(model.graph.node) + 1, declared
    while high - low > 1:
        middle = (low + high) // 2
        typed = _inferred(keep_nodes(model, range(middle), declared))
        low, high, inferred = (low, middle, inferred) if typed is None else (middle, high, typed)
    return declared | inferred


def _inferred(model: ModelProto) -> dict[str, TypeProto] | None:
    try:
        loaded = wrap_model(model, None)
        return declared_types(typed_model(loaded, check_model(loaded)))
    except Exception:  # whatever it is: the model is one that shows a defect
        return None


def _fewer_nodes(model: ModelProto, types: Mapping[str, TypeProto], shows: Shows) -> ModelProto:
    every = [*range(len(model.graph.node))]
    if not shows(keep_nodes(model, every, types)):
        return model
    return keep_nodes(model, minimal(every, lambda some: shows(keep_nodes(model, some, types))), types)


def _fewer_outputs(model: ModelProto, _types: Mapping[str, TypeProto], shows: Shows) -> ModelProto:
    def with_some(outputs: Sequence[ValueInfoProto]) -> ModelProto:
        made = _copy(model)
        del made.graph.output[:]
        made.graph.output.extend(outputs)
        return made

    return with_some(minimal([*model.graph.output], lambda some: shows(with_some(some))))


def _fewer_attributes(model: ModelProto, _types: Mapping[str, TypeProto], shows: Shows) -> ModelProto:
    for ordinal in range(len(model.graph.node)):
        for index in reversed(range(len(model.graph.node[ordinal].attribute))):
            cut = _copy(model)
            del cut.graph.node[ordinal].attribute[index]
            model = cut if shows(cut) else model
    return model


def _fewer_weights(model: ModelProto, types: Mapping[str, TypeProto], shows: Shows) -> ModelProto:
    """With inputs in the place of weights, one by one."""
    for index in reversed(range(len(model.graph.initializer))):
        cut = _copy(model)
        name = cut.graph.initializer[index].name
        del cut.graph.initializer[index]
        if name in types and name not in {info.name for info in cut.graph.input}:
            cut.graph.input.append(ValueInfoProto(name=name, type=types[name]))
        model = cut if shows(cut) else model
    return model


def _copy(model: ModelProto) -> ModelProto:
    made = ModelProto()
    made.CopyFrom(model)
    return made
