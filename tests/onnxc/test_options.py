"""Compile options: what is understood, and what is said of the rest."""

from pathlib import Path

import numpy as np
import pytest

import onnxc
from onnxc.compiler.ir.dtypes import BF16, F32, I4, I32
from onnxc.compiler.options import CacheOption, make_options
from onnxc.runtime.errors import InputError, UnsupportedError
from tests.support.models import model_from_text

MODEL = """
<ir_version: 8, opset_import: ["": 17]>
m (float[N, 3] x) => (float[N, 3] y) { y = Neg (x) }
"""


def test_defaults() -> None:
    options = make_options()
    assert options.target.kind == "cpu"
    assert (options.inputs.dims, options.inputs.freeze_params, options.threads) == ({}, True, None)


def test_what_is_given_is_kept() -> None:
    options = make_options(
        "interpreter",
        dims={"N": np.int64(4), "M": [1, 64], "K": (2, None)},
        shapes={"x": (1, "N", None), "y": np.array([2, 3])},
        dtypes={"a": "f32", "b": "i4", "c": np.int32, "d": "bf16", "e": np.dtype("float32")},
        freeze_params=False,
        threads=2,
        specialize={"M": range(1, 9), "K": np.array([2, 64])},
    )
    assert options.target.kind == "interpreter"
    assert options.inputs.dims == {"N": 4, "M": (1, 64), "K": (2, None)}
    assert options.inputs.shapes == {"x": (1, "N", None), "y": (2, 3)}
    assert options.inputs.dtypes == {"a": F32, "b": I4, "c": I32, "d": BF16, "e": F32}
    assert (options.inputs.freeze_params, options.threads) == (False, 2)
    assert options.specialize == {"M": (1, 2, 3, 4, 5, 6, 7, 8), "K": (2, 64)}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"target": "tpu"}, "unknown-target"),
        ({"devices": "cpu:4"}, "devices-without-config"),
        ({"devices": "cpu", "config": "tp4"}, "unknown-devices"),
        ({"devices": "cpu:0", "config": "tp4"}, "unknown-devices"),
        ({"devices": "cpu:-4", "config": "tp4"}, "unknown-devices"),
        ({"devices": "cpu:4 ", "config": "tp4"}, "unknown-devices"),
        ({"devices": "cpu:9999999999", "config": "tp4"}, "unknown-devices"),
        ({"devices": "tpu:4", "config": "tp4"}, "unknown-devices"),
        ({"devices": "", "config": "tp4"}, "unknown-devices"),
        ({"devices": 4, "config": "tp4"}, "option-type"),
        ({"config": 4}, "option-type"),
        ({"config": "tp4"}, "unknown-config"),
        ({"config": ""}, "unknown-config"),
        ({"target": None}, "option-type"),
        ({"target": "cpu:z80"}, "unknown-target"),
        ({"dims": {"N": -1}}, "dims-range"),
        ({"dims": {"N": (3, 2)}}, "dims-range"),
        ({"dims": {"N": (-1, 2)}}, "dims-range"),
        ({"dims": {"N": (1, 2, 3)}}, "dims-range"),
        ({"dims": {"N": 1.5}}, "option-type"),
        ({"dims": {"N": "4"}}, "option-type"),
        ({"dims": {"N": True}}, "option-type"),
        ({"dims": {"N": (None, 2)}}, "option-type"),
        ({"dims": [("N", 1)]}, "option-type"),
        ({"dims": 4}, "option-type"),
        ({"shapes": {"x": 3}}, "option-type"),
        ({"shapes": {"x": "3"}}, "option-type"),
        ({"shapes": {"x": (1.5,)}}, "option-type"),
        ({"shapes": {"x": (-1, 3)}}, "shape-range"),
        ({"shapes": (1, 2)}, "option-type"),
        ({"dtypes": {"x": "f33"}}, "unknown-dtype"),
        ({"dtypes": {"x": object()}}, "unknown-dtype"),
        ({"dtypes": {"x": "datetime64[s]"}}, "unknown-dtype"),
        ({"precision": "fp31"}, "unknown-precision"),
        ({"freeze_params": 1}, "option-type"),
        ({"specialize": [1, 8]}, "option-type"),
        ({"specialize": {"N": 8}}, "option-type"),
        ({"specialize": {"N": "8"}}, "option-type"),
        ({"specialize": {"N": {1, 8}}}, "option-type"),
        ({"specialize": {"N": [1.0]}}, "option-type"),
        ({"specialize": {"N": [True]}}, "option-type"),
        ({"specialize": {"N": []}}, "specialize-range"),
        ({"specialize": {"N": [8, 1, 8]}}, "specialize-range"),
        ({"specialize": {"N": [-1]}}, "specialize-range"),
        ({"specialize": {"N": [1 << 63]}}, "specialize-range"),
        ({"specialize": {"N": [1 << 64]}, "dims": {"N": (0, 1 << 70)}}, "specialize-range"),
        ({"specialize": {"N": [1]}, "dims": {"N": (2, 9)}}, "specialize-range"),
        ({"specialize": {"N": [2, 10]}, "dims": {"N": [2, 9]}}, "specialize-range"),
        ({"specialize": {"N": [4]}, "dims": {"N": 4}}, "specialize-fixed"),
        ({"specialize": {"N": range(17)}}, "too-many-specializations"),
        ({"specialize": {"N": range(6), "M": [1, 2, 3]}}, "too-many-specializations"),
        ({"threads": 0}, "thread-count"),
        ({"threads": -2}, "thread-count"),
        ({"threads": 1.0}, "option-type"),
        ({"threads": "2"}, "option-type"),
        ({"cache": True}, "option-type"),
        ({"cache": 1}, "option-type"),
        ({"cache": ""}, "option-type"),
        ({"cache": ["a"]}, "option-type"),
    ],
)
def test_what_cannot_be_is_an_input_error(given: dict[str, object], code: str) -> None:
    with pytest.raises(InputError) as refused:
        onnxc.compile(model_from_text(MODEL), **given)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"devices": "mpi"}, "is for onnxc.load, in each process"),
        ({"devices": "sim:1024"}, "simulated devices do not run yet"),
        ({"config": "tp4", "target": "interpreter"}, "the target is interpreter"),
    ],
)
def test_devices_that_cannot_be_yet_are_named(given: dict[str, object], reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason) as refused:
        onnxc.compile(model_from_text(MODEL), **given)
    assert refused.value.code == "unsupported-devices"


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
def test_tf32_is_for_gpus(target: str) -> None:
    with pytest.raises(UnsupportedError, match="precision='tf32' is for GPUs") as refused:
        onnxc.compile(model_from_text(MODEL), target, precision="tf32")
    assert refused.value.code == "unsupported-precision"


