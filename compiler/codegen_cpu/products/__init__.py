"""Contractions on a CPU: one file for each way to compute them."""
