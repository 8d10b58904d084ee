"""Measurements beside ONNX Runtime."""
