"""Modules of LLVM IR to objects: from the cache, else compiled, by several processes where that is worth it.

The same texts give the same objects, bit for bit, whatever the number of processes and whatever the cache holds.
"""

import hashlib
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from functools import partial
from pathlib import Path

import llvmlite
import llvmlite.binding as llvm

from onnxc.compiler.codegen_host.machine import compile_object
from onnxc.compiler.jobs.file_cache import FileCache
from onnxc.compiler.jobs.job import Failed
from onnxc.compiler.jobs.short_turns import short_turns
from onnxc.compiler.jobs.worker_pool import WorkerPool, default_count, keep_while_running, python_module
from onnxc.compiler.target import Target
from onnxc.runtime.errors import DeviceError
from onnxc.runtime.records import record

__all__ = ["ObjectJob", "compile_objects", "object_key", "object_stream"]

# Counts in every key: to be raised where the same text gives another object.
CACHE_VERSION = 1

SUFFIX = ".object"

LEAST_CHARACTERS = 2_000_000
"""Less text that waits is compiled here: LLVM takes 0.9 s for it, and a process takes 0.25 s to begin."""

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

    LLVM works here, beside what writes them; other processes take part when there is enough for them to do, and
    `context` lets them go. What they do not give, as where none can be started, is compiled here.
    """

    def __init__(self, target: Target, cache: Path | None, progress: Progress | None, context: ExitStack) -> None:
        self._target = target
        self._folder = FileCache(cache, SUFFIX)
        self._progress = progress
        self._keys: list[str] = []
        self._objects: dict[str, bytes] = {}
        self._missing: dict[str, str] = {}
        self._made: dict[str, Future[bytes]] = {}
        self._submit: Callable[[ObjectJob], Future[bytes | Failed]] | None = None
        self._context = context
        # Of what follows: modules that nobody compiles yet, those that processes were asked for, and who compiles here.
        self._lock = threading.Lock()
        self._waiting: dict[str, None] = {}
        self._asked: dict[str, Future[bytes | Failed]] = {}
        self._is_compiling = self._is_closed = False

    def add(self, text: str) -> None:
        """A module more."""
        key = object_key(text, self._target)
        self._keys.append(key)
        if key in self._missing:
            return
        content = self._objects.get(key) or self._folder.load(key)
        if content is not None:
            self._objects[key] = content
            return
        self._missing[key] = text
        self._made[key] = Future()
        self._wait_for_any(key)
        if self._submit is None and self._wants_processes():
            # One processor is busy here.
            self._submit = self._context.enter_context(_pool.stream(default_count() - 1))
        if self._submit is not None:
            self._ask(self._submit)

    def objects(self) -> tuple[bytes, ...]:
        """The object of each module."""
        made: dict[str, bytes] = {}
        for key, future in self._made.items():
            self._tell(len(made))
            made[key] = future.result()
        self._tell(len(made))
        self._folder.store(made)
        self._objects |= made
        return tuple(self._objects[key] for key in self._keys)

    def close(self) -> None:
        """What nobody compiles yet is not wanted any more."""
        with self._lock:
            self._is_closed = True
            self._waiting.clear()

    def _wait_for_any(self, key: str) -> None:
        """A module for whoever is free first, which is this process until it has one."""
        with self._lock:
            if self._is_closed:
                return
            if self._is_compiling:
                self._waiting[key] = None
                return
            self._is_compiling = True
        threading.Thread(target=self._compile_here, args=(key,)).start()

    def _compile_here(self, first: str) -> None:
        """Compiles a module, then what nobody else does, until there is nothing."""
        key: str | None = first
        while key is not None:
            try:
                self._made[key].set_result(compile_object(self._missing[key], self._target))
            except BaseException as problem:
                self._made[key].set_exception(problem)
            key = self._next()

    def _next(self) -> str | None:
        """The first module that no process has begun with."""
        with self._lock:
            for key in tuple(self._waiting):
                del self._waiting[key]
                if key not in self._asked or self._asked[key].cancel():
                    return key
            self._is_compiling = False
            return None

    def _ask(self, submit: Callable[[ObjectJob], Future[bytes | Failed]]) -> None:
        """Asks processes for all that waits."""
        with self._lock:
            asked = [key for key in self._waiting if key not in self._asked]
            self._asked |= {key: submit(ObjectJob(self._missing[key], self._target)) for key in asked}
        for key in asked:
            self._asked[key].add_done_callback(partial(self._take_answer, key))

    def _take_answer(self, key: str, answer: Future[bytes | Failed]) -> None:
        """Takes an object from a process; a module that has none waits again, unless it was taken back."""
        if answer.cancelled():
            return
        with suppress(DeviceError):
            content = answer.result()
            if not isinstance(content, Failed):
                self._made[key].set_result(content)
                return
        with self._lock:
            del self._asked[key]
        self._wait_for_any(key)

    def _wants_processes(self) -> bool:
        with self._lock:
            length = sum(len(self._missing[key]) for key in self._waiting)
        return length >= LEAST_CHARACTERS and default_count() > 1

    def _tell(self, done: int) -> None:
        if self._progress is not None and self._missing:
            self._progress(done, len(self._missing))


@contextmanager
def object_stream(target: Target, cache: Path | None, progress: Progress | None = None) -> Iterator[ObjectStream]:
    """Takes modules until its end; where that is an exception, what is being compiled ends too.

    cache: the folder where objects are kept, None for none. progress: is told how many of those that are not in the
    cache are compiled, and of how many.
    """
    with ExitStack() as context, short_turns():
        stream = ObjectStream(target, cache, progress, context)
        try:
            yield stream
        finally:
            stream.close()


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
