# SPDX-License-Identifier: Apache-2.0
"""A wheel of what runs on a board: the package `vdla` without compiler and simulator, and commands.

    pip install vdla_board-VERSION-py3-none-any.whl
    python -m vdla_board info

It needs NumPy 1.21 or later only, and the PYNQ of the board's image for the device `pynq`. Its
bytes depend on the sources alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import vdla
from vdla.boards.on_board_modules import PACKAGE, packed, path_of
from vdla.boards.wheel_file import write_wheel
from vdla.support.licence import LICENCE_FILE

NAME = "vdla-board"
PROGRAMS = "vdla/commands/on_board/programs"
"""The folder of known programs in the wheel, where `vdla_board selftest` looks for them."""
_DATA = ("py.typed", LICENCE_FILE, "boards/*/board.json")
_COMMANDS = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"`python -m vdla_board`: the commands of the package for boards.\"\"\"

import sys

from vdla.commands.on_board import main

if __name__ == "__main__":
    sys.exit(main())
"""
_ENTRY_POINTS = "[console_scripts]\nvdla-board = vdla.commands.on_board:main\n"


def build_wheel(folder: Path, programs: Mapping[str, bytes] = MappingProxyType({})) -> Path:
    """The path of the wheel, written to a folder that is made if need be.

    `programs` are files of known programs for the self-test, by the machine's fingerprint.
    """
    version = vdla.__version__
    contents = dict(_modules()) | {"vdla_board.py": _COMMANDS.encode()} | dict(_data())
    contents |= {f"{PROGRAMS}/{fingerprint}.npz": content for fingerprint, content in programs.items()}
    return write_wheel(folder, f"vdla_board-{version}", contents, _metadata(version), _ENTRY_POINTS)


def _modules() -> Iterator[tuple[str, bytes]]:
    """Name in the wheel and content of every module."""
    for module in packed():
        path = path_of(module)
        assert path is not None, module
        place = module.replace(".", "/")
        yield (f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"), path.read_bytes()


def _data() -> Iterator[tuple[str, bytes]]:
    for pattern in _DATA:
        for path in sorted(PACKAGE.glob(pattern)):
            yield f"vdla/{path.relative_to(PACKAGE)}", path.read_bytes()


def _metadata(version: str) -> str:
    return (
        f"Metadata-Version: 2.1\nName: {NAME}\nVersion: {version}\n"
        "Summary: The part of VDLA that runs on a board: the driver, compiled networks and the verifier\n"
        f"License: Apache-2.0\nLicense-File: {LICENCE_FILE}\nRequires-Python: >=3.10\nRequires-Dist: numpy>=1.21\n"
    )
