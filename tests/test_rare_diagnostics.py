"""Diagnostics that no model and no call of an ordinary installation shows: each asked for where it is made."""

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.backend import prepare
from onnxc.compiler.driver import compile_model
from onnxc.compiler.frontend.proto.onnxc_pb2 import ModelProto
from onnxc.compiler.frontend.read import LoadedModel
from onnxc.compiler.options import make_options
from onnxc.runtime.engine import native_launches
from onnxc.runtime.errors import DeviceError, InputError, ModelError, OnnxcError, UnsupportedError
from onnxc.runtime.host.functions import FUNCTIONS
from onnxc.runtime.native.faults import illegal_data
from tests.frontend.model_texts import LOOP, RELU, model


def code_of(problem: OnnxcError) -> str:
    assert str(problem).startswith(f"error[{problem.code}]: ")
    return problem.code


def test_a_model_that_protobuf_cannot_hold_in_one_message() -> None:
    """Real ones have more than 2 GiB; bytes that end within a field fail alike."""
    data = b"\x0a\x7f"
    loaded = LoadedModel(memoryview(data), ModelProto(), {}, None, hashlib.sha256(data).hexdigest())
    with pytest.raises(ModelError, match="save the model with external data") as caught:
        assert loaded.proto
    assert code_of(caught.value) == "model-too-large"


def test_an_input_whose_type_is_nested_deeper_than_types_are_read() -> None:
    def deeper(m: onnx.ModelProto) -> None:
        proto = m.graph.input[0].type
        for _ in range(20):
            proto = onnx.TypeProto(sequence_type=onnx.TypeProto.Sequence(elem_type=proto))
        m.graph.input.add(name="deep").type.CopyFrom(proto)

    with pytest.raises(UnsupportedError, match="deep") as caught:
        onnxc.compile(model(RELU, deeper), "interpreter", limits={"type_depth": 40})
    assert code_of(caught.value) == "input-without-type"


def test_a_body_that_declares_another_type_than_it_is_given() -> None:
    text = LOOP.replace("float[N] s", "double[N] s").replace("t = Relu(s)", "t = Cast<to = 1>(s)")
    with pytest.raises(ModelError, match="input s of the graph is declared") as caught:
        onnxc.compile(model(text), "interpreter")
    assert code_of(caught.value) == "subgraph-input-type"


def test_the_official_runner_asks_for_another_device() -> None:
    with pytest.raises(UnsupportedError, match="only CPU is") as caught:
        prepare(model(RELU), device="CUDA")
    assert code_of(caught.value) == "unsupported-device"


def test_what_the_interpreter_runs_cannot_be_saved(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError) as caught:
        onnxc.compile(model(RELU), "interpreter").save(tmp_path / "m.onnxc")
    assert code_of(caught.value) == "no-artifact"


def test_weights_are_kept_in_two_ways(tmp_path: Path) -> None:
    onnxc.compile(model(RELU)).save(tmp_path / "m.onnxc")
    with pytest.raises(InputError, match='"mapped" or "resident"') as caught:
        onnxc.load(tmp_path / "m.onnxc", weights="remote")  # type: ignore[arg-type]
    assert code_of(caught.value) == "weights-mode"


def test_a_program_of_native_code_without_an_image() -> None:
    program = compile_model(model(RELU), make_options()).program
    with pytest.raises(DeviceError) as caught:
        native_launches(program.body, None, len(program.symbols), ())
    assert code_of(caught.value) == "image-missing"


def test_a_status_that_native_code_has_no_words_for() -> None:
    problem = illegal_data((9, 0, 4, 5), ["main, node 3"])
    assert code_of(problem) == "illegal-data"
    assert str(problem).endswith("(9, 4, 5)\n  --> main, node 3")


def test_an_image_without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(DeviceError, match="pip install Pillow") as caught:
        FUNCTIONS["decode_image"]([np.zeros(3, np.uint8)], {"pixel_format": "RGB"})
    assert code_of(caught.value) == "library-missing"
