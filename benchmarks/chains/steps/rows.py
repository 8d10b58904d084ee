"""Steps along an axis: folds, normalisations of rows, running sums, order."""

import numpy as np
from onnx import TensorProto

from benchmarks.chains.chain import Chain, Tensor

FOLDS = (
    "ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp", "ReduceL1"
)  # fmt: skip


def fold(chain: Chain) -> None:
    """Of one axis or two; where the axes are kept, something is done with the result and what was folded."""
    x = chain.pick()
    rank = len(x.shape)
    axes = sorted(chain.random.sample(range(rank), chain.random.choice([1, 1, min(2, rank)])))
    keeps = chain.random.random() < 0.5
    shape = [1 if axis in axes else size for axis, size in enumerate(x.shape) if keeps or axis not in axes]
    folded = chain.add(chain.random.choice(FOLDS), [x, chain.integers(*axes)], shape, keepdims=int(keeps))
    if keeps:
        chain.add(chain.random.choice(["Sub", "Div", "Mul"]), [x, folded], x.shape)


def softmax(chain: Chain) -> None:
    x = chain.pick()
    axis = chain.random.choice([-1, -1, chain.random.randrange(len(x.shape))])
    chain.add(chain.random.choice(["Softmax", "LogSoftmax", "Softmax"]), [x], x.shape, axis=axis)


def layer_norm(chain: Chain) -> None:
    """As one operator, or as exporters write it."""
    x = chain.pick()
    scale = chain.weights(x.shape[-1])
    if chain.random.random() < 0.5:
        chain.add("LayerNormalization", [x, scale, chain.weights(x.shape[-1])], x.shape)
        return
    centred = chain.add("Sub", [x, _mean(chain, x)], x.shape)
    variance = _mean(chain, chain.add("Pow", [centred, chain.scalar(2)], x.shape))
    above = chain.add("Add", [variance, chain.scalar(1e-5)], variance.shape)
    deviation = chain.add("Sqrt", [above], variance.shape)
    chain.add("Mul", [chain.add("Div", [centred, deviation], x.shape), scale], x.shape)


def _mean(chain: Chain, x: Tensor) -> Tensor:
    return chain.add("ReduceMean", [x, chain.integers(-1)], [*x.shape[:-1], 1])


def running_sum(chain: Chain) -> None:
    x = chain.pick()
    chain.add("CumSum", [x, chain.constant(np.int64(chain.random.randrange(len(x.shape))))], x.shape)


def top_k(chain: Chain) -> None:
    x = chain.pick()
    axis = chain.random.choice([len(x.shape) - 1, chain.random.randrange(len(x.shape))])
    if x.shape[axis] < 8:
        return
    count = chain.random.choice([1, 5, 8])
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    _, indices = chain.add_several("TopK", [x, chain.integers(count)], [shape, shape], axis=axis)
    chain.forget(indices)


def argmax(chain: Chain) -> None:
    """Where the largest are, as floats."""
    x = chain.pick()
    axis = chain.random.randrange(len(x.shape))
    shape = [*x.shape[:axis], *x.shape[axis + 1 :]]
    where = chain.add("ArgMax", [x], shape, axis=axis, keepdims=0)
    chain.forget(where)
    chain.add("Cast", [where], shape, to=TensorProto.FLOAT)
