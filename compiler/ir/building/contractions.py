"""Part of the builder: folds, contractions and windows."""

from collections.abc import Sequence

from onnxc.compiler.ir.building.pointwise import PointwiseBuilder
from onnxc.compiler.ir.dims import Dim, product
from onnxc.compiler.ir.dtypes import DType
from onnxc.compiler.ir.module import Attribute, Value
from onnxc.compiler.ir.primitives.contractions import channels_first, image_labels, parse_dimensions, parse_equation


class ContractionBuilder(PointwiseBuilder):
    """Makes ops that sum or compare along axes; sizes that must be equal are guarded where that is not decided."""

    def reduce(self, x: Value, kind: str, axes: Sequence[int], keepdims: bool = False) -> Value:
        """`x` folded over `axes` by sum, prod, min, max, and, or; of no elements, its identity."""
        axes = tuple(sorted(axes))
        reduced = self._one("reduce", x, kind=kind, axes=axes) if axes else x
        return self.unsqueeze(reduced, axes) if keepdims else reduced

    def mean(self, x: Value, axes: Sequence[int], keepdims: bool = False) -> Value:
        """The sum over `axes` divided by how many there are."""
        count = self.cast(self.size(product(x.shape[axis] for axis in axes)), x.dtype)
        return self.div(self.reduce(x, "sum", axes, keepdims), count)

    def scan_axis(self, x: Value, kind: str, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
        """The running fold along an axis."""
        return self._one("scan_axis", x, kind=kind, axis=axis, exclusive=exclusive, reverse=reverse)

    def arg_reduce(self, x: Value, kind: str, axis: int, last: bool = False) -> Value:
        """i64: where the extremum along `axis` is; the first of equals, or the last."""
        return self._one("arg_reduce", x, kind=kind, axis=axis, last=last)

    def dot(self, a: Value, b: Value, equation: str, dtype: DType | None = None) -> Value:
        """The einsum `equation` of two operands; equal letters must have equal sizes, guarded if not decided."""
        left, right, _ = parse_equation(equation)
        if (len(left), len(right)) != (a.rank, b.rank):
            self.fail("contraction-rank", f"{equation} does not fit", [str(a.type), str(b.type)])
        sizes: dict[str, Dim] = {}
        for letter, size in zip(left + right, a.shape + b.shape, strict=True):
            known = sizes.get(letter, size)
            sizes[letter] = self.require_equal(known, size, "contracted or shared sizes differ", "inner-dimensions")
        a = self.with_shape(a, [sizes[letter] for letter in left])
        b = self.with_shape(b, [sizes[letter] for letter in right])
        return self._one("dot", a, b, equation=equation, dtype=dtype or a.dtype)

    def matmul(self, a: Value, b: Value, dtype: DType | None = None) -> Value:
        """numpy.matmul: vectors are promoted, leading axes broadcast."""
        if a.rank == 0 or b.rank == 0:
            self.fail("matmul-rank", "an operand has rank 0", [str(a.type), str(b.type)], "ONNX MatMul, numpy.matmul")
        x = self.unsqueeze(a, [0]) if a.rank == 1 else a
        y = self.unsqueeze(b, [1]) if b.rank == 1 else b
        batch = self.broadcast_shape(x.shape[:-2], y.shape[:-2])
        letters = "abcdefghijopqrstuvwxyz"[: len(batch)]
        x, x_letters = self._batched(x, batch, letters)
        y, y_letters = self._batched(y, batch, letters)
        result = self.dot(x, y, f"{x_letters}mk,{y_letters}kn->{letters}mn", dtype)
        dropped = [len(batch)] * (a.rank == 1) + [len(batch) + 1] * (b.rank == 1)
        return self.squeeze(result, dropped) if dropped else result

    def block_product(self, x: Value, codes: Value, scales: Value, zeros: Value | None, bits: int, block: int) -> Value:
        """x: [d..., K] times (codes - zeros) * scales -> [d..., N]; scales and zeros are of blocks of K."""
        if x.rank == 0:
            self.fail(
                "matmul-rank", "an operand has rank 0", [str(x.type), str(codes.type)], "ONNX MatMul, numpy.matmul"
            )
        depth = self.require_equal(x.shape[-1], codes.shape[1], "contracted or shared sizes differ", "inner-dimensions")
        x = self.with_shape(x, (*x.shape[:-1], depth))
        operands = [x, codes, scales] if zeros is None else [x, codes, scales, zeros]
        return self.op("block_product", operands, {"bits": bits, "block": block})[0]

    def byte_block_product(
        self, x: Value, steps: Value, codes: Value, scales: Value, zeros: Value | None, bits: int, block: int
    ) -> Value:
        """The same of x: i8[d..., K] times steps: T[d..., B], those of blocks of x -> T[d..., N]."""
        operands = [x, steps, codes, scales] if zeros is None else [x, steps, codes, scales, zeros]
        return self.op("byte_block_product", operands, {"bits": bits, "block": block})[0]

    def _batched(self, x: Value, batch: Sequence[Dim], letters: str) -> tuple[Value, str]:
        """`x` without leading axes of size 1 that broadcast, and the letters of those that it keeps."""
        own = x.rank - 2
        offset = len(batch) - own
        kept = [axis for axis in range(own) if x.shape[axis] != 1 or batch[offset + axis] == 1]
        x = self.with_shape(x, [x.shape[axis] for axis in (*kept, own, own + 1)])
        target = [batch[offset + axis] for axis in kept] + list(x.shape[-2:])
        return self.broadcast_to(x, target), "".join(letters[offset + axis] for axis in kept)

    def convolution(
        self,
        x: Value,
        w: Value,
        strides: Sequence[int],
        low: Sequence[Dim],
        high: Sequence[Dim],
        dilations: Sequence[int],
        groups: int = 1,
        input_dilations: Sequence[int] | None = None,
        dtype: DType | None = None,
        *,
        dimensions: str | None = None,
    ) -> Value:
        """x: T[N, C, *S], w: T[M, C/groups, *K] -> [N, M, *O], cross-correlation; `dimensions` names another order."""
        dimensions = dimensions or channels_first(x.rank - 2)
        labels = parse_dimensions(dimensions)
        if (len(labels.x.order), len(labels.w.order)) != (x.rank, w.rank):
            self.fail("convolution-rank", f"{dimensions} does not fit", [str(x.type), str(w.type)])
        x_axis, w_axis = labels.x.channel, labels.w.input
        message = "the channels differ"
        channels = self.require_equal(x.shape[x_axis], w.shape[w_axis] * groups, message, "convolution-channels")
        if isinstance(channels, int):
            w = self.with_shape(w, (*w.shape[:w_axis], channels // groups, *w.shape[w_axis + 1 :]))
        else:
            channels = w.shape[w_axis] * groups
        x = self.with_shape(x, (*x.shape[:x_axis], channels, *x.shape[x_axis + 1 :]))
        return self._one(
            "convolution",
            x,
            w,
            strides=tuple(strides),
            low=tuple(low),
            high=tuple(high),
            dilations=tuple(dilations),
            input_dilations=tuple(input_dilations or (1,) * len(strides)),
            groups=groups,
            dtype=dtype or x.dtype,
            dimensions=dimensions,
        )

    def reduce_window(
        self,
        x: Value,
        kind: str,
        window: Sequence[int],
        strides: Sequence[int],
        low: Sequence[Dim],
        high: Sequence[Dim],
        dilations: Sequence[int],
        arg: bool = False,
    ) -> Value:
        """The fold of each window, over all axes; with `arg`, the index of its maximum within the axes after 1."""
        attributes: dict[str, Attribute] = {
            "kind": kind,
            "window": tuple(window),
            "strides": tuple(strides),
            "low": tuple(low),
            "high": tuple(high),
            "dilations": tuple(dilations),
        }
        if not arg:
            return self.op("reduce_window", [x], attributes)[0]
        return self.op("arg_reduce_window", [x], {**attributes, "dimensions": image_labels(x.rank - 2)})[0]
