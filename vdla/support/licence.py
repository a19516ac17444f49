# SPDX-License-Identifier: Apache-2.0
"""The licence of VDLA, which goes with every folder of its files that a command writes."""

from __future__ import annotations

from pathlib import Path

from vdla.support.atomic import write_text

LICENCE_FILE = "LICENSE"


def licence_text() -> str:
    """The Apache License 2.0, as it lies in the package."""
    return (Path(__file__).resolve().parent.parent / LICENCE_FILE).read_text(encoding="utf-8")


def write_licence(folder: Path) -> None:
    """Write the licence into a folder; a licence that is there already, the user's own, stays."""
    path = folder / LICENCE_FILE
    if not path.exists():
        write_text(path, licence_text())
