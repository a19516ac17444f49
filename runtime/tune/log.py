# SPDX-License-Identifier: Apache-2.0
"""Logs of trials: one JSON object per line, on disk before the search receives the trial.

Every line stands for itself, so logs can be concatenated. A process that is killed leaves at most
one torn line, the last: readers leave it out, and the next writer cuts it off.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import platform
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vdla.runtime.tune.trial import Trial, TuningError
from vdla.support.file_kind import unreadable
from vdla.support.version import VERSION

LOG_VERSION = 1
SUFFIX = ".jsonl"
UNTUNED = "untuned"
"""In place of a search: the cost of what is built without tuning, whose point is empty."""
CONFIRMED = "confirmed"
"""In place of a search: a CPU kernel's default schedule, whose point is empty, or one that was
measured again and is faster. The last one holds."""


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What a trial belongs to: the task, and the run whose search proposed it.

    `key` is the content hash of operator, machine and space; `name` and `machine` are for people.
    """

    key: str
    name: str
    machine: str
    space: str
    search: str
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        names = ("key", "name", "machine", "space", "search", "seed")
        return {name: getattr(self, name) for name in names}

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> TaskRun:
        """The inverse of `to_dict`; KeyError or ValueError if they are no such values."""
        words = {name: str(values[name]) for name in ("key", "name", "machine", "space", "search")}
        return TaskRun(**words, seed=int(values["seed"]))


@dataclass(frozen=True, slots=True)
class PointFeatures:
    """The features of a point, float32, and which they are: a hash of their names."""

    names: str
    values: bytes

    @staticmethod
    def of(names: Sequence[str], values: NDArray[np.float32]) -> PointFeatures:
        """Of a row of features."""
        return PointFeatures(feature_set(names), np.asarray(values, "<f4").tobytes())

    @property
    def row(self) -> NDArray[np.float32]:
        """The features."""
        return np.frombuffer(self.values, "<f4").astype(np.float32)


def feature_set(names: Sequence[str]) -> str:
    """Twelve hexadecimal digits that tell sets of features apart."""
    return hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]


@dataclass(frozen=True, slots=True)
class LoggedTrial:
    """A line of a log; the features are those from which other runs can learn."""

    run: TaskRun
    trial: Trial
    features: PointFeatures | None = None


@dataclass(frozen=True, slots=True)
class TrialIndex:
    """Logged trials by the key of their task, in the order of the log."""

    by_key: dict[str, list[LoggedTrial]] = field(default_factory=dict)

    @staticmethod
    def of(entries: Iterable[LoggedTrial]) -> TrialIndex:
        """The index of some lines."""
        index = TrialIndex()
        for entry in entries:
            index.add(entry)
        return index

    def add(self, entry: LoggedTrial) -> None:
        """Append a line."""
        self.by_key.setdefault(entry.run.key, []).append(entry)

    def of_key(self, key: str) -> list[LoggedTrial]:
        """The lines of a task."""
        return self.by_key.get(key, [])

    def tried(self, key: str) -> list[LoggedTrial]:
        """The lines of a task that a search proposed."""
        return [entry for entry in self.of_key(key) if entry.run.search not in (UNTUNED, CONFIRMED)]

    def confirmed(self, key: str) -> Trial | None:
        """The schedule of a CPU kernel that was confirmed last."""
        trials = (entry.trial for entry in reversed(self.of_key(key)) if entry.run.search == CONFIRMED)
        return next(trials, None)

    def untuned(self, key: str) -> Trial | None:
        """What a task costs without tuning, if that was measured."""
        trials = (entry.trial for entry in self.of_key(key) if entry.run.search == UNTUNED)
        return next(trials, None)

    def __len__(self) -> int:
        return sum(map(len, self.by_key.values()))


# --- reading --------------------------------------------------------------------------------------


