# SPDX-License-Identifier: Apache-2.0
"""`vdla puzzle`: puzzles about the accelerator, which grade themselves."""

from __future__ import annotations

import argparse

from vdla.commands import FINDING, OK, CommandError
from vdla.commands.console import output, table
from vdla.commands.files import require_folder
from vdla.commands.options import add_options, refuse
from vdla.commands.puzzle_progress import PuzzleProgress
from vdla.support.atomic import write_text

EXAMPLES = """\
  vdla puzzle                            all puzzles, and your cycles
  vdla puzzle first-load                 what to do
  vdla puzzle first-load --start load.s  the file to start from
  vdla puzzle first-load load.s          grade your try
  vdla puzzle first-load --hint 1        a hint; 2 and 3 say more
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The puzzle, the try, what to write or to print instead."""
    names = "vdla.puzzles.registry:NAMES"
    add_options(parser, {"name NAME": "the puzzle (default: a table of all)"}, names, nargs="?")
    add_options(parser, {"file FILE": "a try: assembly (.s), Python (.py) or a module (.sv)"}, nargs="?")
    add_options(
        parser,
        {
            "--start FILE": "write the file to start from, which must not exist yet",
            "--hint N": "print hint 1, 2 or 3",
        },
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the table, a text or a hint, write a start, or grade a try; exit code 1 if unsolved."""
    from vdla.puzzles import puzzle

    if arguments.name is None:
        refuse("puzzle", arguments, ("start", "hint"), "without the name of a puzzle")
        return _list()
    chosen = puzzle(arguments.name)
    if arguments.file is not None:
        refuse("puzzle", arguments, ("start", "hint"), "with a try")
        progress = PuzzleProgress.read()
        grade = chosen.check(arguments.file)
        print(grade)
        if grade.solved and grade.cycles is not None:
            progress.solved(chosen.name, grade.cycles)
        return OK if grade.solved else FINDING
    if arguments.start is not None:
        refuse("puzzle", arguments, ("hint",), "with --start")
        return _write_start(arguments, chosen.start, chosen.suffix)
    print(chosen.hint(arguments.hint) if arguments.hint else chosen.text.rstrip("\n"))
    return OK


def _write_start(arguments: argparse.Namespace, text: str, suffix: str) -> int:
    path = arguments.start
    require_folder("puzzle", "--start", path)
    if path.suffix != suffix:
        raise CommandError(f"puzzle {arguments.name}: --start must name a {suffix} file, got {path}")
    if path.exists():
        raise CommandError(f"puzzle {arguments.name}: {path} must not exist yet, got a file; choose another name")
    write_text(path, text)
    print(f"{path}: change it, then grade it: vdla puzzle {arguments.name} {path}")
    return OK


def _list() -> int:
    from vdla.puzzles import NAMES, puzzle

    progress = PuzzleProgress.read()
    listing = table("puzzles", "name", "subject", "limit", "best", "yours")
    listing.columns[1].justify = "left"
    for name in NAMES:
        one = puzzle(name)
        yours = progress.cycles.get(name)
        listing.add_row(name, one.title, str(one.limit), str(one.best), "-" if yours is None else str(yours))
    output().print(listing)
    output().print(f"{len(progress.cycles.keys() & set(NAMES))} of {len(NAMES)} solved")
    return OK
