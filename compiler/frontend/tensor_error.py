"""What is wrong with one tensor of a model; the checker adds where it is."""


class TensorError(Exception):
    """A tensor that cannot be read; `code` is a kebab-case name, the message completes 'tensor "w": ...'."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
