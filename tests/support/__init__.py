"""What several test files need: making models, running ONNX Runtime, comparing arrays."""
