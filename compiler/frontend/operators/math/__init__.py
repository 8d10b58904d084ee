"""Arithmetic, comparisons, reductions and products of matrices."""
