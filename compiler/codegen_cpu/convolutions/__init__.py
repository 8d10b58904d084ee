"""Convolutions on a CPU: one file for each way to compute them, and how windows are read."""
