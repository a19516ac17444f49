"""Where caches are."""

from pathlib import Path

import pytest

from vdla.support.user_cache import user_cache


@pytest.mark.parametrize(
    ("base", "folder"), [("/var/caches", "/var/caches"), ("", "~/.cache"), ("caches", "~/.cache"), (None, "~/.cache")]
)
def test_the_folder_is_never_below_the_working_directory(monkeypatch, base, folder):
    if base is None:
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    else:
        monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert user_cache("objects") == Path(folder).expanduser() / "vdla" / "objects"
