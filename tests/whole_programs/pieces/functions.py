"""Functions of the model: with attributes and defaults, and with graphs that take the function's own values."""

from onnx import AttributeProto, NodeProto, helper

from tests.whole_programs.forms import decision, inside_of
from tests.whole_programs.scope import Drawn, Piece, Scope

DOMAIN = "own"


def add_function(scope: Scope, inner: Scope, taken: list[str], made: list[str], attribute: str = "") -> str:
    """Adds what `inner` has as a function; the name of it. Initializers become nodes, as functions have none."""
    name = f"f{len(scope.whole.functions)}"
    constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in inner.initializers]
    defaults = [helper.make_attribute(attribute, 2.0)] if attribute and scope.flag() else []
    function = helper.make_function(
        DOMAIN,
        name,
        taken,
        made,
        [*constants, *inner.nodes],
        [helper.make_opsetid("", scope.opset), helper.make_opsetid(DOMAIN, 1)],
        [attribute] if attribute and not defaults else [],
        defaults,
    )
    scope.whole.functions.append(function)
    scope.whole.domains[DOMAIN] = 1
    return name


def alone(scope: Scope) -> Scope:
    """A graph that sees nothing of those outside, as a function does."""
    inner = Scope(scope.whole, None, scope.pieces)
    inner.depth = scope.depth + 1
    return inner


def call(scope: Scope) -> None:
    """A function of a few pieces, called twice."""
    kind = scope.choose(["float", "int64"])
    inner = alone(scope)
    taken = [inner.add(f"a{ordinal}", kind, 1).name for ordinal in range(scope.integer(1, 2))]
    inner.fill()
    made = inner.pick((kind,))
    result = inner.node("Identity", made)
    name = add_function(scope, inner, taken, [result])
    for _ in range(scope.integer(1, 2)):
        operands = [scope.pick((kind,)) for _ in taken]
        scope.add(scope.node(name, *operands, domain=DOMAIN), kind, 1)


def call_with_attribute(scope: Scope) -> None:
    """LeakyRelu by an attribute of the call, or the default of the function, in a branch of it or not."""
    inner = alone(scope)
    x = inner.add("a0", "float", 1)
    target = inner.nested() if scope.flag() and inner.depth < 2 else inner
    clipped = target.fresh()
    node = NodeProto(op_type="LeakyRelu", input=[x.name], output=[clipped])
    reference = AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    node.attribute.append(reference)
    target.nodes.append(node)
    result = clipped
    if target is not inner:
        other = inner.nested()
        kept = Drawn(other.node("Neg", x), "tensor(float)", 1)
        graphs = target.graph((), [Drawn(clipped, "tensor(float)", 1)]), other.graph((), [kept])
        result = inner.node("If", decision(inner), then_branch=graphs[0], else_branch=graphs[1])
    name = add_function(scope, inner, [x.name], [result], "slope")
    is_given = bool(scope.whole.functions[-1].attribute) or scope.flag()
    y = scope.pick(("float",))
    attributes = {"slope": float(scope.integer(1, 3))} if is_given else {}
    scope.add(scope.node(name, y, domain=DOMAIN, **attributes), inside_of(y.kind), 1)


PIECES = (Piece("call", call, 13), Piece("call_with_attribute", call_with_attribute, 13))
