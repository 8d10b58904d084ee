"""Interfaces of other libraries, on top of onnxc's own."""
