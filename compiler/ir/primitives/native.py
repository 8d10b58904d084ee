"""Kernels that a caller wrote: a primitive whose code comes with it.

Attributes: `operator`, for people; `llvm`, the module of LLVM IR; `access`, what a call of its function computes;
`path`, of a function on the host that means the same, empty where there is none; the attributes of the node, each
behind the word `attribute`, of which `scalars` has the names in the order of their declaration.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Attributes, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, define
from onnxc.runtime.errors import UnsupportedError

__all__ = ["ATTRIBUTE", "host_attributes", "host_form", "scalars_of"]

ATTRIBUTE = "attribute."
"""What the names of a node's attributes begin with among those of the op."""


def _axes_of_access(op: Op) -> tuple[AxisLink, ...]:
    """A unit of its work needs no other: elements along every axis, rows along all but the last, the whole nowhere.

    Nobody knows what foreign code does with elements that stand for nothing.
    """
    inner = {"elements": 0, "rows": 1}.get(op.text("access"))
    count = 0 if inner is None else op.results[0].rank - inner
    operands, results = len(op.operands), len(op.results)
    return tuple(AxisLink("map", (axis,) * operands, (axis,) * results, is_even=True) for axis in range(count))


define(Primitive("native_call", "native", None, _axes_of_access, kernel=Anchor("native_call"), structural=True))


def scalars_of(op: Op) -> tuple[int | float, ...]:
    """The attributes of the node, which the code gets behind the sizes, in the order of their declaration."""
    names = op.attributes["scalars"]
    assert isinstance(names, tuple), names
    values = (op.attributes[f"{ATTRIBUTE}{name}"] for name in names)
    return tuple(value for value in values if isinstance(value, int | float))


def host_form(op: Op, where: str) -> Attributes:
    """The attributes of the host function that means the same, for a target that the code is not for.

    Raises UnsupportedError where the operator has none.
    """
    path, operator = op.text("path"), op.text("operator")
    if not path:
        message = (
            f"{operator} is native code for a CPU, and the target is {where}: give its operator host= too, a function "
            f"on NumPy arrays that means the same{f' ({op.location})' if op.location else ''}"
        )
        raise UnsupportedError(message, code="no-native-kernel")
    types = [(result.dtype, result.shape) for result in op.results]
    named = {name: value for name, value in op.attributes.items() if name.startswith(ATTRIBUTE)}
    return host_attributes(path, [True] * len(op.operands), types, named)


def host_attributes(
    path: str,
    present: Sequence[bool],
    types: Sequence[tuple[DType, Sequence[Dim | None]]],
    named: Mapping[str, Attribute],
) -> Attributes:
    """What the host function `custom_operator` is given: see there. named: the attributes of the node."""
    return {
        "path": path,
        "present": tuple(map(int, present)),
        "dtypes": tuple(dtype for dtype, _ in types),
        "ranks": tuple(len(shape) for _, shape in types),
        "sizes": tuple(-1 if size is None else size for _, shape in types for size in shape),
        **named,
    }
