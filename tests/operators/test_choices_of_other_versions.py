"""Choices that an operator has in another version only: what ONNX Runtime runs is taken, with a warning."""

import warnings

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from tests.support.models import model_from_text

WAYS = "coordinate_transformation_mode"
# version, node, the version that has the choice
ROWS = (
    (10, 'Pad <mode = "wrap", pads = [0, 0, 1, 5, 0, 0, 2, 1]> (x)', 0),
    (13, 'Pad <mode = "wrap"> (x, p)', 19),
    (18, 'Pad <mode = "wrap"> (x, p)', 19),
    (11, f'Resize <{WAYS} = "half_pixel_symmetric", mode = "linear"> (x, r, s)', 0),
    (18, f'Resize <{WAYS} = "half_pixel_symmetric", mode = "cubic"> (x, , s)', 19),
    (19, f'Resize <{WAYS} = "tf_half_pixel_for_nn", mode = "nearest"> (x, , s)', 0),
    (16, 'ScatterElements <axis = 2, reduction = "max"> (x, i, u)', 18),
    (17, 'ScatterND <reduction = "min"> (x, j, v)', 18),
)
IDS = [f"{node.split()[0]} {version}" for version, node, _ in ROWS]
X = np.sin(np.arange(12, dtype=np.float32)).reshape(1, 1, 3, 4)
FEED = {
    "x": X,
    "u": np.cos(X),
    "v": np.cos(X),
    "p": np.int64([0, 0, 1, 5, 0, 0, 2, 1]),
    "i": np.int64([[[[2, 1, 0, 2]] * 3]]),
    "j": np.int64([[0]]),
}


def model_of(version: int, node: str) -> ModelProto:
    return model_from_text(f"""<ir_version: 8, opset_import: ["" : {version}]>
    g (float[1, 1, 3, 4] x, float[1, 1, 3, 4] u, float[1, 1, 3, 4] v, int64[8] p, int64[1, 1, 3, 4] i, int64[1, 1] j)
    => (float[a, b, c, d] y) <float[4] s = {{1, 1, 1.7, 1.3}}, float[0] r = {{}}> {{ y = {node} }}""")


def run(model: ModelProto) -> np.ndarray:
    return np.asarray(onnxc.compile(model, target="interpreter")(*FEED.values()))


@pytest.mark.parametrize(("version", "node", "newer"), ROWS, ids=IDS)
def test_it_is_taken_with_a_warning(version: int, node: str, newer: int) -> None:
    with pytest.warns(onnxc.ModelWarning, match=r"warning\[attribute-value\]") as told:
        computed = run(model_of(version, node))
    assert len(told) == 1
    if newer:
        np.testing.assert_array_equal(computed, run(model_of(newer, node)))


@pytest.mark.parametrize(("version", "node", "newer"), ROWS, ids=IDS)
def test_onnx_runtime_computes_the_same(version: int, node: str, newer: int) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    model = model_of(version, node)
    session = onnxruntime.InferenceSession(model.SerializeToString(), options)
    (expected,) = session.run(None, {each.name: FEED[each.name] for each in session.get_inputs()})
    with pytest.warns(onnxc.ModelWarning):
        np.testing.assert_allclose(run(model), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("version", "node", "newer"), ROWS, ids=IDS)
def test_strict_refuses(version: int, node: str, newer: int) -> None:
    with pytest.raises(onnxc.ModelError, match="it is in another version") as refused:
        onnxc.compile(model_of(version, node), strict=True)
    assert refused.value.code == "attribute-value"


@pytest.mark.parametrize(("version", "node", "newer"), [row for row in ROWS if row[2]])
def test_in_the_version_that_has_it_there_is_no_warning(version: int, node: str, newer: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run(model_of(newer, node)).dtype == np.float32
