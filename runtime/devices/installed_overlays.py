# SPDX-License-Identifier: Apache-2.0
"""Bitstreams in installed packages, which `vdla board package` makes.

Packages announce themselves in the group in which PYNQ looks for overlays; PACKAGE/NAME/NAME.bit is
what PYNQ's `Overlay("NAME.bit")` loads. No package is imported, and PYNQ is not needed.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

OVERLAYS_GROUP = "pynq.overlays"


def installed_bitstreams() -> list[Path]:
    """The bitstreams of all installed packages of overlays, with a handoff file beside them."""
    files = [file for folder in _folders() for file in sorted(folder.glob("*/*.bit"))]
    return [file for file in files if file.stem == file.parent.name and file.with_suffix(".hwh").is_file()]


def _folders() -> list[Path]:
    """The folders of the packages, in the order of their names."""
    modules = sorted({entry.value for entry in entry_points(group=OVERLAYS_GROUP)})
    specs = [find_spec(module) for module in modules if module.isidentifier()]
    return [Path(place) for spec in specs if spec is not None for place in spec.submodule_search_locations or ()]
