"""A pack: made of kernels that are not compiled, it has all that every section asks for where nothing can compile."""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from benchmarks.gpu import pack as pack_module
from benchmarks.gpu.model_values import model_values
from benchmarks.gpu.pack import compiled_each, make_pack
from benchmarks.gpu.pack_file import Pack
from benchmarks.gpu.pack_models import CHECKED, EXPORTED, PRECISIONS, Choice, choice_of
from benchmarks.gpu.skeletons import LEAST_ELEMENTS, emptied, filled
from benchmarks.gpu.suite import SECTIONS, bench_of
from onnxc.compiler.codegen_gpu.compile.kernel_cache import kernel_key
from onnxc.compiler.codegen_gpu.plan_target import gpu_plan_target
from onnxc.compiler.codegen_gpu.source.kernel_source import KernelSource
from onnxc.compiler.planning.plan import plan_kernels
from onnxc.runtime.device_code import DeviceKernel
from onnxc.runtime.errors import UnsupportedError
from tests.codegen_cpu.support import make
from tests.codegen_gpu.kinds import SM_90
from tests.conformance.cases import Case
from tests.models.builders import mlp
from tests.support.fake_driver import FakeDriver
from tests.support.fake_gpu import fake_kernels, interpret_launch
from tests.support.models import model_from_text

ROOT = Path(__file__).parents[3]
TRITON = "3.6.0"

HEADER = '<ir_version: 10, opset_import: ["" : 21]>'
ADD = "add (float[2] x) => (float[2] y) { y = Add (x, x) }"
TEXTS = "texts (float[2] x) => (string[2] y) { y = Cast <to = 8> (x) }"


def keyed_kernels(sources: Sequence[KernelSource]) -> list[DeviceKernel]:
    """Kernels that are not compiled, by the keys that they are looked up by."""
    keys = [kernel_key(source, "sm_90", TRITON) for source in sources]
    return [
        replace(kernel, key=key, cubin=b"\x7fELF" + key.encode())
        for key, kernel in zip(keys, fake_kernels(sources), strict=True)
    ]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pack")
    built = mlp("dynamo")
    (folder / "small.onnx").write_bytes(built.model.SerializeToString())
    inputs = [vars(spec) for spec in built.inputs]
    entry = {"inputs": inputs, "outputs": ["y"], "sizes": built.sizes, "files": {"dynamo": "small.onnx"}}
    (folder / "manifest.json").write_text(json.dumps({"small": entry}))
    choice = Choice(("mlp",), ("small",), ("bf16",))
    x = np.array([1.0, 2.0], np.float32)
    texts = [(model_from_text(f"{HEADER}{text}"), [([x], [y])]) for text, y in ((ADD, x + x), (TEXTS, x.astype(str)))]
    cases = [Case(f"case{k}", "node", 1e-3, 1e-7, lambda found=found: found) for k, found in enumerate(texts)]
    make_pack(folder / "PACK", SM_90, TRITON, "tiny", choice, folder, keyed_kernels, cases)
    return folder / "PACK"


def test_every_section_runs_where_nothing_can_be_compiled(made: Path, tmp_path: Path) -> None:
    """In a process where importing triton, onnx or torch is an error; kernels do nothing, so values are wrong there."""
    out = tmp_path / "results.json"
    command = [sys.executable, "-m", "tests.support.bare_suite", str(made), str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    sections = json.loads(out.read_text())["sections"]
    assert list(sections) == list(SECTIONS)
    assert [row for rows in sections.values() for row in rows if "error" in row] == []
    assert all(len(rows) >= 1 for rows in sections.values())
    names = {name: [row["name"] for row in rows] for name, rows in sections.items()}
    assert names["model_times"] == ["small/bf16/one", "small/bf16/many"]
    assert names["model_values"] == ["mlp/bf16", "case_case0/fp32", "distribution"]
    (profile, *_) = sections["launch_profiles"]
    assert [set(launch) for launch in profile["launches"]] == [
        {"seconds", "kernel", "kind", "ops", "expected_seconds", "bound"}
    ] * len(profile["launches"])
    assert sections["torch_times"] == [{"name": "torch", "skipped": "torch is not installed, or sees no device"}]


def test_values_of_models_out_of_a_pack_are_right(made: Path) -> None:
    pack = Pack(made)
    fake = FakeDriver(None, interpret_launch)
    of_models = [pack.artifact(model).device for model in pack.index.models]
    fake.kernels = tuple(kernel for code in of_models if code for kernel in code.kernels)
    *rows, told = model_values(bench_of(fake.driver, pack, 600))
    assert [row.get("ok") for row in rows] == [True, True]
    assert set(told) == {"name", "bf16", "fp32"}
    fake.check()


def test_a_kernel_that_is_not_in_the_pack_is_named(made: Path) -> None:
    source = KernelSource("@triton.jit\ndef kernel():\n    pass\n", (), warps=4)
    with pytest.raises(LookupError, match="not in the pack"):
        Pack(made).kernels([source])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
def test_weights_of_skeletons_are_drawn_where_marks_are(dtype: type) -> None:
    large = np.arange(LEAST_ELEMENTS).astype(dtype).reshape(64, -1)
    small = np.arange(5).astype(dtype)
    plan = plan_kernels(make(["f32[2]"], lambda ir, x: ir.exp(x)), gpu_plan_target(SM_90))
    constants = emptied(replace(plan, constants=(large, small, np.arange(LEAST_ELEMENTS)))).constants
    assert len(np.unique(constants[0].view(f"u{large.itemsize}"))) == 1
    assert [constants[1].tolist(), constants[2].tolist()] == [small.tolist(), list(range(LEAST_ELEMENTS))]
    block = np.concatenate([np.zeros(64, np.uint8), constants[0].reshape(-1).view(np.uint8)])
    weights = filled(block)
    drawn = weights[64:].view(dtype).astype(np.float64)
    assert not weights[:64].any()
    assert 0.015 < drawn.std() < 0.025
    assert np.array_equal(weights, filled(block))


def test_a_candidate_that_does_not_compile_is_left_out() -> None:
    good, bad = (KernelSource(f"def kernel(): {text}", (), warps=4) for text in ("pass", "never"))

    def compiled(sources: Sequence[KernelSource]) -> list[DeviceKernel]:
        if bad in sources:
            raise UnsupportedError("too much shared memory", code="kernel-compile-failed")
        return keyed_kernels(sources)

    assert compiled_each([good, bad], compiled) == keyed_kernels([good])


def test_a_pack_is_of_the_triton_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["pack", "--triton", "1.0", "--out", str(tmp_path / "PACK")])
    assert pack_module.main() == 2
    assert "--triton asks for 1.0: pip install triton==1.0" in capsys.readouterr().err
    assert not (tmp_path / "PACK").exists()


def test_a_name_that_nothing_has_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["pack", "--triton", "1.0", "--out", str(tmp_path), "--only", "resnet5,bf16"])
    with pytest.raises(SystemExit):
        pack_module.main()
    assert "there is no resnet5; there are mlp, " in capsys.readouterr().err


def test_names_choose_models_and_precisions() -> None:
    assert choice_of(("mlp", "bf16")) == Choice(("mlp",), (), ("bf16",))
    assert choice_of(("resnet50",)) == Choice((), ("resnet50",), PRECISIONS)
    assert choice_of(("fp16",)) == Choice(tuple(CHECKED), EXPORTED, ("fp16",))
