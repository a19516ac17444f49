# SPDX-License-Identifier: Apache-2.0
"""The table of docs/paper.md: one row a claim, from results of `vdla paper FIGURE --json`.

python -m vdla.benchmarks.paper.page build/paper/*.json

puts these results in place of those recorded in `benchmarks/paper.json`, and writes the table.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from vdla.support.atomic import write_text

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "benchmarks" / "paper.json"
PAGE = ROOT / "docs" / "paper.md"
_BEGIN, _END = "| figure | claim |", "\n\n"
_HEAD = "| figure | claim | in the paper | here | holds | machine here | CPU, date |\n|---|---|---|---|---|---|---|\n"

Records = dict[str, Any]


def recorded(results: Iterable[Mapping[str, Any]], records: Records) -> Records:
    """The records with other results; those of small networks are refused."""
    for result in results:
        receipt = result["receipt"]
        if receipt["small"]:
            raise SystemExit(f"paper: results must be of whole networks, got {receipt['command']}")
        claims = [row for row in result["rows"] if "claim" in row]
        kept = {name: receipt[name] for name in ("paper", "here", "cpu", "date")}
        records[result["benchmark"].removeprefix("paper ")] = {**kept, "claims": claims}
    return dict(sorted(records.items(), key=lambda item: int(item[0].removeprefix("figure"))))


def table(records: Records) -> str:
    """The table as Markdown."""
    lines = []
    for name, record in records.items():
        for claim in record["claims"]:
            there = f"{claim['paper']}, {record['paper']}"
            holds = "yes" if claim["holds"] else "**no**"
            run = f"{record['cpu']}, {record['date']}"
            cells = (f"`{name}`", claim["claim"], there, f"{claim['here']:,.3g}", holds, record["here"], run)
            lines.append(f"| {' | '.join(cells)} |\n")
    return _HEAD + "".join(lines)


def page(text: str, records: Records) -> str:
    """The page with the table of the records in place of its own."""
    begin = text.index(_BEGIN)
    return text[:begin] + table(records) + text[text.index(_END, begin) + 1 :]


def main(files: Iterable[str]) -> None:
    """Record results and write the page."""
    results = [json.loads(Path(file).read_text(encoding="utf-8")) for file in files]
    records = recorded(results, json.loads(RECORDS.read_text(encoding="utf-8")))
    write_text(RECORDS, json.dumps(records, indent=2) + "\n")
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), records))


if __name__ == "__main__":
    main(sys.argv[1:])
