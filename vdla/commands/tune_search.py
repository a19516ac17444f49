"""The options of `vdla tune` that choose a search; they mean the same for every kind of run."""

from __future__ import annotations

import argparse
from pathlib import Path

from vdla.commands import CommandError
from vdla.commands.completion import complete_with
from vdla.commands.machine_options import natural, positive
from vdla.support.suggest import did_you_mean

SEARCH = "annealing"
TRIALS = 100


def add_search_arguments(parser: argparse.ArgumentParser) -> None:
    """How long is searched, by what, and what it knows."""
    parser.add_argument("--trials", type=positive, default=TRIALS, metavar="N", help=f"of each operator ({TRIALS})")
    search = parser.add_argument("--search", default=SEARCH, metavar="NAME", help=f"what proposes points ({SEARCH})")
    complete_with(search, _searches)
    parser.add_argument("--seed", type=natural, default=0, help="seed of the search (default 0)")
    parser.add_argument("--from", dest="prior", nargs="+", type=Path, default=[], metavar="LOG",
                        help="logs, or folders of them, of other operators: they train the cost model")  # fmt: skip


def _searches() -> list[str]:
    from vdla.compiler.tune.searches import SEARCHES

    return list(SEARCHES)


def check_search(arguments: argparse.Namespace) -> None:
    """Refuse an unknown search, and logs for one that does not learn."""
    from vdla.compiler.tune.searches import SEARCHES

    if arguments.search not in SEARCHES:
        hint = did_you_mean(arguments.search, SEARCHES)
        raise CommandError(f"tune: --search must be one of {', '.join(SEARCHES)}, got {arguments.search}{hint}")
    if arguments.prior and not SEARCHES[arguments.search].takes_prior:
        raise CommandError(
            f"tune: --search must be one that learns with --from, such as {SEARCH}, got {arguments.search}"
        )
