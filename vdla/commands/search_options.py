# SPDX-License-Identifier: Apache-2.0
"""The options of a search: workers, the choice of points, and earlier results."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.commands import CommandError
from vdla.commands.console import errors
from vdla.commands.options import add_options, given
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from vdla.runtime.tune.measurer import Measurer
    from vdla.runtime.tune.workers import Workers


def add_worker_arguments(parser: argparse.ArgumentParser, timeout_s: int) -> None:
    """--workers and --timeout."""
    parser.add_argument("--workers", default="", metavar="N", help="processes, or ray, or ray://HOST:PORT")
    add_options(parser, {f"--timeout S = {timeout_s}": f"seconds for a trial (default {timeout_s})"})


@contextmanager
def opened_workers(
    arguments: argparse.Namespace, measurer: Measurer, *, alone_inline: bool = False
) -> Iterator[Workers]:
    """The workers that --workers asks for; what befalls them is printed.

    With `alone_inline`, a single worker is this process, which has no time limit.
    """
    from vdla.runtime.tune.ray_workers import RayWorkers
    from vdla.runtime.tune.workers import InlineWorkers, LocalWorkers

    text, timeout_s, warn = arguments.workers, float(arguments.timeout), errors().print
    workers: Workers
    if text == "1" and alone_inline:
        workers = InlineWorkers(measurer)
    elif text.isdecimal() or not text:
        workers = LocalWorkers(measurer, int(text) if text else None, timeout_s, warn)
    else:
        workers = RayWorkers(measurer, text, timeout_s=timeout_s, warn=warn)
    try:
        yield workers
    finally:
        workers.close()


SEARCH = "annealing"
TRIALS = 100


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """The number of trials, the search, and earlier results."""
    add_options(
        parser,
        {
            f"--trials N = {TRIALS}": f"of each operator ({TRIALS})",
            f"--search NAME = {SEARCH}": f"what proposes points ({SEARCH})",
            "--seed SEED = 0": "seed of the search (default 0)",
        },
    )
    text = "logs, or folders of them, of other operators: they train the cost model"
    parser.add_argument("--from", dest="prior", nargs="+", type=Path, default=[], metavar="LOG", help=text)


def check_search(arguments: argparse.Namespace) -> None:
    """Refuse an unknown search, and logs for one that does not learn."""
    from vdla.compiler.tune.searches import SEARCHES

    if arguments.search not in SEARCHES:
        raise CommandError(f"tune: --search must be {one_of(arguments.search, SEARCHES)}")
    if arguments.prior and not SEARCHES[arguments.search].takes_prior:
        raise CommandError(
            f"tune: --search must be one that learns with --from, such as {SEARCH}, got {arguments.search}"
        )


def given_with_target(arguments: argparse.Namespace, names: Iterable[str], rule: str) -> None:
    """Refuse options that need --target, which must obey a rule."""
    for option, value in given(arguments, names):
        raise CommandError(f"tune: --target must {rule} with {option} {value}, got {arguments.target or 'none'}")
