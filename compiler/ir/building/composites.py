"""Part of the builder: composites."""

from collections.abc import Sequence

from onnxc.compiler.ir.building.core import OpBuilder
from onnxc.compiler.ir.dims import Dim
from onnxc.compiler.ir.module import Attributes, Value


class CompositeBuilder(OpBuilder):
    """Makes composites, one method per primitive."""

    def softmax(self, x: Value, axis: int) -> Value:
        return self._one("softmax", x, axis=axis)

    def masked_softmax(self, x: Value, axis: int) -> Value:
        """The softmax; zeros where everything along the axis is -inf."""
        return self._one("masked_softmax", x, axis=axis)

    def log_softmax(self, x: Value, axis: int) -> Value:
        return self._one("log_softmax", x, axis=axis)

    def layer_norm(self, x: Value, scale: Value, bias: Value, axis: int, epsilon: float) -> Value:
        """Normalised over axes `axis` and after, then scaled and shifted by tensors of those axes."""
        return self._one("layer_norm", x, scale, bias, axis=axis, epsilon=epsilon)

    def rms_norm(self, x: Value, scale: Value, axis: int, epsilon: float) -> Value:
        """Divided by the root of the mean square over axes `axis` and after, then scaled."""
        return self._one("rms_norm", x, scale, axis=axis, epsilon=epsilon)

    def gelu(self, x: Value, approximate: str = "none") -> Value:
        return self._one("gelu", x, approximate=approximate)

    def attention(
        self, q: Value, k: Value, v: Value, mask: Value | None, scale: float, causal: bool = False, softcap: float = 0.0
    ) -> Value:
        """q: [B, H, S, D], k: [B, G, T, D], v: [B, G, T, E], additive mask to [B, H, S, T] -> [B, H, S, E]"""
        operands = [q, k, v] if mask is None else [q, k, v, mask]
        return self.op("attention", operands, {"scale": scale, "causal": causal, "softcap": softcap})[0]

    def suppress_boxes(self, corners: Value, scores: Value, limits: Sequence[Value], count: Dim) -> Value:
        """i64[B, C, count]: the boxes that stay, best first, then -1; `limits` are overlap and lowest score."""
        return self._one("suppress_boxes", corners, scores, *limits, count=count)

    def true_positions(self, x: Value, count: Dim) -> Value:
        """i64[count]: where x: bool[n] is true, in order, then 0."""
        return self._one("true_positions", x, count=count)

    def fourier(self, x: Value, roots: Value, inverse: bool = False, onesided: bool = False) -> Value:
        """The transform of signals [..., m, 1 or 2] along the axis before the last (see primitives/transforms.py)."""
        return self._one("fourier", x, roots, inverse=inverse, onesided=onesided)

    def tree_ensemble(self, x: Value, tables: Sequence[Value], attributes: Attributes) -> Value:
        """The votes [N, E] of the leaves that rows x: [N, F] come to (see primitives/trees.py)."""
        return self.op("tree_ensemble", [x, *tables], attributes)[0]

    def rotary(self, x: Value, cos: Value, sin: Value, interleaved: bool = False) -> Value:
        """Pairs of the last axis turned by angles given as cosines and sines of half its size."""
        return self._one("rotary", x, cos, sin, interleaved=interleaved)
