"""The stages of a compilation: their order, what each makes, and where the work stops."""

import numpy as np
import pytest

from onnxc.compiler.driver import compile_model, run_stages
from onnxc.compiler.frontend.graph import CheckedModel
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.interpreted import function_signature
from onnxc.compiler.ir.module import Module
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.options import make_options
from onnxc.compiler.planning.kernel_plan import KernelPlan
from onnxc.compiler.stage_names import STAGES
from onnxc.runtime.artifact import Artifact
from onnxc.runtime.errors import ModelError
from onnxc.runtime.load import make_executable
from onnxc.runtime.program import Binding, Check, Symbol
from onnxc.runtime.signature import program_signature
from tests.support.arrays import assert_same
from tests.support.models import model_from_text

MODEL = """
<ir_version: 8, opset_import: ["": 17], model_version: 3>
m (float[N, 3] x, float[3] w) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { p = Mul (x, w) y = Relu (p) }
"""


def test_each_stage_makes_its_noun() -> None:
    made = dict(run_stages(model_from_text(MODEL), make_options()))
    assert tuple(made) == STAGES
    kinds = (LoadedModel, CheckedModel, Module, Module, KernelPlan, Artifact)
    for noun, kind in zip(made.values(), kinds, strict=True):
        assert isinstance(noun, kind)


def test_a_stage_runs_only_when_its_noun_is_asked_for() -> None:
    model = model_from_text(MODEL)
    model.graph.node[0].op_type = "Mull"
    stages = run_stages(model, make_options())
    assert next(stages)[0] == "read"
    with pytest.raises(ModelError):
        next(stages)


def test_an_artifact_says_where_it_comes_from() -> None:
    options = make_options("cpu:x86-64-v3") if make_options().target.arch == "x86_64" else make_options()
    artifact = compile_model(model_from_text(MODEL), options)
    assert artifact.provenance["frozen_inputs"] == ["w"]
    assert artifact.provenance["target"] == str(options.target)
    assert len(str(artifact.provenance["model_digest"])) == 64
    assert artifact.features == {str(options.target): options.target.features}
    x = np.array([[-1, 2, 3]], np.float32)
    y = make_executable(artifact)(x)
    assert_same(np.asarray(y), np.array([[0, 4, 9]], np.float32))


@pytest.mark.parametrize("freeze", [True, False])
def test_the_interpreter_and_native_code_have_one_signature(freeze: bool) -> None:
    options = make_options(freeze_params=freeze, dims={"N": (1, 9)})
    made = dict(run_stages(model_from_text(MODEL), options))
    module, artifact = made["lower"], made["emit"]
    assert isinstance(module, Module)
    assert isinstance(artifact, Artifact)
    interpreted, native = function_signature(module.main), program_signature(artifact.program)
    assert (interpreted.inputs, interpreted.outputs) == (native.inputs, native.outputs)
    assert (interpreted.bindings, interpreted.checks) == (native.bindings, native.checks)
    assert interpreted.symbols == native.symbols == (Symbol("N", 1, 9),)


def test_a_signature_binds_each_symbol_once_and_checks_the_rest() -> None:
    module = parse_module("""module "m" {
function main(%x: f32[N, 4, M], %y: i64[M, N + M], %z: bool[]) -> ("r") {
  return %x
}
}""")
    signature = function_signature(module.main, ("w",))
    assert signature.bindings == (Binding(0, 0, 0), Binding(0, 2, 1))
    assert [check.slot for check in signature.checks] == [0, 1, 1]
    assert signature.checks[:2] == (Check(0, 1, "4"), Check(1, 0, "s[1]"))
    shapes = [(2, 4, 3), (3, 5), ()]
    assert signature.bind_sizes([np.zeros(shape) for shape in shapes]) == (2, 3)
    assert signature.frozen == ("w",)
