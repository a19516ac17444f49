# SPDX-License-Identifier: Apache-2.0
"""A hash of the toolkit's sources: what is kept under it is never that of other sources."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

_FOLDERS = ("compiler", "hardware", "runtime", "simulator", "support")
_SUFFIXES = {".py", ".ll", ".jsonl"}


@cache
def toolkit_digest(*more: str) -> str:
    """A hash of the sources of the compiler, the machine, the simulator and what runs them.

    `more` are other folders of the package.
    """
    digest, root = hashlib.sha256(), Path(__file__).parents[1]
    for folder in (*_FOLDERS, *more):
        paths = (path for path in (root / folder).resolve().rglob("*") if path.suffix in _SUFFIXES)
        for path in sorted(paths):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
