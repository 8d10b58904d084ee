"""Operators that a caller brings: what they are, how their bodies see a node, and which are registered."""
