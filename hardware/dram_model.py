# SPDX-License-Identifier: Apache-2.0
"""A DRAM model as a file: the figures of `Dram`, and where they come from.

`vdla board selftest` measures one on a device, and `--dram FILE` takes it. The file is JSON with
the keys of `KEYS`; `measured` is for readers and may hold anything.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.hardware.config import ConfigError, Dram
from vdla.hardware.dram import PORT_FIELDS
from vdla.support.atomic import write_text
from vdla.support.errors import Error
from vdla.support.file_kind import unreadable

FORMAT, VERSION = "vdla-dram", 1
KEYS = ("format", "version", "dram", "measured")


class DramModelError(Error, ValueError):
    """A file that is not a DRAM model."""


@dataclass(frozen=True, slots=True)
class DramModel:
    """A DRAM and how it was measured: device, fingerprint, clock, date, bandwidths."""

    dram: Dram
    measured: Mapping[str, Any]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a file, whole or not at all."""
        write_text(Path(path), json.dumps(self.to_dict(), indent=2) + "\n")

    def to_dict(self) -> dict[str, Any]:
        """The content of the file."""
        values = (FORMAT, VERSION, self.dram.to_dict(), dict(self.measured))
        return dict(zip(KEYS, values, strict=True))

    @staticmethod
    def load(path: str | PathLike[str]) -> DramModel:
        """The model in a file that `save` wrote; DramModelError says what is wrong with it."""
        try:
            return DramModel.from_text(Path(path).read_text(encoding="utf-8"), str(path))
        except (OSError, ValueError) as error:
            if isinstance(error, DramModelError):
                raise
            if isinstance(error, OSError):
                raise DramModelError(unreadable(path, error)) from None
            raise DramModelError(f"{path}: file must be readable, got {error}") from None

    @staticmethod
    def from_text(text: str, where: str) -> DramModel:
        """The model in the text of a file; `where` names the file in errors."""
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DramModelError(f"{where}: content must be JSON, got {error}") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            got = document.get("format") if isinstance(document, dict) else document
            raise DramModelError(f"{where}: format must be {FORMAT}, got {got!r}")
        if document.get("version") != VERSION:
            raise DramModelError(f"{where}: version must be {VERSION}, got {document.get('version')!r}")
        measured = document.get("measured", {})
        if not isinstance(measured, dict):
            raise DramModelError(f"{where}: measured must be a table, got {measured!r}")
        return DramModel(_dram(document.get("dram"), where), measured)


def _dram(values: object, where: str) -> Dram:
    names = [field.name for field in fields(Dram)]
    if not isinstance(values, dict) or not set(PORT_FIELDS) <= values.keys() <= set(names):
        got = ", ".join(map(str, values)) if isinstance(values, dict) else repr(values)
        raise DramModelError(f"{where}: dram must have the fields {', '.join(PORT_FIELDS)}, got {got or 'none'}")
    try:
        return Dram(**values)
    except ConfigError as error:
        raise DramModelError(f"{where}: {error}") from None
