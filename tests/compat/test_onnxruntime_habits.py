"""What programs written for ONNX Runtime rely on, asked of ONNX Runtime and of onnxc alike.

Every test runs on both: on ONNX Runtime it says that the habit is as it is stated, on onnxc that we have it.
"""

import ctypes
import importlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc.compat.onnxruntime as ours
from onnxc.compat.onnxruntime.capi import onnxruntime_pybind11_state as our_state
from tests.support.models import model_from_text

X = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
PRODUCT = X @ np.array([[1], [2]], np.float32)

MODEL = """<ir_version: 8, opset_import: ["": 17], producer_name: "maker", doc_string: "words", model_version: 7>
    products (float[rows, 2] x) => (float[rows, 1] product, total) <float[2, 1] w = {1, 2}> {
        product = MatMul (x, w)
        total = ReduceSum <keepdims = 0> (product)
    }"""


@pytest.fixture(params=["onnxruntime", "onnxc"])
def ort(request: pytest.FixtureRequest) -> Iterator[ModuleType]:
    onnxruntime.set_default_logger_severity(4)
    yield onnxruntime if request.param == "onnxruntime" else ours
    onnxruntime.set_default_logger_severity(2)


@pytest.fixture
def state(ort: ModuleType) -> ModuleType:
    return onnxruntime.capi.onnxruntime_pybind11_state if ort is onnxruntime else our_state


def session(ort: ModuleType, text: str = MODEL, *options: object) -> ours.InferenceSession:
    made: ours.InferenceSession = ort.InferenceSession(model_from_text(text).SerializeToString(), *options)
    return made


def test_a_session_says_what_the_model_takes_gives_and_is(ort: ModuleType) -> None:
    opened = session(ort)
    described = [(arg.name, arg.type, arg.shape) for arg in (*opened.get_inputs(), *opened.get_outputs())]
    assert described == [
        ("x", "tensor(float)", ["rows", 2]),
        ("product", "tensor(float)", ["rows", 1]),
        ("total", "tensor(float)", []),
    ]
    assert str(opened.get_inputs()[0]) == "NodeArg(name='x', type='tensor(float)', shape=['rows', 2])"
    about = opened.get_modelmeta()
    assert (about.producer_name, about.graph_name, about.description) == ("maker", "products", "words")
    assert (about.version, about.domain, about.custom_metadata_map) == (7, "", {})
    assert ort.get_device() == "CPU"
    assert "CPUExecutionProvider" in ort.get_available_providers()
    assert opened.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (None, ["product", "total"]),
        ([], ["product", "total"]),
        ("", ["product", "total"]),
        (["total"], ["total"]),
        (["total", "product", "total"], ["total", "product", "total"]),
    ],
)
def test_a_run_gives_the_outputs_that_are_named(ort: ModuleType, names: list[str] | None, expected: list[str]) -> None:
    values = {"product": PRODUCT, "total": PRODUCT.sum()}
    outputs = session(ort).run(names, {"x": X})
    assert isinstance(outputs, list)
    for name, output in zip(expected, outputs, strict=True):
        np.testing.assert_array_equal(np.asarray(output), values[name])


@pytest.mark.parametrize("feed", [X.tolist(), X[:, ::-1][:, ::-1], np.asfortranarray(X)], ids=["lists", "view", "rows"])
def test_lists_and_arrays_of_any_layout_are_inputs(ort: ModuleType, feed: object) -> None:
    np.testing.assert_array_equal(session(ort).run(["product"], {"x": feed})[0], PRODUCT)


def test_a_model_is_opened_by_its_path_and_serves_all_sizes(ort: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model_from_text(MODEL).SerializeToString())
    for source in (path, str(path)):
        opened = ort.InferenceSession(source, providers=["CPUExecutionProvider"])
        for rows in (0, 1, 3):
            np.testing.assert_array_equal(opened.run(["product"], {"x": X[:rows]})[0], PRODUCT[:rows])


@pytest.mark.parametrize(
    ("names", "feed", "error", "words"),
    [
        (None, {}, "ValueError", "Required inputs (['x']) are missing from input feed ([])."),
        (None, {"x": X, "q": X}, "InvalidArgument", "Invalid input name: q"),
        (["q"], {"x": X}, "InvalidArgument", "Invalid output name:q"),
        (None, {"x": X.astype(np.float64)}, "InvalidArgument", "Actual: (tensor(double)) , expected: (tensor(float))"),
        (None, {"x": X[0]}, "InvalidArgument", "Invalid rank for input: x Got: 1 Expected: 2"),
        (None, {"x": X[:, :1]}, "InvalidArgument", "index: 1 Got: 1 Expected: 2"),
    ],
)
def test_what_a_run_is_given_wrongly_is_named(
    ort: ModuleType, state: ModuleType, names: object, feed: object, error: str, words: str
) -> None:
    kind = ValueError if error == "ValueError" else getattr(state, error)
    opened = session(ort)
    with pytest.raises(kind) as raised:
        opened.run(names, feed)  # type: ignore[arg-type]
    assert words in str(raised.value)
    assert opened.run(["total"], {"x": X})[0] == PRODUCT.sum()


