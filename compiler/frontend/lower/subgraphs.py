"""The graph attributes of a node, and the graphs around it: what its operator may ask to be lowered."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import count

from onnxc.compiler.diagnostics import error, model_error
from onnxc.compiler.frontend.case_split import CasesNeeded, ConditionSplit, RankSplit
from onnxc.compiler.frontend.computation import Computation
from onnxc.compiler.frontend.graph import Graph, GraphNode, ValueInfo
from onnxc.compiler.frontend.joining.joined_types import is_never_filled
from onnxc.compiler.frontend.lower.attempt import Attempt
from onnxc.compiler.frontend.lower.declared import elements_differ
from onnxc.compiler.frontend.lower.frame import Frame, GraphOutcome, NodeOutcome
from onnxc.compiler.frontend.operator import NotYetSupported
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

MOST_ORDERS = 4
"""How often a derivative may be differentiated: each time multiplies what is computed."""


class SubgraphFailed(NotYetSupported):
    """A node whose subgraph has findings of its own, which are already collected."""

    def __str__(self) -> str:
        return "its subgraph could not be lowered"


@record
class Subgraphs:
    """Lowers the graph attributes of one node, in the frame of that node; `calls` gives the ordinals of the calls."""

    node: GraphNode
    frame: Frame
    lower_graph: Callable[[Frame], GraphOutcome]
    lower_node: Callable[[GraphNode, Frame], NodeOutcome]
    calls: Iterator[int] = field(default_factory=count)

    def forget(self) -> None:
        """The types found since the node was come to are those of an attempt."""
        self.frame.attempt.types.clear()

    def __call__(
        self, graph: Graph, parameters: Sequence[Value], ir: Builder, rounds: Sequence[Value] = ()
    ) -> tuple[Value, ...]:
        if len(graph.inputs) != len(parameters):
            message = f"the graph {graph.name} has {len(graph.inputs)} inputs, and the node gives {len(parameters)}"
            rule = f"ONNX {self.node.operator}, graph attributes"
            raise model_error([error("subgraph-arity", message, self.node.location, (), rule)])
        attempt = self.frame.attempt
        before = attempt.objection_count
        outcome = self.lower_graph(self._within(graph, parameters, ir, rounds))
        if isinstance(outcome, ConditionSplit):
            raise CasesNeeded(outcome)
        missing = [info.name for info, result in zip(graph.outputs, outcome, strict=True) if result is None]
        if missing and before == attempt.objection_count:
            raise NotYetSupported(f"the subgraph results {', '.join(missing)} could not be lowered")
        if missing:
            raise SubgraphFailed
        return tuple(result for result in outcome if result is not None)

    def _within(self, graph: Graph, parameters: Sequence[Value], ir: Builder, rounds: Sequence[Value]) -> Frame:
        """The frame in which the nodes of `graph` are lowered."""
        inner = dict(self.frame.scope)
        for info, parameter in zip(graph.inputs, parameters, strict=True):
            self._expect_element_type(info, parameter)
            inner[info.name] = parameter
        names = {info.name for info in graph.inputs}
        inner |= {name: ir.constant(tensor.array()) for name, tensor in graph.initializers.items() if name not in names}
        state = self.frame.random_state
        return replace(
            self.frame,
            graphs=(*self.frame.graphs, graph),
            scope=inner,
            named={},
            ir=ir,
            key=self.frame.key_of(self.node, next(self.calls)),
            is_inlined=ir is self.frame.ir,
            random_state=None if state is None else state.within(rounds),
        )

    def _expect_element_type(self, info: ValueInfo, parameter: Value) -> None:
        """ModelError where an input of the graph is declared to be of another element type."""
        if info.type is not None and not is_never_filled(parameter) and elements_differ(info.type, parameter.type):
            message = f"input {info.name} of the graph is declared {info.type}, and the node gives {parameter.type}"
            rule = f"ONNX {self.node.operator}, graph attributes"
            raise model_error([error("subgraph-input-type", message, self.node.location, (), rule)])

    def type_what_never_runs(self) -> None:
        """Finds the types in the branches that a known condition rules out, as far as they have any."""
        for graph in self.node.subgraphs():
            if graph.inputs or graph.path in self.frame.session.walked:
                continue
            aside = Attempt()
            with suppress(NotYetSupported):
                replace(self, frame=replace(self.frame, attempt=aside))(graph, (), self.frame.ir.nested())
            self.frame.attempt.types += aside.types

    # Derivatives

    @property
    def enclosing(self) -> Computation:
        """The graphs around the node."""
        computations, path = self.frame.session.computations, self.frame.graph.path
        if path not in computations:
            computations[path] = Computation.of(self.frame.graphs)
        return computations[path]

    def compute_again(self, result: str, given: Mapping[str, Value], ir: Builder) -> Value:
        """The value `result`, where names have other values; the types found on the way are not those of the model."""
        if self.frame.order == MOST_ORDERS:
            raise NotYetSupported(f"it is a derivative of an order above {MOST_ORDERS}")
        outer = self.frame.scope
        if result in outer and outer[result] is None:
            raise SubgraphFailed
        attempt, key = self.frame.attempt.part(), self.frame.key_of(self.node, next(self.calls))
        scope = {**outer, **given}
        again = replace(self.frame, scope=scope, ir=ir, attempt=attempt, key=key, order=self.frame.order + 1)
        try:
            for node in self.enclosing.between(result, given, outer).values():
                self._compute_node(node, again, given)
        finally:
            self.frame.attempt.keep_objections(attempt)
        value = scope[result]
        if value is None:
            raise SubgraphFailed
        return value

    def _compute_node(self, node: GraphNode, again: Frame, given: Mapping[str, Value]) -> None:
        """Binds what the node gives, but for names whose values are given."""
        with again.ir.at(node.location):
            made = self.lower_node(node, again)
        if isinstance(made, RankSplit | ConditionSplit):
            raise CasesNeeded(made)
        again.scope.update((name, value) for name, value in zip(node.outputs, made, strict=False) if name not in given)
