"""Whole programs with control flow and sizes from data, drawn as many people write them, against ONNX Runtime."""
