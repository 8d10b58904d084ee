"""Which initializers become inputs with a default where parameters are not frozen, and which decide shapes."""

from collections.abc import Iterator

from onnxc.compiler.frontend.graph import Graph, Tensor

__all__ = ["shape_floats", "weight_names"]

_READ_WHEN_COMPILED = {
    ("Dropout", "ratio"), ("Range", "delta"), ("Range", "limit"), ("Range", "start"), ("Resize", "roi"),
    ("Resize", "scales"), ("Upsample", "scales"),
}  # fmt: skip
"""Floats that decide shapes."""

_SUMS = {("DequantizeLinear", "x"), ("QGemm", "C"), ("QLinearConv", "B")}
"""Where wide integers are weights of quantised models; elsewhere they are shapes, axes and indices."""

_WIDEST_QUANTISED_BITS = 8
"""Integers of up to as many bits are weights wherever they stand: shapes and indices are wider."""


def weight_names(graph: Graph) -> tuple[str, ...]:
    """The initializers of the main graph that are no inputs already, and whose values do not decide shapes.

    Those are floats, complex numbers, integers of at most 8 bits, and the wider ones that quantised models add up.
    """
    declared = {info.name for info in graph.inputs}
    uses: dict[str, set[tuple[str, str]]] = {}
    for name, use in _uses(graph):
        uses.setdefault(name, set()).add(use)
    return tuple(
        name
        for name, tensor in graph.initializers.items()
        if name not in declared and _is_weight(tensor, uses.get(name, set()))
    )


def shape_floats(graph: Graph) -> frozenset[str]:
    """The values that a node here or within reads as floats that decide shapes."""
    return frozenset(name for name, use in _uses(graph) if use in _READ_WHEN_COMPILED)


def _is_weight(tensor: Tensor, uses: set[tuple[str, str]]) -> bool:
    dtype = tensor.dtype
    if dtype.is_float or dtype.is_complex:
        return not uses & _READ_WHEN_COMPILED
    if dtype.is_integer:
        return dtype.bits <= _WIDEST_QUANTISED_BITS or (bool(uses) and uses <= _SUMS)
    return False


def _uses(graph: Graph) -> Iterator[tuple[str, tuple[str, str]]]:
    """Each name that a node here or within reads, with the operator and the input that it is there."""
    for node in graph.nodes:
        for position, name in enumerate(node.inputs):
            formal = node.schema.input(position)
            if name and formal is not None:
                yield name, (node.operator, formal.name)
        for inner in node.subgraphs():
            yield from _uses(inner)
