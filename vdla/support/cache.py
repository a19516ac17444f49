# SPDX-License-Identifier: Apache-2.0
"""Caches of slow builds: their folders, locks, and builds that run once.

A file's name in a cache is a hash of everything that its content depends on, so an entry is never
stale.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from vdla.support.errors import Error

LOCK_TIMEOUT_S = 3600.0  # longer than any build
_POLL_S = 0.05


class CacheError(Error, RuntimeError):
    """A cache without a folder, or whose lock is not released."""


def user_cache(kind: str) -> Path:
    """The folder for entries of a kind, below XDG_CACHE_HOME or ~/.cache; it may not exist yet.

    A relative XDG_CACHE_HOME is ignored, as the XDG Base Directory Specification demands.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "vdla" / kind
    except RuntimeError:
        raise CacheError("cache must have a folder, got no home folder (set XDG_CACHE_HOME)") from None


@contextmanager
def locked(path: Path, timeout_s: float = LOCK_TIMEOUT_S) -> Iterator[None]:
    """Hold the lock of `path` against other processes; it is freed when the holder ends.

    CacheError if another process holds it for longer than the timeout.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = path.with_name(f"{path.name}.lock")
    with lock.open("w") as file:
        _acquire(file, lock, timeout_s)
        yield


def _acquire(file: IO[str], lock: Path, timeout_s: float) -> None:
    import fcntl  # WebAssembly has no locks of files, and no other processes

    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                text = f"cannot lock {lock}: another process has held it for {timeout_s:g} s; end that process"
                raise CacheError(text) from None
            time.sleep(_POLL_S)


def build_once(path: Path, build: Callable[[Path], Path], is_valid: Callable[[Path], bool] = Path.is_file) -> Path:
    """`path`, built if it is missing: `build` fills a temporary folder and returns the file that
    becomes `path`.

    Of several processes one builds and the others wait. OSError where the cache cannot be written.
    """
    if is_valid(path):
        return path
    with locked(path):
        if not is_valid(path):
            with tempfile.TemporaryDirectory(prefix="build-", dir=path.parent) as folder:
                os.replace(build(Path(folder)), path)
    return path


def trim(folder: Path, most_bytes: int) -> None:
    """Remove the files of a folder that were used longest ago, until the others have at most
    `most_bytes`.

    A use sets the time of modification. OSError where a file cannot be removed.
    """
    with os.scandir(folder) as entries:
        files = [(status.st_mtime_ns, status.st_size, entry.path) for entry in entries if (status := entry.stat())]
    total = 0
    for _, size, path in sorted(files, reverse=True):
        total += size
        if total > most_bytes:
            Path(path).unlink(missing_ok=True)
