"""Decoders: caches in place, sessions, sampling."""
