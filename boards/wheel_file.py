# SPDX-License-Identifier: Apache-2.0
"""Wheels for boards, written with the standard library.

The invariant: the same contents give the same bytes. pip checks every file against RECORD.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

from vdla.support.atomic import write_with
from vdla.support.licence import LICENCE_FILE, licence_text

_EPOCH = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16
_WHEEL = "Wheel-Version: 1.0\nGenerator: vdla\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(folder: Path, stem: str, contents: Mapping[str, bytes], metadata: str, entry_points: str) -> Path:
    """The path of a wheel of pure Python, written to a folder that is made if need be.

    `stem` is NAME-VERSION as file names have them; `contents` are by path in the wheel.
    """
    info = f"{stem}.dist-info"
    files = {
        **contents,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": _WHEEL.encode(),
        f"{info}/entry_points.txt": entry_points.encode(),
        f"{info}/licenses/{LICENCE_FILE}": licence_text().encode(),
    }
    files[f"{info}/RECORD"] = _record(files, f"{info}/RECORD")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    write_with(path, lambda temporary: _write_archive(temporary, files))
    return path


def _write_archive(path: Path, files: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr, entry.compress_type = _MODE, zipfile.ZIP_DEFLATED
            archive.writestr(entry, content)


def _record(contents: Mapping[str, bytes], record: str) -> bytes:
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in contents.items()]
    return "".join(f"{line}\n" for line in [*lines, f"{record},,"]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
