"""The server of `onnxc serve`: models of a folder over the Open Inference Protocol V2, by REST and by gRPC."""
