"""Models from one version of the operator set ai.onnx to another: one adapter for each change of an operator."""
