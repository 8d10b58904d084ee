"""The back ends, one file for each kind of target; the code of one is imported when somebody compiles for it."""

import importlib

from onnxc.compiler.back_ends.back_end import BackEnd, Progress
from onnxc.compiler.options import CompileOptions

__all__ = ["BackEnd", "back_end"]


def back_end(options: CompileOptions, progress: Progress | None = None) -> BackEnd:
    """The back end for the options. Raises DeviceError for the GPU of this machine where there is none."""
    made: BackEnd = importlib.import_module(f"{__name__}.{options.target.kind}").make_back_end(options, progress)
    return made
