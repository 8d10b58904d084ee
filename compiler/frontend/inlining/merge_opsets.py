"""Operator sets of the nodes that come together where functions are expanded: one version of each, for all of them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, MutableSequence, Sequence

from onnxc.compiler.diagnostics import Location, error
from onnxc.compiler.frontend.checks.findings import Site
from onnxc.compiler.frontend.functions import (
    FunctionKey,
    ModelFunction,
    all_nodes,
    imported_opsets,
    node_key,
    subgraphs,
)
from onnxc.compiler.frontend.proto.onnxc_pb2 import NodeProto, OperatorSetIdProto
from onnxc.compiler.frontend.same_operator import keeps_meaning
from onnxc.compiler.frontend.schemas import newest_opset, normal_domain, schema
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.records import record

__all__ = ["Chosen", "merge_opsets"]

_LISTED = 8
"""Operators that a message names."""


@record
class Chosen:
    """The functions that are to be expanded, and those that stay."""

    functions: Mapping[FunctionKey, ModelFunction]
    kept: Collection[FunctionKey]

    def called(self, nodes: Iterable[NodeProto]) -> Mapping[FunctionKey, ModelFunction]:
        """The functions whose bodies will be in place of `nodes`."""
        reached: dict[FunctionKey, ModelFunction] = {}
        waiting = [node_key(node) for node in all_nodes(nodes)] if self.functions else []
        while waiting:
            key = waiting.pop()
            if key in self.functions and key not in reached:
                reached[key] = self.functions[key]
                waiting += [node_key(node) for node in all_nodes(reached[key].proto.node)]
        return reached


@record
class _Use:
    """An operator as a node uses it, in `version` of its set; calls of functions are the same in any."""

    domain: str
    operator: str
    version: int
    location: Location
    is_call: bool = False

    def is_same_in(self, version: int) -> bool:
        if self.is_call or self.version == version:
            return True
        before, after = (schema(self.domain, self.operator, each) for each in (self.version, version))
        return before is not None and after is not None and keeps_meaning(before, after)


def merge_opsets(
    nodes: Sequence[NodeProto], imports: MutableSequence[OperatorSetIdProto], chosen: Chosen, path: str
) -> None:
    """Makes the `imports` of a graph or function serve the bodies that are to be expanded in it.

    Domains of functions that nothing is used of any more go. Raises UnsupportedError where no version serves all.
    """
    if not chosen.functions:
        return
    opsets = imported_opsets(imports)
    used = [*_uses(nodes, opsets, chosen, path)]
    for function in chosen.called(nodes).values():
        used += [*_uses(function.proto.node, function.opsets, chosen, function.path), *_copies(function, opsets)]
    for domain in dict.fromkeys(use.domain for use in used):
        opsets[domain] = _merged([use for use in used if use.domain == domain], opsets.get(domain), path)
    for domain in {domain for domain, _, _ in chosen.functions} - {use.domain for use in used}:
        opsets.pop(domain, None)
    spelled = {normal_domain(imported.domain): imported.domain for imported in imports}
    del imports[:]
    imports.extend(
        OperatorSetIdProto(domain=spelled.get(domain, domain), version=version) for domain, version in opsets.items()
    )


def _uses(nodes: Iterable[NodeProto], opsets: Mapping[str, int], chosen: Chosen, path: str) -> Iterator[_Use]:
    """The operators of a body that stay."""
    for index, node in enumerate(nodes):
        key, domain, site = node_key(node), normal_domain(node.domain), Site(path, index, node)
        if key not in chosen.functions and domain in opsets:
            yield _Use(domain, node.op_type, opsets[domain], site.location(), is_call=key in chosen.kept)
        for label, graph in subgraphs(node):
            yield from _uses(graph.node, opsets, chosen, site.inner_path(label))


def _copies(function: ModelFunction, opsets: Mapping[str, int]) -> Iterator[_Use]:
    """The copies of inputs that a function returns."""
    computed = {name for node in function.proto.node for name in node.output}
    version = function.opsets.get("") or opsets.get("") or newest_opset("")
    if version is not None and not computed.issuperset(function.proto.output):
        yield _Use("", "Identity", version, Location(function.path))


def _merged(used: Sequence[_Use], own: int | None, path: str) -> int:
    """The version in which all these operators of one domain mean what they meant: `own` if that serves."""
    wanted = sorted({use.version for use in used}, reverse=True)
    tried = [*([] if own is None else [own]), *wanted]
    for version in tried:
        if all(use.is_same_in(version) for use in used):
            return version
    newest = max(tried)
    others = [use for use in used if not use.is_same_in(newest)]
    name, versions = others[0].domain or "ai.onnx", " and ".join(map(str, sorted({*tried})))
    message = f"{path} and the functions that it calls use versions {versions} of {name}, and no one of them serves all"
    values = [f"{use.operator}-{use.version} is another in {newest}: {use.location}" for use in others[:_LISTED]]
    conflict = error("opset-conflict", message, others[0].location, values, "ONNX IR, functions")
    raise UnsupportedError(str(conflict), code=conflict.code)
