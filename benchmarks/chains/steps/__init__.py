"""What may come next in a chain: each step adds some nodes, or none where it does not fit."""

from collections.abc import Callable, Sequence

from benchmarks.chains.chain import Chain
from benchmarks.chains.steps import elements, layers, movements, rows

Step = Callable[[Chain], None]

STEPS: Sequence[Step] = (
    *(elements.function,) * 3, *(elements.scale,) * 2, *(elements.join,) * 2,
    elements.shift, elements.clip, elements.choose, elements.gelu, elements.swish,
    movements.transpose, movements.reshape, movements.cut, movements.concatenate, movements.pad, movements.pick,
    movements.halves, movements.repeat, movements.resize, movements.shuffle_depth,
    rows.fold, rows.softmax, rows.layer_norm, rows.running_sum, rows.top_k, rows.argmax,
    *(layers.convolve,) * 3, *(layers.multiply,) * 2,
    layers.pool, layers.attend, layers.normalize, layers.squeeze_and_excite, layers.pool_all,
)  # fmt: skip
"""Those that models have more of stand here more than once."""
