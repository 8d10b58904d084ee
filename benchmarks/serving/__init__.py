"""Servers under load: that nothing is lost or mixed up, and how they do beside a plain server of ONNX Runtime."""
