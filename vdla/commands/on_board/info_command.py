# SPDX-License-Identifier: Apache-2.0
"""`vdla_board info`: versions, memory and bitstreams; it changes nothing and needs no root."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from vdla.commands import OK
from vdla.commands.files import write_json
from vdla.commands.on_board.device_choice import bitstreams
from vdla.commands.options import add_options
from vdla.commands.plain_table import plain_table
from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.board_note import PATH, BoardNote
from vdla.runtime.devices.handoff import accelerator_parameters
from vdla.support.version import VERSION

EXAMPLES = """\
  python3 -m vdla_board info
  python3 -m vdla_board info --json
"""

MEMINFO = Path("/proc/meminfo")
BOARD = Path("/proc/device-tree/chosen/pynq_board")
NOTE = Path(PATH)
_MEMORY = {
    "memory": "MemTotal",
    "memory, available": "MemAvailable",
    "contiguous": "CmaTotal",
    "contiguous, free": "CmaFree",
}
_PARAMETERS = ("PRESET", "FINGERPRINT", "BUILD")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The form of the answer."""
    add_options(parser, {"--json": "write JSON to FILE, or to standard output in place of tables"})


def run(arguments: argparse.Namespace) -> int:
    """Print what there is."""
    facts, files = board_facts(), [_described(path) for path in bitstreams()]
    document = {**facts, "bitstreams": [dict(zip(_COLUMNS, row, strict=True)) for row in files]}
    if write_json(arguments.json, document):
        return OK
    print(plain_table("this board", ("what", "is"), [(name, str(value)) for name, value in facts.items()]))
    print()
    if files:
        print(plain_table("bitstreams", _COLUMNS, files))
    else:
        print("bitstreams: none with a .hwh beside it, in $VDLA_OVERLAYS, the current folder or installed packages")
    return OK


_COLUMNS = ("bitstream", "machine", "fingerprint", "build")


def board_facts() -> dict[str, Any]:
    """Versions, the board's name, its memory in MiB, and who uses it."""
    board = BOARD.read_text(encoding="utf-8").strip("\0\n ") if BOARD.is_file() else "not a PYNQ image"
    return {
        "vdla_board": VERSION,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "PYNQ": _version("pynq"),
        "board": board,
        "processor": platform.machine(),
        **_memory(MEMINFO.read_text(encoding="utf-8") if MEMINFO.is_file() else ""),
        **(_use(BoardNote.parse(NOTE.read_bytes())) if NOTE.is_file() else {}),
    }


def _use(note: BoardNote) -> dict[str, str]:
    """The bitstream that was loaded last, and who has the board open, as devices have noted."""
    loaded = "none noted" if note.bitstream is None else f"{note.bitstream.file}, by {note.bitstream.client}"
    return {"loaded": loaded, "open by": ", ".join(client.client for client in note.clients) or "nobody"}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _memory(meminfo: str) -> dict[str, str]:
    """The memory of the board; a kernel without a contiguous area has no lines of it."""
    lines = {name: value.split() for name, _, value in (line.partition(":") for line in meminfo.splitlines())}
    known = {what: lines[line] for what, line in _MEMORY.items() if lines.get(line)}
    return {what: f"{int(words[0]) >> 10} MiB" for what, words in known.items()}


def _described(path: Path) -> tuple[str, ...]:
    try:
        parameters = accelerator_parameters(path.with_suffix(".hwh"))
    except DeviceError:
        return (str(path), "another design", "-", "-")
    return (str(path), *(parameters.get(name, "-") for name in _PARAMETERS))
