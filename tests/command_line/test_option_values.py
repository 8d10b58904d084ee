"""The texts of options become values, or a usage error that says what was expected."""

from pathlib import Path

import click
import numpy as np
import pytest

from onnxc.command_line.option_values import (
    parse_choices,
    parse_dims,
    parse_dtypes,
    parse_inputs,
    parse_limits,
    parse_shapes,
)
from tests.command_line.broken_archives import broken_archives

CONTEXT = click.Context(click.Command("test"))
OPTION = click.Option(["--test"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("batch=8", {"batch": 8}),
        ("batch=0", {"batch": 0}),
        ("batch=1..64", {"batch": (1, 64)}),
        ("batch=1..", {"batch": (1, None)}),
        ("past + sequence=3", {"past + sequence": 3}),
    ],
)
def test_dim(text: str, expected: dict[str, object]) -> None:
    assert parse_dims(CONTEXT, OPTION, (text,)) == expected


@pytest.mark.parametrize(
    "text", ["batch", "batch=", "=8", "batch=x", "batch=-1", "batch=1...2", "batch=..8", "batch=1.5"]
)
def test_what_is_no_dim(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is not of the form NAME=8 or NAME=1\.\.64"):
        parse_dims(CONTEXT, OPTION, (text,))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x=1,3,8", {"x": (1, 3, 8)}), ("x=1x3x8", {"x": (1, 3, 8)}), ("x=0", {"x": (0,)}), ("x=[]", {"x": ()})],
)
def test_shape(text: str, expected: dict[str, tuple[int, ...]]) -> None:
    assert parse_shapes(CONTEXT, OPTION, (text,)) == expected


def test_a_shape_may_name_symbolic_sizes() -> None:
    assert parse_shapes(CONTEXT, OPTION, ("x=batch,3,H_2", "y=N")) == {"x": ("batch", 3, "H_2"), "y": ("N",)}


def test_element_types_are_for_one_input_or_for_all_floats() -> None:
    assert parse_dtypes(CONTEXT, OPTION, ("x=int8", "y=f64")) == {"x": "int8", "y": "f64"}
    assert parse_dtypes(CONTEXT, OPTION, ("float16",)) == "float16"
    with pytest.raises(click.BadParameter, match="beside which there is no other"):
        parse_dtypes(CONTEXT, OPTION, ("float16", "x=int8"))


@pytest.mark.parametrize("text", ["x", "x=", "x=,", "x=1,", "x=a-b", "x=1,-1", "x=1,2a"])
def test_what_is_no_shape(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not of the form NAME=8,3,height,224"):
        parse_shapes(CONTEXT, OPTION, (text,))


def test_limit() -> None:
    assert parse_limits(CONTEXT, OPTION, ("functions=5", "name_bytes=80")) == {"functions": 5, "name_bytes": 80}


@pytest.mark.parametrize("text", ["functions", "functions=", "functions=-1", "functions=many"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not of the form NAME=20"):
        parse_limits(CONTEXT, OPTION, (text,))


def test_later_options_add_to_earlier_ones() -> None:
    choices = parse_choices(CONTEXT, OPTION, ("batch=1,8", "seq=128", "batch=16"))
    assert choices == {"batch": [1, 8, 16], "seq": [128]}


@pytest.mark.parametrize(
    "text", ["batch", "batch=", "=1", "batch=1x8", "batch=1..8", "batch=-1", "batch=[]", "batch=1,"]
)
def test_what_is_no_list_of_sizes_is_wrong_usage(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not of the form NAME=1,8"):
        parse_choices(CONTEXT, OPTION, (text,))


def test_input_from_files(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float16).reshape(2, 3)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "all.npz", x=x)
    for name in ("x.npy", "all.npz"):
        loaded = parse_inputs(CONTEXT, OPTION, (f"x=@{tmp_path / name}",))["x"]
        assert isinstance(loaded, np.ndarray)
        assert loaded.dtype == np.float16
        np.testing.assert_array_equal(loaded, x)


def test_an_input_from_a_damaged_file_is_wrong_usage(tmp_path: Path) -> None:
    for path, reason in broken_archives(tmp_path, {"x": np.arange(6, dtype=np.float32)}).items():
        with pytest.raises(click.BadParameter) as refused:
            parse_inputs(CONTEXT, OPTION, (f"x=@{path}",))
        assert refused.value.message.startswith(f"cannot read 'x' from {path}: {reason}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x=1.5", 1.5), ("x=[[1, 2]]", [[1, 2]]), ("x=true", True), ('x=["a"]', ["a"]), ("x=[]", [])],
)
def test_input_written_out(text: str, expected: object) -> None:
    assert parse_inputs(CONTEXT, OPTION, (text,)) == {"x": expected}


@pytest.mark.parametrize("text", ["x=abc", "x=[1", "x=@missing.npy", "x=@{here}"])
def test_what_is_no_input(text: str, tmp_path: Path) -> None:
    file = tmp_path / "text.npy"
    file.write_text("no array")
    with pytest.raises(click.BadParameter):
        parse_inputs(CONTEXT, OPTION, (text.format(here=file),))
