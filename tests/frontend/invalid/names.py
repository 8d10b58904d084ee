"""What is wrong with names: of values, nodes, graphs, their scopes and their order."""

from tests.frontend.invalid.case import Case, Cases
from tests.frontend.model_texts import ADD, CALL, IF, LOOP, RELU, first_attribute, first_node

SCAN = """g (float[N] s, float[T, N] x) => (float[N] f, float[T, N] y) {
  f, y = Scan <num_scan_inputs = 1, body = b (float[N] p, float[N] q) => (float[N] r, float[N] u) {
    r = Add(p, q) u = Identity(r)
  }> (s, x)
}"""
NESTED = """g (bool c, float[N] x) => (float[N] y) {
  y = If (c) <
    then_branch = t () => (float[N] a) {
      a = If (c) <then_branch = tt () => (float[N] i) { i = Relu(x) },
                  else_branch = te () => (float[N] j) { j = Neg(x) }>
    },
    else_branch = e () => (float[N] b) { b = Neg(x) }
  >
}"""

NAMES: Cases = {
    "a branch that redefines an input of the main graph": Case(
        "shadowed-name", IF.replace("{ a = Relu(x) }", "{ x = Cast<to = 1>(c) a = Relu(x) }")
    ),
    "a branch that redefines an earlier value": Case(
        "shadowed-name", IF.replace("y = If", "z = Neg(x) y = If").replace("a = Relu(x)", "z = Abs(x) a = Relu(z)")
    ),
    "a branch that redefines an initializer": Case(
        "shadowed-name",
        IF.replace("=> (float[N] y) {", "=> (float[N] y) <float[2] w = {1, 2}> {", 1).replace(
            "a = Relu(x)", "w = Abs(x) a = Relu(w)"
        ),
    ),
    "a branch within a branch that redefines a value of the main graph": Case(
        "shadowed-name", NESTED.replace("i = Relu(x)", "x = Cast<to = 1>(c) i = Relu(x)")
    ),
    "a branch within a branch that redefines a value of the outer branch": Case(
        "shadowed-name",
        NESTED.replace("a = If", "k = Abs(x) a = If").replace("i = Relu(x)", "k = Neg(x) i = Relu(k)"),
    ),
    "an input of a loop body that hides an input of the main graph": Case(
        "shadowed-name", LOOP.replace("int64 i, bool k, float[N] s", "int64 n, bool k, float[N] s")
    ),
    "an initializer of a branch that hides an input": Case(
        "shadowed-name",
        IF,
        lambda m: first_attribute(m).g.initializer.add(name="x", data_type=1, dims=[1], float_data=[1.0]),
    ),
    "an input of a scan body that hides an input": Case(
        "shadowed-name", SCAN.replace("float[N] p, float[N] q", "float[N] s, float[N] q").replace("Add(p", "Add(s")
    ),
    "a branch that returns an outer value": Case("output-from-outside", IF.replace("(float[N] a)", "(float[N] x)")),
    "a branch that returns an outer constant": Case(
        "output-from-outside",
        IF.replace("(float[N] b)", "(float[2] w)").replace(
            "=> (float[N] y) {", "=> (float[N] y) <float[2] w = {1, 2}> {", 1
        ),
    ),
    "a loop body that returns an outer value": Case("output-from-outside", LOOP.replace("float[N] t)", "float[N] x)")),
    "an input of a loop body that is an initializer of it": Case(
        "initialized-subgraph-input",
        LOOP,
        lambda m: first_attribute(m).g.initializer.add(name="s", data_type=1, dims=[1], float_data=[1.0]),
    ),
    "a branch that does not define its output": Case("undefined-name", IF.replace("a = Relu(x)", "z = Relu(x)")),
    "an undefined name in a branch within a branch": Case(
        "undefined-name", NESTED.replace("i = Relu(x)", "i = Relu(q)")
    ),
    "a value of a loop body used after it": Case("undefined-name", LOOP.replace("\n}", " z = Relu(t)\n}")),
    "a value of a branch that is returned": Case("undefined-name", IF.replace("=> (float[N] y)", "=> (float[N] a)", 1)),
    "an undefined input of a call": Case("undefined-name", CALL.replace("own.f(x)", "own.f(z)")),
    "an undefined input of a loop": Case("undefined-name", LOOP.replace("(n, c, x)", "(n, c, z)")),
    "two branches that depend on each other": Case(
        "cycle",
        IF.replace("Relu(x)", "Relu(z)").replace(
            "\n}",
            " z = If (c) <then_branch = t2 () => (float[N] p) { p = Relu(y) },"
            " else_branch = e2 () => (float[N] q) { q = Neg(x) }>\n}",
        ),
    ),
    "a cycle of three": Case(
        "cycle", "g (float[N] x) => (float[N] y) { a = Add(x, z) b = Relu(a) z = Neg(b) y = Abs(z) }"
    ),
    "a cycle in a function": Case("cycle", CALL.replace("b = Relu(a)", "t = Add(a, b) b = Neg(t)")),
    "a cycle in a branch": Case("cycle", IF.replace("a = Relu(x)", "z = Add(x, a) a = Relu(z)")),
    "a function out of order": Case("not-topologically-sorted", CALL.replace("b = Relu(a)", "b = Relu(t) t = Neg(a)")),
    "a branch out of order": Case("not-topologically-sorted", IF.replace("a = Relu(x)", "a = Relu(z) z = Neg(x)")),
    "a loop body out of order": Case("not-topologically-sorted", LOOP.replace("t = Relu(s)", "t = Relu(z) z = Neg(s)")),
    "a call before its input": Case(
        "not-topologically-sorted", CALL.replace("y = own.f(x)", "y = own.f(z) z = Neg(x)")
    ),
    "a name defined twice in a branch": Case("duplicate-name", IF.replace("a = Relu(x)", "a = Relu(x) a = Neg(x)")),
    "a name defined twice in a function": Case("duplicate-name", CALL.replace("b = Relu(a)", "b = Relu(a) b = Neg(a)")),
    "a function that redefines its input": Case("duplicate-name", CALL.replace("=> (b) { b =", "=> (a) { a =")),
    "a function with two inputs of one name": Case("duplicate-name", CALL, lambda m: m.functions[0].input.append("a")),
    "a loop body with two inputs of one name": Case(
        "duplicate-name", LOOP.replace("int64 i, bool k", "int64 k, bool k")
    ),
    "a sparse initializer named as a dense one": Case(
        "duplicate-name",
        ADD,
        lambda m: (
            m.graph.sparse_initializer.add(dims=[2]).values.CopyFrom(m.graph.initializer[0])
            or m.graph.sparse_initializer[0].indices.MergeFrom(
                type(m.graph.initializer[0])(data_type=7, dims=[2], int64_data=[0, 1])
            )
        ),
    ),
    "an output of a function twice": Case(
        "duplicate-function-output", CALL.replace("y = own", "y, z = own"), lambda m: m.functions[0].output.append("b")
    ),
    "an input of a function without a name": Case("empty-name", CALL, lambda m: m.functions[0].input.append("")),
    "an output of a function without a name": Case("empty-name", CALL, lambda m: m.functions[0].output.append("")),
    "an output of a branch without a name": Case(
        "empty-name", IF, lambda m: first_attribute(m).g.output[0].ClearField("name")
    ),
    "a node without inputs, outputs and operator": Case("missing-operator", RELU, lambda m: m.graph.node.add()),
    "a node with a name in place of an operator": Case(
        "unknown-operator", RELU, lambda m: setattr(first_node(m), "op_type", "layer.0/Relu")
    ),
}
