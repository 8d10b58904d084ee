"""The modules of ONNX Runtime that programs import names from, by the names that they have there."""
