"""Operators of the domain com.microsoft, which ONNX Runtime's optimiser and quantiser write, and a few of its others.

Sources: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md, and what ONNX Runtime computes on
a CPU.
"""
