"""The place of the GPU back end, which is designed and not built: asking for a CUDA target is an UnsupportedError."""
