"""The rules of the ONNX IR, one family a file; compiler/frontend/check.py asks them all."""
