"""Machines with extensions that have datapaths: simulator against RTL on random verified programs.

The machines are those of the worked examples that have RTL, and one of small extensions that
together read all that a datapath can; each on three configurations and with four memories. Every
machine costs a build of the RTL. What ran without a mismatch is not run again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vdla.benchmarks import equality
from vdla.benchmarks.evaluate import examples
from vdla.benchmarks.evaluate.part import BenchmarkPart
from vdla.benchmarks.evaluate.rtl_batches import WORKERS, RtlBatch, RtlBatchOutcome, run_batches, split
from vdla.benchmarks.harness import Row
from vdla.compiler.extensions import extend
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_ports import datapath_units
from vdla.support.progress import Progress
from vdla.verification.generated_tests.planted import sample_machine
from vdla.verification.programs.random_machines import DRAMS

_TINY = Config.preset("tiny")
PLAIN = (
    replace(_TINY, name="tiny_deep", block_in=16),
    replace(_TINY, name="tiny_batch", batch=2, block_in=16, block_out=8, inp_kib=2, wgt_kib=2, acc_kib=2, array_rate=2),
    replace(_TINY, name="tiny_int4", block_in=16, block_out=8, inp_bits=4, wgt_bits=4, acc_kib=2),
)
MEMORIES = tuple(sorted(DRAMS, key=lambda dram: dram.read_latency)[:4])
"""All but the slowest, on which a program waits for most of its cycles."""
EACH, EACH_LONG = 12, 2000
"""Programs of each machine, which run with every memory."""
MOST_SHRUNK = 3


def mismatches(progress: Progress, seed: int, each: int = EACH, workers: int = WORKERS) -> BenchmarkPart:
    """`each` programs on every machine with every memory."""
    with tempfile.TemporaryDirectory(prefix="vdla-datapaths-") as folder:
        machines = list(machines_with_rtl(Path(folder)))
        batches = [
            batch
            for number, machine in enumerate(machines, seed * len(machines))
            for batch in split(machine, MEMORIES, number * EACH_LONG, each)
        ]
        batches.sort(key=lambda batch: batch.first % EACH_LONG)  # all machines in turn
        found = run_batches(batches, progress, workers)
        wrong = [mismatch for _, outcome, _ in found for mismatch in outcome.mismatches]
        texts = [equality.explain(case, text) for case, text in wrong[:MOST_SHRUNK]]
    print(*texts, sep="\n", end="\n" if texts else "", file=sys.stderr)
    new = [outcome for _, outcome, kept in found if not kept]
    figures: dict[str, float] = {
        "rtl_machines": len(machines),
        "rtl_programs": sum(outcome.runs for _, outcome, _ in found),
        "rtl_programs_kept": sum(outcome.runs for _, outcome, kept in found if kept),
        "mismatches": len(wrong),
    }
    if new:
        runs, cpu_s = sum(outcome.runs for outcome in new), sum(outcome.cpu_s for outcome in new)
        figures["rtl_programs_per_cpu_s"] = round(runs / cpu_s, 2)
    return BenchmarkPart(figures, _rows(found), {"mismatches": texts})


def _rows(found: Sequence[tuple[RtlBatch, RtlBatchOutcome, bool]]) -> list[Row]:
    """What ran on each machine."""
    rows: dict[Config, dict[str, Any]] = {}
    for batch, outcome, _ in sorted(found, key=lambda each: each[0].first):
        names = ", ".join(dict.fromkeys(plug_in.unit for plug_in in batch.config.extensions))
        row = rows.setdefault(batch.config, {"machine": batch.config.name, "extensions": names})
        for name in ("runs", "instructions", "cycles"):
            row[name] = row.get(name, 0) + getattr(outcome, name)
        row["mismatches"] = row.get("mismatches", 0) + len(outcome.mismatches)
    return list(rows.values())


def machines_with_rtl(folder: Path) -> Iterator[Config]:
    """The machines with the memory of `tiny`; files of examples are written into `folder`."""
    sources = [str(examples.write_file(name, folder)) for name in examples.pages()]
    for plain in PLAIN:
        yield sample_machine(plain)
        yield from (machine for source in sources if _has_rtl(machine := extend(plain, source)))


def _has_rtl(machine: Config) -> bool:
    return all(unit.datapath is not None for unit in datapath_units(machine))
