"""A chain of a seed: two to eight nodes or a few more, as the last step has several."""

from benchmarks.chains.chain import Chain
from benchmarks.chains.steps import STEPS

FEWEST_NODES, MOST_NODES = 2, 8

MOST_ATTEMPTS = 3
"""Steps that are tried for a node: those that do not fit add none."""


def draw(seed: int) -> Chain:
    """The chain of a seed, the same in every process."""
    chain = Chain(seed)
    count = chain.random.randint(FEWEST_NODES, MOST_NODES)
    for _ in range(MOST_ATTEMPTS * count):
        if len(chain.nodes) >= count:
            break
        chain.random.choice(STEPS)(chain)
    return chain
