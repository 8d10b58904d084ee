"""The stream of NumPy's legacy generator, which the standard's own tests of seeded Dropout expect."""

import numpy as np

from onnxc.runtime.host.attributes import integer
from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_array


@function("mersenne_twister_uniform")
def uniform(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """shape: i64[r]  ->  f64[*shape] within [0, 1), from a generator that starts at `seed`

    Source: https://numpy.org/doc/stable/reference/random/legacy.html
    """
    shape = tuple(as_array(operands[0]).tolist())
    return (np.random.RandomState(integer(attributes, "seed") & 0xFFFFFFFF).random_sample(shape),)
