"""The models that are served, and how they come and go: loading, reloading, unloading.

A version is replaced by another only when that one is loaded and warm, so a request always finds a good one; those that
are on their way go on with the version that they have found.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field, replace

from onnxc.runtime.errors import OnnxcError
from onnxc.runtime.records import record
from onnxc.runtime.thread_pool import available_threads
from onnxc.serving.model_config import Configuration, read_config
from onnxc.serving.repository import PassedOver, Repository, Stamp, VersionFiles
from onnxc.serving.served_model import ServedModel, ServingLimits, open_version
from onnxc.serving.serving_errors import ServingError

__all__ = ["IndexEntry", "ModelRegistry"]

LOG = logging.getLogger("onnxc.serving")


@record
class IndexEntry:
    """A line of the index: state is READY or LOADING, or UNAVAILABLE for a reason."""

    name: str
    version: str
    state: str
    reason: str


@record
class _Entry:
    """A model as it is now: versions that are served, the stamps they were loaded at, and why others are not.

    failure: why it is not known which versions to serve.
    """

    served: Mapping[int, ServedModel] = field(default_factory=dict)
    stamps: Mapping[int, Stamp] = field(default_factory=dict)
    failures: Mapping[int, tuple[Stamp, OnnxcError]] = field(default_factory=dict)
    failure: OnnxcError | None = None

    @property
    def problem(self) -> OnnxcError | None:
        """What a load of the model ends with: what is wrong with the model, else with its latest version."""
        if self.failure is not None or not self.failures:
            return self.failure
        return self.failures[max(self.failures)][1]


class ModelRegistry:
    """The models of a repository that are served."""

    def __init__(self, repository: Repository, limits: ServingLimits) -> None:
        self._repository, self._limits = repository, limits
        # Replaced as a whole, so that readers need no lock.
        self._entries: Mapping[str, _Entry] = {}
        self._unloaded: frozenset[str] = frozenset()
        self._logged: frozenset[PassedOver] = frozenset()
        # One model is loaded by one thread at a time; who changes what all see holds the other lock for that moment.
        self._loading: dict[str, threading.RLock] = {}
        self._changing = threading.Lock()

    def find(self, name: str, version: str = "") -> ServedModel:
        """The version that serves a request; without one, the latest. ServingError where there is none."""
        entry = self._entries.get(name)
        if entry is None or not entry.served:
            reason = f": {entry.problem}" if entry and entry.problem else ""
            raise ServingError(f"model {name!r} is not served{reason}", code="unknown-model")
        if not version:
            return entry.served[max(entry.served)]
        served = entry.served.get(int(version)) if version.isdecimal() and len(version) < 20 else None
        if served is None:
            listed = ", ".join(map(str, sorted(entry.served)))
            raise ServingError(f"model {name!r} has no version {version!r}; served: {listed}", code="unknown-version")
        return served

    def versions(self, name: str) -> tuple[int, ...]:
        """The versions of a model that are served."""
        return tuple(sorted(self._entries[name].served)) if name in self._entries else ()

    def served(self) -> Sequence[ServedModel]:
        """Every version that is served."""
        return [entry.served[v] for _, entry in sorted(self._entries.items()) for v in sorted(entry.served)]

    def load_all(self) -> None:
        """Loads every model of the repository, several at a time as each waits for a process that looks for its code.

        Those that cannot be are in the index, with the reason.
        """
        self._log_passed_over()
        names = [name for name in self._repository.names() if name not in self._unloaded]
        with ThreadPoolExecutor(available_threads(), "onnxc load") as threads:
            for name, problem in zip(names, threads.map(self._problem_of, names), strict=True):
                if problem is not None:
                    LOG.error("%s is not served: %s", name, problem)

    def _log_passed_over(self) -> None:
        """Logs what is passed over in the repository, each of it once."""
        passed_over = self._repository.passed_over()
        for each in passed_over:
            if each not in self._logged:
                LOG.warning("%r is passed over: %s", each.path, each.reason)
        self._logged = frozenset(passed_over)

    def _problem_of(self, name: str) -> OnnxcError | OSError | None:
        """Loads a model; what it says where that cannot be."""
        try:
            self.load(name)
        except (OnnxcError, OSError) as problem:
            return problem
        return None

    def poll(self) -> None:
        """Loads what is new or has changed in the repository, and lets go of what is no more in it."""
        self._log_passed_over()
        names = self._repository.names()
        for name in set(self._entries) - set(names):
            with self._loading_of(name):
                self._remove(name)
        for name in names:
            with self._loading_of(name):
                problem = self._problem_of(name) if name not in self._unloaded and self._has_changed(name) else None
                if problem is not None:
                    LOG.error("the change of %s is not served: %s", name, problem)

    def load(self, name: str, configuration: Configuration | None = None) -> None:
        """Loads or reloads a model. What has not changed stays as it is, unless a configuration is given.

        Raises the error of the latest version that could not be loaded; what was served still is, that version too.
        """
        self._repository.folder(name)
        with self._loading_of(name):
            with self._changing:
                self._unloaded -= {name}
            try:
                files = self._chosen(name, configuration)
            except OnnxcError as problem:
                entry = replace(self._entries.get(name, _Entry()), failure=problem)
            else:
                entry = self._loaded(name, files, configuration)
            self._replace(name, entry)
        if entry.problem is not None:
            raise entry.problem

    def _chosen(self, name: str, given: Configuration | None = None) -> Mapping[int, VersionFiles]:
        """The versions of a model that are to be served. Raises InputError for its configuration, or ServingError."""
        known = self._repository.versions(name)
        if not known:
            raise ServingError(f"model {name!r} has no version with a model file", code="unknown-version")
        chosen = (given or read_config(self._repository.folder(name))).chosen(known)
        if not chosen:
            listed = ", ".join(map(str, sorted(known)))
            message = f"the version policy of model {name!r} chooses none of its versions: {listed}"
            raise ServingError(message, code="unknown-version")
        return {version: self._repository.stamped(known[version]) for version in chosen}

    def _loaded(self, name: str, files: Mapping[int, VersionFiles], given: Configuration | None) -> _Entry:
        previous = self._entries.get(name, _Entry())
        served, stamps, failures = {}, {}, {}
        for version, own_files in files.items():
            if given is None and previous.stamps.get(version) == own_files.stamp and version not in previous.failures:
                served[version], stamps[version] = previous.served[version], own_files.stamp
                continue
            try:
                served[version] = self._open(name, version, own_files, given)
                stamps[version] = own_files.stamp
            except OnnxcError as problem:
                failures[version] = (own_files.stamp, problem)
        if failures:
            # What was served before goes on, versions included that the policy would let go of.
            served, stamps = {**previous.served, **served}, {**previous.stamps, **stamps}
        return _Entry(served, stamps, failures)

    def _open(self, name: str, version: int, files: VersionFiles, given: Configuration | None) -> ServedModel:
        configuration = given or read_config(self._repository.folder(name))
        try:
            model = open_version(name, version, files.file, configuration, self._limits)
        except OSError as problem:
            message = f"{name}, version {version}, cannot be read: {problem}"
            raise ServingError(message, code="model-changing") from problem
        file = self._repository.versions(name).get(version)
        if file is None or self._repository.stamped(file) != files:
            message = f"the files of {name}, version {version}, changed while they were loaded"
            raise ServingError(message, code="model-changing")
        refusal = model.warm_up()
        if refusal is not None:
            LOG.warning("%s, version %d, does not take zeros: %s", name, version, refusal)
        served = self._entries.get(name, _Entry()).served
        if served:
            model.rehearse(served[max(served)])
        LOG.info("%s, version %d, is ready; requests are joined along %s", name, version, model.batch or "nothing")
        return model

    def unload(self, name: str) -> None:
        """Serves the model no more, until it is loaded; requests on their way are answered."""
        self._repository.folder(name)
        with self._loading_of(name):
            with self._changing:
                self._unloaded |= {name}
            self._remove(name)

    def index(self, *, ready_only: bool) -> list[IndexEntry]:
        """The models of the repository and their versions, each with its state."""
        lines = []
        for name in sorted({*self._repository.names(), *self._entries}):
            entry = self._entries.get(name, _Entry())
            lines += [IndexEntry(name, str(version), "READY", "") for version in sorted(entry.served)]
            for version, (_, problem) in entry.failures.items():
                lines.append(IndexEntry(name, str(version), "UNAVAILABLE", str(problem)))
            if entry.failure is not None:
                lines.append(IndexEntry(name, "", "UNAVAILABLE", str(entry.failure)))
            elif not entry.served and not entry.failures:
                reason = "unloaded" if name in self._unloaded else "loading"
                lines.append(IndexEntry(name, "", "UNAVAILABLE" if reason == "unloaded" else "LOADING", reason))
        return [line for line in lines if line.state == "READY" or not ready_only]

    def _has_changed(self, name: str) -> bool:
        """Whether a load would find something else than the last one."""
        entry = self._entries.get(name, _Entry())
        try:
            chosen = self._chosen(name)
        except OnnxcError as problem:
            return str(problem) != str(entry.failure)
        failed = {version: stamp for version, (stamp, _) in entry.failures.items()}
        known, stamps = self._repository.versions(name), {**entry.stamps, **failed}
        # While a version fails, those that were served before it are, though they be gone.
        is_gone = any(version not in known for version in failed or stamps)
        is_new = any(stamps.get(version) != files.stamp for version, files in chosen.items())
        return entry.failure is not None or is_gone or is_new

    def _replace(self, name: str, entry: _Entry) -> None:
        with self._changing:
            self._entries = {**self._entries, name: entry}

    def _remove(self, name: str) -> None:
        with self._changing:
            self._entries = {known: entry for known, entry in self._entries.items() if known != name}

    def _loading_of(self, name: str) -> threading.RLock:
        """Held by the thread that loads a model, of the repository now or before, or lets go of it."""
        with self._changing:
            return self._loading.setdefault(name, threading.RLock())
