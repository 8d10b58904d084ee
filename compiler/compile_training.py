"""A training model to a trainer: every program of it compiled once, for all sizes of its inputs."""

from dataclasses import replace

from onnxc.compiler.checked_model import checked_model
from onnxc.compiler.diagnostics import model_error
from onnxc.compiler.driver import compile_checked
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.read import LoadedModel, read_model
from onnxc.compiler.frontend.training.binding_types import binding_findings
from onnxc.compiler.frontend.training.graphs import resolve_training
from onnxc.compiler.frontend.training.programs import Program, TrainingPrograms, Variable, training_programs
from onnxc.compiler.interpreted import interpret_checked
from onnxc.compiler.ir.types import type_symbols
from onnxc.compiler.limits import limited_to
from onnxc.compiler.model_symbols import expect_known_dims
from onnxc.compiler.options import CompileOptions, ModelSource
from onnxc.compiler.trainer import Trainer
from onnxc.runtime.errors import InputError, UnsupportedError
from onnxc.runtime.executable import Executable
from onnxc.runtime.load import make_compiled
from onnxc.runtime.state_program import StateProgram

__all__ = ["compile_training"]


def compile_training(source: ModelSource, options: CompileOptions, seed: int) -> Trainer:
    """The trainer of a model with training information.

    Raises ModelError, UnsupportedError, InputError.
    """
    if options.target.kind == "cuda":
        message = f"training is for a CPU and the interpreter, the target is {options.target}"
        raise UnsupportedError(message, code="unsupported-training-target")
    read = read_model(source, opset=options.opset, allow_links=options.allow_links)
    loaded, checked = checked_model(read, options)
    programs = _checked_programs(loaded, checked, options)
    _expect_known_dims(programs, options)
    initializations = [_compiled(program, options) for program in programs.initializations if program.updates]
    algorithms = [_compiled(program, options) for program in programs.algorithms]
    return Trainer(
        loaded, programs.variables, initializations, algorithms, _compiled(programs.inference, options), seed
    )


def _checked_programs(loaded: LoadedModel, checked: CheckedModel, options: CompileOptions) -> TrainingPrograms:
    """The programs, whose bindings assign what the variables can hold."""
    graphs = resolve_training(loaded, options.limits, options.operators)
    if not graphs:
        message = "the model has no training information; onnxc.make_training makes it of a loss and an optimizer"
        raise InputError(message, code="no-training-information")
    programs = training_programs(checked, graphs)
    with limited_to(options.limits):
        findings = binding_findings(programs)
    if findings:
        raise model_error(findings)
    for variable in programs.variables:
        _expect_whole_bytes(variable)
    return programs


def _expect_whole_bytes(variable: Variable) -> None:
    dtype = variable.tensor.dtype
    if dtype.is_string or (dtype.bits % 8 and not dtype.is_bool):
        message = f'the variable "{variable.key}" is {variable.type}, and bindings assign whole bytes'
        raise UnsupportedError(message, code="unsupported-training-variable")


def _expect_known_dims(programs: TrainingPrograms, options: CompileOptions) -> None:
    """InputError where `dims` names a size that no input of a step has."""
    graph = programs.inference.model.graph
    inputs = [info for program in programs.algorithms for info in program.model.graph.inputs]
    everything = replace(programs.inference.model, graph=replace(graph, inputs=(*graph.inputs, *inputs)))
    expect_known_dims(everything, options.inputs)


def _compiled(program: Program, options: CompileOptions) -> StateProgram:
    """The program ready to run, with those of the options that are about its inputs."""
    types = [info.type for info in program.model.graph.inputs]
    symbols = frozenset().union(*(type_symbols(type) for type in types if type is not None))
    dims = {name: span for name, span in options.inputs.dims.items() if name in symbols}
    inputs = replace(options.inputs, dims=dims, random_state=program.random_state or None)
    own = replace(options, inputs=inputs)
    updates: dict[str, tuple[str, ...]] = {}
    for update in program.updates:
        updates[update.output] = (*updates.get(update.output, ()), update.key)
    defaults = {name: tensor.array() for name, tensor in program.defaults.items()}
    executable = _executable(program.model, own)
    return StateProgram(executable, program.variables, updates, defaults, program.random_state)


def _executable(model: CheckedModel, options: CompileOptions) -> Executable:
    if options.target.kind == "interpreter":
        return interpret_checked(model, options)
    return make_compiled(compile_checked(model, options), options.threads)
