# SPDX-License-Identifier: Apache-2.0
"""Cache folders, locks, and builds that happen once."""

import fcntl
from pathlib import Path

import pytest

from vdla.support.cache import CacheError, build_once, locked, user_cache


@pytest.mark.parametrize(
    ("base", "folder"), [("/var/caches", "/var/caches"), ("", "~/.cache"), ("caches", "~/.cache"), (None, "~/.cache")]
)
def test_the_folder_is_never_below_the_working_directory(monkeypatch, base, folder):
    if base is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert user_cache("objects") == Path(folder).expanduser() / "vdla" / "objects"


def test_a_lock_excludes_others_until_it_is_freed(tmp_path):
    path = tmp_path / "new" / "entry"
    with locked(path), (tmp_path / "new" / "entry.lock").open("w") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with (tmp_path / "new" / "entry.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_waiting_for_a_lock_times_out(tmp_path):
    path = tmp_path / "entry"
    with locked(path), pytest.raises(CacheError) as error, locked(path, timeout_s=0.1):
        pass
    assert str(error.value) == (f"cannot lock {path}.lock: another process has held it for 0.1 s; end that process")


def test_a_cached_file_is_built_once(tmp_path):
    path, folders = tmp_path / "cache" / "entry.so", []

    def build(folder):
        folders.append(folder)
        (folder / "made").write_text("content")
        return folder / "made"

    assert [build_once(path, build).read_text() for _ in range(2)] == ["content", "content"]
    assert len(folders) == 1
    assert sorted(entry.name for entry in path.parent.iterdir()) == ["entry.so", "entry.so.lock"]


def test_an_invalid_file_is_built_again_and_a_failed_build_leaves_nothing(tmp_path):
    path = tmp_path / "entry"
    path.write_text("half")

    def build(folder):
        (folder / "made").write_text("whole")
        return folder / "made"

    def fail(folder):
        (folder / "made").write_text("half")
        raise RuntimeError("no compiler")

    with pytest.raises(RuntimeError):
        build_once(tmp_path / "other", fail)
    assert not (tmp_path / "other").exists()
    assert build_once(path, build, lambda found: found.is_file() and found.read_text() == "whole") == path
    assert path.read_text() == "whole"
