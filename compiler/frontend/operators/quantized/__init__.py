"""Quantisation, and products of quantised operands."""