@pytest.mark.parametrize(
    ("cache", "folder"),
    [(None, Path("/usual")), (False, None), ("here", Path("here")), (Path("/a/b"), Path("/a/b"))],
)
def test_compiled_kernels_are_kept_where_the_caller_says(
    cache: CacheOption, folder: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONNXC_CACHE", "/usual")
    assert make_options(cache=cache).cache == folder


def test_the_same_model_is_the_same_artifact_with_a_full_cache_an_empty_one_and_none(tmp_path: Path) -> None:
    caches: list[CacheOption] = [tmp_path / "cache", tmp_path / "cache", False]
    for ordinal, cache in enumerate(caches):
        onnxc.compile(model_from_text(MODEL), cache=cache).save(tmp_path / f"{ordinal}.onnxc")
    assert len({(tmp_path / f"{ordinal}.onnxc").read_bytes() for ordinal in range(3)}) == 1
    assert list((tmp_path / "cache").glob("*.object"))


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize(
    ("given", "code", "text"),
    [
        ({"dims": {"M": 4}}, "unknown-dim", "dims names 'M', the symbolic sizes of the inputs are N"),
        ({"specialize": {"M": [4]}}, "unknown-dim", "specialize names 'M', the symbolic sizes of the inputs are N"),
        ({"shapes": {"z": (1, 3)}}, "unknown-input", "shapes names 'z', the inputs are x"),
        ({"shapes": {"x": (1, 3, 1)}}, "shape-rank", "3 axes, the model declares 2"),
        ({"dtypes": {"z": "f32"}}, "unknown-input", "dtypes names 'z'"),
    ],
)
def test_options_that_the_model_does_not_have(given: dict[str, object], code: str, text: str, target: str) -> None:
    with pytest.raises(InputError, match=text) as refused:
        onnxc.compile(model_from_text(MODEL), target, **given)
    assert refused.value.code == code


def test_a_size_that_shapes_names_may_be_ranged() -> None:
    exe = onnxc.compile(model_from_text(MODEL), "interpreter", shapes={"x": ("rows", 3)}, dims={"rows": (1, 2)})
    with pytest.raises(InputError, match="expected rows from 1 to 2"):
        exe(np.zeros((3, 3), np.float32))


@pytest.mark.parametrize("option", ["specialize", "dims", "shapes", "dtypes"])
def test_empty_options_are_none(option: str) -> None:
    assert make_options(**{option: {}}) == make_options()
