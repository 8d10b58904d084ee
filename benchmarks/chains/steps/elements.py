"""Steps that compute each element by itself."""

import numpy as np

from benchmarks.chains.chain import Chain

FUNCTIONS = (
    "Relu", "Sigmoid", "Tanh", "Exp", "Sqrt", "Abs", "Neg", "Erf", "Softplus", "HardSwish", "Elu", "Sin", "Floor",
    "LeakyRelu", "Reciprocal", "Log", "HardSigmoid", "Softsign", "Mish", "Sign",
)  # fmt: skip


def function(chain: Chain) -> None:
    x = chain.pick()
    chain.add(chain.random.choice(FUNCTIONS), [x], x.shape)


def scale(chain: Chain) -> None:
    """By a vector along one axis, or by a number where the axis may be a symbol."""
    x = chain.pick()
    axis = chain.random.randrange(len(x.shape))
    sizes = [size if at == axis else 1 for at, size in enumerate(x.shape)][axis:]
    factor = chain.scalar(chain.random.random() + 0.5) if chain.is_symbolic else chain.weights(*sizes)
    chain.add(chain.random.choice(["Add", "Mul", "Sub", "Div"]), [x, factor], x.shape)


def shift(chain: Chain) -> None:
    x = chain.pick()
    chain.add("Add", [x, chain.scalar(0.5)], x.shape)


def join(chain: Chain) -> None:
    """With another value of the same shape, or with a new input."""
    x = chain.pick()
    others = chain.others_of(x)
    if others:
        chain.add(chain.random.choice(["Add", "Mul"]), [x, chain.random.choice(others)], x.shape)
    elif len(chain.inputs) < 3 and not chain.is_symbolic:
        chain.add("Add", [x, chain.new_input(x.shape)], x.shape)


def clip(chain: Chain) -> None:
    x = chain.pick()
    chain.add("Clip", [x, chain.scalar(-1), chain.scalar(2)], x.shape)


def choose(chain: Chain) -> None:
    x = chain.pick()
    condition = chain.add("Greater", [x, chain.scalar(0.1)], x.shape)
    chain.forget(condition)
    chain.add("Where", [condition, x, chain.scalar(chain.random.choice([0.0, -1e4]))], x.shape)


def gelu(chain: Chain) -> None:
    """As one operator, or as exporters write it."""
    x = chain.pick()
    if chain.random.random() < 0.5:
        chain.add("Gelu", [x], x.shape, approximate=chain.random.choice(["none", "tanh"]))
        return
    scaled = chain.add("Div", [x, chain.scalar(float(np.sqrt(2)))], x.shape)
    bell = chain.add("Add", [chain.add("Erf", [scaled], x.shape), chain.scalar(1)], x.shape)
    chain.add("Mul", [chain.add("Mul", [x, bell], x.shape), chain.scalar(0.5)], x.shape)


def swish(chain: Chain) -> None:
    x = chain.pick()
    chain.add("Mul", [x, chain.add("Sigmoid", [x], x.shape)], x.shape)
