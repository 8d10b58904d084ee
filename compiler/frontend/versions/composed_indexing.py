"""What gathers and scatters by indices, as gathers of what is older."""

from collections.abc import Sequence

import numpy as np

from onnxc.compiler.frontend.proto.onnxc_pb2 import TensorProto
from onnxc.compiler.frontend.versions.change import Change
from onnxc.compiler.frontend.versions.sizes import Size, along, positions, size_of, sizes_of, vector
from onnxc.compiler.frontend.versions.steps import Steps

__all__ = ["eye_like", "gather_elements", "gather_nd", "one_hot", "reverse_sequence", "scatter_nd", "tensor_scatter"]


def gather_elements(change: Change) -> None:
    """x[..., indices[...], ...], of x as one vector."""
    at, x, indices = Steps(change), change.input(0), change.input(1)
    axis, sizes, rank = change.axis(change.integer("axis")), sizes_of(at, change.input(0)), change.rank(0)
    if change.rank(1) != rank:
        change.fail(f"its indices have rank {change.rank(1)}, its data {rank}")
    own = sizes_of(at, indices)
    chosen = _from_front(at, indices, change.element(1), sizes[axis])
    each = [chosen if k == axis else along(at, positions(at, own[k]), k, rank) for k in range(rank)]
    at.become("Gather", at("Reshape", x, at.integers(-1)), _flat(at, each, sizes), axis=0)


def gather_nd(change: Change) -> None:
    """x[indices[..., 0], indices[..., 1], ...], of x whose first axes are one."""
    at, x, indices = Steps(change), change.input(0), change.input(1)
    sizes, depth = sizes_of(at, x), _depth(change)
    rows = at("Gather", at("Flatten", x, axis=depth), _rows(at, sizes[:depth]), axis=0)
    at.become("Reshape", rows, vector(at, (*sizes_of(at, indices)[:-1], *sizes[depth:])))


def gather_nd_12(change: Change) -> None:
    """The positions along the axes of batches are indices like others."""
    count = change.integer("batch_dims")
    change.drop("batch_dims")
    if not count:
        return
    at, indices, rank = Steps(change), change.input(1), change.rank(1)
    sizes = sizes_of(at, indices)
    shape = vector(at, (*sizes[:-1], 1))
    columns = [at("Expand", along(at, positions(at, sizes[k]), k, rank), shape) for k in range(count)]
    change.set_input(1, at("Concat", *columns, indices, axis=rank - 1))


def _depth(change: Change) -> int:
    """Along how many axes the indices, which are the second input, go."""
    shape = change.shape(change.input(1))
    depth = shape[-1] if shape else ""
    if not isinstance(depth, int):
        change.fail("the depth of its indices is not known")
    return depth


def _rows(at: Steps, sizes: Sequence[Size]) -> str:
    """The flat indices of what the second input names along the first axes, which have these sizes."""
    indices, last = at.change.input(1), at.change.rank(1) - 1
    columns = [at("Gather", indices, at.constant(k, np.int64), axis=last) for k in range(len(sizes))]
    element = at.change.element(1)
    each = [_from_front(at, column, element, size) for column, size in zip(columns, sizes, strict=True)]
    return _flat(at, each, sizes)


def _from_front(at: Steps, indices: str, element: int, size: Size) -> str:
    """Indices, i64, that may count from the end, counted from the first element."""
    wide = indices if element == TensorProto.INT64 else at("Cast", indices, to=TensorProto.INT64)
    behind = at("Add", wide, vector(at, [size]) if isinstance(size, str) else at.constant(size, np.int64))
    return at("Where", at("Less", wide, at.constant(0, np.int64)), behind, wide)


def _flat(at: Steps, indices: Sequence[str], sizes: Sequence[Size]) -> str:
    """The flat index of indices along axes of these sizes."""
    total = indices[0]
    for index, size in zip(indices[1:], sizes[1:], strict=True):
        total = at("Add", at("Mul", total, vector(at, [size])), index)
    return total


