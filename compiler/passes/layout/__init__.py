"""Passes that choose the order in which tensors lie."""
