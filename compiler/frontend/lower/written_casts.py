"""Element types that options override, written into the model: weights in them, and casts about nodes of other types.

Weights that all nodes read in another type become it; of others there is a copy for those that do.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import all_names, imported_opsets
from onnxc.compiler.frontend.graph import Graph, Tensor, all_nodes
from onnxc.compiler.frontend.lower.attempt import CastValue
from onnxc.compiler.frontend.proto.onnxc_pb2 import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto
from onnxc.compiler.ir.dtypes import BF16, DType
from onnxc.runtime.errors import UnsupportedError
from onnxc.runtime.records import record

__all__ = ["write_casts"]

CODED_CAST, CAST_OF_BF16 = 6, 13
"""The opsets from which Cast names types by numbers, and takes bf16."""

_Key = tuple[str, str]
"""A value: the path of its graph, and its name."""

_Use = tuple[str, int, int, bool]
"""Where a value is cast: the path of a graph, the index of a node, which of its operands or results, and whether it is
a result."""


def write_casts(
    model: ModelProto, graphs: Mapping[str, GraphProto], casts: Iterable[CastValue], checked: Graph
) -> None:
    """Has nodes read and give the element types of `casts`; graphs: those of the model by their paths."""
    types: dict[_Use, DType] = {}
    given: dict[_Use, DType] = {}
    for each in casts:
        if each.location.index is not None and each.location.graph in graphs:
            use = each.location.graph, each.location.index, each.index, each.is_result
            types[use], given[use] = each.dtype, each.given
    if not types:
        return
    names, constants = FreshNames(lambda: all_names(model.graph)), dict(_constants(checked))
    for use in _cast_weights(graphs, types, constants, names):
        del types[use], given[use]
    _expect_cast(imported_opsets(model.opset_import).get("", 1), {*types.values(), *given.values()})
    # Graphs within nodes first: of those around, the nodes are copied.
    for path in sorted(graphs, key=len, reverse=True):
        nodes = [*_with_casts(graphs[path], _Casts(path, types, constants, names))]
        del graphs[path].node[:]
        graphs[path].node.extend(nodes)


def _expect_cast(opset: int, dtypes: set[DType]) -> None:
    """UnsupportedError where the opset has no Cast for these element types."""
    needed = CAST_OF_BF16 if BF16 in dtypes else CODED_CAST if dtypes else 1
    if opset < needed:
        listed = ", ".join(sorted(map(str, dtypes)))
        message = f"casts between {listed} are of opset {needed} and newer, the model is of opset {opset}"
        raise UnsupportedError(f"{message}; convert it first by onnxc.convert_version", code="cast-of-old-opset")


def _constants(checked: Graph) -> Iterator[tuple[_Key, Tensor]]:
    """The initializers, and the tensors of Constant nodes."""
    for graph in (checked, *(inner for node in all_nodes(checked) for inner in node.subgraphs())):
        yield from (((graph.path, name), tensor) for name, tensor in graph.initializers.items())
        for node in graph.nodes:
            tensor = node.attributes.get("value") if node.operator == "Constant" else None
            if isinstance(tensor, Tensor):
                yield (graph.path, node.outputs[0]), tensor


# Weights


def _cast_weights(
    graphs: Mapping[str, GraphProto], types: Mapping[_Use, DType], constants: Mapping[_Key, Tensor], names: FreshNames
) -> list[_Use]:
    """Gives initializers the types that nodes read them in, and those uses that need no cast any more."""
    weights = {(path, each.name): each for path, graph in graphs.items() for each in graph.initializer}
    reads = _reads(graphs, types, weights)
    done: list[_Use] = []
    for key, uses in reads.items():
        dtypes = [*dict.fromkeys(uses.values())]
        graph, tensor = graphs[key[0]], constants.get(key)
        if tensor is None or dtypes == [None]:
            continue
        if len(dtypes) == 1 and dtypes[0] is not None:
            weights[key].CopyFrom(_cast_tensor(tensor, dtypes[0], key[1]))
            for info in (*graph.input, *graph.value_info):
                if info.name == key[1]:
                    info.type.tensor_type.elem_type = code_of(dtypes[0])
        else:
            copies = {dtype: names(f"{key[1]}/{dtype}") for dtype in dtypes if dtype is not None}
            graph.initializer.extend(_cast_tensor(tensor, dtype, name) for dtype, name in copies.items())
            for (path, index, operand, _), dtype in uses.items():
                if dtype is not None:
                    graphs[path].node[index].input[operand] = copies[dtype]
        done += (use for use, dtype in uses.items() if dtype is not None)
    return done


def _reads(
    graphs: Mapping[str, GraphProto], types: Mapping[_Use, DType], weights: Mapping[_Key, TensorProto]
) -> dict[_Key, dict[_Use, DType | None]]:
    """For each weight, where it is read, and in which type if it is cast there."""
    reads: dict[_Key, dict[_Use, DType | None]] = {}
    for path, graph in graphs.items():
        uses = {
            (path, index, operand, False): name
            for index, node in enumerate(graph.node)
            for operand, name in enumerate(node.input)
        }
        uses |= {(path, -1, index, False): info.name for index, info in enumerate(graph.output)}
        for use, name in uses.items():
            key = next(((outer, name) for outer in _enclosing(path) if (outer, name) in weights), None)
            if key is not None:
                reads.setdefault(key, {})[use] = types.get(use)
    return reads


def _enclosing(path: str) -> Iterator[str]:
    """The path of a graph, and of those around it, the innermost first."""
    yield path
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def _cast_tensor(tensor: Tensor, dtype: DType, name: str) -> TensorProto:
    with np.errstate(over="ignore"):
        elements = tensor.array().astype(dtype.numpy)
    return TensorProto(name=name, data_type=code_of(dtype), dims=elements.shape, raw_data=elements.tobytes())


# Nodes


@record
class _Casts:
    """What is cast in the graph at `path`."""

    path: str
    types: Mapping[_Use, DType]
    constants: Mapping[_Key, Tensor]
    names: FreshNames

    def of(self, index: int, count: int, *, is_result: bool) -> dict[int, DType]:
        """What the operands or results of a node are cast to."""
        uses = ((at, (self.path, index, at, is_result)) for at in range(count))
        return {at: self.types[use] for at, use in uses if use in self.types}


def _with_casts(graph: GraphProto, casts: _Casts) -> Iterator[NodeProto]:
    """The nodes, with casts before those whose operands have another type, and behind those whose results have."""
    made: dict[tuple[str, DType], str] = {}
    for index, node in enumerate(graph.node):
        for at, dtype in casts.of(index, len(node.input), is_result=False).items():
            given = node.input[at]
            if (given, dtype) not in made:
                made[given, dtype] = casts.names(f"{given}/{dtype}")
                yield _cast_node(given, made[given, dtype], dtype)
            node.input[at] = made[given, dtype]
        results = casts.of(index, len(node.output), is_result=True)
        tensor = casts.constants.get((casts.path, node.output[0])) if node.op_type == "Constant" else None
        if results and tensor is not None:
            value = AttributeProto(name="value", type=AttributeProto.TENSOR, t=_cast_tensor(tensor, results[0], ""))
            del node.attribute[:]
            node.attribute.append(value)
            results = {}
        wanted = {at: node.output[at] for at in results}
        for at, name in wanted.items():
            node.output[at] = casts.names(f"{name}/given")
        yield node
        for at, name in wanted.items():
            yield _cast_node(node.output[at], name, results[at])


def _cast_node(given: str, name: str, dtype: DType) -> NodeProto:
    to = AttributeProto(name="to", type=AttributeProto.INT, i=code_of(dtype))
    return NodeProto(name=name, op_type="Cast", input=[given], output=[name], attribute=[to])
