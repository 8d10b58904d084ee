"""MelWeightMatrix: triangles over the bins of a spectrum, spaced evenly on the mel scale."""

from math import log

from onnxc.compiler.frontend.operator import Node, operator
from onnxc.compiler.frontend.operator_helpers.shape_inputs import as_scalar, read_lengths
from onnxc.compiler.ir.builder import Builder
from onnxc.compiler.ir.dims import Dim, floordiv
from onnxc.compiler.ir.dtypes import F64
from onnxc.compiler.ir.module import Value

# mel(f) = 2595 * log10(1 + f / 700)
MELS_PER_NEPER = 2595 / log(10)
CORNER_HERTZ = 700.0


@operator("MelWeightMatrix", since=(17,))
def mel_weight_matrix(node: Node, ir: Builder) -> Value:
    """num_mel_bins, dft_length, sample_rate: I[], edges: F[]  ->  T[dft_length // 2 + 1, num_mel_bins]

    Computed in f64. Triangle i rises from corner i to corner i + 1 and falls to corner i + 2; corners are whole bins.
    Source: https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html
    """
    triangles, length = (_size(name, node, ir) for name in ("num_mel_bins", "dft_length"))
    corners = _corners(triangles, length, node, ir)
    left, centre, right = (ir.slice(corners, (start,), (triangles,)) for start in (0, 1, 2))
    bins = ir.iota((floordiv(length, 2) + 1, 1), 0, F64)
    rises = ir.and_(ir.and_(ir.less_equal(left, bins), ir.less_equal(bins, centre)), ir.less(left, centre))
    falls = ir.and_(ir.less_equal(centre, bins), ir.less(bins, right))
    rising = ir.div(ir.sub(bins, left), ir.sub(centre, left))
    falling = ir.div(ir.sub(right, bins), ir.sub(right, centre))
    peak = ir.cast(ir.and_(ir.equal(bins, centre), ir.equal(left, centre)), F64)
    weights = ir.select(falls, falling, ir.select(rises, rising, peak))
    return ir.cast(weights, node.dtype("output_datatype"))


def _size(name: str, node: Node, ir: Builder) -> Dim:
    (size,) = read_lengths(as_scalar(node.input(name), name, node, ir), name, node, ir, code="mel-size")
    return size


def _real(name: str, node: Node, ir: Builder) -> Value:
    return ir.cast(as_scalar(node.input(name), name, node, ir), F64)


def _corners(triangles: Dim, length: Dim, node: Node, ir: Builder) -> Value:
    """f64[triangles + 2]: the bins at frequencies that are evenly spaced in mel."""
    low, high = (_mel(_real(name, node, ir), ir) for name in ("lower_edge_hertz", "upper_edge_hertz"))
    step = ir.div(ir.sub(high, low), ir.cast(ir.size(triangles + 2), F64))
    mels = ir.add(ir.mul(ir.iota((triangles + 2,), 0, F64), step), low)
    hertz = ir.mul(ir.sub(ir.exp(ir.div(mels, MELS_PER_NEPER)), 1), CORNER_HERTZ)
    scaled = ir.mul(hertz, ir.cast(ir.size(length + 1), F64))
    return ir.floor(ir.div(scaled, _real("sample_rate", node, ir)))


def _mel(hertz: Value, ir: Builder) -> Value:
    return ir.mul(ir.log(ir.add(ir.div(hertz, CORNER_HERTZ), 1)), MELS_PER_NEPER)
