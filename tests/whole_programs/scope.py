"""A graph that is being drawn: its nodes, the values that later nodes may take, and the random choices."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from tests.differential.kinds import DTYPES, type_proto

Choice = TypeVar("Choice")

# Nested graphs are this deep at most, and a graph has so many pieces.
MOST_DEPTH = 2
MOST_PIECES = 4


@dataclass(frozen=True)
class Drawn:
    """A value of a graph. kind: its type as schemas write it. rank: of a tensor.

    is_exact: all engines compute its bits alike, so that it may decide on sizes and branches.
    """

    name: str
    kind: str
    rank: int
    is_exact: bool = True


@dataclass
class Whole:
    """What all graphs of a program share: the random generator, its functions, and what of their operators it takes."""

    rng: np.random.Generator
    opset: int
    functions: list[FunctionProto] = field(default_factory=list)
    domains: dict[str, int] = field(default_factory=dict)
    pieces: list[str] = field(default_factory=list)


class Scope:
    """One graph; what it may take is what it has and what the graphs outside of it have."""

    def __init__(self, whole: Whole, outer: "Scope | None" = None, pieces: "Sequence[Piece]" = ()) -> None:
        self.whole = whole
        self.outer = outer
        self.pieces = pieces if outer is None else outer.pieces
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.nodes: list[NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.values: list[Drawn] = []
        self.count = 0

    # Choices

    def flag(self, probability: float = 0.5) -> bool:
        return bool(self.whole.rng.random() < probability)

    def choose(self, options: Sequence[Choice]) -> Choice:
        return options[int(self.whole.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        """An integer, `high` included."""
        return int(self.whole.rng.integers(low, high + 1))

    @property
    def opset(self) -> int:
        return self.whole.opset

    # Values

    def fresh(self) -> str:
        """A name. Graphs side by side use the same ones, as those that are written by hand do."""
        self.count += 1
        return f"{'vwuts'[self.depth]}{self.count}"

    def visible(self) -> list[Drawn]:
        return self.values + ([] if self.outer is None else self.outer.visible())

    def pick(
        self, kinds: Sequence[str] = ("float", "int64"), ranks: Sequence[int] = (1,), *, exact: bool = True
    ) -> Drawn:
        """A value of one of these kinds and ranks; a constant where there is none."""
        names = [f"tensor({kind})" for kind in kinds]
        fitting = [v for v in self.visible() if v.kind in names and v.rank in ranks and (v.is_exact or not exact)]
        # Later values more often, so that the graph is deep.
        if fitting and not self.flag(0.03):
            near = [v for v in self.values[-6:] if v in fitting]
            return self.choose(near) if near and self.flag(0.6) else self.choose(fitting)
        rank = self.choose(ranks)
        shape = tuple(self.choose([0, 1, 2, 2, 3, 3]) for _ in range(rank))
        return self.add(self.constant(small_values(self.whole.rng, kinds[0], shape)), kinds[0], rank)

    def add(self, name: str, kind: str, rank: int, *, exact: bool = True) -> Drawn:
        """Has later nodes take the value; `kind` is an element type, or a whole type with parentheses."""
        value = Drawn(name, kind if "(" in kind else f"tensor({kind})", rank, exact)
        self.values.append(value)
        return value

    def like(self, name: str, *sources: Drawn, rank: int | None = None) -> Drawn:
        """A value of the type of the first source."""
        first = sources[0]
        exact = all(source.is_exact for source in sources)
        return self.add(name, first.kind, first.rank if rank is None else rank, exact=exact)

    # Nodes

    def node(self, operator: str, *inputs: "str | Drawn", domain: str = "", **attributes: object) -> str:
        """The name of the one result."""
        return self.several(operator, 1, *inputs, domain=domain, **attributes)[0]

    def several(
        self, operator: str, count: int, *inputs: "str | Drawn", domain: str = "", **attributes: object
    ) -> list[str]:
        """The names of several results."""
        return self.nodes_results(operator, inputs, count, domain, **attributes)

    def nodes_results(
        self, operator: str, inputs: "Sequence[str | Drawn]", count: int, domain: str, **attributes: object
    ) -> list[str]:
        outputs = [self.fresh() for _ in range(count)]
        self.write(operator, inputs, outputs, domain, **attributes)
        return outputs

    def write(
        self,
        operator: str,
        inputs: "Sequence[str | Drawn]",
        outputs: Sequence[str],
        domain: str = "",
        **attributes: object,
    ) -> None:
        """Adds a node whose results have these names."""
        if domain:
            self.whole.domains.setdefault(domain, 1)
        names = [value.name if isinstance(value, Drawn) else value for value in inputs]
        label = f"{operator}_{len(self.nodes)}" if self.flag(0.6) else ""
        self.nodes.append(helper.make_node(operator, names, list(outputs), label, domain=domain, **attributes))

    def constant(self, value: "np.ndarray | Sequence[int] | int") -> str:
        """The name of a constant, as an initializer or a node; Python's integers are int64."""
        array = value if isinstance(value, np.ndarray) else np.array(value, np.int64)
        name = self.fresh()
        # Before opset 9 nodes make constants of floats alone.
        if self.flag(0.5) or self.opset < 9:
            self.initializers.append(numpy_helper.from_array(array, name))
        else:
            self.write("Constant", [], [name], value=numpy_helper.from_array(array))
        return name

    def floats(self, value: "float | Sequence[float]", kind: str = "float") -> str:
        return self.constant(np.array(value, DTYPES[kind]))

    # Graphs inside of this one

    def nested(self) -> "Scope":
        return Scope(self.whole, self)

    def fill(self, most: int = 2) -> None:
        """Adds some pieces to the graph."""
        for _ in range(self.integer(0 if self.depth else 2, most)):
            piece = self.choose([piece for piece in self.pieces if piece.fits(self)])
            self.whole.pieces.append(piece.name)
            piece.write(self)

    def graph(self, inputs: Sequence[ValueInfoProto], outputs: Sequence[Drawn]) -> GraphProto:
        """The graph with these outputs. What is not made in it goes through Identity, as nested graphs need."""
        made = {name for node in self.nodes for name in node.output} | {tensor.name for tensor in self.initializers}
        infos: list[ValueInfoProto] = []
        for value in outputs:
            name = value.name
            if name not in made or name in {info.name for info in infos}:
                name = self.node("Identity", value)
            infos.append(self.declared(Drawn(name, value.kind, value.rank)))
        return helper.make_graph(self.nodes, f"graph_{self.depth}", list(inputs), infos, self.initializers)

    def declared(self, value: Drawn) -> ValueInfoProto:
        """The declaration of a value: without a shape, with its rank, or with names for its sizes."""
        shape: list[int | str | None] | None = None
        if value.kind.startswith("tensor") and value.rank >= 0 and self.flag(0.5):
            names = [f"{value.name}_{axis}" for axis in range(value.rank)]
            shape = list(names) if self.flag(0.5) else [None] * value.rank
        return helper.make_value_info(value.name, type_proto(value.kind, shape))


@dataclass(frozen=True)
class Piece:
    """A few nodes that are often written together. `since`: the first opset; `is_nested`: it has graphs inside."""

    name: str
    write: Callable[[Scope], None]
    since: int = 7
    is_nested: bool = False

    def fits(self, scope: Scope) -> bool:
        return scope.opset >= self.since and not (self.is_nested and scope.depth >= MOST_DEPTH)


def small_values(rng: np.random.Generator, kind: str, shape: Sequence[int]) -> np.ndarray:
    """Elements whose sums and products floats hold exactly."""
    if kind == "string":
        texts = np.array(["a", "b", "", "A b", "b", "ü"], object)
        return np.asarray(texts[rng.integers(len(texts), size=tuple(shape))], object).reshape(tuple(shape))
    if kind == "bool":
        return np.asarray(rng.random(tuple(shape)) < 0.5)
    low = 0 if kind.startswith("u") else -4
    return np.asarray(rng.integers(low, 6, tuple(shape))).astype(DTYPES[kind])
