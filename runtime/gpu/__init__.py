"""Runs artifacts on CUDA devices through the driver alone: memory, streams, graphs, exchange of arrays."""
