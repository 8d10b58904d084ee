"""Decoders: programs whose caches stay in the memory of the caller, and grow there."""
