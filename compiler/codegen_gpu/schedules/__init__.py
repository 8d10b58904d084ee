"""How kernels may be computed on a GPU: candidates for each kernel kind, and what they cost on which card.

The numbers are from data sheets, from what the compiler reports of registers and shared memory, or estimates: nothing
has run on a GPU yet. `python -m benchmarks.gpu.suite` measures what they stand for, `tile_sweep` whether the cost model
ranks tiles as a card does.
"""
