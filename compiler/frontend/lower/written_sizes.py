"""Constants of sizes that options override, written into the model."""

from collections.abc import Iterable, Mapping

import numpy as np

from onnxc.compiler.frontend.element_types import code_of
from onnxc.compiler.frontend.fresh_names import FreshNames
from onnxc.compiler.frontend.functions import all_names
from onnxc.compiler.frontend.lower.attempt import RenewedSizes
from onnxc.compiler.frontend.proto.onnxc_pb2 import FunctionProto, GraphProto, ModelProto, TensorProto
from onnxc.compiler.ir.dims import Dim

__all__ = ["write_sizes"]

FREE_INITIALIZERS_SINCE = 4
"""The IR version from which an initializer need not be an input."""


def write_sizes(
    model: ModelProto, containers: Mapping[str, GraphProto | FunctionProto], renewed: Iterable[RenewedSizes]
) -> None:
    """Gives the nodes of graphs initializers of their new sizes; those that no constant can say stay as they are."""
    names = FreshNames(lambda: all_names(model.graph))
    for each in renewed if model.ir_version >= FREE_INITIALIZERS_SINCE else ():
        graph, index = containers.get(each.location.graph), each.location.index
        if not isinstance(graph, GraphProto) or index is None:
            continue
        node = graph.node[index]
        integers = _integers(each.sizes, may_follow=node.op_type == "Reshape")
        if integers is not None:
            name = names(f"{node.output[0]}/sizes")
            elements = np.array(integers, each.dtype.numpy)
            node.input[each.index] = name
            graph.initializer.append(
                TensorProto(name=name, data_type=code_of(each.dtype), dims=elements.shape, raw_data=elements.tobytes())
            )


def _integers(sizes: tuple[Dim, ...], *, may_follow: bool) -> list[int] | None:
    """The sizes, one that is no number as -1 if it `may_follow` from the others; None where they are none."""
    integers = [size if isinstance(size, int) else -1 for size in sizes]
    symbols = sum(not isinstance(size, int) for size in sizes)
    return integers if not symbols or (may_follow and integers.count(-1) == 1) else None
