"""Steps that move elements: other orders, parts, repetitions, joins."""

import numpy as np

from benchmarks.chains.chain import Chain

FACTORS = (2, 3, 4, 7, 8, 16)
"""What an axis is split by."""


def transpose(chain: Chain) -> None:
    """Mostly as exporters do, else in any order."""
    x = chain.pick()
    rank, axes = len(x.shape), list(range(len(x.shape)))
    if chain.random.random() < 0.6 and rank > 2:
        usual = ([0, *axes[2:], 1], [0, rank - 1, *axes[1:-1]], [*axes[:-2], rank - 1, rank - 2], [1, 0, *axes[2:]])
        axes = chain.random.choice(usual)
    else:
        chain.random.shuffle(axes)
    chain.add("Transpose", [x], [x.shape[axis] for axis in axes], perm=axes)


def reshape(chain: Chain) -> None:
    """Joins two axes, or all behind the channels, or splits one."""
    x = chain.pick()
    if chain.is_symbolic:
        return
    axis, way = chain.random.randrange(len(x.shape)), chain.random.choice(["flatten", "join", "split"])
    factors = [factor for factor in FACTORS if x.shape[axis] % factor == 0 and x.shape[axis] > factor]
    if way == "flatten" and len(x.shape) > 2:
        shape = [*x.shape[:2], int(np.prod(x.shape[2:]))]
    elif way == "join" and axis + 1 < len(x.shape):
        shape = [*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]]
    elif way == "split" and factors and len(x.shape) < 6:
        factor = chain.random.choice(factors)
        parts = chain.random.choice([[factor, x.shape[axis] // factor], [x.shape[axis] // factor, factor]])
        shape = [*x.shape[:axis], *parts, *x.shape[axis + 1 :]]
    else:
        return
    chain.add("Reshape", [x, chain.integers(*shape)], shape)


def cut(chain: Chain) -> None:
    """A part along an axis, every other element, or all of them backwards."""
    x = chain.pick()
    axis, shape = chain.random.randrange(len(x.shape)), list(x.shape)
    if shape[axis] < 4:
        return
    step = chain.random.choice([1, 1, 1, 2, -1])
    first, stop = chain.random.randrange(shape[axis] // 3), shape[axis] - chain.random.randrange(shape[axis] // 3)
    if step == -1:
        first, stop = -1, -(2**40)
    else:
        shape[axis] = -(-(stop - first) // step)
    ends = [chain.integers(each) for each in (first, stop, axis, step)]
    chain.add("Slice", [x, *ends], shape)


def concatenate(chain: Chain) -> None:
    """With itself or with what differs along the axis alone."""
    x = chain.pick()
    axis = chain.random.randrange(len(x.shape))
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    fitting = [
        y for y in chain.values if len(y.shape) == len(x.shape) and (*y.shape[:axis], *y.shape[axis + 1 :]) == rest
    ]
    y = chain.random.choice(fitting)
    shape = [*x.shape[:axis], x.shape[axis] + y.shape[axis], *x.shape[axis + 1 :]]
    chain.add("Concat", chain.random.choice([[x, y], [y, x]]), shape, axis=axis)


def pad(chain: Chain) -> None:
    x = chain.pick()
    low, high = [0] * len(x.shape), [0] * len(x.shape)
    for axis in chain.random.sample(range(len(x.shape)), min(2, len(x.shape))):
        if x.shape[axis] > 4:
            low[axis], high[axis] = chain.random.randrange(3), chain.random.randrange(3)
    shape = [size + first + last for size, first, last in zip(x.shape, low, high, strict=True)]
    mode = chain.random.choice(["constant", "reflect", "edge"])
    chain.add("Pad", [x, chain.integers(*low, *high)], shape, mode=mode)


def pick(chain: Chain) -> None:
    """By a constant: some positions of an axis, or all of them in another order."""
    x = chain.pick()
    axis = chain.random.randrange(len(x.shape))
    count = chain.random.choice([1, 3, x.shape[axis]])
    indices = chain.rng.integers(0, x.shape[axis], count)
    if count == x.shape[axis] and chain.random.random() < 0.3:
        indices = np.arange(count)[::-1]
    shape = [*x.shape[:axis], count, *x.shape[axis + 1 :]]
    chain.add("Gather", [x, chain.integers(*indices)], shape, axis=axis)


def halves(chain: Chain) -> None:
    """A gated unit: one half times the sigmoid of the other."""
    x = chain.pick()
    axis = chain.random.randrange(len(x.shape))
    if x.shape[axis] % 2 or chain.is_symbolic:
        return
    shape = [*x.shape[:axis], x.shape[axis] // 2, *x.shape[axis + 1 :]]
    first, second = chain.add_several("Split", [x], [shape, shape], axis=axis, num_outputs=2)
    chain.add("Mul", [first, chain.add("Sigmoid", [second], shape)], shape)


def repeat(chain: Chain) -> None:
    """Along a new axis."""
    x = chain.pick()
    axis, count = chain.random.randrange(len(x.shape) + 1), chain.random.choice([2, 3, 4])
    if chain.is_symbolic or len(x.shape) > 4 or x.size * count > 1_500_000:
        return
    unit, shape = ([*x.shape[:axis], size, *x.shape[axis:]] for size in (1, count))
    wider = chain.add("Unsqueeze", [x, chain.integers(axis)], unit)
    chain.add("Expand", [wider, chain.integers(*shape)], shape)


def resize(chain: Chain) -> None:
    """An image of twice the height and width."""
    x = chain.pick()
    if len(x.shape) != 4 or x.size > 400_000:
        return
    shape = [*x.shape[:2], 2 * x.shape[2], 2 * x.shape[3]]
    scales = chain.constant(np.array([1, 1, 2, 2], np.float32))
    positions = chain.random.choice(["half_pixel", "asymmetric", "align_corners"])
    mode = chain.random.choice(["nearest", "linear", "cubic"])
    chain.add("Resize", [x, "", scales], shape, mode=mode, coordinate_transformation_mode=positions)


def shuffle_depth(chain: Chain) -> None:
    """Channels to pixels, or pixels to channels."""
    x = chain.pick()
    if len(x.shape) != 4 or chain.is_symbolic:
        return
    n, c, h, w = x.shape
    if c % 4 == 0 and chain.random.random() < 0.5:
        chain.add("DepthToSpace", [x], [n, c // 4, 2 * h, 2 * w], blocksize=2, mode=chain.random.choice(["DCR", "CRD"]))
    elif h % 2 == w % 2 == 0:
        chain.add("SpaceToDepth", [x], [n, 4 * c, h // 2, w // 2], blocksize=2)
