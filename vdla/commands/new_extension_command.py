# SPDX-License-Identifier: Apache-2.0
"""`vdla new-extension`: the files of an instruction of one's own, to begin with."""

from __future__ import annotations

import argparse
import keyword
from pathlib import Path

from vdla.commands import OK, CommandError
from vdla.commands.files import make_folder
from vdla.commands.options import add_options
from vdla.support.atomic import write_text

EXAMPLES = """\
  vdla new-extension distance            distance.py, its datapath, its test
  vdla new-extension distance -o study   into the folder study
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The name, the folder."""
    add_options(
        parser,
        {
            "name NAME": "the name of the instruction",
            "-o --output DIR": "folder of the files (default: this one)",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the files; nothing if one of them exists."""
    from vdla.commands.extension_skeleton import skeleton

    name, folder = arguments.name, arguments.output or Path()
    _check_name(name)
    files = {folder / file: text for file, text in skeleton(name).items()}
    for path in files:
        if path.exists():
            rule = f"{path} must not exist yet"
            raise CommandError(f"new-extension: {rule}, got a file; choose another name, or a folder with --output")
    make_folder(folder)
    for path, text in files.items():
        write_text(path, text)
    declaration, datapath, test = files
    print(f"{declaration}: the declaration, with comments\n{datapath}: its datapath")
    print(f"{test}: its tests, which pass; python -m pytest {test}")
    return OK


def _check_name(name: str) -> None:
    from vdla.compiler.extensions.extension import NAME_RULE, is_name

    if not is_name(name) or keyword.iskeyword(name):
        raise CommandError(f"new-extension: {NAME_RULE}, got {name}")
