"""Dead code; what `prune` keeps and drops is tested with the rewriter."""

from onnxc.compiler.passes.simplify.eliminate_dead_code import eliminate_dead_code
from tests.passes.golden import built, f32


def test_what_no_result_needs_is_dropped() -> None:
    module = built((f32(4),), lambda b, x: (b.exp(x), b.log(x))[1])
    assert [op.name for op in eliminate_dead_code(module).main.body.ops] == ["log"]


def test_parameters_stay() -> None:
    module = built((f32(4),), lambda b, x: b.scalar(1, x.dtype))
    assert eliminate_dead_code(module).main.body.parameters == module.main.body.parameters
