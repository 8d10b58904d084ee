"""The domains of operators that ONNX Runtime adds to the standard's."""

MICROSOFT = "com.microsoft"
NCHWC = "com.microsoft.nchwc"
"""Convolutions and pools on channels in blocks, which ONNX Runtime writes for the processor that it runs on."""
