"""Real architectures with seeded random weights, for measurements and for the comparison with ONNX Runtime."""
