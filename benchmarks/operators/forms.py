"""The forms of a case: its first operand as a view, sizes that only the call knows, operators before and behind."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from benchmarks.inputs import InputSpec
from benchmarks.operators.case import OperatorCase, with_nodes

Form = Callable[[OperatorCase], OperatorCase | None]
"""The case in another form; None where it has no such form."""


def in_forms(cases: Iterable[OperatorCase], *forms: str) -> Iterator[OperatorCase]:
    """Each case alone, then in each of the forms that it has."""
    for case in cases:
        yield case
        yield from (other for form in forms if (other := FORMS[form](case)) is not None)


def _symbolic(case: OperatorCase) -> OperatorCase | None:
    """The first size of the first operand is a symbol, as is the same size of those that have its rank."""
    first, *others = case.inputs
    if not first.shape:
        return None
    size = first.shape[0]
    assert isinstance(size, int), case
    inputs = [_with_symbol(first)]
    for spec in others:
        same = len(spec.shape) == len(first.shape) and spec.shape[0] == size
        inputs.append(_with_symbol(spec) if same else spec)
    return replace(case, form="symbolic", inputs=tuple(inputs), sizes={"N": size})


def _open(case: OperatorCase) -> OperatorCase | None:
    """Each size of the first operand but its channels is a symbol, as in an export for images of any size."""
    first = case.inputs[0]
    if len(first.shape) < 3:
        return None
    names = {axis: f"d{axis}" for axis in range(len(first.shape)) if axis != 1}
    inputs = [_opened(spec, names) if spec.shape == first.shape else spec for spec in case.inputs]
    sizes = {name: size for axis, name in names.items() if isinstance(size := first.shape[axis], int)}
    return replace(case, form="open", inputs=tuple(inputs), sizes=sizes)


def _opened(spec: InputSpec, names: Mapping[int, str]) -> InputSpec:
    return replace(spec, shape=tuple(names.get(axis, size) for axis, size in enumerate(spec.shape)))


def _with_symbol(spec: InputSpec) -> InputSpec:
    return replace(spec, shape=("N", *spec.shape[1:]))


def _view(form: str, node: str, axis: int, grow: Callable[[int], int]) -> Form:
    """The first operand is read through `node`, from an input whose size along `axis` is another."""

    def make(case: OperatorCase) -> OperatorCase | None:
        first, *others = case.inputs
        if len(first.shape) < 2:
            return None
        size = first.shape[axis]
        assert isinstance(size, int), case
        shape = list(first.shape)
        shape[axis] = grow(size)
        node_text = node.format(x=first.name, axis=axis % len(shape), size=size)
        constants = VIEW_CONSTANTS.get(form, "").format(
            axis=axis % len(shape), size=size, end=size + 8, rank=len(shape), shape=",".join(map(str, first.shape))
        )
        inputs = (replace(first, name="view", shape=tuple(shape)), *others)
        return with_nodes(case, form, f"{node_text}\n{case.nodes}", *inputs, constants=constants)

    return make


VIEW_CONSTANTS = {
    "sliced": "int64[1] begin_ = {{8}}, int64[1] end_ = {{{end}}}, int64[1] axis_ = {{{axis}}}",
    "stepped": (
        "int64[1] begin_ = {{0}}, int64[1] end_ = {{1000000}}, int64[1] axis_ = {{{axis}}}, int64[1] step_ = {{2}}"
    ),
    "expanded": "int64[{rank}] shape_ = {{{shape}}}",
}


def _transposed(case: OperatorCase) -> OperatorCase | None:
    """The first operand lies with its axes from 1 on turned, as NHWC does before an operator in NCHW."""
    first, *others = case.inputs
    rank = len(first.shape)
    if rank < 2:
        return None
    perm = [1, 0] if rank == 2 else [0, rank - 1, *range(1, rank - 1)]
    shape = tuple(first.shape[perm.index(axis)] for axis in range(rank))
    node = f"{first.name} = Transpose<perm = [{', '.join(map(str, perm))}]>(view)"
    inputs = (replace(first, name="view", shape=shape), *others)
    return with_nodes(case, "transposed", f"{node}\n{case.nodes}", *inputs)


def _then_transposed(case: OperatorCase) -> OperatorCase | None:
    """The result is transposed, as behind an operator in NCHW of a model in NHWC."""
    rank = len(case.inputs[0].shape)
    if rank < 2:
        return None
    perm = [1, 0] if rank == 2 else [0, *range(2, rank), 1]
    text = case.nodes.replace("y = ", "result = ", 1)
    return with_nodes(case, "then transposed", f"{text}\ny = Transpose<perm = {perm}>(result)", *case.inputs)


def _after(case: OperatorCase) -> OperatorCase | None:
    """An activation makes the first operand."""
    first, *others = case.inputs
    if not first.dtype.startswith("float"):
        return None
    inputs = (replace(first, name="before"), *others)
    return with_nodes(case, "after Sigmoid", f"{first.name} = Sigmoid(before)\n{case.nodes}", *inputs)


def _before(case: OperatorCase) -> OperatorCase | None:
    """An activation takes the result."""
    if not case.inputs[0].dtype.startswith("float"):
        return None
    return with_nodes(
        case, "then Relu", case.nodes.replace("y = ", "result = ", 1) + "\ny = Relu(result)", *case.inputs
    )


FORMS: Mapping[str, Form] = {
    "symbolic": _symbolic,
    "open": _open,
    "sliced": _view("sliced", "{x} = Slice(view, begin_, end_, axis_)", 1, lambda size: size + 16),
    "last sliced": _view("sliced", "{x} = Slice(view, begin_, end_, axis_)", -1, lambda size: size + 16),
    "stepped": _view("stepped", "{x} = Slice(view, begin_, end_, axis_, step_)", -1, lambda size: 2 * size),
    "split": _view("split", "{x}, rest = Split<axis = {axis}, num_outputs = 2>(view)", 1, lambda size: 2 * size),
    "expanded": _view("expanded", "{x} = Expand(view, shape_)", 1, lambda size: 1),
    "transposed": _transposed,
    "then transposed": _then_transposed,
    "after": _after,
    "before": _before,
}
