"""Shardings against the types that lowering finds: what declarations did not tell the checker."""

from collections.abc import Iterator, Mapping
from math import prod

from onnxc.compiler.diagnostics import Diagnostic, error
from onnxc.compiler.frontend.devices.annotations import ShardedAxis, TensorSharding
from onnxc.compiler.frontend.graph import GraphNode
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Value
from onnxc.compiler.ir.types import TensorType


def sharding_findings(node: GraphNode, scope: Mapping[str, Value | None]) -> list[Diagnostic]:
    """What is wrong with the shardings of a node, whose values are in scope; nothing where a rank is not known."""
    return [
        error(code, f'the sharding of "{sharding.tensor}", {message}', node.location, rule="ONNX IR, ShardedDimProto")
        for devices in node.devices
        for sharding in devices.shardings
        if (value := scope.get(sharding.tensor)) is not None
        for code, message in _problems(sharding, value)
    ]


def _problems(sharding: TensorSharding, value: Value) -> Iterator[tuple[str, str]]:
    if not isinstance(value.type, TensorType):
        if sharding.axes:
            yield "sharding-axis", f"which divides axes of {value.type}, no tensor"
        return
    if value.type.shape is None:
        return
    seen: set[int] = set()
    for axis in sharding.axes:
        if not -value.rank <= axis.axis < value.rank:
            yield "sharding-axis", f"which divides axis {axis.axis} of {value.type}"
            continue
        if axis.axis % value.rank in seen:
            yield "sharding-axis", f"which divides axis {axis.axis} twice"
        seen.add(axis.axis % value.rank)
        yield from _factor_problems(axis, value.shape[axis.axis])


def _factor_problems(axis: ShardedAxis, size: Dim) -> Iterator[tuple[str, str]]:
    known = [factor.size for factor in axis.factors if isinstance(factor.size, int)]
    is_whole = len(known) == len(axis.factors)
    if isinstance(size, int) and known and (prod(known) != size if is_whole else size % prod(known)):
        taken = " * ".join(map(str, known))
        yield "sharding-factors", f"which takes axis {axis.axis} for {taken} elements; it has {size}"
