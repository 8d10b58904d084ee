"""Decoding: sessions that keep their caches in place, and what picks the next token."""
