"""How kernels may be computed on a CPU: candidates for each kernel kind, and what they cost on which machine.

Sizes of blocks follow from the sizes of caches, 32 KiB or more in the first level and what machines.json says of the
second; grains from what claiming a chunk of work takes (`python -m benchmarks.cpu_limits` measures a launch).
"""
