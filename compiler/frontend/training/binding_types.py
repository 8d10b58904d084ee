"""Whether what bindings assign has the types of the variables; asked of lowering, as all types are."""

from collections.abc import Iterator, Mapping

from onnxc.compiler.diagnostics import Diagnostic, Location, error
from onnxc.compiler.frontend.infer import infer_types
from onnxc.compiler.frontend.training.programs import Program, TrainingPrograms, Variable
from onnxc.compiler.ir.types import TensorType, Type

__all__ = ["binding_findings"]


def binding_findings(programs: TrainingPrograms) -> tuple[Diagnostic, ...]:
    """An error for each binding whose value cannot be of the type of its initializer.

    Raises ModelError where types in a program contradict each other.
    """
    variables = {variable.key: variable for variable in programs.variables}
    each = (*programs.initializations, *programs.algorithms)
    return tuple(finding for program in each for finding in _findings(program, variables))


def _findings(program: Program, variables: Mapping[str, Variable]) -> Iterator[Diagnostic]:
    if not program.model.graph.outputs:
        return
    types = {value.name: value.type for value in infer_types(program.model).values if value.path == "main"}
    for update in program.updates:
        # What nodes of operators of others give has no type.
        variable, actual = variables[update.key], types.get(update.output)
        if actual is not None and not _may_be(actual, variable.type):
            message = f'"{variable.name}" is {variable.type}, and the binding assigns "{update.output}" to it: {actual}'
            yield error("training-binding-type", message, Location(update.path), rule="ONNX IR, TrainingInfoProto")


def _may_be(actual: Type, wanted: TensorType) -> bool:
    """Whether the types agree as far as they are decided; what only data decides is checked when it is there."""
    if not isinstance(actual, TensorType) or actual.dtype != wanted.dtype:
        return False
    if actual.shape is None:
        return True
    pairs = zip(actual.shape, wanted.known_shape, strict=False)
    return actual.rank == wanted.rank and all(size == known for size, known in pairs if isinstance(size, int))
