"""Kernels of a plan to LLVM IR, and a whole plan to one native image."""
