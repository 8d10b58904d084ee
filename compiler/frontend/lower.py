"""CheckedModel to Module: every node becomes primitives, typed as they are made.

This walk is also type and shape inference: the type of an ONNX value is the type of the IR value that was built for
it. All nodes that cannot be lowered are reported together.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import onnxc.compiler.frontend.operators  # noqa: F401  (fills the registry)
from onnxc.compiler.diagnostics import DiagnosedModelError, Diagnostic, Location, error, model_error, unsupported_error
from onnxc.compiler.frontend.computation import Computation
from onnxc.compiler.frontend.graph import CheckedModel, Graph, GraphNode, ValueInfo
from onnxc.compiler.frontend.input_options import InputOptions
from onnxc.compiler.frontend.operand_types import operand_findings, result_findings, size_findings
from onnxc.compiler.frontend.operator import OPERATORS, Node, NotYetSupported, RanksDiffer, RankUnknown
from onnxc.compiler.frontend.operator_helpers.host_values import of_case, of_declared_shape, with_element
from onnxc.compiler.frontend.operator_helpers.joined_types import is_never_filled
from onnxc.compiler.frontend.operators.control.control_flow import cases_of_rank, expect_case, joined_branches
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, Size
from onnxc.compiler.ir.module import Block, Function, Module, Value
from onnxc.compiler.ir.types import (
    MapType,
    OptionalType,
    SequenceType,
    ShapedType,
    SparseTensorType,
    TensorType,
    Type,
    substitute_type,
    type_symbols,
    without_symbols,
)
from onnxc.runtime.errors import InputError, UnsupportedError

MOST_SPLITS = 3
"""How many conditions, or operands of unknown rank, may stand one after another: each multiplies what follows it."""

MOST_AXES = 6
"""The greatest rank that an operand of unknown rank may have."""

MOST_ELEMENTS = 8
"""How long a shape, or a list of axes, of unknown length may be."""

MOST_ORDERS = 4
"""How often a derivative may be differentiated: each time multiplies what is computed."""


@dataclass(frozen=True)
class FoundType:
    """A type that the value `name` of the graph at `path` has, in one of the cases told apart or at one of its uses."""

    path: str
    name: str
    type: Type


@dataclass(frozen=True)
class Lowered:
    """The module, and each type that was found for an ONNX value: one for each time that the value was lowered."""

    module: Module
    types: Sequence[FoundType]


def lower_model(model: CheckedModel, options: InputOptions | None = None) -> Module:
    """The typed module of `model`.

    Raises ModelError with all type findings, else UnsupportedError with all nodes that cannot be lowered yet.
    """
    return _lowered(model, options or InputOptions(), _Walk()).module


def lower_typed(model: CheckedModel, options: InputOptions | None = None) -> Lowered:
    """As `lower_model`, with the types of the ONNX values, also of those in branches that are never taken."""
    return _lowered(model, options or InputOptions(), _Walk(types_all=True))


def _lowered(model: CheckedModel, options: InputOptions, walk: "_Walk") -> Lowered:
    ir = walk.ir
    scope: dict[str, Value | None] = {}
    parameters, defaults = [], {}
    for info in model.graph.inputs:
        tensor = model.graph.initializers.get(info.name)
        if tensor is not None and options.freeze_params:
            continue
        parameter = ir.parameter(info.name, _input_type(info, options, ir))
        parameters.append(parameter)
        scope[info.name] = parameter
        if tensor is not None and not isinstance(parameter.type, TensorType):
            message = f'input "{info.name}" is {parameter.type} with a default, which is a constant only'
            raise UnsupportedError(message, code="sparse-default")
        if tensor is not None:
            defaults[info.name] = tensor.array()
    _expect_known_names(options, [info.name for info in model.graph.inputs], ir)
    walk.initializers(model.graph, scope)
    results = walk.graph(model.graph, scope, ir, inlined=False)
    walk.finish()
    body = ir.block(parameters, [result for result in results if result is not None])
    names = tuple(info.name for info in model.graph.outputs)
    bound = frozenset().union(*(type_symbols(parameter.type) for parameter in parameters))
    ranges = {name: span for name, span in ir.symbols.ranges.items() if name in bound}
    function = Function("main", body, names, ranges, defaults)
    return Lowered(Module(model.graph.name or "main", (function,)), walk.types)


def _input_type(info: ValueInfo, options: InputOptions, ir: Builder) -> Type:
    type = info.type
    if not isinstance(type, ShapedType):
        if type is None:
            raise model_error([error("input-without-type", f"input {info.name} has no type", Location())])
        return without_symbols(type)
    shape = type.shape
    if info.name in options.shapes:
        shape = _overridden_shape(info.name, options.shapes[info.name], shape)
    fixed: dict[str, Dim] = {name: size for name, size in options.dims.items() if isinstance(size, int)}
    chosen = substitute_type(replace(type, dtype=options.dtypes.get(info.name, type.dtype), shape=shape), fixed)
    for name in sorted(type_symbols(chosen)):
        span = options.dims.get(name, (0, None))
        ir.symbols.ranges[name] = span if isinstance(span, tuple) else (0, None)
    return chosen


def _overridden_shape(
    name: str, given: Sequence[int | str | None], declared: tuple[Dim, ...] | None
) -> tuple[Dim, ...]:
    if declared is not None and len(given) != len(declared):
        raise InputError(
            f"shapes gives input {name} {len(given)} axes, the model declares {len(declared)}", code="shape-rank"
        )
    shape: list[Dim] = []
    for axis, size in enumerate(given):
        known = declared[axis] if declared is not None else Size.symbol(f"{name}_dim{axis}")
        chosen: Dim = known if size is None else Size.symbol(size) if isinstance(size, str) else size
        if isinstance(known, int) and chosen != known:
            message = f"shapes gives axis {axis} of input {name} as {size}, the model declares {known}"
            raise InputError(message, code="shape-contradiction")
        shape.append(chosen)
    return tuple(shape)


def _expect_known_names(options: InputOptions, inputs: Sequence[str], ir: Builder) -> None:
    for option, names, known in (
        ("shapes", options.shapes, inputs),
        ("dtypes", options.dtypes, inputs),
    ):
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise InputError(f"{option} names {name!r}, the inputs are {listed}", code="unknown-input")


def _as_sparse(value: Value | None, ir: Builder) -> Value | None:
    """An initializer as the sparse tensor that an output is declared to be: what is stored is dense to the nodes."""
    if value is None or not isinstance(value.type, TensorType):
        return value
    return ir.host("sparse_from_dense", (value,), (SparseTensorType(value.dtype, value.type.shape),), {})[0]


class _Walk:
    """The state of one lowering: the builder, the types found, and the findings so far."""

    def __init__(self, *, types_all: bool = False) -> None:
        self.ir = Builder()
        self.types_all = types_all
        self.types: list[FoundType] = []
        self.walked: set[str] = set()
        self.graphs: tuple[Graph, ...] = ()
        self.computations: dict[tuple[int, ...], Computation] = {}
        self.again = 0
        self.findings: list[Diagnostic] = []
        self.unsupported: list[tuple[Location, str]] = []
        self.met: Counter[Location] = Counter()
        self.assumed: dict[tuple[Location, int], bool] = {}
        self.ranked: dict[Value, Value] = {}

    def finish(self) -> None:
        """Raises what was found."""
        if self.findings:
            raise model_error(self.findings)
        if self.unsupported:
            raise unsupported_error(self.unsupported)

    def initializers(self, graph: Graph, scope: dict[str, Value | None], ir: Builder | None = None) -> None:
        """Binds the initializers that are not bound yet, as constants."""
        for name, tensor in graph.initializers.items():
            if name not in scope:
                scope[name] = (ir or self.ir).constant(tensor.array())

    def graph(self, graph: Graph, scope: dict[str, Value | None], ir: Builder, *, inlined: bool) -> list[Value | None]:
        """Lowers the nodes of `graph` in order; the values of its outputs, None where a finding is in the way."""
        self.walked.add(graph.path)
        for name in (*(info.name for info in graph.inputs), *graph.initializers):
            self.record(graph, name, scope.get(name), ir)
        around, self.graphs = self.graphs, (*self.graphs, graph)
        try:
            return self._from_node(graph, 0, scope, ir, inlined=inlined)
        finally:
            self.graphs = around

    def _from_node(
        self, graph: Graph, start: int, scope: dict[str, Value | None], ir: Builder, *, inlined: bool = False
    ) -> list[Value | None]:
        """Lowers the nodes of `graph` from number `start` on; the values of its outputs.

        Cases are told apart by the graph that has a block of its own, not by those `inlined` into it.
        """
        for place, node in enumerate(graph.nodes[start:], start):
            met, first = self.met.copy(), len(self.types)
            with ir.at(node.location):
                try:
                    self._bind(node, graph, scope, self.node(node, scope, ir), ir)
                except RanksDiffer as split:
                    if inlined:
                        raise
                    del self.types[first:]
                    return self._split(split, met, graph, place, scope, ir)
                except RankUnknown as split:
                    del self.types[first:]
                    return self._split_by_rank(split, met, graph, place, scope, ir)
        results = []
        makers = {name: node.location for node in graph.nodes for name in node.outputs}
        for info in graph.outputs:
            with ir.at(makers.get(info.name, Location(graph.path))):
                value = scope.get(info.name)
                if info.name in graph.initializers and isinstance(info.type, SparseTensorType):
                    value = _as_sparse(value, ir)
                results.append(self._declared(info, value, ir))
        return results

    def node(self, node: GraphNode, scope: dict[str, Value | None], ir: Builder) -> Sequence[Value | None]:
        """The values of the outputs of one node, None where a finding is in the way."""
        named = (scope[name] if name else None for name in node.inputs)
        operands = tuple(self._case(value) for value in named)
        if any(name and operand is None for name, operand in zip(node.inputs, operands, strict=True)):
            return (None,) * len(node.outputs)
        self.met[node.location] += 1
        case = (node.location, self.met[node.location])
        subgraph = _Subgraph(self, node, scope, ir, len(self.types))
        may_split = len(self.assumed) < MOST_SPLITS
        try:
            results = self._lower(Node(node, operands, subgraph, may_split, self.assumed.get(case)), ir)
        except RanksDiffer as split:
            split.case = split.case or case
            raise
        if self.types_all:
            self._type_what_never_runs(node, subgraph, ir)
        return results

    def _case(self, value: Value | None) -> Value | None:
        """The value as what it is taken to be in the case at hand."""
        while value in self.ranked:
            value = self.ranked[value]
        return value

    def _type_what_never_runs(self, node: GraphNode, subgraph: "_Subgraph", ir: Builder) -> None:
        """Finds the types in the branches that a known condition rules out, as far as they have any."""
        for graph in node.subgraphs():
            if graph.inputs or graph.path in self.walked:
                continue
            before = len(self.findings), len(self.unsupported)
            with suppress(NotYetSupported, RanksDiffer):
                subgraph(graph, (), ir.nested())
            self._taken_back(*before)

    def _bind(
        self,
        node: GraphNode,
        graph: Graph,
        scope: dict[str, Value | None],
        results: Sequence[Value | None],
        ir: Builder,
    ) -> None:
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                scope[name] = value = self._declared(graph.value_infos.get(name), result, ir)
                self.record(graph, name, value, ir)

    def record(self, graph: Graph, name: str, value: Value | None, _ir: Builder) -> None:
        """Notes the type of what the value `name` became."""
        if value is not None:
            self.types.append(FoundType(graph.path, name, value.type))

    def _split(
        self,
        split: RanksDiffer,
        met: Counter[Location],
        graph: Graph,
        place: int,
        scope: dict[str, Value | None],
        ir: Builder,
    ) -> list[Value | None]:
        """The outputs of `graph` where the ranks of what node `place` gives depend on a condition.

        The node and all after it are lowered once for each case. A case that cannot be is an error of the call.
        """
        assert split.case is not None, split
        before, known = (len(self.findings), len(self.unsupported)), len(self.types)
        blocks, reasons = [], []
        for holds in (True, False):
            nested, self.met = ir.nested(), met.copy()
            self.assumed[split.case], first = holds, len(self.types)
            results = self._from_node(graph, place, dict(scope), nested)
            blocks.append(nested.block((), [result for result in results if result is not None]))
            reasons.append(self._taken_back(*before))
            if reasons[-1] is not None:
                del self.types[first:]
        possible = [holds for holds, reason in zip((True, False), reasons, strict=True) if reason is None]
        node = graph.nodes[place]
        if len(possible) == 2:
            del self.assumed[split.case]
            view = Node(node, (), _Subgraph(self, node, scope, ir, len(self.types)))
            return [*joined_branches(split.condition, blocks, view, ir)]
        if len(possible) == 1:
            expect_case(split.condition, possible[0], str(reasons[int(possible[0])]), ir)
        del self.types[known:]
        self.met, self.assumed[split.case] = met.copy(), possible == [True] or not possible
        outputs = self._from_node(graph, place, scope, ir)
        del self.assumed[split.case]
        return outputs

    def _split_by_rank(
        self,
        split: RankUnknown,
        met: Counter[Location],
        graph: Graph,
        place: int,
        scope: dict[str, Value | None],
        ir: Builder,
    ) -> list[Value | None]:
        """The outputs of `graph` where only data tells the rank of an operand of node `place`: a case for each rank.

        Likewise where a size of the operand decides on the rank of what the node gives.
        """
        before, value = (len(self.findings), len(self.unsupported)), split.value
        blocks: dict[int, Block] = {}
        known = len(self.types)
        for rank in range((MOST_AXES if split.axis is None else MOST_ELEMENTS) + 1):
            nested, self.met, first = ir.nested(), met.copy(), len(self.types)
            self.ranked[value] = of_case(split, rank, nested)
            results = self._from_node(graph, place, dict(scope), nested)
            if self._taken_back(*before) is None:
                blocks[rank] = nested.block((), [result for result in results if result is not None])
            else:
                del self.types[first:]
        del self.ranked[value]
        if len(blocks) > 1:
            view = Node(graph.nodes[place], (), _Subgraph(self, graph.nodes[place], scope, ir, len(self.types)))
            return [*cases_of_rank(split, blocks, view, ir)]
        if not blocks:
            self.unsupported.append((graph.nodes[place].location, str(split)))
            return [None] * len(graph.outputs)
        (rank,) = blocks
        del self.types[known:]
        self.met, self.ranked[value] = met.copy(), of_case(split, rank, ir)
        outputs = self._from_node(graph, place, scope, ir)
        del self.ranked[value]
        return outputs

    def _taken_back(self, findings: int, unsupported: int) -> str | None:
        """Forgets what was found beyond these numbers; the first of it."""
        new = [*(finding.message for finding in self.findings[findings:])]
        new += [reason for _, reason in self.unsupported[unsupported:]]
        del self.findings[findings:], self.unsupported[unsupported:]
        return new[0] if new else None

    def _lower(self, node: Node, ir: Builder) -> Sequence[Value | None]:
        lowering = OPERATORS.get((node.graph_node.domain, node.operator, node.since))
        if lowering is None:
            self.unsupported.append((node.location, "no lowering of this operator version"))
            return (None,) * node.output_count
        findings = operand_findings(node.graph_node, node.operands)
        if findings:
            self.findings += findings
            return (None,) * node.output_count
        try:
            lowered = lowering(node, ir)
        except RankUnknown as split:
            if len(self.ranked) < MOST_SPLITS and split.value in node.operands and split.value not in self.ranked:
                raise
            self.unsupported.append((node.location, str(split)))
            return (None,) * node.output_count
        except NotYetSupported as reason:
            self.unsupported.append((node.location, str(reason)))
            return (None,) * node.output_count
        except DiagnosedModelError as found:
            self.findings += [node.described(finding) for finding in found.diagnostics]
            return (None,) * node.output_count
        except InputError as problem:
            # What is folded here may ask for more than there is.
            message = str(problem).removeprefix(f"error[{problem.code}]: ")
            finding = error(problem.code, message, node.location, rule=f"ONNX {node.operator}")
            self.findings.append(node.described(finding))
            return (None,) * node.output_count
        results = lowered if isinstance(lowered, tuple) else (lowered,)
        self.findings += map(node.described, result_findings(node.graph_node, results))
        beyond = size_findings(node.graph_node, results)
        self.findings += map(node.described, beyond)
        return (None,) * node.output_count if beyond else results

    def _declared(self, info: ValueInfo | None, value: Value | None, ir: Builder) -> Value | None:
        """`value` as what the model declares it to be, where that tells more: a rank, or that it is present.

        A provable contradiction is a finding.
        """
        if info is None or value is None or info.type is None:
            return value
        declared = info.type
        if isinstance(value.type, OptionalType) and not isinstance(declared, OptionalType):
            value = with_element(value, ir)
        reason = contradiction(declared, value.type)
        if reason is not None:
            message = f"{info.name} is declared {info.type} and is {value.type}: {reason}"
            self.findings.append(error("declared-type", message, ir.location, (), "ONNX IR, value_info"))
        elif isinstance(declared, TensorType) and declared.shape is not None and value.tensor.shape is None:
            return of_declared_shape(value, declared, ir)
        return value


@dataclass(frozen=True)
class _Subgraph:
    """Lowers the graph attributes of one node, in the scope of that node."""

    walk: _Walk
    node: GraphNode
    scope: Mapping[str, Value | None]
    outer: Builder
    first_type: int

    def forget(self) -> None:
        """The types found since the node was come to are those of an attempt."""
        del self.walk.types[self.first_type :]

    def __call__(self, graph: Graph, parameters: Sequence[Value], ir: Builder) -> tuple[Value, ...]:
        inner = dict(self.scope)
        if len(graph.inputs) != len(parameters):
            message = f"the graph {graph.name} has {len(graph.inputs)} inputs, and the node gives {len(parameters)}"
            rule = f"ONNX {self.node.operator}, graph attributes"
            raise model_error([error("subgraph-arity", message, self.node.location, (), rule)])
        for info, parameter in zip(graph.inputs, parameters, strict=True):
            inner[info.name] = self._as_declared(info, parameter)
        for name in graph.initializers:
            if name not in {info.name for info in graph.inputs}:
                inner.pop(name, None)
        self.walk.initializers(graph, inner, ir)
        before = len(self.walk.findings), len(self.walk.unsupported)
        results = self.walk.graph(graph, inner, ir, inlined=ir is self.outer)
        missing = [info.name for info, result in zip(graph.outputs, results, strict=True) if result is None]
        if missing and before == (len(self.walk.findings), len(self.walk.unsupported)):
            raise NotYetSupported(f"the subgraph results {', '.join(missing)} could not be lowered")
        if missing:
            raise _SubgraphFailed
        return tuple(result for result in results if result is not None)

    @property
    def around(self) -> Computation:
        """The graphs around the node."""
        key = tuple(map(id, self.walk.graphs))
        if key not in self.walk.computations:
            self.walk.computations[key] = Computation.of(self.walk.graphs)
        return self.walk.computations[key]

    def compute_again(self, result: str, given: Mapping[str, Value], ir: Builder) -> Value:
        """The value `result`, where names have other values."""
        if self.walk.again == MOST_ORDERS:
            raise NotYetSupported(f"it is a derivative of an order above {MOST_ORDERS}")
        if result in self.scope and self.scope[result] is None:
            raise _SubgraphFailed
        scope, first_type = {**self.scope, **given}, len(self.walk.types)
        self.walk.again += 1
        try:
            for node in self.around.between(result, given, self.scope).values():
                with ir.at(node.location):
                    made = self.walk.node(node, scope, ir)
                scope |= {name: value for name, value in zip(node.outputs, made, strict=False) if name not in given}
        finally:
            self.walk.again -= 1
            del self.walk.types[first_type:]
        value = scope[result]
        if value is None:
            raise _SubgraphFailed
        return value

    def _as_declared(self, info: ValueInfo, parameter: Value) -> Value:
        """What an input of the graph stands for; an error if that is of another element type than declared."""
        if info.type is not None and not is_never_filled(parameter) and _elements_differ(info.type, parameter.type):
            message = f"input {info.name} of the graph is declared {info.type}, and the node gives {parameter.type}"
            rule = f"ONNX {self.node.operator}, graph attributes"
            raise model_error([error("subgraph-input-type", message, self.node.location, (), rule)])
        return parameter


def _elements_differ(declared: Type, given: Type) -> bool:
    match declared, given:
        case ShapedType(), ShapedType():
            return declared.__class__ is not given.__class__ or declared.dtype != given.dtype
        case SequenceType(), SequenceType():
            return _elements_differ(declared.element, given.element)
    return False


class _SubgraphFailed(NotYetSupported):
    """A node whose subgraph has findings of its own, which are already collected."""

    def __str__(self) -> str:
        return "its subgraph could not be lowered"


def contradiction(declared: Type, inferred: Type) -> str | None:
    """Why a value cannot have both types, or None where it can; symbols contradict nothing."""
    match declared, inferred:
        case ShapedType(), ShapedType() if declared.__class__ is inferred.__class__:
            return _tensor_contradiction(declared, inferred)
        case SequenceType(), SequenceType():
            return contradiction(declared.element, inferred.element)
        case OptionalType(), OptionalType():
            return contradiction(declared.element, inferred.element)
        case OptionalType(), _:
            return contradiction(declared.element, inferred)
        case MapType(), MapType():
            return "the keys differ" if declared.key != inferred.key else contradiction(declared.value, inferred.value)
    return "they are of different kinds"


def _tensor_contradiction(declared: ShapedType, inferred: ShapedType) -> str | None:
    if declared.dtype != inferred.dtype:
        return "the element types differ"
    if declared.shape is None or inferred.shape is None:
        return None
    if len(declared.shape) != len(inferred.shape):
        return "the ranks differ"
    for axis, (left, right) in enumerate(zip(declared.shape, inferred.shape, strict=True)):
        if isinstance(left, int) and isinstance(right, int) and left != right:
            return f"axis {axis} differs"
    return None
