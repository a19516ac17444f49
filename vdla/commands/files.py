# SPDX-License-Identifier: Apache-2.0
"""Files that several commands read and write; every error names the file."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.support.atomic import write_bytes, write_text, write_with
from vdla.support.file_kind import described

if TYPE_CHECKING:
    from vdla.runtime.studies.study import DrawnStudy


def calibration_data(path: Path) -> Any:  # noqa: ANN401  an array, or arrays by name
    """Calibration data: the content of a .npy or .npz file; pickled objects are refused."""
    import numpy as np

    with path.open("rb") as file:
        start = file.read(8)
    if not start.startswith((b"\x93NUMPY", b"PK")):
        raise CommandError(
            f"{path}: file must be arrays in .npy or .npz format, got {described(path, start, ('.npy', '.npz'))}"
        )
    try:
        loaded = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise CommandError(f"{path}: content must be arrays in .npy or .npz format, got {error}") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        return dict(loaded)


def read_text(path: Path) -> str:
    """The content of a UTF-8 text file, with or without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(f"{path}: content must be UTF-8 text, got byte {error.object[error.start]:#04x}") from None


def make_folder(path: Path) -> None:
    """Create the folder of output files, where it does not exist."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CommandError(f"{path}: output must be a folder, got a file") from None


def require_folder(command: str, option: str, path: Path) -> None:
    """Refuse an output file that is a folder, or whose folder does not exist, before the work
    starts.
    """
    if path.is_dir():
        raise CommandError(f"{command}: {option} must be a file, got the folder {path}")
    if not path.parent.is_dir():
        raise CommandError(f"{command}: folder of {option} must exist, got {path.parent}")


def require_folders(command: str, arguments: argparse.Namespace, *options: str) -> None:
    """`require_folder` for those of some options that were given; "-" is standard output."""
    for option in options:
        path = getattr(arguments, option)
        if path not in (None, "-"):
            require_folder(command, f"--{option}", Path(path))


def write_json(target: str | None, document: object) -> bool:
    """Write a document to a file, or for "-" to standard output; whether that has it."""
    text = json.dumps(document, indent=2) + "\n"
    if target == "-":
        print(text, end="")
    elif target:
        write_text(Path(target), text)
    return target == "-"


def is_model(path: Path) -> bool:
    """Whether a file is a compiled network, by its first bytes."""
    from vdla.runtime.executor.artifact import ARTIFACT_FILE

    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(ARTIFACT_FILE.magic)) == ARTIFACT_FILE.magic


def write_files(command: str, files: Mapping[Path, bytes]) -> None:
    """Write all files of one folder, or none if one of them cannot be written."""
    for path in files:
        make_folder(path.parent)
        if path.is_dir():
            raise CommandError(f"{command}: output must be a file, got the folder {path}")
    _write_all(list(files.items()))


def _write_all(files: list[tuple[Path, bytes]]) -> None:
    """Write the files; each replaces its old content after all that follow have been written."""
    if not files:
        return
    (path, content), *others = files

    def write(temporary: Path) -> None:
        temporary.write_bytes(content)
        _write_all(others)

    write_with(path, write)


def write_picture(path: Path, svg: str) -> None:
    """Write a picture as SVG, or as PNG by the suffix; CommandError without the extra."""
    if path.suffix == ".svg":
        write_text(path, svg)
        return
    try:
        import resvg_py
        from font_roboto import Roboto
    except ImportError as error:
        missing = str(error.name).replace("_", "-")
        raise CommandError(f"picture: PNG needs the package {missing}, got none (pip install 'vdla[png]')") from None
    svg = svg.replace("system-ui", "Roboto")
    content = resvg_py.svg_to_bytes(
        svg_string=svg, background="#fff", zoom=2, font_files=[Roboto], skip_system_fonts=True
    )
    write_bytes(path, bytes(content))


# --- reports of studies ---------------------------------------------------------------------------


def check_outputs(command: str, arguments: argparse.Namespace, *options: str) -> None:
    """Refuse output files before the work starts; `--picture` is a drawing."""
    require_folders(command, arguments, *options)
    if arguments.picture and arguments.picture.suffix not in (".svg", ".png"):
        raise CommandError(f"{command}: --picture must end in .svg or .png, got {arguments.picture}")


def write_study(arguments: argparse.Namespace, study: DrawnStudy, show: Callable[[], None]) -> None:
    """Write the page, the picture and the figures that options ask for, and show the tables."""
    if arguments.html:
        write_text(arguments.html, study.page())
    if arguments.picture:
        write_picture(arguments.picture, study.picture())
    if write_json(arguments.json, study.to_dict()):
        return
    show()
    written = [str(path) for path in (arguments.html, arguments.picture, arguments.json) if path]
    if written:
        print(f"\nwrote {', '.join(written)}")
