"""Modules of LLVM IR to objects: from the cache, else compiled, by several processes where that is worth it.

The same texts give the same objects, bit for bit, whatever the number of processes and whatever the cache holds.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.jobs.file_cache import FileCache
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.worker_pool import WorkerPool, default_count, keep_while_running, python_module
from onnxc.compiler.target import Target
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.records import record

__all__ = ["ObjectJob", "compile_objects", "object_key"]

# Counts in every key: to be raised where the same text gives another object.
CACHE_VERSION = 1

SUFFIX = ".object"

LEAST_CHARACTERS = 600_000
"""Less text is compiled here: LLVM takes about a second for it, as long as two processes take to begin and share it."""

TIMEOUT_SECONDS = 600.0


@record
class ObjectJob:
    """A module to compile for a processor."""

    text: str
    target: Target


_pool: WorkerPool[ObjectJob, bytes] = keep_while_running(
    WorkerPool(python_module("onnxc.compiler.codegen_host.object_worker"), TIMEOUT_SECONDS)
)


def compile_objects(
    texts: Sequence[str], target: Target, cache: Path | None, progress: Callable[[int, int], None] | None = None
) -> tuple[bytes, ...]:
    """The object of each module. cache: the folder where objects are kept, None for none.

    progress: is told how many of those that are not in the cache are compiled, and of how many.
    """
    folder = FileCache(cache, SUFFIX)
    keys = [object_key(text, target) for text in texts]
    objects = {key: content for key in keys if (content := folder.load(key)) is not None}
    missing = {key: text for key, text in zip(keys, texts, strict=True) if key not in objects}

    def tell(done: int) -> None:
        if progress is not None:
            progress(done, len(missing))

    made = dict(zip(missing, _compiled(tuple(missing.values()), target, tell), strict=True))
    folder.store(made)
    objects |= made
    return tuple(objects[key] for key in keys)


def object_key(text: str, target: Target) -> str:
    """The digest, in hexadecimal, of everything that an object is compiled from."""
    versions = [llvmlite.__version__, list(llvm.llvm_version_info)]
    described: Mapping[str, object] = {"cache": CACHE_VERSION, "llvm": versions, "target": asdict(target), "text": text}
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()


def _compiled(texts: Sequence[str], target: Target, tell: Callable[[int], None]) -> list[bytes]:
    """Objects by processes; what these do not give, as where none can be started, is compiled here."""
    results: Sequence[bytes | Failed] = [Failed("no process has compiled it")] * len(texts)
    if min(len(texts), default_count()) > 1 and sum(map(len, texts)) >= LEAST_CHARACTERS:
        with suppress(DeviceError):
            results = _pool.run([ObjectJob(text, target) for text in texts], default_count(), tell)
    made = {ordinal: result for ordinal, result in enumerate(results) if not isinstance(result, Failed)}
    for ordinal, text in enumerate(texts):
        if ordinal not in made:
            tell(len(made))
            made[ordinal] = compile_object(text, target)
    return [made[ordinal] for ordinal in range(len(texts))]
