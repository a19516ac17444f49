# SPDX-License-Identifier: Apache-2.0
"""The files of a machine under names of their own, so that a design can hold several machines.

Modules and packages share one name space in a design, and the sources of all machines use the same
names: two machines of different configurations would be two definitions of `vdla_pkg`. The names
that the files declare get a prefix, wherever they stand; so do the files, which are named by them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import PurePath

from vdla.hardware.checks import ConfigError

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_DECLARED = re.compile(r"^\s*(?:module|package|interface)\s+(?:automatic\s+|static\s+)?(\w+)", re.MULTILINE)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


def prefixed(files: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The files with `prefix` before the name of each module and package that they declare."""
    if not _IDENTIFIER.fullmatch(prefix):
        rule = "prefix must be letters, digits and underscores, the first no digit"
        raise ConfigError(f"verilog: {rule}, got {prefix!r}")
    names = {name for text in files.values() for name in _DECLARED.findall(_COMMENT.sub(" ", text))}
    used = re.compile(rf"\b(?:{'|'.join(sorted(names))})\b")
    return {_file_name(name, names, prefix): used.sub(rf"{prefix}\g<0>", text) for name, text in files.items()}


def _file_name(name: str, declared: set[str], prefix: str) -> str:
    return f"{prefix}{name}" if PurePath(name).stem in declared else name
