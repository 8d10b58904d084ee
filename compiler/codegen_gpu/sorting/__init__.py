"""Sorting on a GPU in work that grows with the number of elements: what kernels that order or scatter share."""
