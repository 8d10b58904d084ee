"""Functions of the model: well formed, not recursive, called with what they take, and not growing out of bounds."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.attribute_fields import ATTRIBUTE_FIELDS
from onnxc.compiler.frontend.checks.attributes import attribute_type, is_for_tools, kind_name
from onnxc.compiler.frontend.checks.context import Context
from onnxc.compiler.frontend.checks.findings import Findings, Site, listed
from onnxc.compiler.frontend.checks.operators import COUNT_CODES
from onnxc.compiler.frontend.checks.types import check_distinct_infos, check_type
from onnxc.compiler.frontend.functions import (
    FunctionKey,
    ModelFunction,
    all_nodes,
    node_key,
    subgraphs,
)
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto, NodeProto
from onnxc.compiler.frontend.schemas import normal_domain, schema
from onnxc.compiler.limits import Limits, raising
from onnxc.runtime.records import record

_RULE = "ONNX IR, functions"

# The operators of domains that nobody here knows may be anything in a function that nothing calls.
UNREACHED = ("unknown-domain",)


def find_functions(model: ModelProto, findings: Findings, limits: Limits) -> Mapping[FunctionKey, ModelFunction]:
    """The functions of a model by what identifies them; two of one identity are a finding."""
    functions: dict[FunctionKey, ModelFunction] = {}
    if len(model.functions) > limits.functions:
        message = f"the model has {len(model.functions)} functions; the limit is {limits.functions}"
        findings.error("too-many-functions", message, Location(), rule="limits, functions")
        return functions
    for function in map(ModelFunction, model.functions):
        location = Location(function.path)
        if not function.proto.name:
            findings.error("empty-name", "a function has no name", location, rule=_RULE)
        elif model.ir_version < 10 and function.proto.overload:
            message = f"IR version {model.ir_version} tells functions apart by domain and name, not by overload"
            findings.error("overload-version", message, location, rule=_RULE)
        elif function.key in functions:
            findings.error("duplicate-function", f"the model has two functions {function}", location, rule=_RULE)
        else:
            functions[function.key] = function
    return functions


def check_signature(function: ModelFunction, context: Context) -> None:
    """Checks what a function says of itself: its domain, its attribute parameters, the types of its values."""
    location, findings = Location(function.path), context.findings
    defaults = function.proto.attribute_proto
    if not function.proto.HasField("domain") and context.ir_version >= 8:
        findings.error("function-without-domain", "a function has no domain", location, rule=_RULE)
    if "" in function.proto.attribute or not all(default.name for default in defaults):
        findings.error("attribute-without-name", "an attribute of a function has no name", location, rule=_RULE)
    for name in _repeated([*function.proto.attribute, *(default.name for default in defaults)]):
        message = f'two of the attributes of a function are named "{name}"'
        findings.error("duplicate-attribute", message, location, rule=_RULE)
    for default in defaults:
        if attribute_type(default) not in ATTRIBUTE_FIELDS or default.ref_attr_name:
            message = f"the default of attribute {default.name} has no value"
            findings.error("attribute-without-value", message, location, rule=_RULE)
            continue
        used = function.references.get(default.name, attribute_type(default))
        if used != attribute_type(default):
            default_kind, wanted = kind_name(attribute_type(default)), kind_name(used)
            message = (
                f"the default of attribute {default.name} is of type {default_kind}, and the body uses it as {wanted}"
            )
            findings.error("attribute-type", message, location, rule=_RULE)
    for info in function.proto.value_info:
        check_type(info.type, f'value "{info.name}"', location, context, complete=False)
    check_distinct_infos(function.proto.value_info, function.path, context)


def check_compatible_opsets(function: ModelFunction, model: Context) -> None:
    """Warns of operators that mean another version in the function than in the model; its own opset decides."""
    reported: set[tuple[str, str]] = set()
    for index, node in enumerate(function.proto.node):
        domain = normal_domain(node.domain)
        versions = [opsets.get(domain) for opsets in (function.opsets, model.opsets)]
        if None in versions or versions[0] == versions[1] or (domain, node.op_type) in reported:
            continue
        inner, outer = (schema(domain, node.op_type, version or 0) for version in versions)
        if inner is not None and inner is not outer:
            reported.add((domain, node.op_type))
            message = f"{node.op_type} is {inner.identity} here, and {outer or 'absent'} in the opset of the model"
            location = Site(function.path, index, node, inner).location()
            model.findings.warning("function-opset", message, location, rule=_RULE)


def _repeated(names: Iterable[str]) -> Iterator[str]:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            yield name
        seen.add(name)


def check_call(site: Site, function: ModelFunction, context: Context) -> None:
    """Checks a node that calls `function`."""
    node, proto, findings = site.node, function.proto, context.findings
    domain = normal_domain(node.domain)
    context.used_domains.add(domain)
    if domain not in context.opsets and context.ir_version >= 3:
        message = f"{function} is called, and no opset of {domain or 'ai.onnx'} is imported"
        findings.error("missing-opset-import", message, site.location(), rule="ONNX IR, operator sets")
    if not node.output:
        findings.error("node-without-outputs", "the call has no output", site.location(), rule="ONNX IR, graphs")
    for kind, given, formals in (("input", node.input, proto.input), ("output", node.output, proto.output)):
        if len(given) > len(formals):
            message = f"{function} has {len(formals)} {kind}s, and {len(given)} are given"
            findings.error(COUNT_CODES[kind], message, site.location(), rule=_RULE)
    for attribute in node.attribute:
        name, code = attribute.name, attribute_type(attribute)
        used = function.references.get(name, code)
        if name not in function.parameters:
            if not is_for_tools(name):
                message = f"attribute {name} is unknown; {function} has {listed(function.parameters)}"
                findings.error("unknown-attribute", message, site.location(), rule=_RULE)
        elif code and used != code:
            message = f"attribute {name} is of type {kind_name(code)}, and {function} uses it as {kind_name(used)}"
            findings.error("attribute-type", message, site.location(), rule=_RULE)


@record
class _Growth:
    """What a body becomes when every call in it is expanded: nodes, and levels of graphs and calls."""

    nodes: int
    depth: int


class CallGraph:
    """Who calls whom: cycles, what is reached from the main graph, and how large the expansion is."""

    def __init__(self, model: ModelProto, functions: Mapping[FunctionKey, ModelFunction], limits: Limits) -> None:
        self._limits = limits
        self._main = list(model.graph.node)
        self._training = [
            node
            for info in model.training_info
            for graph in (info.initialization, info.algorithm)
            for node in graph.node
        ]
        self._functions = functions
        bodies = (function.proto.node for function in functions.values())
        self._stored = sum(1 for nodes in (self._main, self._training, *bodies) for _ in all_nodes(nodes))
        self._callees = {key: self._calls(function.proto.node) for key, function in functions.items()}

    def _calls(self, nodes: Iterable[NodeProto]) -> tuple[FunctionKey, ...]:
        keys = (node_key(node) for node in all_nodes(nodes, self._limits.nesting_depth))
        return tuple(dict.fromkeys(key for key in keys if key in self._functions))

    def reached(self) -> frozenset[FunctionKey]:
        """The functions that the main graph calls, at however many removes."""
        result: set[FunctionKey] = set()
        waiting = list(self._calls(self._main)) if self._functions else []
        while waiting:
            key = waiting.pop()
            if key not in result:
                result.add(key)
                waiting += self._callees[key]
        return frozenset(result)

    def check(self, findings: Findings) -> None:
        """Reports recursion, else expansion beyond the limits."""
        order = self._order(self._functions, findings)
        if order is None:
            return
        grown: dict[FunctionKey, _Growth] = {}
        for key in order:
            grown[key] = self._growth(self._functions[key].proto.node, grown, self._limits.nesting_depth)
        total = self._growth([*self._main, *self._training], grown, self._limits.nesting_depth)
        if total.depth > self._limits.nesting_depth:
            message = f"graphs and calls are nested {total.depth} deep; the limit is {self._limits.nesting_depth}"
            findings.error("nesting-too-deep", message, Location(), rule="limits, nesting_depth")
        if total.nodes > self._stored + self._limits.expanded_nodes:
            most = self._limits.expanded_nodes
            message = f"expanding all calls adds too many nodes; {raising('expanded_nodes', most)}"
            findings.error("expansion-too-large", message, Location(), rule="limits, expanded_nodes")

    def _order(self, roots: Iterable[FunctionKey], findings: Findings) -> Sequence[FunctionKey] | None:
        """What the roots call, callees before callers; None, and a finding, where a function calls itself."""
        done: dict[FunctionKey, None] = {}
        for root in roots:
            path: dict[FunctionKey, Iterator[FunctionKey]] = {}
            waiting: FunctionKey | None = root if root not in done else None
            while waiting is not None or path:
                if waiting is not None:
                    path[waiting] = iter(self._callees[waiting])
                current = next(reversed(path))
                waiting = next((key for key in path[current] if key not in done), None)
                if waiting is None:
                    done[current] = None
                    del path[current]
                elif waiting in path:
                    self._report_recursion([*path, waiting], findings)
                    return None
        return tuple(done)

    def _report_recursion(self, path: Sequence[FunctionKey], findings: Findings) -> None:
        cycle = path[path.index(path[-1]) :]
        names = listed(self._functions[key] for key in cycle)
        location = Location(self._functions[cycle[0]].path)
        findings.error("recursive-function", f"a function calls itself, by way of {names}", location, rule=_RULE)

    def _growth(self, nodes: Iterable[NodeProto], grown: Mapping[FunctionKey, _Growth], depth: int) -> _Growth:
        """What `nodes` become; beyond the limit the count stays just above it."""
        count = levels = 0
        for node in nodes:
            called = grown.get(node_key(node)) if grown else None
            inside = [called] if called else []
            if depth:
                inside += [self._growth(graph.node, grown, depth - 1) for _, graph in subgraphs(node)]
            count += 1 + sum(growth.nodes for growth in inside)
            levels = max([levels, *(growth.depth for growth in inside)])
        return _Growth(min(count, self._stored + self._limits.expanded_nodes + 1), levels + 1)
