"""The wire format of ONNX models: `onnxc.proto` and the classes generated from it."""
