"""The tests of the onnx project, run with our functions in the place of those that they test."""
