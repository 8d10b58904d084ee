"""Why ours differs from onnx's, test by test: a suite, a pattern of the name and the failure, and the reason."""

__all__ = ["REASONS"]

STRICT = "the model breaks a rule of the standard that onnx does not check, or checks only if asked"

REASONS: tuple[tuple[str, str, str], ...] = ()