def scatter_nd(change: Change) -> None:
    """Rows of the tensor, whose first axes are one, written at flat indices."""
    at, x = Steps(change), change.input(0)
    if 0 in (change.shape(x) or ()):
        at.become("Identity", x)
        return
    sizes, depth = sizes_of(at, x), _depth(change)
    rows = at("Reshape", _rows(at, sizes[:depth]), at.integers(-1, 1))
    updates = at("Flatten", change.input(2), axis=change.rank(1) - 1)
    written = at("Scatter", at("Flatten", x, axis=depth), at("Expand", rows, at("Shape", updates)), updates, axis=0)
    at.become("Reshape", written, at("Shape", x))


def tensor_scatter(change: Change) -> None:
    """The update written element by element, from the index of each batch on."""
    at, update, starts = Steps(change), change.input(1), change.input(2)
    rank, axis = change.rank(0), change.axis(change.integer("axis", -2))
    indices = along(at, positions(at, size_of(at, update, axis)), axis, rank)
    if starts:
        wide = at.cast(starts, TensorProto.INT64)
        indices = at("Add", indices, at.over("Unsqueeze", wide, [*range(1, rank)]))
    if change.text("mode") == "circular":
        indices = at("Mod", indices, vector(at, [size_of(at, change.input(0), axis)]))
    whole = at("Expand", indices, at("Shape", update))
    at.become("ScatterElements", change.input(0), whole, update, axis=axis)


def one_hot(change: Change) -> None:
    """Which class each index is, chosen from the two values."""
    at, rank = Steps(change), change.rank(0) + 1
    axis = change.integer("axis", -1)
    axis += rank * (axis < 0)
    depth = change.constant(1)
    if depth is None or depth.size != 1:
        change.fail("its depth is not one number")
    indices = at.over("Unsqueeze", at.cast(change.input(0), TensorProto.INT64), [axis])
    classes = along(at, positions(at, int(depth.reshape(())[()])), axis, rank)
    is_on = at("Equal", indices, classes)
    at.become("Gather", change.input(2), at("Cast", is_on, to=TensorProto.INT64), axis=0)


def one_hot_11(change: Change) -> None:
    """Indices that count from the last class, counted from the first one."""
    element = change.element(0)
    if element in (TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64):
        return
    at = Steps(change)
    wide = at.cast(change.input(0), TensorProto.INT64)
    behind = at("Add", wide, at.cast(change.input(1), TensorProto.INT64))
    change.set_input(0, at("Where", at("Less", wide, at.constant(0, np.int64)), behind, wide))


def reverse_sequence(change: Change) -> None:
    """Rows of both axes from where they come from: counted back from the end of a sequence, else their own position."""
    at, x = Steps(change), change.input(0)
    if 0 in (change.shape(x) or ()):
        at.become("Identity", x)
        return
    time, batch = change.integer("time_axis"), change.integer("batch_axis", 1)
    sizes = [size_of(at, x, axis) for axis in (0, 1)]
    each = [along(at, positions(at, size), axis, 2) for axis, size in enumerate(sizes)]
    ends = along(at, change.input(1), batch, 2)
    back = at("Sub", at("Sub", ends, at.constant(1, np.int64)), each[time])
    each[time] = at("Where", at("Less", each[time], ends), back, each[time])
    rows = at("Gather", at("Flatten", x, axis=2), _flat(at, each, sizes), axis=0)
    at.become("Reshape", rows, at("Shape", x))


def eye_like(change: Change) -> None:
    """A constant, of a matrix of known sizes."""
    shape = change.shape(change.input(0))
    if shape is None or len(shape) != 2 or not all(isinstance(size, int) for size in shape):
        change.fail("the sizes of its matrix are not known")
    at, (rows, columns), diagonal = Steps(change), map(int, shape), change.integer("k")
    lower, strictly_lower = (np.tri(rows, columns, k, dtype=np.bool_) for k in (diagonal, diagonal - 1))
    made = change.tensor(lower & ~strictly_lower, "diagonal")
    at.become("Cast", made, to=change.integer("dtype") or change.known_element(0))
