"""Triton source text: how kernels read, compute and write."""
