"""Modules of LLVM IR to objects: from the cache, else compiled, by several processes where that is worth it.

The same texts give the same objects, bit for bit, whatever the number of processes and whatever the cache holds.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
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

__all__ = ["ObjectJob", "compile_objects", "object_key", "object_stream"]

# Counts in every key: to be raised where the same text gives another object.
CACHE_VERSION = 1

SUFFIX = ".object"

LEAST_CHARACTERS = 600_000
"""Less text is compiled here: LLVM takes about a second for it, as long as two processes take to begin and share it."""

TIMEOUT_SECONDS = 600.0

Progress = Callable[[int, int], None]


@record
class ObjectJob:
    """A module to compile for a processor."""

    text: str
    target: Target


_pool: WorkerPool[ObjectJob, bytes] = keep_while_running(
    WorkerPool(python_module("onnxc.compiler.codegen_host.object_worker"), TIMEOUT_SECONDS)
)


class ObjectStream:
    """The objects of modules that are written one after another: the first are compiled while the rest is written.

    Processes are asked for when there is enough for them to do; `context` lets them go.
    """

    def __init__(self, target: Target, cache: Path | None, progress: Progress | None, context: ExitStack) -> None:
        self._target = target
        self._folder = FileCache(cache, SUFFIX)
        self._progress = progress
        self._keys: list[str] = []
        self._objects: dict[str, bytes] = {}
        self._missing: dict[str, str] = {}
        self._begun: dict[str, Future[bytes | Failed]] = {}
        self._submit: Callable[[ObjectJob], Future[bytes | Failed]] | None = None
        self._context = context

    def add(self, text: str) -> None:
        """A module more."""
        key = object_key(text, self._target)
        self._keys.append(key)
        content = self._objects.get(key) or self._folder.load(key)
        if content is not None:
            self._objects[key] = content
            return
        self._missing[key] = text
        if self._submit is None and self._wants_processes():
            self._submit = self._context.enter_context(_pool.stream(default_count()))
        if self._submit is not None:
            for missing in self._missing:
                if missing not in self._begun:
                    self._begun[missing] = self._submit(ObjectJob(self._missing[missing], self._target))

    def objects(self) -> tuple[bytes, ...]:
        """The object of each module."""
        made = {key: self._made(key, text, done) for done, (key, text) in enumerate(self._missing.items())}
        self._tell(len(made))
        self._folder.store(made)
        self._objects |= made
        return tuple(self._objects[key] for key in self._keys)

    def _made(self, key: str, text: str, done: int) -> bytes:
        """By a process; what these do not give, as where none can be started, is compiled here."""
        self._tell(done)
        result: bytes | Failed = Failed("no process has compiled it")
        if key in self._begun:
            with suppress(DeviceError):
                result = self._begun[key].result()
        return compile_object(text, self._target) if isinstance(result, Failed) else result

    def _wants_processes(self) -> bool:
        length = sum(map(len, self._missing.values()))
        return min(len(self._missing), default_count()) > 1 and length >= LEAST_CHARACTERS

    def _tell(self, done: int) -> None:
        if self._progress is not None and self._missing:
            self._progress(done, len(self._missing))


@contextmanager
def object_stream(target: Target, cache: Path | None, progress: Progress | None = None) -> Iterator[ObjectStream]:
    """Takes modules until its end; where that is an exception, what is being compiled ends too.

    cache: the folder where objects are kept, None for none. progress: is told how many of those that are not in the
    cache are compiled, and of how many.
    """
    with ExitStack() as context:
        yield ObjectStream(target, cache, progress, context)


def compile_objects(texts: Iterable[str], target: Target, cache: Path | None) -> tuple[bytes, ...]:
    """The object of each module. cache: the folder where objects are kept, None for none."""
    with object_stream(target, cache) as stream:
        for text in texts:
            stream.add(text)
        return stream.objects()


def object_key(text: str, target: Target) -> str:
    """The digest, in hexadecimal, of everything that an object is compiled from."""
    versions = [llvmlite.__version__, list(llvm.llvm_version_info)]
    described: Mapping[str, object] = {"cache": CACHE_VERSION, "llvm": versions, "target": asdict(target), "text": text}
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()
