"""The programs of a training model: initializations, algorithms and inference over variables that are their inputs.

A variable is an initializer that some binding assigns to. It is an input of every program that can see it; all other
initializers stay constants, but for those that an algorithm declares as inputs too, which a step may pass.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import chain

from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.graph import CheckedModel, Graph, Tensor, ValueInfo
from onnxc.compiler.frontend.training.graphs import Binding, TrainingGraphs
from onnxc.compiler.ir.dtypes import U32
from onnxc.compiler.ir.types import TensorType
from onnxc.runtime.random_state import RANDOM_STATE
from onnxc.runtime.records import record

__all__ = ["Program", "TrainingPrograms", "Update", "Variable", "training_programs"]


@record
class Variable:
    """An initializer that changes: its name in its graph, and the value that the model gives it.

    key: what callers know it by, the name unless two algorithms have initializers of that name. owner: the ordinal of
    the training information whose algorithm has it, None for the main graph.
    """

    key: str
    name: str
    owner: int | None
    tensor: Tensor

    @property
    def type(self) -> TensorType:
        return TensorType(self.tensor.dtype, self.tensor.shape)


@record
class Update:
    """The variable `key` gets the value of an output of its program; `path` is that of the training information."""

    key: str
    output: str
    path: str


@record
class Program:
    """A model to be compiled by itself.

    variables: the keys of the inputs that are variables, by name. defaults: values of inputs that a call may leave
    out. random_state: the input on which draws depend, "" where there is none. Outputs that update nothing are for the
    caller.
    """

    model: CheckedModel
    variables: Mapping[str, str] = field(default_factory=dict)
    updates: tuple[Update, ...] = ()
    defaults: Mapping[str, Tensor] = field(default_factory=dict)
    random_state: str = ""


@record
class TrainingPrograms:
    """What a trainer runs: initializations and algorithms in order, and the main graph alone for inference."""

    variables: tuple[Variable, ...]
    initializations: tuple[Program, ...]
    algorithms: tuple[Program, ...]
    inference: Program


def training_programs(model: CheckedModel, steps: Sequence[TrainingGraphs]) -> TrainingPrograms:
    """The programs of a checked model with this training information."""
    variables = _variables(steps)
    return TrainingPrograms(
        variables,
        tuple(_initialization(model, step, ordinal, variables) for ordinal, step in enumerate(steps)),
        tuple(_algorithm(model, step, ordinal, variables) for ordinal, step in enumerate(steps)),
        _inference(model, variables),
    )


def _variables(steps: Sequence[TrainingGraphs]) -> tuple[Variable, ...]:
    """The initializers that bindings assign to, those of the main graph first."""
    owned: dict[tuple[int, str], Tensor] = {}
    for ordinal, step in enumerate(steps):
        for binding in (*step.starts, *step.updates):
            if binding.initializer in step.main.initializers:
                owned[-1, binding.initializer] = step.main.initializers[binding.initializer]
            else:
                owned[ordinal, binding.initializer] = step.algorithm.initializers[binding.initializer]
    counts = Counter(name for _, name in owned)
    alone = {name for name, count in counts.items() if count == 1 and name != RANDOM_STATE}
    fresh = FreshNames(lambda: (*alone, RANDOM_STATE))
    ordered = sorted(owned.items(), key=lambda item: item[0][0])
    return tuple(
        Variable(
            name if name in alone else fresh(name if ordinal < 0 else f"training_info[{ordinal}].{name}"),
            name,
            None if ordinal < 0 else ordinal,
            tensor,
        )
        for (ordinal, name), tensor in ordered
    )


def _initialization(model: CheckedModel, step: TrainingGraphs, ordinal: int, variables: Sequence[Variable]) -> Program:
    """The initialization, which has no inputs and gives values to variables alone."""
    keys, outputs = _seen_by(ordinal, variables), _named(step.initialization.outputs)
    wanted = [outputs[name] for name in dict.fromkeys(binding.output for binding in step.starts)]
    graph = replace(step.initialization, inputs=(), outputs=tuple(wanted), path="main")
    return _drawing(Program(replace(model, graph=graph), {}, _updates(step.starts, keys, ordinal)))


def _algorithm(model: CheckedModel, step: TrainingGraphs, ordinal: int, variables: Sequence[Variable]) -> Program:
    """The main graph and the algorithm as one; what it gives to no variable is for the caller."""
    keys, main, algorithm = _seen_by(ordinal, variables), step.main, step.algorithm
    bound = dict.fromkeys(binding.output for binding in step.updates)
    outputs = {**_named(main.outputs), **_named(algorithm.outputs)}
    shown = tuple(info.name for info in algorithm.outputs if info.name not in bound)
    joined = replace(
        main,
        inputs=(*main.inputs, *algorithm.inputs),
        outputs=tuple(outputs[name] for name in (*shown, *bound)),
        initializers={**main.initializers, **algorithm.initializers},
        nodes=(*main.nodes, *algorithm.nodes),
        value_infos={**main.value_infos, **algorithm.value_infos},
    )
    own = {name: tensor for name, tensor in algorithm.initializers.items() if name not in keys}
    defaults = {info.name: own[info.name] for info in algorithm.inputs if info.name in own}
    graph = _opened(joined, variables, keys, defaults)
    updates = _updates(step.updates, keys, ordinal)
    return _drawing(Program(replace(model, graph=graph), keys, updates, defaults))


def _inference(model: CheckedModel, variables: Sequence[Variable]) -> Program:
    """The main graph, which draws as a compiled model does: the same in every call."""
    keys = _seen_by(None, variables)
    return Program(replace(model, graph=_opened(model.graph, variables, keys)), keys)


def _seen_by(ordinal: int | None, variables: Iterable[Variable]) -> dict[str, str]:
    """The keys of the variables that the main graph and the algorithm of this ordinal see, by their names."""
    return {variable.name: variable.key for variable in variables if variable.owner in (None, ordinal)}


def _opened(
    graph: Graph, variables: Iterable[Variable], keys: Mapping[str, str], defaults: Mapping[str, Tensor] | None = None
) -> Graph:
    """The graph, whose variables and initializers with a default are inputs and no constants."""
    types = {variable.key: variable.type for variable in variables}
    states = tuple(ValueInfo(name, types[key]) for name, key in keys.items())
    fed = tuple(info for info in graph.inputs if info.name not in keys)
    changing = {*keys, *(defaults or ())}
    constants = {name: tensor for name, tensor in graph.initializers.items() if name not in changing}
    return replace(graph, inputs=(*fed, *states), initializers=constants)


def _drawing(program: Program) -> Program:
    """The program with an input for the random state."""
    graph = program.model.graph
    made = (name for node in graph.nodes for name in node.outputs)
    taken = chain((info.name for info in graph.inputs), graph.initializers, made)
    name = FreshNames(lambda: taken)(RANDOM_STATE)
    state = ValueInfo(name, TensorType(U32, (2,)))
    model = replace(program.model, graph=replace(graph, inputs=(*graph.inputs, state)))
    return replace(program, model=model, random_state=name)


def _updates(bindings: Iterable[Binding], keys: Mapping[str, str], ordinal: int) -> tuple[Update, ...]:
    path = f"training_info[{ordinal}]"
    return tuple(Update(keys[binding.initializer], binding.output, path) for binding in bindings)


def _named(infos: Iterable[ValueInfo]) -> dict[str, ValueInfo]:
    return {info.name: info for info in infos}
