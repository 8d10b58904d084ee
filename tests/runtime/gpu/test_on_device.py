"""On a real device, where there is one: kernels, models, graphs, streams and the arrays of CuPy.

`pytest -m gpu` runs these; nothing here stands in for `python -m benchmarks.gpu.suite`, which does more of it.
"""

import importlib
from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np
import pytest

import onnxc
from benchmarks.gpu.bench import Bench
from benchmarks.gpu.kernel_values import value_row
from benchmarks.inputs import make_inputs
from onnxc.compiler.codegen_gpu.compile.compile_kernels import compile_kernels
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.executable import Executable
from onnxc.runtime.gpu.device import properties_of
from onnxc.runtime.gpu.driver import load_driver
from tests.codegen_gpu.kinds import KINDS
from tests.models.builders import Built, decoder, encoder, mlp, resnet
from tests.support.models import model_from_text

CALLS = 4
"""The first calls are launched one by one, later ones are replayed from a graph."""


def device_problem() -> str:
    """Why there is no device; empty if there is one."""
    try:
        properties_of(load_driver(), 0)
    except DeviceError as problem:
        return str(problem)
    return ""


pytestmark = [pytest.mark.gpu, pytest.mark.skipif(bool(device_problem()), reason=device_problem())]


def worst_error(found: Mapping[str, object], wanted: Mapping[str, object]) -> float:
    pairs = [(np.asarray(found[name], np.float64), np.asarray(wanted[name], np.float64)) for name in wanted]
    return max(float(np.abs(x - y).max(initial=0) / max(np.abs(y).max(initial=0), 1e-6)) for x, y in pairs)


def compiled(built: Built, precision: str = "fp32") -> Executable:
    return onnxc.compile(built.model.SerializeToString(), target="cuda", precision=precision)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    driver, cache = load_driver(), tmp_path_factory.mktemp("kernels")
    made = Bench(driver, lambda sources: compile_kernels(sources, made.target, cache))
    made.device.enter()
    return made


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64", "i32", "u32"])
@pytest.mark.parametrize("name", KINDS)
def test_kernels_give_what_the_primitives_mean(bench: Bench, name: str, dtype: str) -> None:
    if dtype not in KINDS[name].dtypes:
        pytest.skip("the kind has no kernel of its own for the type")
    row = value_row(bench, name, dtype)
    assert row["ok"], row


@pytest.mark.parametrize("build", [mlp, resnet, encoder, decoder])
def test_models_give_the_values_of_the_cpu_at_every_size(build: object) -> None:
    built = build("dynamo")  # type: ignore[operator]
    device, cpu = compiled(built), onnxc.compile(built.model.SerializeToString())
    for seed, sizes in enumerate(built.sizes.values()):
        feed = make_inputs(built.inputs, sizes, seed)
        wanted, results = cpu.run(feed), [device.run(feed) for _ in range(CALLS)]
        assert worst_error(results[0], wanted) <= 2e-5
        for again in results:
            assert worst_error(again, results[0]) == 0
    assert device.stats.compilations == 1


@pytest.mark.parametrize(("precision", "bound"), [("tf32", 1e-2), ("fp16", 2e-2), ("bf16", 1e-1)])
def test_lower_precisions_stay_near(precision: str, bound: float) -> None:
    built = encoder("dynamo")
    feed = make_inputs(built.inputs, built.sizes["prime"])
    wanted = onnxc.compile(built.model.SerializeToString()).run(feed)
    assert 0 < worst_error(compiled(built, precision).run(feed), wanted) <= bound


def test_an_index_out_of_range_is_told_and_the_next_call_works() -> None:
    text = '<ir_version: 10, opset_import: ["" : 21]> g (float[5] x, int64[N] i) => (float[N] y) { y = Gather (x, i) }'
    device = onnxc.compile(model_from_text(text).SerializeToString(), target="cuda")
    x = np.arange(5, dtype=np.float32)
    with pytest.raises(onnxc.InputError):
        device(x, np.array([1, 9]))
    np.testing.assert_array_equal(device(x, np.array([1, -1])), [1, 4])


@pytest.fixture
def cupy() -> ModuleType:
    try:
        return importlib.import_module("cupy")
    except ImportError:
        pytest.skip("there is no CuPy")


def test_arrays_of_cupy_go_in_and_out_where_they_lie(cupy: ModuleType) -> None:
    built = mlp("dynamo")
    device, cpu = compiled(built), onnxc.compile(built.model.SerializeToString())
    x = make_inputs(built.inputs, built.sizes["prime"])["x"]
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        on_device = cupy.asarray(x)
        y = device.run({"x": on_device}, stream=stream.ptr)["y"]
        again = cupy.from_dlpack(y)
        doubled = cupy.asarray(y) * 2
    stream.synchronize()
    assert isinstance(y, onnxc.DeviceArray)
    wanted: Sequence[object] = cpu(x)  # type: ignore[assignment]
    assert worst_error({"y": cupy.asnumpy(again)}, {"y": wanted}) <= 2e-5
    np.testing.assert_array_equal(cupy.asnumpy(doubled), 2 * cupy.asnumpy(again))
