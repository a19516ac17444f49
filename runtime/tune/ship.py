# SPDX-License-Identifier: Apache-2.0
"""Writes the shipped log: the best trial of each task in some logs, without features.

python -m vdla.runtime.tune.ship LOG ...
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from vdla.runtime.tune.best import SHIPPED_FILE
from vdla.runtime.tune.log import LOG_VERSION, LoggedTrial, TrialIndex, read_logs
from vdla.support.atomic import write_text


def shipped_text(index: TrialIndex) -> str:
    """The lines, by machine and operator; tasks without a success have none."""
    best = [min(entries, key=lambda entry: entry.trial.cost) for entries in index.by_key.values()]
    successful = [entry for entry in best if entry.trial.ok]
    return "".join(f"{_line(entry)}\n" for entry in sorted(successful, key=_order))


def _order(entry: LoggedTrial) -> tuple[str, str, int]:
    """C2 before C10."""
    name = entry.run.name
    return entry.run.machine, name.rstrip("0123456789"), int("0" + name[len(name.rstrip("0123456789")) :])


def _line(entry: LoggedTrial) -> str:
    values = {"version": LOG_VERSION, **entry.run.to_dict(), **entry.trial.to_dict(), "seconds": 0.0}
    return json.dumps(values, separators=(",", ":"))


def main(arguments: Sequence[str]) -> None:
    """Write the file."""
    write_text(SHIPPED_FILE, shipped_text(read_logs(*arguments)))


if __name__ == "__main__":
    main(sys.argv[1:])
