"""Runs artifacts: loading, calling, devices, and the NumPy meanings of primitives. It knows nothing of the compiler."""
