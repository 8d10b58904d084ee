"""Operators on strings."""
