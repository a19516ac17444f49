# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/peers.md from the result of `vdla bench peers --json`.

python -m vdla.benchmarks.peers.page build/bench/peers.json

records the result as `benchmarks/peers.json`, and writes the tables; without a file it only writes
them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from vdla.benchmarks.peers.benchmark import MEASURED
from vdla.support.atomic import write_text

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "benchmarks" / "peers.json"
PAGE = ROOT / "docs" / "peers.md"

_MACHINES = {
    "machine": "machine",
    "board": "board",
    "macs_per_cycle": "MACs a cycle",
    "lut": "LUT",
    "dsp": "DSP",
    "bram36": "BRAM36",
    "uram": "URAM",
    "source": "source",
}
_RUNS = {
    "machine": "machine",
    "cycles": "cycles",
    "frames_per_s": "frames/s, accelerator",
    "whole_frames_per_s": "frames/s, whole",
    "gop_per_s": "GOP/s",
    "remark": "not comparable, source",
}
Record = Mapping[str, Any]


def checked(record: Record) -> Record:
    """A result of all networks; others are refused."""
    networks = dict.fromkeys(row["network"] for row in record["rows"] if "network" in row)
    if record["benchmark"] != "peers" or tuple(networks) != MEASURED:
        raise SystemExit(f"peers: the result must be of all networks, got {record['receipt']['command']}")
    return record


def tables(record: Record) -> list[str]:
    """The tables as Markdown: machines, runs, where our programs come from, sources."""
    machines = [row for row in record["rows"] if "board" in row]
    runs = [row for row in record["rows"] if "network" in row]
    receipt = record["receipt"]
    origins = [
        [f"`{name}`", receipt["configs"][name], str(receipt["seed"]), receipt["versions"]["vdla"], receipt["date"]]
        for name in receipt["configs"]
    ]
    return [
        _table(list(_MACHINES.values()), [[_cell(row[name]) for name in _MACHINES] for row in machines]),
        _table(list(_RUNS.values()), _by_network(runs)),
        _table(["preset", "fingerprint", "seed", "version", "date"], origins),
        _table(["source", "where"], [[name, where] for name, where in receipt["sources"].items()]),
    ]


def _by_network(runs: Iterable[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The rows of runs, below one with each network and its operations here."""
    for name, group in groupby(runs, key=itemgetter("network")):
        rows = list(group)
        yield [f"**`{name}`**, {_cell(rows[0]['gop'])} GOP", *[""] * (len(_RUNS) - 1)]
        yield from ([_cell(_described(row)[column]) for column in _RUNS] for row in rows)


def _described(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with the machine's numbers and clock, the operations of another network, its source."""
    clock = f", {_cell(row['clock_mhz'])} MHz" if row["clock_mhz"] else ""
    cycles = _cell(row["cycles"]) or (row["offloaded_cycles"] and f"{row['offloaded_cycles']:,} offloaded")
    if row["network"] == "resnet18" and row["cycles"]:
        cycles += f" ({row['offloaded_cycles']:,} offloaded)"
    operations = f"{_cell(row['gop'])} GOP" if row["source"] and row["gop"] else ""
    remark = "; ".join(
        part for part in (operations, row["differs"], row["source"] and f"source: {row['source']}") if part
    )
    return {**row, "machine": f"{row['machine']}, {row['numbers']}{clock}", "cycles": cycles, "remark": remark}


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"|{'|'.join(f' {cell} ' if cell else ' ' for cell in line)}|\n" for line in lines)


def _cell(value: object) -> str:
    """Numbers with commas, at most four digits behind those before the point."""
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"
    return str(value)


def page(text: str, record: Record) -> str:
    """The page with the tables of the record in place of its own."""
    for table in tables(record):
        begin = text.index(table.splitlines()[0])
        text = text[:begin] + table + text[text.index("\n\n", begin) + 1 :]
    return text


def main(files: Sequence[str]) -> None:
    """Record a result and write the page."""
    path = Path(files[0]) if files else RECORD
    record = checked(json.loads(path.read_text(encoding="utf-8")))
    write_text(RECORD, json.dumps(record, indent=2) + "\n")
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8"), record))


if __name__ == "__main__":
    main(sys.argv[1:])
