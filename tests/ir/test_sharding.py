"""Meshes and shardings: their texts, the blocks of devices, and what the IR accepts of them."""

import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Function, Module
from onnxc.compiler.ir.parser import parse_module
from onnxc.compiler.ir.printer import print_module
from onnxc.compiler.ir.sharding import Axes, Mesh, Sharding, block_size, is_divisible, parse_mesh, parse_sharding
from onnxc.compiler.ir.types import TensorType

GRID = Mesh((("d0", 2), ("d1", 3)))
N = Size.symbol("N")


@pytest.mark.parametrize("text", ["d0=4", "d0=2, d1=3", "batch=1, model=16"])
def test_a_mesh_is_its_text(text: str) -> None:
    assert str(parse_mesh(text)) == text


@pytest.mark.parametrize("text", ["", "d0", "d0=", "d0=0", "d0=2,d1=3", "d0=2, d0=2", "d0=-2", "d0=2, "])
def test_what_is_no_mesh_is_none(text: str) -> None:
    assert parse_mesh(text) is None


@pytest.mark.parametrize(
    "sharding",
    [
        Sharding(()),
        Sharding(((),)),
        Sharding((("d0",), ())),
        Sharding(((), ("d1", "d0"))),
        Sharding(((), ()), ("d0",), "sum"),
        Sharding((("d1",),), ("d0", "d2"), "max"),
    ],
)
def test_a_sharding_is_its_text(sharding: Sharding) -> None:
    assert parse_sharding(str(sharding)) == sharding


def test_texts_of_shardings() -> None:
    assert str(Sharding((("d0",), (), ("d2", "d1")))) == "[{d0}, {}, {d2, d1}]"
    assert str(Sharding(((),), ("d0",), "sum")) == "[{}] sum {d0}"


@pytest.mark.parametrize("text", ["", "[", "[{d0]", "[{d0}] ", "{d0}", "[{d0},{}]", "[{}, ]", "[{}] sum", "[{}] {d0}"])
def test_what_is_no_sharding_is_none(text: str) -> None:
    assert parse_sharding(text) is None


@pytest.mark.parametrize(
    ("axes", "blocks"),
    [
        ((), [0, 0, 0, 0, 0, 0]),
        (("d0",), [0, 0, 0, 1, 1, 1]),
        (("d1",), [0, 1, 2, 0, 1, 2]),
        (("d0", "d1"), [0, 1, 2, 3, 4, 5]),
        (("d1", "d0"), [0, 2, 4, 1, 3, 5]),
    ],
)
def test_each_device_has_its_block(axes: Axes, blocks: list[int]) -> None:
    assert [GRID.block(device, axes) for device in range(GRID.devices)] == blocks


def test_groups_are_of_the_devices_that_differ_along_the_axes() -> None:
    assert GRID.groups(("d0",)) == ((0, 3), (1, 4), (2, 5))
    assert GRID.groups(("d1",)) == ((0, 1, 2), (3, 4, 5))
    assert GRID.groups(("d1", "d0")) == ((0, 3, 1, 4, 2, 5),)


def test_blocks_have_room_for_all_elements() -> None:
    assert [block_size(size, 4) for size in (0, 1, 4, 5, 8)] == [0, 1, 1, 2, 2]
    assert block_size(4 * N, 4) == N
    assert [is_divisible(size, 4) for size in (0, 6, 8, N, 4 * N)] == [True, False, True, False, True]


def resharded(mesh: str, sharding: str) -> Module:
    build = Builder()
    x = build.parameter("x", TensorType(F32, (N, 4)))
    (y,) = build.op("reshard", [x], {"mesh": mesh, "sharding": sharding})
    return Module("m", (Function("main", build.block([x], [y]), ("y",), {"N": (0, None)}),))


def test_a_reshard_is_printed_and_parsed() -> None:
    text = print_module(resharded("d0=2, d1=2", "[{d1}, {}] sum {d0}"))
    assert 'reshard %x {mesh = "d0=2, d1=2", sharding = "[{d1}, {}] sum {d0}"} : f32[N, 4]' in text
    assert print_module(parse_module(text)) == text


@pytest.mark.parametrize(
    ("sharding", "reason"),
    [
        ("[{d0}]", "has 1 axes, the value has 2"),
        ("[{d2}, {}]", "names d2"),
        ("[{d0}, {d0}]", "uses an axis of the mesh twice"),
        ("[{d0}, {}] sum {d0}", "uses an axis of the mesh twice"),
        ("d0", "is no sharding"),
    ],
)
def test_a_reshard_that_cannot_be_is_refused(sharding: str, reason: str) -> None:
    with pytest.raises(DiagnosedModelError, match=reason):
        resharded("d0=2, d1=2", sharding)