@pytest.mark.parametrize(
    ("source", "error", "prefix"),
    [
        ("missing.onnx", "NoSuchFile", "[ONNXRuntimeError] : 3 : NO_SUCHFILE : "),
        (b"\x07\xff", "InvalidProtobuf", "[ONNXRuntimeError] : 7 : INVALID_PROTOBUF : "),
        (b"", "InvalidArgument", "[ONNXRuntimeError] : 2 : INVALID_ARGUMENT : "),
        (3, "TypeError", "Unable to load from type"),
    ],
)
def test_what_is_no_model_is_named(ort: ModuleType, state: ModuleType, source: object, error: str, prefix: str) -> None:
    with pytest.raises(TypeError if error == "TypeError" else getattr(state, error)) as raised:
        ort.InferenceSession(source)
    assert str(raised.value).startswith(prefix)


def test_an_operator_that_nobody_has_is_a_failure_of_the_session(ort: ModuleType, state: ModuleType) -> None:
    text = '<ir_version: 8, opset_import: ["": 17, "shop": 1]> g (float[2] x) => (float[2] y) { y = shop.Buy (x) }'
    with pytest.raises(state.Fail, match="Buy"):
        session(ort, text)


def test_options_have_their_defaults_and_take_values_of_their_types(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    assert options.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    assert options.execution_mode == ort.ExecutionMode.ORT_SEQUENTIAL
    assert (options.intra_op_num_threads, options.enable_mem_pattern, options.log_severity_level) == (0, True, -1)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    options.intra_op_num_threads = 2
    options.add_session_config_entry("session.key", "value")
    assert options.get_session_config_entry("session.key") == "value"
    with pytest.raises(RuntimeError, match="does not have configuration with key: other"):
        options.get_session_config_entry("other")
    with pytest.raises(TypeError):
        options.intra_op_num_threads = "two"
    assert session(ort, MODEL, options).run(["total"], {"x": X})[0] == PRODUCT.sum()


def test_a_size_is_fixed_by_its_name(ort: ModuleType, state: ModuleType) -> None:
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_name("rows", 2)
    options.add_free_dimension_override_by_name("nobody", 2)
    opened = session(ort, MODEL, options)
    assert opened.get_inputs()[0].shape == [2, 2]
    assert opened.run(["total"], {"x": X[:2]})[0] == PRODUCT[:2].sum()
    with pytest.raises(state.InvalidArgument, match="index: 0 Got: 3 Expected: 2"):
        opened.run(None, {"x": X})


def test_a_size_is_fixed_by_its_denotation(ort: ModuleType) -> None:
    model = model_from_text(MODEL)
    model.graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    options = ort.SessionOptions()
    options.add_free_dimension_override_by_denotation("DATA_BATCH", 3)
    assert ort.InferenceSession(model.SerializeToString(), options).get_inputs()[0].shape == [3, 2]


def test_an_initializer_is_replaced(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    value = ort.OrtValue.ortvalue_from_numpy(np.array([[10], [20]], np.float32))
    options.add_initializer("w", value)
    np.testing.assert_array_equal(session(ort, MODEL, options).run(["product"], {"x": X})[0], 10 * PRODUCT)


def test_an_input_with_an_initializer_may_be_left_out_and_overridden(ort: ModuleType) -> None:
    text = MODEL.replace("(float[rows, 2] x)", "(float[rows, 2] x, float[2, 1] w)")
    opened = session(ort, text)
    assert [arg.name for arg in opened.get_inputs()] == ["x"]
    assert [arg.name for arg in opened.get_overridable_initializers()] == ["w"]
    np.testing.assert_array_equal(opened.run(["product"], {"x": X})[0], PRODUCT)
    w = np.array([[3], [6]], np.float32)
    np.testing.assert_array_equal(opened.run(["product"], {"x": X, "w": w})[0], 3 * PRODUCT)


def test_unknown_sizes_are_none_and_names_are_texts(ort: ModuleType) -> None:
    opened = session(
        ort, '<ir_version: 8, opset_import: ["": 17]> g (float[?, a, 2] x) => (float[b, c, d] y) { y = Abs (x) }'
    )
    assert opened.get_inputs()[0].shape == [None, "a", 2]


def test_providers_are_named_and_others_warned_of(ort: ModuleType) -> None:
    data = model_from_text(MODEL).SerializeToString()
    with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available provider names"):
        opened = ort.InferenceSession(data, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert opened.get_providers() == ["CPUExecutionProvider"]
    opened.set_providers(["CPUExecutionProvider"], [{}])
    assert opened.get_provider_options() == {"CPUExecutionProvider": {}}
    unknown = pytest.raises(RuntimeError, match="Unknown Provider Type: Nobody")
    with pytest.warns(UserWarning, match="Nobody"), unknown:
        opened.set_providers(["Nobody"])


def normalize(ort: ModuleType) -> Callable[..., tuple[list[str], list[dict[str, str]]]]:
    module = importlib.import_module(f"{ort.__name__}.capi.onnxruntime_inference_collection")
    function: Callable[..., tuple[list[str], list[dict[str, str]]]] = module.check_and_normalize_provider_args
    return function


@pytest.mark.parametrize(
    ("providers", "options", "expected"),
    [
        (None, None, ([], [])),
        (["a", "b"], None, (["a", "b"], [{}, {}])),
        ([("a", {1: 2}), "b"], None, (["a", "b"], [{"1": "2"}, {}])),
        (["a", "b"], [{1: 2}, {}], (["a", "b"], [{"1": "2"}, {}])),
        (3, None, None),
        ([3], None, None),
        (["a"], 3, None),
        (["a"], ["options"], None),
        (["a", "b"], [{}], None),
        ([("a", {1: 2})], [{3: 4}], None),
    ],
)
def test_providers_and_options_come_in_several_forms(
    ort: ModuleType, providers: object, options: object, expected: object
) -> None:
    if expected is not None:
        assert normalize(ort)(providers, options, ["a", "b"]) == expected
        return
    with pytest.raises(ValueError, match="provider"):
        normalize(ort)(providers, options, ["a", "b"])


def test_a_run_beside_its_caller_calls_back(ort: ModuleType) -> None:
    answers: list[tuple[object, ...]] = []
    opened = session(ort)
    for feed in ({"x": X}, {"x": X[:, :1]}):
        answered = threading.Event()

        def answer(*came: object, done: threading.Event = answered) -> None:
            answers.append(came)
            done.set()

        opened.run_async(["product"], feed, answer, "data")
        assert answered.wait(30)
    (outputs, data, error), (none, _, reason) = answers
    np.testing.assert_array_equal(outputs[0], PRODUCT)  # type: ignore[index]
    assert (data, error) == ("data", "")
    assert (none, str(reason).splitlines()[1]) == ([], " index: 1 Got: 1 Expected: 2")
    with pytest.raises(ValueError, match="Required inputs"):
        opened.run_async(None, {}, print, None)


def test_values_know_their_type_shape_and_memory(ort: ModuleType) -> None:
    array = X.copy()
    value = ort.OrtValue.ortvalue_from_numpy(array)
    assert (value.shape(), value.data_type(), value.element_type()) == ([3, 2], "tensor(float)", 1)
    assert (value.device_name(), value.tensor_size_in_bytes()) == ("cpu", 24)
    assert (value.has_value(), value.is_tensor(), value.is_sparse_tensor()) == (True, True, False)
    assert value.data_ptr() == value.numpy().ctypes.data
    value.update_inplace(np.zeros((3, 2), np.float32))
    np.testing.assert_array_equal(value.numpy(), 0)
    with pytest.raises(RuntimeError):
        value.update_inplace(np.zeros((3, 3), np.float32))
    with pytest.raises(RuntimeError, match=r"device|CPU"):
        ort.OrtValue.ortvalue_from_numpy(array, "cuda", 0)
    typed = ort.OrtValue.ortvalue_from_shape_and_type([2, 0, 3], np.int64)
    assert (typed.shape(), typed.data_type()) == ([2, 0, 3], "tensor(int64)")
    outputs = session(ort).run_with_ort_values(["product"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})
    np.testing.assert_array_equal(outputs[0].numpy(), PRODUCT)
    np.testing.assert_array_equal(session(ort).run(["product"], {"x": ort.OrtValue.ortvalue_from_numpy(X)})[0], PRODUCT)


def test_inputs_and_outputs_are_bound_to_memory(ort: ModuleType) -> None:
    opened = session(ort)
    binding = opened.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, (3, 2), X.ctypes.data)
    mine = np.zeros((3, 1), np.float32)
    binding.bind_output("product", "cpu", 0, np.float32, (3, 1), mine.ctypes.data)
    binding.bind_output("total")
    opened.run_with_iobinding(binding)
    binding.synchronize_outputs()
    np.testing.assert_array_equal(mine, PRODUCT)
    assert binding.copy_outputs_to_cpu()[1] == PRODUCT.sum()
    assert [value.shape() for value in binding.get_outputs()] == [[3, 1], []]
    value = ort.OrtValue.ortvalue_from_numpy(2 * X)
    binding.bind_ortvalue_input("x", value)
    target = ort.OrtValue.ortvalue_from_shape_and_type([3, 1], np.float32)
    binding.clear_binding_outputs()
    binding.bind_ortvalue_output("product", target)
    opened.run_with_iobinding(binding)
    np.testing.assert_array_equal(target.numpy(), 2 * PRODUCT)


def test_outputs_come_in_the_order_in_which_they_were_bound(ort: ModuleType) -> None:
    opened = session(ort)
    binding = opened.io_binding()
    binding.bind_cpu_input("x", X)
    for name in ("total", "product", "total"):
        binding.bind_output(name)
    opened.run_with_iobinding(binding)
    assert [value.shape() for value in binding.get_outputs()] == [[], [3, 1]]
    total, product = binding.copy_outputs_to_cpu()
    assert total == PRODUCT.sum()
    np.testing.assert_array_equal(product, PRODUCT)


def test_memory_is_bound_by_the_number_of_an_element_type(ort: ModuleType) -> None:
    opened, mine = session(ort), np.zeros((3, 1), np.float32)
    binding = opened.io_binding()
    binding.bind_input("x", "cpu", 0, TensorProto.FLOAT, (3, 2), X.ctypes.data)
    binding.bind_output("product", "cpu", 0, TensorProto.FLOAT, (3, 1), mine.ctypes.data)
    opened.run_with_iobinding(binding)
    np.testing.assert_array_equal(mine, PRODUCT)
    with pytest.raises(RuntimeError, match="tensor type 1000 is not supported"):
        ort.OrtValue.ortvalue_from_shape_and_type([2], 1000)


def test_a_wrong_binding_is_a_runtime_error(ort: ModuleType) -> None:
    opened = session(ort)
    with pytest.raises(RuntimeError, match="Failed to find NodeArg with name: q"):
        opened.io_binding().bind_cpu_input("q", X)
    with pytest.raises(RuntimeError):
        opened.run_with_iobinding(opened.io_binding())
    binding = opened.io_binding()
    binding.bind_cpu_input("x", X)
    small = (ctypes.c_float * 2)()
    binding.bind_output("product", "cpu", 0, np.float32, (2, 1), ctypes.addressof(small))
    with pytest.raises(RuntimeError):
        opened.run_with_iobinding(binding)
    assert list(small) == [0, 0]


def test_options_of_a_run(ort: ModuleType, state: ModuleType) -> None:
    options = ort.RunOptions()
    options.logid = "mine"
    options.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    assert options.get_run_config_entry("memory.enable_memory_arena_shrinkage") == "cpu:0"
    opened = session(ort)
    assert opened.run(["total"], {"x": X}, options)[0] == PRODUCT.sum()
    options.terminate = True
    with pytest.raises(state.Fail, match="terminate"):
        opened.run(["total"], {"x": X}, options)


def test_sequences_are_lists(ort: ModuleType) -> None:
    text = """<ir_version: 8, opset_import: ["": 17]>
        g (seq(int64[2]) s, int64[2] t) => (seq(int64[2]) longer, int64 n) {
            longer = SequenceInsert (s, t)
            n = SequenceLength (longer)
        }"""
    opened = session(ort, text)
    assert [(arg.type, arg.shape) for arg in opened.get_inputs()] == [
        ("seq(tensor(int64))", []),
        ("tensor(int64)", [2]),
    ]
    t = np.array([1, 2], np.int64)
    longer, count = opened.run(None, {"s": [t, t], "t": t})
    assert isinstance(longer, list)
    assert ([each.tolist() for each in longer], count) == ([[1, 2]] * 3, 3)
    assert opened.run(["n"], {"s": [], "t": t})[0] == 1


TEXTS = [["this", "is"], ["Olá", "你好"]]


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (np.array(TEXTS), TEXTS),
        (np.array(TEXTS, object), TEXTS),
        (TEXTS, TEXTS),
        # ONNX Runtime reads beyond items that fill their width.
        (np.array([[b"this", b"is"], [b"a", b"test"]], "S5"), [["this", "is"], ["a", "test"]]),
    ],
    ids=["unicode", "objects", "lists", "bytes"],
)
def test_texts_come_in_several_forms(ort: ModuleType, texts: object, expected: object) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (string[2, 2] x) => (string[2, 2] y) { y = Identity (x) }'
    opened = session(ort, text)
    assert opened.get_inputs()[0].type == "tensor(string)"
    (output,) = opened.run(None, {"x": texts})
    assert np.asarray(output).tolist() == expected


