"""What is wrong with training information."""

import onnx
from onnx import helper

from tests.frontend.invalid.case import Case, Cases
from tests.frontend.model_texts import ADD, Edit

UPDATE = "s (float[2] d) => (float[2] u) { u = Sub(w, d) }"
START = "i () => (float[2] z) { z = Constant<value = float[2] {0, 0}>() }"


def training(
    algorithm: str = UPDATE,
    updates: dict[str, str] | None = None,
    start: str = "",
    starts: dict[str, str] | None = None,
) -> Edit:
    """Training information of these graphs and bindings."""

    def edit(m: onnx.ModelProto) -> None:
        info = m.training_info.add()
        for graph, text in ((info.algorithm, algorithm), (info.initialization, start)):
            if text:
                graph.CopyFrom(onnx.parser.parse_graph(text))
        for bindings, pairs in ((info.update_binding, updates), (info.initialization_binding, starts)):
            for key, value in (pairs or {}).items():
                bindings.add(key=key, value=value)

    return edit


def twice(edit: Edit, field: str) -> Edit:
    """Training information whose first binding is there again."""

    def changed(m: onnx.ModelProto) -> None:
        edit(m)
        bindings = getattr(m.training_info[0], field)
        bindings.append(bindings[0])

    return changed


LEGAL: dict[str, Edit] = {
    "an update": training(updates={"w": "u"}),
    "an update by an output of the main graph": training(updates={"w": "y"}),
    "a start and an update": training(updates={"w": "u"}, start=START, starts={"w": "z"}),
    "a state of the algorithm": training(
        "s () => (float[2] u) <float[2] m = {0, 0}> { u = Add(m, w) }", updates={"m": "u"}
    ),
    "nothing": training(""),
}

TRAINING: Cases = {
    "an update of no initializer": Case("training-binding-key", ADD, training(updates={"x": "u"})),
    "an update of a name that nothing has": Case("training-binding-key", ADD, training(updates={"q": "u"})),
    "an update by no output": Case("training-binding-value", ADD, training(updates={"w": "d"})),
    "an update without an algorithm": Case("training-binding-value", ADD, training("", updates={"w": "u"})),
    "an update twice": Case("duplicate-training-binding", ADD, twice(training(updates={"w": "u"}), "update_binding")),
    "a start twice": Case(
        "duplicate-training-binding",
        ADD,
        twice(training(start=START, starts={"w": "z"}), "initialization_binding"),
    ),
    "a start without a graph": Case("training-without-initialization", ADD, training(starts={"w": "z"})),
    "a start by no output": Case("training-binding-value", ADD, training(start=START, starts={"w": "y"})),
    "a start of no initializer": Case("training-binding-key", ADD, training(start=START, starts={"y": "z"})),
    "an algorithm with an undefined name": Case("undefined-name", ADD, training(UPDATE.replace("Sub(w", "Sub(q"))),
    "an algorithm that defines a name of the main graph": Case(
        "duplicate-name", ADD, training("s (float[2] d) => (float[2] y) { y = Sub(w, d) }")
    ),
    "an algorithm with an input of the main graph": Case(
        "duplicate-name", ADD, training("s (float[2] x) => (float[2] u) { u = Sub(w, x) }")
    ),
    "an algorithm out of order": Case(
        "not-topologically-sorted", ADD, training("s (float[2] d) => (float[2] u) { u = Neg(t) t = Sub(w, d) }")
    ),
    "an algorithm with an unknown operator": Case("unknown-operator", ADD, training(UPDATE.replace("Sub", "Sbu"))),
    "an algorithm with operands of two types": Case(
        "type-mismatch", ADD, training(UPDATE.replace("float[2] d", "double[2] d"))
    ),
    "an algorithm without a name": Case(
        "missing-graph-name",
        ADD,
        lambda m: m.training_info.add().algorithm.node.append(helper.make_node("Neg", ["w"], ["u"])),
    ),
    "an initialization with an input": Case(
        "training-initialization-input", ADD, training("", start="i (float[2] d) => (float[2] z) { z = Neg(d) }")
    ),
    "an initialization that uses the main graph": Case(
        "undefined-name", ADD, training("", start="i () => (float[2] z) { z = Neg(w) }")
    ),
    "a main graph that uses the algorithm": Case("undefined-name", ADD.replace("Add(x, w)", "Add(x, u)"), training()),
}
