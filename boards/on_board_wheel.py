# SPDX-License-Identifier: Apache-2.0
"""A wheel of what runs on a board: the package `vdla` without compiler and simulator, and commands.

    pip install vdla_board-VERSION-py3-none-any.whl
    python -m vdla_board info

It needs NumPy 1.21 or later only, and the PYNQ of the board's image for the device `pynq`. Its
bytes depend on the sources alone.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import vdla
from vdla.boards.on_board_modules import PACKAGE, packed, path_of
from vdla.support.atomic import write_with
from vdla.support.licence import LICENCE_FILE, licence_text

NAME = "vdla-board"
PROGRAMS = "vdla/commands/on_board/programs"
"""The folder of known programs in the wheel, where `vdla_board selftest` looks for them."""
_DATA = ("py.typed", LICENCE_FILE, "boards/*/board.json")
_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16
_COMMANDS = """\
# SPDX-License-Identifier: Apache-2.0
\"\"\"`python -m vdla_board`: the commands of the package for boards.\"\"\"

import sys

from vdla.commands.on_board import main

if __name__ == "__main__":
    sys.exit(main())
"""
_ENTRY_POINTS = "[console_scripts]\nvdla-board = vdla.commands.on_board:main\n"
_WHEEL = "Wheel-Version: 1.0\nGenerator: vdla\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def build_wheel(folder: Path, programs: Mapping[str, bytes] = MappingProxyType({})) -> Path:
    """The path of the wheel, written to a folder that is made if need be.

    `programs` are files of known programs for the self-test, by the machine's fingerprint.
    """
    version = vdla.__version__
    stem = f"vdla_board-{version}"
    contents = dict(_modules()) | {"vdla_board.py": _COMMANDS.encode()} | dict(_data())
    contents |= {f"{PROGRAMS}/{fingerprint}.npz": content for fingerprint, content in programs.items()}
    info = f"{stem}.dist-info"
    contents |= {f"{info}/METADATA": _metadata(version).encode(), f"{info}/WHEEL": _WHEEL.encode()}
    contents |= {f"{info}/entry_points.txt": _ENTRY_POINTS.encode()}
    contents |= {f"{info}/licenses/{LICENCE_FILE}": licence_text().encode()}
    record = f"{info}/RECORD"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    files = contents | {record: _record(contents, record)}
    write_with(path, lambda temporary: _write_archive(temporary, files))
    return path


def _write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = _MODE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


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


def _record(contents: Mapping[str, bytes], record: str) -> bytes:
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in contents.items()]
    return "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
