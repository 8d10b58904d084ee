"""The models of ai.onnx.ml: trees, support vectors, linear models, encoders, maps."""
