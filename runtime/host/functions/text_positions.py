"""Looking up texts."""

import numpy as np

from onnxc.runtime.host.functions.registry import Values, function
from onnxc.runtime.host.registry import Attributes
from onnxc.runtime.host.values import HostValue, as_texts


@function("text_positions")
def text_positions(operands: Values, attributes: Attributes) -> tuple[HostValue, ...]:
    """x: string[...], keys: string[k]  ->  i64[...], the index of each text among the keys, k where it is none

    The last of equal keys counts.
    """
    x, keys = (as_texts(operand) for operand in operands)
    index_of = {key: index for index, key in enumerate(keys.tolist())}
    indices = [index_of.get(element, keys.size) for element in x.ravel().tolist()]
    return (np.array(indices, np.int64).reshape(x.shape),)
