"""Gradients and optimizers."""
