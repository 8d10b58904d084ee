"""Models as text: the syntax of ONNX, protobuf's text format and JSON, each read and written without a loss."""
