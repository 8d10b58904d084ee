"""Where a node is lowered: the graphs around it, its names, the builder, and what is assumed in the case at hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from onnxc.compiler.diagnostics import Location
from onnxc.compiler.frontend.case_split import CaseKey, CaseSplit, ConditionSplit
from onnxc.compiler.frontend.computation import Computation
from onnxc.compiler.frontend.devices.node_shardings import NodeShardings
from onnxc.compiler.frontend.graph import Graph, GraphNode
from onnxc.compiler.frontend.lower.attempt import Attempt, LoweredType
from onnxc.compiler.frontend.lower.channel_blocks import ChannelBlocks
from onnxc.compiler.frontend.overriding.as_declared import AsDeclared
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.building.random_state import RandomState
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Value
from onnxc.runtime.records import record

Values = Sequence[Value | None]
"""What the outputs of a node or a graph became, None where something speaks against the model."""

NodeOutcome = Values | CaseSplit
GraphOutcome = Values | ConditionSplit
"""A graph that is lowered into the block of its node leaves the cases of a condition to the graph around."""


@record
class Assumptions:
    """A case: what the conditions of nodes are in it, and values as what they are taken to be in it."""

    conditions: Mapping[CaseKey, bool] = field(default_factory=dict)
    values: Mapping[Value, Value] = field(default_factory=dict)

    def with_condition(self, key: CaseKey, holds: bool) -> "Assumptions":
        """The case within this one in which the condition of the node of `key` is `holds`."""
        return replace(self, conditions={**self.conditions, key: holds})

    def with_value(self, value: Value, taken: Value) -> "Assumptions":
        """The case within this one in which `value` is `taken`."""
        return replace(self, values={**self.values, value: taken})

    def apply(self, value: Value | None) -> Value | None:
        """The value as what it is taken to be."""
        while value is not None and value in self.values:
            value = self.values[value]
        return value


@dataclass
class Session:
    """What all attempts of one lowering share.

    channel_blocks: those of the graph that is lowered. types_all: whether graphs that never run are typed too.
    walked: the paths of the graphs lowered so far. work_left: how much may still be done to find out which cases
    there are. computations: by the path of a graph. shardings: of the device configuration that the module is for, if
    any. record: where the lowering of the graph as declared is noted. before: what was noted, where options override
    sizes. goes_on: behind nodes that cannot be lowered, for types alone. floats: the element type of all floats,
    where it is chosen. bound: the symbols of the inputs. given_up: nodes whose cases are not told apart, as none can
    be or there were too many.
    """

    work_left: int
    channel_blocks: ChannelBlocks
    types_all: bool = False
    shardings: NodeShardings | None = None
    walked: set[str] = field(default_factory=set)
    computations: dict[str, Computation] = field(default_factory=dict)
    record: AsDeclared | None = None
    before: AsDeclared | None = None
    goes_on: bool = False
    floats: DType | None = None
    bound: frozenset[str] = frozenset()
    given_up: set[CaseKey] = field(default_factory=set)

    @property
    def is_spent(self) -> bool:
        """Whether no more cases may be told apart."""
        return self.work_left <= 0

    @property
    def only_types(self) -> bool:
        """Whether nothing is made of the module, and of what nodes read and give no more is noted than the types."""
        return self.types_all and self.record is None

    def tell_no_more_apart(self) -> None:
        """From now on no more cases are told apart."""
        self.work_left = 0

    def give_up(self, key: CaseKey, work: int) -> None:
        """No more cases of one node are told apart, and those behind it with half of `work`, so that all ends."""
        self.given_up.add(key)
        self.work_left = work // 2


@record
class Frame:
    """Where nodes are lowered: `graph` is the last of `graphs`, each within the one before it.

    `key` is the lowering of the node that the graph belongs to. `is_inlined`: ops are made in the block of that node.
    `order`: how many derivatives this is within. `random_state`: on what draws without a seed depend, if on anything.
    `named`: the sizes that names declared in the graph stand for, where only data decides them.
    """

    graphs: tuple[Graph, ...]
    scope: dict[str, Value | None]
    ir: Builder
    attempt: Attempt
    session: Session
    assumptions: Assumptions = Assumptions()
    key: CaseKey = ()
    is_inlined: bool = False
    order: int = 0
    random_state: RandomState | None = None
    named: dict[str, Dim] = field(default_factory=dict)

    @property
    def graph(self) -> Graph:
        return self.graphs[-1]

    @property
    def is_over(self) -> bool:
        """Whether the rest need not be lowered, as it is a case that cannot be, or there is no time left for cases."""
        return self.attempt.is_trial and (self.attempt.objection is not None or self.session.is_spent)

    @property
    def goes_on(self) -> bool:
        """Whether a node that cannot be lowered gives what is declared, for types alone; no case is of such nodes."""
        return self.session.goes_on and not self.attempt.is_trial

    def note_unsupported(self, location: Location, reason: str) -> None:
        """Notes a node that cannot be lowered yet."""
        noted = self.attempt.unknown if self.goes_on else self.attempt.unsupported
        noted.append((location, reason))

    def for_node(self) -> "Frame":
        """The same with an attempt of its own."""
        return replace(self, attempt=self.attempt.part())

    def key_of(self, node: GraphNode, ordinal: int = 0) -> CaseKey:
        """The lowering of a node here, or of call `ordinal` of its graphs."""
        return (*self.key, (node.location, ordinal))

    def note(self, name: str, value: Value | None) -> None:
        """Notes the type of what the value `name` of the graph became."""
        if value is not None:
            self.attempt.types.append(LoweredType(self.graph.path, name, value.type))