def read_logs(*paths: str | Path) -> TrialIndex:
    """The trials of log files; a folder stands for its files that end in `.jsonl`.

    Raises:
        TuningError: a file cannot be read, has another version or is not a log.
    """
    entries: list[LoggedTrial] = []
    for path in map(Path, paths):
        for file in sorted(path.glob(f"*{SUFFIX}")) if path.is_dir() else [path]:
            entries += _entries(file, _content(file))
    return TrialIndex.of(entries)


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TuningError(unreadable(path, error)) from None


def _entries(path: Path, content: bytes) -> Iterator[LoggedTrial]:
    """The lines of a log except for a torn last one."""
    whole = content[: content.rfind(b"\n") + 1]
    for number, line in enumerate(whole.splitlines(), 1):
        yield _entry(f"{path}: line {number}", line)


def _entry(where: str, line: bytes) -> LoggedTrial:
    try:
        values = json.loads(line)
        version = values["version"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise TuningError(f"{where} must be a trial in JSON, got {_shown(line)}") from None
    if version != LOG_VERSION:
        raise TuningError(f"{where}: version of the log must be {LOG_VERSION}, got {version!r} (made by another vdla)")
    try:
        return LoggedTrial(TaskRun.from_dict(values), Trial.from_dict(values), _features(values))
    except (ValueError, KeyError, TypeError):
        raise TuningError(f"{where} must be a trial in JSON, got {_shown(line)}") from None


def _features(values: Mapping[str, Any]) -> PointFeatures | None:
    if "features" not in values:
        return None
    return PointFeatures(str(values["feature_set"]), b64decode(values["features"], validate=True))


def _shown(line: bytes) -> str:
    text = line[:40].decode("utf-8", "replace")
    return repr(text) + ("" if len(line) <= len(text) else " and more")


# --- writing --------------------------------------------------------------------------------------


class TuningLog:
    """A log that is appended to; one process at a time has it. Close it, or use `with`.

    Raises:
        TuningError: the file cannot be written, another run has it, or it is not a log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        except OSError as error:
            raise TuningError(
                f"{path}: log must be a writable file, got {error.strerror}; "
                "name a file in an existing, writable folder"
            ) from None
        try:
            self._lock()
            self.index = TrialIndex.of(self._existing())
        except BaseException:
            os.close(self._file)
            raise
        self._origin = {"host": platform.node(), "versions": _versions()}

    def _lock(self) -> None:
        """Taken until the file is closed, by a kill as well."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise TuningError(f"{self.path}: log must be free, got one that another run writes to") from None

    def _existing(self) -> list[LoggedTrial]:
        content = _content(self.path)
        entries = list(_entries(self.path, content))  # refuses what is not a log, before a byte is cut off
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self._file, whole)
        return entries

    def append(self, run: TaskRun, trial: Trial, features: PointFeatures | None = None) -> None:
        """Write a trial; it is on disk when this returns."""
        entry = {"version": LOG_VERSION, **run.to_dict(), **trial.to_dict(), **self._origin}
        if features is not None:
            entry |= {"feature_set": features.names, "features": b64encode(features.values).decode()}
        line = json.dumps(entry, separators=(",", ":")).encode() + b"\n"
        written = os.write(self._file, line)
        while written < len(line):
            written += os.write(self._file, line[written:])
        os.fsync(self._file)
        self.index.add(LoggedTrial(run, trial, features))

    def append_untuned(self, run: TaskRun, cost: float, unit: str) -> None:
        """Write what the task costs without tuning, once."""
        if self.index.untuned(run.key) is None:
            self.append(replace(run, search=UNTUNED, seed=0), Trial({}, cost, unit))

    def close(self) -> None:
        """Give the file free."""
        os.close(self._file)

    def __enter__(self) -> TuningLog:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def _versions() -> dict[str, str]:
    """The versions of what costs depend on, beside the machine."""
    result = {"python": platform.python_version(), "vdla": VERSION}
    for name in ("numpy", "llvmlite"):
        try:
            result[name] = version(name)
        except PackageNotFoundError:
            result[name] = "absent"
    return result
