"""Kernels of a plan to Triton source and machine code of NVIDIA GPUs, and a plan to functions that launch them."""
