"""From sources to machine code, in processes that import Triton, and the cache of it."""
