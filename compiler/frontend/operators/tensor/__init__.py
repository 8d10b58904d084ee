"""Operators that move, pick, join and make the elements of tensors."""
