"""Passes: functions from module to module, one per file; nothing here knows of ONNX or of a target."""
