"""Any folder of models beside ONNX Runtime."""
