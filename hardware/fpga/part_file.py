# SPDX-License-Identifier: Apache-2.0
"""Parts that a user describes in a JSON file, with the figures of a data sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from os import PathLike
from pathlib import Path
from typing import Any

from vdla.hardware.fpga.parts import FAMILIES, PARTS, FpgaPart, PartError, part_of_preset
from vdla.support.json_file import read_table
from vdla.support.suggest import one_of

SUFFIX = ".json"
_NEEDED = [field.name for field in fields(FpgaPart) if field.default is MISSING]


def part_named(given: FpgaPart | str | PathLike[str] | None, machine: str) -> FpgaPart:
    """A part, that of a name, or that of a file; for None, that of the board after which a machine
    is named.

    Raises:
        PartError: an unknown name, or a file that is no part.
    """
    if isinstance(given, FpgaPart):
        return given
    if given is None:
        return part_of_preset(machine)
    name = str(given)
    if name.endswith(SUFFIX):
        return load_part(name)
    if name not in PARTS:
        raise PartError(f"part: name must be {one_of(name, PARTS, ' or FILE.json')}")
    return PARTS[name]


def load_part(path: str | Path) -> FpgaPart:
    """The part in a JSON file; PartError where it is none.

    Its fields are those of `FpgaPart`: `name`, `family`, the amounts of its resources, and where
    it has them `uram` and `speed`.
    """
    return part_of(read_table(path, PartError), str(path))


def part_of(document: Mapping[str, Any], where: str = "table") -> FpgaPart:
    """The part of a document; PartError where a field is missing, unknown or out of range."""
    known = [field.name for field in fields(FpgaPart)]
    for name in document:
        if name not in known:
            raise PartError(f"part {where}: field must be {one_of(name, known)}")
    for name in _NEEDED:
        if name not in document:
            raise PartError(f"part {where}: {name} must be given, got {', '.join(document) or 'no field'}")
    if not isinstance(document["name"], str) or not document["name"]:
        raise PartError(f"part {where}: name must be a text, got {document['name']!r}")
    if document["family"] not in FAMILIES:
        raise PartError(f"part {where}: family must be {one_of(document['family'], FAMILIES)}")
    for name, value in document.items():
        if name in ("name", "family"):
            continue
        whole = name not in ("bram36", "speed")
        if not _is_number(value, whole) or value < 0 or (name == "speed" and not value):
            rule = "an integer from 0" if whole else "a number over 0" if name == "speed" else "a number from 0"
            raise PartError(f"part {where}: {name} must be {rule}, got {value!r}")
    return FpgaPart(**document)


def _is_number(value: object, whole: bool) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value) and (isinstance(value, int) or not whole)
