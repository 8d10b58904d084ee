"""Kernels that a caller wrote: a primitive whose code comes with it.

Attributes: `operator`, for people; `llvm`, the module of LLVM IR for CPUs, and `triton`, the source for GPUs, of which
either may be empty; `access`, what a call of its function computes;
`path`, of a function on the host that means the same, empty where there is none; the attributes of the node, each
behind the word `attribute`, of which `scalars` has the names in the order of their declaration.
"""

from collections.abc import Mapping, Sequence

from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Attributes, Op
from onnxc.compiler.ir.primitive import Anchor, AxisLink, Primitive, define
from onnxc.runtime.errors import UnsupportedError

__all__ = [
    "ATTRIBUTE",
    "LONGEST_ROW",
    "host_attributes",
    "host_form",
    "no_llvm",
    "no_triton",
    "scalars_of",
    "triton_parameters",
]

ATTRIBUTE = "attribute."
"""What the names of a node's attributes begin with among those of the op."""

LONGEST_ROW = 8192
"""Elements of a row that is one block: 32 for each thread of 8 warps, what our own kernels keep in registers."""


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


def triton_parameters(access: str, inputs: int, ranks: Sequence[int]) -> int:
    """How many parameters a Triton function has before the attributes, for tensors of these ranks, inputs first.

    elements: a block of each input. rows: a block of each input, then masks and sizes, one of all tensors. whole:
    pointers to all tensors, and all their sizes.
    """
    return {"elements": inputs, "rows": inputs + 2 * len(ranks)}.get(access, len(ranks) + sum(ranks))


def no_llvm(op: Op) -> str:
    """Why the code of an op is not for CPUs, empty where it is."""
    return "" if op.text("llvm") else "it has no native="


def no_triton(op: Op) -> str:
    """Why the code of an op is not for GPUs, empty where it is."""
    if not op.text("triton"):
        return "it has no triton="
    tensors = (*op.operands, *op.results)
    for dtype in (tensor.dtype for tensor in tensors):
        if dtype.is_complex or (dtype.is_float and dtype.bits < 16) or (dtype.is_integer and dtype.bits < 8):
            return f"kernels of Triton have no elements of type {dtype}"
    if op.text("access") != "rows":
        return ""
    sizes = [tensor.shape[-1] for tensor in tensors]
    unknown = [size for size in sizes if not isinstance(size, int)]
    if unknown:
        return f"rows are blocks of a size that is known when a kernel is compiled, and theirs is {unknown[0]}"
    longest = max(size for size in sizes if isinstance(size, int))
    return f"rows have up to {longest} elements, and blocks {LONGEST_ROW}" if longest > LONGEST_ROW else ""


def host_form(op: Op, where: str, why: str) -> Attributes:
    """The attributes of the host function that means the same, for a target that the code is not for.

    why: what keeps the code from being for it. Raises UnsupportedError where the operator has none.
    """
    path, operator = op.text("path"), op.text("operator")
    if not path:
        message = (
            f"the code of {operator} is not for the target, {where}: {why}; give the operator host= too, a function "
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