def test_maps_are_lists_of_dicts(ort: ModuleType) -> None:
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
        g (float[n, 2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [4, 9]> (x) }"""
    opened = session(ort, text)
    assert opened.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    assert opened.run(None, {"x": X[:2]})[0] == [{4: 1.0, 9: 2.0}, {4: 3.0, 9: 4.0}]


def test_an_optional_that_is_there_is_its_value(ort: ModuleType) -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [3, 2]))
    nodes = [helper.make_node("OptionalGetElement", ["x"], ["y"])]
    sides = [helper.make_value_info("x", kind)], [helper.make_tensor_value_info("y", 1, [3, 2])]
    model = helper.make_model(helper.make_graph(nodes, "g", *sides), ir_version=8)
    model.opset_import[0].version = 18
    opened = ort.InferenceSession(model.SerializeToString())
    assert opened.get_inputs()[0].type == "optional(tensor(float))"
    np.testing.assert_array_equal(opened.run(None, {"x": X})[0], X)


def test_an_output_that_is_an_input_is_a_copy(ort: ModuleType) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y, float[2] x) { y = Neg (x) }'
    x = np.array([1, 2], np.float32)
    _, again = session(ort, text).run(None, {"x": x})
    assert not np.shares_memory(again, x)
    np.testing.assert_array_equal(again, x)


def test_the_model_that_was_made_and_a_profile_are_written(ort: ModuleType, tmp_path: Path) -> None:
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.enable_profiling = True
    options.profile_file_prefix = str(tmp_path / "profile")
    opened = session(ort, MODEL, options)
    opened.run(None, {"x": X})
    again = ort.InferenceSession(options.optimized_model_filepath)
    np.testing.assert_array_equal(again.run(["product"], {"x": X})[0], PRODUCT)
    events = json.loads(Path(opened.end_profiling()).read_text())
    assert {"name", "ph", "ts", "dur", "pid", "args"} <= set(events[-1])
    assert opened.get_profiling_start_time_ns() > 0


def test_external_data_goes_where_the_options_say(ort: ModuleType, tmp_path: Path, monkeypatch: object) -> None:
    weights = numpy_helper.from_array(np.arange(2000, dtype=np.float32).reshape(2, 1000), "w")
    model = model_from_text(
        MODEL.replace("float[2, 1] w = {1, 2}", "float[1] u = {1}").replace(", 1] product", ", ?] product")
    )
    model.graph.initializer.append(weights)
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "made.onnx")
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "made.bin")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "100")
    ort.InferenceSession(model.SerializeToString(), options)
    assert (tmp_path / "made.bin").stat().st_size >= 8000
    again = ort.InferenceSession(str(tmp_path / "made.onnx"))
    assert again.run(["product"], {"x": X})[0].shape == (3, 1000)


def test_libraries_may_be_loaded_before_a_session_is_made(ort: ModuleType) -> None:
    assert ort.preload_dlls(cuda=False, cudnn=False, msvc=False, directory="") is None


@pytest.mark.filterwarnings("ignore::onnxc.ModelWarning")
def test_models_that_break_a_rule_in_which_there_is_no_doubt_pass(ort: ModuleType) -> None:
    """IR version 3 wants initializers to be inputs, every version wants nodes in order."""
    text = "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Neg (a) a = Mul (x, w) }"
    model = model_from_text('<ir_version: 3, opset_import: ["": 9]>' + text)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert [info.name for info in session.get_inputs()] == ["x"]
    (y,) = session.run(None, {"x": np.float32([3, 4])})
    np.testing.assert_array_equal(y, np.float32([-3, -8]), strict=True)


def test_sparse_tensors_are_made_of_coordinates_or_rows(ort: ModuleType) -> None:
    values, coordinates = np.float32([1, 2, 3]), np.array([3, 5, 15])
    device = ort.OrtDevice.make("cpu", 0)
    coo = ort.SparseTensor.sparse_coo_from_numpy([9, 9], values, coordinates, device)
    assert (coo.format(), coo.data_type(), coo.device_name()) == (
        ort.OrtSparseFormat.ORT_SPARSE_COO,
        "sparse_tensor(float)",
        "cpu",
    )
    assert list(coo.dense_shape()) == [9, 9]
    value = ort.OrtValue.ort_value_from_sparse_tensor(coo)
    assert value.is_sparse_tensor()
    assert value.data_type() == "sparse_tensor(float)"
    again = value.as_sparse_tensor()
    for array, expected in ((again.values(), values), (again.as_coo_view().indices(), coordinates)):
        assert not array.flags.writeable
        np.testing.assert_array_equal(array, expected)
    inner, outer = np.array([1, 1, 1]), np.array([0, 1, 2, 3, 3, 3, 3, 3, 3, 3])
    csr = ort.SparseTensor.sparse_csr_from_numpy([9, 9], values, inner, outer, device)
    assert csr.format() == ort.OrtSparseFormat.ORT_SPARSE_CSRC
    np.testing.assert_array_equal(csr.as_csrc_view().inner(), inner)
    np.testing.assert_array_equal(csr.as_csrc_view().outer(), outer)
    with pytest.raises(RuntimeError):
        csr.as_coo_view()
    with pytest.raises(RuntimeError):
        coo.to_cuda(ort.OrtDevice.make("cuda", 0))
    texts = ort.SparseTensor.sparse_coo_from_numpy([9, 9], np.array(["a", "bc", ""]), coordinates, device)
    assert texts.data_type() == "sparse_tensor(string)"
    assert list(texts.values()) == ["a", "bc", ""]


def test_arenas_are_set_up_by_position_or_by_name(ort: ModuleType) -> None:
    arena = ort.OrtArenaCfg(8, 0, 4, 2)
    assert (arena.max_mem, arena.arena_extend_strategy, arena.max_dead_bytes_per_chunk) == (8, 0, 2)
    named = ort.OrtArenaCfg({"max_mem": 16, "initial_growth_chunk_size_bytes": 2})
    assert (named.max_mem, named.initial_growth_chunk_size_bytes, named.initial_chunk_size_bytes) == (16, 2, -1)
    with pytest.raises(RuntimeError, match="Invalid OrtArenaCfg option"):
        ort.OrtArenaCfg({"max_memory": 16})


@pytest.mark.filterwarnings("ignore:onnx.version is deprecated:DeprecationWarning")
def test_the_backend_prepares_and_runs(ort: ModuleType) -> None:
    backend = importlib.import_module(f"{ort.__name__}.backend")
    model = model_from_text(MODEL)
    product, total = backend.prepare(model.SerializeToString()).run(X)
    np.testing.assert_allclose(product, PRODUCT)
    np.testing.assert_allclose(total, PRODUCT.sum(), rtol=1e-6)
    assert backend.supports_device("CPU")
    np.testing.assert_allclose(backend.run(model.SerializeToString(), [X])[0], PRODUCT)
    prepared = backend.prepare(model.SerializeToString(), "CPU", log_severity_level=3, of_no_use=1)
    assert backend.prepare(prepared) is prepared
    np.testing.assert_allclose(prepared.run([X])[0], PRODUCT)


def test_raw_items_keep_their_zeros(ort: ModuleType) -> None:
    text = '<ir_version: 8, opset_import: ["": 17]> g (string[n] x) => (string[n] y) { y = Identity (x) }'
    session = ort.InferenceSession(model_from_text(text).SerializeToString(), providers=["CPUExecutionProvider"])
    for array, expected in (
        (np.array([b"a\0b\0", b"c\0d\0"], np.void), ["a\0b\0", "c\0d\0"]),
        (np.array([b"ab", b"cde"]), ["ab", "cde"]),
    ):
        (y,) = session.run(None, {"x": array})
        assert list(y) == expected


def test_values_in_a_row_go_from_run_to_run(ort: ModuleType, state: ModuleType) -> None:
    first = session(ort, '<ir_version: 8, opset_import: ["": 17]> g (float[n, 2] y) => (float[n, 2] x) { x = Neg (y) }')
    binding = first.io_binding()
    binding.bind_cpu_input("y", -X)
    binding.bind_output("x")
    first.run_with_iobinding(binding)
    feeds = binding.get_outputs_as_ortvaluevector()
    fetches = state.OrtValueVector()
    devices = [ort.OrtDevice.make("cpu", 0)._get_c_device()] * 2
    for _ in range(2):
        session(ort).run_with_ortvaluevector(ort.RunOptions(), ["x"], feeds, ["total", "product"], fetches, devices)
        total, product = (value.numpy() for value in fetches)
        np.testing.assert_array_equal(product, PRODUCT)
        np.testing.assert_array_equal(total, PRODUCT.sum())
        assert total.shape == ()


def test_providers_come_with_the_options(ort: ModuleType) -> None:
    options = ort.SessionOptions()
    assert not options.has_providers()
    with pytest.raises(RuntimeError, match="Unknown Provider Type: Nobody"):
        options.add_provider("Nobody", {})
    options.add_provider("CPUExecutionProvider", {})
    assert options.has_providers()
    assert session(ort, MODEL, options).get_providers() == ["CPUExecutionProvider"]


def test_loading_is_canceled(ort: ModuleType, state: ModuleType) -> None:
    options = ort.SessionOptions()
    options.set_load_cancellation_flag(True)
    with pytest.raises(state.ModelLoadCanceled, match="canceled due to user request"):
        session(ort, MODEL, options)
    options.set_load_cancellation_flag(False)
    session(ort, MODEL, options)


def test_sessions_say_where_their_values_are(ort: ModuleType) -> None:
    opened = session(ort)
    assert [len(opened.get_input_memory_infos()), len(opened.get_output_memory_infos())] == [1, 2]
    for info in (*opened.get_input_memory_infos(), *opened.get_output_memory_infos()):
        assert (info.name, info.device_id, info.mem_type) == ("Cpu", 0, ort.OrtMemType.DEFAULT)
    made = opened.create_ortvalue_from_shape_and_type([3, 2], np.float32, "cpu")
    assert (made.shape(), made.data_type()) == ([3, 2], "tensor(float)")
    assert opened.get_tuning_results() == []
    opened.set_tuning_results([])
    opened.set_ep_dynamic_options({"name": "value"})
    opened.release_captured_graph()


def test_the_extension_module_has_the_functions_of_the_package(ort: ModuleType, state: ModuleType) -> None:
    assert state.get_device() == ort.get_device()
    assert "set_seed" in dir(state)
    assert state.get_version_string() == ort.get_version_string()
    assert state.get_default_session_options().intra_op_num_threads == 0
    assert state.kSameAsRequested == state.ArenaExtendStrategy.kSameAsRequested


def test_values_go_through_capsules_of_dlpack(ort: ModuleType, state: ModuleType) -> None:
    value = ort.OrtValue.ortvalue_from_numpy(X)
    for capsule in (X.__dlpack__(), value.__dlpack__(), value._ortvalue.to_dlpack()):
        np.testing.assert_array_equal(state.OrtValue.from_dlpack(capsule).numpy(), X, strict=True)
    for source in (X, value, np.array([True, False]), np.zeros((2, 0), np.float32), np.uint8([1, 255])):
        taken = ort.OrtValue.from_dlpack(source)
        np.testing.assert_array_equal(taken.numpy(), np.asarray(source), strict=True)
    assert ort.OrtValue.from_dlpack(value).data_ptr() == value.data_ptr()
    assert value.__dlpack_device__() == (1, 0)


def test_programs_reach_for_the_session_of_the_extension_module(ort: ModuleType, state: ModuleType) -> None:
    inner = session(ort)._sess
    assert [arg.name for arg in inner.inputs_meta] == ["x"]
    assert [arg.name for arg in inner.outputs_meta] == ["product", "total"]
    assert inner.model_meta.graph_name == "products"
    value = ort.OrtValue.ortvalue_from_numpy(X)._get_c_value()
    given = inner.run_with_ort_values({"x": value}, ["total", "product"], ort.RunOptions())
    assert isinstance(given, state.OrtValueVector)
    np.testing.assert_array_equal(given[1].numpy(), PRODUCT)
    device = state.OrtDevice(state.OrtDevice.cpu(), state.OrtDevice.default_memory(), 0)
    binding = state.SessionIOBinding(inner)
    binding.bind_ortvalue_input("x", state.OrtValue.ortvalue_from_numpy(X, device))
    binding.bind_output("product", device)
    inner.run_with_iobinding(binding, None)
    np.testing.assert_array_equal(binding.get_outputs()[0].numpy(), PRODUCT)
    doubled, result = 2 * X, np.zeros((3, 1), np.float32)
    binding.bind_input("x", device, np.float32, doubled.shape, doubled.ctypes.data)
    binding.bind_output("product", device, np.float32, result.shape, result.ctypes.data)
    inner.run_with_iobinding(binding, None)
    assert isinstance(binding.get_outputs(), state.OrtValueVector)
    np.testing.assert_array_equal(result, 2 * PRODUCT)


def test_devices_and_memory_are_described(ort: ModuleType) -> None:
    cpu, cuda = ort.OrtDevice.make("cpu", 0), ort.OrtDevice.make("cuda", 2)
    assert (cpu.device_id(), cpu.device_type(), cpu.device_mem_type(), cpu.device_vendor_id()) == (0, 0, 0, 0)
    assert (cuda.device_id(), cuda.device_type(), cuda.device_vendor_id()) == (2, 1, ort.OrtDeviceVendorId.NVIDIA)
    kind = ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    memory = ort.OrtDeviceMemoryType.HOST_ACCESSIBLE
    info = ort.OrtMemoryInfo.create_v2("Cpu", ort.OrtMemoryInfoDeviceType.CPU, 0, 1, memory, 128, kind)
    assert (info.name, info.device_id, info.device_mem_type, info.allocator_type) == ("Cpu", 1, memory, kind)
    assert len(session(ort).get_input_epdevices()) == 1


ON_DISK = """<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Mul (x, w) }"""


def on_disk(name: str, **stored: object) -> bytes:
    """A model whose factors are in a file beside it, which is not there."""
    model = model_from_text(ON_DISK)
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": name, **stored}.items():
        tensor.external_data.add(key=key, value=str(value))
    model.graph.initializer.append(tensor)
    return model.SerializeToString()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_files_of_external_data_come_from_memory(ort: ModuleType, kind: Callable[[bytes], object]) -> None:
    options = ort.SessionOptions()
    # ONNX Runtime wants the caller to keep it.
    data = kind(np.float32([9, 2, 3]).tobytes())
    options.add_external_initializers_from_files_in_memory(["w.bin"], [data], [12])
    opened = ort.InferenceSession(on_disk("w.bin", offset=4, length=8), options)
    np.testing.assert_array_equal(opened.run(None, {"x": np.float32([1, 1])})[0], np.float32([2, 3]))


def test_files_in_memory_that_are_too_short_are_refused(ort: ModuleType, state: ModuleType) -> None:
    options = ort.SessionOptions()
    options.add_external_initializers_from_files_in_memory(["w.bin"], [bytes(4)], [4])
    with pytest.raises(state.Fail if ort is onnxruntime else state.InvalidArgument):
        ort.InferenceSession(on_disk("w.bin", offset=0, length=8), options)


def test_nodes_are_told_with_their_provider_where_options_ask_for_it(ort: ModuleType, state: ModuleType) -> None:
    with pytest.raises(state.Fail, match=r"'session\.record_ep_graph_assignment_info' must be set"):
        session(ort).get_provider_graph_assignment_info()
    options = ort.SessionOptions()
    options.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    parts = session(ort, MODEL, options).get_provider_graph_assignment_info()
    assert {part.ep_name for part in parts} == {"CPUExecutionProvider"}
    assert sorted(node.op_type for part in parts for node in part.get_nodes()) == ["MatMul", "ReduceSum"]


@pytest.fixture
def messages(ort: ModuleType) -> Iterator[list[tuple[int, str, str, str, str]]]:
    """What a callback is told."""
    given: list[tuple[int, str, str, str, str]] = []
    ort.set_default_logger_callback(lambda *message: given.append(message), severity=1)
    yield given
    ort.set_default_logger_callback(None)
    ort.set_default_logger_severity(2)


def test_a_callback_is_told_of_the_work_of_sessions(
    ort: ModuleType, messages: list[tuple[int, str, str, str, str]]
) -> None:
    options = ort.SessionOptions()
    options.logid = "mine"
    session(ort, MODEL, options).run(None, {"x": X})
    assert messages
    assert {type(part) for message in messages for part in message} == {int, str}
    assert any(message[2] == "mine" for message in messages)
    messages.clear()
    ort.set_default_logger_severity(4)
    session(ort)
    assert not messages


@pytest.mark.parametrize(("callback", "severity"), [(print, 5), (print, -1), ("not a callable", 2)])
def test_what_cannot_be_told_is_refused(ort: ModuleType, callback: object, severity: int) -> None:
    with pytest.raises(RuntimeError):
        ort.set_default_logger_callback(callback, severity=severity)


CONFIGURED = '{"session_options": {"inter_op_num_threads": 5, "intra_op_num_threads": 2, "enable_profiling": 0}}'


@pytest.mark.parametrize(("asks", "expected"), [("1", (5, 2)), ("0", (0, 0))])
def test_options_come_from_the_model_where_the_environment_says_so(
    ort: ModuleType, monkeypatch: pytest.MonkeyPatch, asks: str, expected: tuple[int, int]
) -> None:
    monkeypatch.setenv("ORT_LOAD_CONFIG_FROM_MODEL", asks)
    model = model_from_text(MODEL)
    model.metadata_props.add(key="ort_config", value=CONFIGURED)
    options = ort.InferenceSession(model.SerializeToString()).get_session_options()
    assert (options.inter_op_num_threads, options.intra_op_num_threads) == expected


ADAPTED = """<ir_version: 8, opset_import: ["": 17]>
    g (float[n, 2] x, float[2, r] a, float[r, 2] b) => (float[n, 2] y) <float[2, 0] a = {}, float[0, 2] b = {}> {
        xa = MatMul (x, a)
        xab = MatMul (xa, b)
        y = Add (x, xab)
    }"""


@pytest.mark.parametrize("made_by", [onnxruntime, ours])
def test_adapters_are_files_whose_values_a_run_passes(ort: ModuleType, made_by: ModuleType, tmp_path: Path) -> None:
    values = {"a": np.float32([[3], [4]]), "b": np.float32([[5, 6]])}
    made, file = made_by.AdapterFormat(), tmp_path / "x.onnx_adapter"
    made.set_adapter_version(3)
    made.set_model_version(7)
    made.set_parameters({name: made_by.OrtValue.ortvalue_from_numpy(value) for name, value in values.items()})
    made.export_adapter(str(file))
    read = ort.AdapterFormat.read_adapter(str(file))
    assert (read.get_format_version(), read.get_adapter_version(), read.get_model_version()) == (1, 3, 7)
    for name, value in read.get_parameters().items():
        np.testing.assert_array_equal(value.numpy(), values[name], strict=True)
    adapter, options = ort.LoraAdapter(), ort.RunOptions()
    adapter.Load(str(file))
    options.add_active_adapter(adapter)
    opened = session(ort, ADAPTED)
    np.testing.assert_array_equal(opened.run(None, {"x": X})[0], X)
    np.testing.assert_array_equal(opened.run(None, {"x": X}, options)[0], X + X @ values["a"] @ values["b"])


@pytest.mark.parametrize(
    "damage", [lambda data: b"", lambda data: data[:40], lambda data: data[:4] + b"XXXX" + data[8:]]
)
def test_what_is_no_adapter_is_refused(ort: ModuleType, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    made, file = ort.AdapterFormat(), tmp_path / "x.onnx_adapter"
    made.set_parameters({"a": ort.OrtValue.ortvalue_from_numpy(X)})
    made.export_adapter(str(file))
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(RuntimeError):
        ort.AdapterFormat.read_adapter(str(file))
    with pytest.raises(RuntimeError):
        ort.LoraAdapter().Load(str(tmp_path / "nothing"))


def test_adapters_have_no_texts(ort: ModuleType, tmp_path: Path) -> None:
    def export() -> None:
        made = ort.AdapterFormat()
        made.set_parameters({"a": ort.OrtValue.ortvalue_from_numpy(np.array(["text"], object))})
        made.export_adapter(str(tmp_path / "x.onnx_adapter"))

    with pytest.raises(RuntimeError, match=r"string|text"):
        export()
