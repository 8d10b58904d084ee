"""What goes beyond the limits; each is set low here, and the same model is legal without."""

from onnx import helper

from onnxc.compiler.limits import Limits
from tests.frontend.invalid.case import Case, Cases
from tests.frontend.invalid.names import NESTED
from tests.frontend.invalid.tensors import floats, places, sparse
from tests.frontend.model_texts import CALL, IF, RELU

OWN = '<domain: "own", opset_import: ["": 21, "own": 1]>'
NESTED_CALLS = (
    "g (float[N] x) => (float[N] y) { y = own.f(x) }"
    f"{OWN} f (a) => (b) {{ b = own.h(a) }} {OWN} h (a) => (b) {{ b = Relu(a) }}"
)
WIDE = "g (float[N] x) => (float[N] y) { a = own.f(x) b = own.f(a) y = own.f(b) }" + CALL.split("\n", 1)[1]

LIMITED: Cases = {
    "branches within branches": Case("nesting-too-deep", NESTED, limits=Limits(nesting_depth=2)),
    "calls within calls": Case("nesting-too-deep", NESTED_CALLS, limits=Limits(nesting_depth=2)),
    "sequences of sequences": Case(
        "nesting-too-deep",
        "g (seq(seq(float[N])) s, float[N] x) => (float[N] y) { y = Relu(x) }",
        limits=Limits(type_depth=2),
    ),
    "two functions": Case(
        "too-many-functions",
        f"{RELU} {OWN} f (a) => (b) {{ b = Neg(a) }} {OWN} h (a) => (b) {{ b = Abs(a) }}",
        limits=Limits(functions=1),
    ),
    "three calls": Case("expansion-too-large", WIDE, limits=Limits(expanded_nodes=1)),
    "a long name of a value": Case("name-too-long", RELU.replace("x", "x" * 41), limits=Limits(name_bytes=40)),
    "a long name in a branch": Case(
        "name-too-long", IF.replace("Relu(x)", f"Relu(x) {'z' * 41} = Neg(x)"), limits=Limits(name_bytes=40)
    ),
    "a long name in letters of two bytes": Case(
        "name-too-long",
        RELU,
        lambda m: m.graph.node.append(helper.make_node("Neg", ["x"], ["ä" * 21])),
        limits=Limits(name_bytes=40),
    ),
    "many axes of a value": Case(
        "too-many-axes", "g (float[1, 1, 1, N] x) => (y) { y = Relu(x) }", limits=Limits(tensor_rank=3)
    ),
    "many axes of an initializer": Case(
        "tensor-rank",
        "g (float[N] x) => (y) <float[1, 1, 1, 1] w = {1}> { y = Relu(x) }",
        limits=Limits(tensor_rank=3),
    ),
    "many elements": Case(
        "too-many-elements", "g (float[1000, 1000] x) => (y) { y = Relu(x) }", limits=Limits(tensor_elements=999_999)
    ),
    "many elements but for one size": Case(
        "too-many-elements", "g (float[1000, N, 1000] x) => (y) { y = Relu(x) }", limits=Limits(tensor_elements=999_999)
    ),
    "a large sparse tensor": Case(
        "sparse-tensor-too-large", RELU, sparse(floats(1), places(0), [100]), limits=Limits(dense_bytes=399)
    ),
}
