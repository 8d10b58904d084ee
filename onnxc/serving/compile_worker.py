"""The program of a process that compiles a model for the server: a job from standard input, on standard output where
the artifact is, or the error.
"""

import json
import sys

from onnxc.compiler.artifact_cache.cached_artifact import Kind, cached_artifact
from onnxc.compiler.options import CompileOptions, make_options
from onnxc.runtime.artifact import write_artifact
from onnxc.runtime.errors import OnnxcError, UnsupportedError
from onnxc.runtime.files.saved_file import SavedFile
from onnxc.serving.compile_apart import GENERATES, KINDS

__all__ = ["main"]


def main() -> int:
    """The exit code: 0 where there is an artifact."""
    job = json.load(sys.stdin)
    kind: Kind = "decoder" if job["options"].pop(GENERATES, False) else "model"
    try:
        file = _compiled(job["model"], job["artifact"], make_options(**job["options"]), kind)
    except OnnxcError as problem:
        names = (name for name, kind in KINDS.items() if isinstance(problem, kind))
        json.dump({"kind": next(names, "ModelError"), "code": problem.code, "message": str(problem)}, sys.stdout)
        return 1
    json.dump({"artifact": file.path}, sys.stdout)
    return 0


def _compiled(model: str, path: str, options: CompileOptions, kind: Kind) -> SavedFile:
    """The file of the artifact: that of the cache, else the one at `path`."""
    if options.target.kind == "interpreter":
        raise UnsupportedError("the interpreter makes no code that could be served", code="no-artifact")
    artifact = cached_artifact(model, options, kind)
    return artifact.file or write_artifact(artifact, path)


if __name__ == "__main__":
    sys.exit(main())
