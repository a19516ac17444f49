"""The folder in which what takes long to make is kept for the next time, by the kind of thing.

Names of files in it are hashes of everything that a thing is made from, so nothing in it is ever out of date.
"""

from __future__ import annotations

import os
from pathlib import Path

from vdla.support.errors import Error


class CacheError(Error, RuntimeError):
    """There is no place for a cache."""


def user_cache(kind: str) -> Path:
    """The folder of a kind, below XDG_CACHE_HOME or ~/.cache; it need not exist yet.

    A relative XDG_CACHE_HOME says nothing, as the XDG Base Directory Specification has it.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        return (base if base.is_absolute() else Path.home() / ".cache") / "vdla" / kind
    except RuntimeError:
        raise CacheError("cache must have a folder, got no home folder (set XDG_CACHE_HOME)") from None
