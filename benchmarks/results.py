# SPDX-License-Identifier: Apache-2.0
"""The page of results: one row a figure, from `benchmarks/results.json`.

    python -m vdla.benchmarks.results build/bench/*.json

puts the figures of results of `vdla bench ... --json` in place of those recorded, and writes
docs/results.md. Without files it only writes the page.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from vdla.support.atomic import write_text

ROOT = Path(__file__).resolve().parents[1]
RECORDS = ROOT / "benchmarks" / "results.json"
PAGE = ROOT / "docs" / "results.md"
BY_HAND = "by hand"

_HEAD = """\
# Results

After this page you know what was measured, with which command, on which CPU and when, and can
measure it again. The page is written from `benchmarks/results.json` by `make results`, which takes
every result under `build/bench`:

```sh
vdla bench layers --json build/bench/layers.json    # or all of them: make bench
make results
```

Cycles and areas do not depend on the CPU; times do, and were measured on one core unless a row says
otherwise. The last column has the fingerprint of the machine if the figure was taken from the JSON
of its benchmark; figures recorded "by hand" were copied from a run before results were kept.
[What the figures mean](figures.md) explains the terms; [Limits](limits.md) says what was never
measured.

| what | figure | command | CPU | date | recorded |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A figure as the page shows it.

    `form` is the format of the figure from the names of a result's figures, or from the cells of
    its row that has the values `where`; without one the figure is recorded by hand only. A figure
    of time has the `family` of its CPU, as LLVM names it: results of others leave it as it is.
    """

    what: str
    figure: str
    command: str
    cpu: str
    date: str
    recorded: str = BY_HAND
    form: str = ""
    where: Mapping[str, Any] | None = None
    family: str = ""

    def updated(self, document: Mapping[str, Any]) -> Record:
        """With the figure of a benchmark's result; unchanged if the result does not have it."""
        receipt = document["receipt"]
        if not self.form or not _same_command(self.command, receipt["command"]) or self.family not in receipt["cpu"]:
            return self
        rows = document["rows"] if self.where else [document["figures"]]
        cells = next((row for row in rows if _has(row, self.where or {})), None)
        if cells is None:
            return self
        try:
            figure = self.form.format_map(cells)
        except KeyError:
            return self
        return replace(
            self,
            figure=figure,
            cpu=receipt["cpu"],
            date=receipt["date"],
            recorded=receipt.get("config_fingerprint", "JSON"),
        )


def _same_command(one: str, other: str) -> bool:
    """Whether two commands run the same benchmark, with the same section, in the same form."""
    words, others = one.split(), other.split()
    return words[:3] == others[:3] and ("--long" in words) == ("--long" in others)


def _has(row: Mapping[str, Any], where: Mapping[str, Any]) -> bool:
    return all(row.get(name) == value for name, value in where.items())


def read_records(path: Path = RECORDS) -> list[Record]:
    """The records of a file."""
    return [Record(**row) for row in json.loads(path.read_text(encoding="utf-8"))]


def records_text(records: Sequence[Record]) -> str:
    """The content of a file of records."""
    rows = [{name: value for name, value in asdict(record).items() if value} for record in records]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


def results_page(records: Iterable[Record]) -> str:
    """The page."""
    return _HEAD + "".join(
        f"| {one.what} | {one.figure} | `{one.command}` | {one.cpu} | {one.date} | {one.recorded} |\n"
        for one in records
    )


def main(files: Sequence[str]) -> int:
    """Update the records by results in files, and write the page."""
    records = read_records()
    for name in files:
        document = json.loads(Path(name).read_text(encoding="utf-8"))
        records = [record.updated(document) for record in records]
    write_text(RECORDS, records_text(records))
    write_text(PAGE, results_page(records))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
