# SPDX-License-Identifier: Apache-2.0
"""What a hardware handoff file (.hwh) says of a design, as Vivado writes it, and as `hwh` does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

from vdla.boards.board import BoardError
from vdla.boards.ip import IP_VLNV
from vdla.support.file_kind import unreadable

_TIME = "%a %b %d %H:%M:%S %Y"


@dataclass(frozen=True, slots=True)
class AddressRange:
    """A range of registers that the processor reaches: its instance, first and last byte."""

    instance: str
    first: int
    last: int


class HandoffFile:
    """A parsed .hwh; BoardError where it cannot be read, or its design has no accelerator."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.content = path.read_bytes()
            self._root = ElementTree.fromstring(self.content)
        except OSError as error:
            raise BoardError(unreadable(path, error)) from None
        except ElementTree.ParseError as error:
            raise BoardError(f"{path}: content must be a hardware handoff (.hwh), got {error}") from None
        self._system = self._root.find("SYSTEMINFO")
        modules = [module for module in self._root.iter("MODULE") if module.get("VLNV") == IP_VLNV]
        if not modules:
            raise BoardError(f"{path}: design must have an IP of type {IP_VLNV}, got none")
        self.instance = modules[0].get("INSTANCE", "")
        self.parameters = _parameters(modules[0])

    @property
    def sha256(self) -> str:
        """The hash of the file, which a bitstream of the virtual board names."""
        return hashlib.sha256(self.content).hexdigest()

    def _said(self, name: str) -> str:
        return "" if self._system is None else self._system.get(name, "")

    @property
    def design(self) -> str:
        """The name of the block design."""
        return self._said("NAME")

    @property
    def part(self) -> str:
        """The FPGA, as one word: Vivado writes device, package and speed grade apart."""
        return self._said("DEVICE") + self._said("PACKAGE") + self._said("SPEEDGRADE")

    @property
    def board_part(self) -> str:
        """Vivado's name of the board; empty where the design was made for a part alone."""
        return self._said("BOARD")

    @property
    def vivado(self) -> str:
        """The version of Vivado."""
        return self._root.get("VIVADOVERSION", "")

    @property
    def time(self) -> datetime | None:
        """When the block design was generated, where the file says so."""
        try:
            return datetime.strptime(self._root.get("TIMESTAMP", ""), _TIME)
        except ValueError:
            return None

    def parameter(self, name: str) -> str | None:
        """The value of a parameter in the first module that has it."""
        items = self._root.iterfind(f"./MODULES/MODULE/PARAMETERS/PARAMETER[@NAME='{name}']")
        return next((item.get("VALUE") for item in items), None)

    def ranges(self) -> Iterator[AddressRange]:
        """The address ranges of all modules."""
        for item in self._root.iter("MEMRANGE"):
            try:
                first, last = int(item.get("BASEVALUE", ""), 16), int(item.get("HIGHVALUE", ""), 16)
            except ValueError:
                continue
            yield AddressRange(item.get("INSTANCE", ""), first, last)


def _parameters(module: ElementTree.Element) -> dict[str, str]:
    return {str(item.get("NAME")): str(item.get("VALUE")) for item in module.iterfind("PARAMETERS/PARAMETER")}
