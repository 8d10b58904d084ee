"""Labels of dimensions: which axis of a convolution, or of a window, is which."""

import pytest

from onnxc.compiler.diagnostics import DiagnosedModelError
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Size
from onnxc.compiler.ir.dtypes import F32
from onnxc.compiler.ir.module import Attributes
from onnxc.compiler.ir.primitive import PRIMITIVES, TypeRuleError
from onnxc.compiler.ir.primitives.contractions import (
    channels_first,
    channels_innermost,
    image_labels,
    parse_dimensions,
    parse_image_labels,
)
from onnxc.compiler.ir.types import TensorType

N, H = Size.symbol("N"), Size.symbol("H")


def test_each_label_names_an_axis() -> None:
    labels = parse_dimensions("n1c0,0i1o->c01n")
    assert (labels.x.batch, labels.x.channel, labels.x.spatial) == (0, 2, (3, 1))
    assert (labels.w.output, labels.w.input, labels.w.spatial) == (3, 1, (0, 2))
    assert (labels.result.batch, labels.result.channel, labels.result.spatial) == (3, 0, (1, 2))


def test_the_order_of_axes_and_its_inverse_are_permutations() -> None:
    axes = parse_image_labels("1c0n")
    assert axes.order == (3, 1, 2, 0)
    assert axes.inverse == (3, 1, 2, 0)
    assert parse_image_labels("0nc").order == (1, 2, 0)
    assert parse_image_labels("0nc").inverse == (2, 0, 1)


def test_what_belongs_to_each_axis_is_arranged_as_the_axes_are() -> None:
    assert parse_image_labels("1nc0").arranged("batch", "channel", ("row", "column")) == (
        "column", "batch", "channel", "row",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spatial_rank", "first", "innermost"),
    [
        (0, "nc,oi->nc", "nc,oi->nc"),
        (2, "nc01,oi01->nc01", "n01c,oi01->n01c"),
        (11, "nc0123456789A,oi0123456789A->nc0123456789A", "n0123456789Ac,oi0123456789A->n0123456789Ac"),
    ],
)
def test_labels_for_a_spatial_rank(spatial_rank: int, first: str, innermost: str) -> None:
    assert (channels_first(spatial_rank), channels_innermost(spatial_rank)) == (first, innermost)
    assert image_labels(spatial_rank) == first.partition(",")[0]
    assert parse_dimensions(first).x.spatial == tuple(range(2, 2 + spatial_rank))
    assert parse_dimensions(innermost).x.spatial == tuple(range(1, 1 + spatial_rank))


ILLEGAL = {
    "no text": (None, "dimensions is None"),
    "no result": ("nc0,oi0", "dimensions is nc0,oi0"),
    "one operand": ("nc0->nc0", "dimensions is nc0->nc0"),
    "a repeated label": ("nn0,oi0->nc0", "the labels nn0 are not nc0 in some order"),
    "a repeated digit": ("nc00,oi01->nc01", "the labels nc00 are not nc01 in some order"),
    "no channels": ("n01,oi0->nc0", "the labels n01 are not nc0 in some order"),
    "letters of images in filters": ("nc0,nc0->nc0", "the labels nc0 are not oi0 in some order"),
    "a digit that only the image has": ("nc01,oi0->nc01", "the labels oi0 are not oi01 in some order"),
    "a digit that only the result has": ("nc0,oi0->nc01", "the labels nc01 are not nc0 in some order"),
    "a digit left out": ("nc02,oi02->nc02", "the labels nc02 are not nc01 in some order"),
    "nothing": (",->", "the labels  are not nc in some order"),
    "a blank": ("nc0, oi0->nc0", "the labels  oi0 are not oi0 in some order"),
}


@pytest.mark.parametrize("name", ILLEGAL)
def test_illegal_labels_are_refused(name: str) -> None:
    dimensions, message = ILLEGAL[name]
    with pytest.raises(TypeRuleError) as caught:
        parse_dimensions(dimensions)
    assert str(caught.value) == message


@pytest.mark.parametrize("labels", [None, "", "n", "cc0", "nc1", "nc0,oi0->nc0"])
def test_illegal_labels_of_images_are_refused(labels: object) -> None:
    with pytest.raises(TypeRuleError):
        parse_image_labels(labels)


def _plain(**changes: object) -> Attributes:
    ones, zeros = (1, 1), (0, 0)
    plain = {"strides": (2, 1), "low": zeros, "high": (0, 1), "dilations": ones, "input_dilations": ones}
    return {**plain, "groups": 1, "dtype": F32, **changes}


def test_the_shape_of_a_convolution_follows_its_labels() -> None:
    rule = PRIMITIVES["convolution"].type_rule
    assert rule is not None
    x, w = TensorType(F32, (3, 9, N, H)), TensorType(F32, (2, 3, 5, 7))
    # Channels, rows, images, columns; rows and columns of filters, channels that they read, filters.
    (result,) = rule([x, TensorType(F32, (2, 4, 3, 7))], _plain(dimensions="c0n1,01io->10nc"), ())
    assert result == TensorType(F32, (H - 2, 4, N, 7))
    with pytest.raises(TypeRuleError, match="has 3 channels"):
        rule([x, w], _plain(dimensions="c0n1,01io->10nc"), ())


@pytest.mark.parametrize(("shape", "dimensions"), [((1, 3, 5, 5), "nc0,oi0->nc0"), ((1, 3, 5), "nc01,oi01->nc01")])
def test_labels_have_the_rank_of_their_operands(shape: tuple[int, ...], dimensions: str) -> None:
    build, w_shape = Builder(), (4, 3, *(2,) * (len(shape) - 2))
    x, w = build.parameter("x", TensorType(F32, shape)), build.parameter("w", TensorType(F32, w_shape))
    ones, zeros = (1,) * (len(shape) - 2), (0,) * (len(shape) - 2)
    with pytest.raises(DiagnosedModelError, match=r"error\[convolution-rank\]"):
        build.convolution(x, w, ones, zeros, zeros, ones, dimensions=dimensions)
    rule = PRIMITIVES["convolution"].type_rule
    assert rule is not None
    with pytest.raises(TypeRuleError, match="does not fit"):
        rule([x.type, w.type], _plain(dimensions=dimensions), ())


@pytest.mark.parametrize("shape", [(1, 3), (1, 3, 5, 5)])
def test_labels_of_windows_have_the_rank_of_the_operand(shape: tuple[int, ...]) -> None:
    rule, ones, zeros = PRIMITIVES["arg_reduce_window"].type_rule, (1,) * len(shape), (0,) * len(shape)
    assert rule is not None
    windows = {"kind": "max", "window": ones, "strides": ones, "dilations": ones, "low": zeros, "high": zeros}
    with pytest.raises(TypeRuleError, match="nc0 does not fit f32"):
        rule([TensorType(F32, shape)], {**windows, "dimensions": "nc0"}, ())
