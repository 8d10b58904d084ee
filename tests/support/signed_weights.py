"""Weights of i8 that ONNX Runtime multiplies exactly.

On x86 without dots of bytes its products of u8 by i8 are added in pairs of 16 bits, which saturate. With weights of 7
bits no pair does: 255 * (64 + 64) is below 2**15. Its quantiser has the same range, as `reduce_range`.
"""

from onnxc.runtime.cpu import host_architecture, host_features

__all__ = ["END", "LEAST", "SATURATES"]

SATURATES = host_architecture() == "x86_64" and not host_features() & {"avx512vnni", "avxvnni"}
"""Whether pairs of full range may saturate on this machine."""

LEAST, END = (-64, 64) if SATURATES else (-128, 128)
"""The least weight, and the number behind the greatest."""
