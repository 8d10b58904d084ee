"""Drawn models of single operators of com.microsoft, held against ONNX Runtime."""
