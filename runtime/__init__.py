"""Runs artifacts: loading, calling, devices, and the NumPy meanings of the primitives. Nothing here knows the compiler."""
