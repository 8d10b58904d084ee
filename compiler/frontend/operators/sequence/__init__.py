"""Sequences and optionals."""
