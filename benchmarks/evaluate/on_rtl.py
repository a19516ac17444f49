# SPDX-License-Identifier: Apache-2.0
"""Machines with extensions that have datapaths: simulator against RTL on random verified programs.

The machines are those of the worked examples that have RTL, and one of small extensions that
together read all that a datapath can; each on three configurations and with four memories. Every
machine costs a build of the RTL. What ran without a mismatch is not run again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from vdla.benchmarks import equality
from vdla.benchmarks.evaluate import examples
from vdla.benchmarks.harness import Figures, Row, Section, finished
from vdla.compiler.extensions import extend
from vdla.hardware.config import Config, Dram
from vdla.hardware.generate.datapath_ports import datapath_units
from vdla.hardware.program import Program
from vdla.runtime.devices.rtl_build import BuildOptions, build_library
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache
from vdla.support.progress import Progress
from vdla.support.toolkit_digest import toolkit_digest
from vdla.verification.generated_tests.planted import sample_machine
from vdla.verification.programs.cases import COUNTS, ProgramCase
from vdla.verification.programs.device_pair import Comparator, Open, rtl_pair
from vdla.verification.programs.random_data import random_arrays
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
PROGRAMS = 48
"""Programs of a batch."""
WORKERS = 2


def mismatches(progress: Progress, seed: int, count: int = EACH, workers: int = WORKERS) -> Section:
    """`count` programs on every machine with every memory."""
    with tempfile.TemporaryDirectory(prefix="vdla-datapaths-") as folder:
        machines = list(machines_with_rtl(Path(folder)))
        batches = [
            batch
            for number, machine in enumerate(machines, seed * len(machines))
            for batch in split(machine, MEMORIES, number * EACH_LONG, count)
        ]
        batches.sort(key=lambda batch: batch.first % EACH_LONG)  # all machines in turn
        outcomes = run_batches(batches, progress, workers)
        wrong = [mismatch for _, outcome, _ in outcomes for mismatch in outcome.mismatches]
        texts = [equality.explain(case, text) for case, text in wrong[:MOST_SHRUNK]]
    print(*texts, sep="\n", end="\n" if texts else "", file=sys.stderr)
    new = [outcome for _, outcome, kept in outcomes if not kept]
    figures: Figures = {
        "rtl_machines": len(machines),
        "rtl_programs": sum(outcome.runs for _, outcome, _ in outcomes),
        "rtl_programs_kept": sum(outcome.runs for _, outcome, kept in outcomes if kept),
        "mismatches": len(wrong),
    }
    if new:
        runs, cpu_s = sum(outcome.runs for outcome in new), sum(outcome.cpu_s for outcome in new)
        figures["rtl_programs_per_cpu_s"] = round(runs / cpu_s, 2)
    return Section(figures, _rows(outcomes), {"mismatches": texts})


def _rows(outcomes: Sequence[tuple[RtlBatch, RtlBatchOutcome, bool]]) -> list[Row]:
    """What ran on each machine."""
    rows: dict[Config, Row] = {}
    for batch, outcome, _ in sorted(outcomes, key=lambda entry: entry[0].first):
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


# --- batches --------------------------------------------------------------------------------------
# Batches of random programs of a machine, each run on simulator and RTL with several memories.
#
# Drawing and verifying a program takes as long as running it, so all memories share it; addresses
# and the state at power-up differ. A batch without mismatches is kept in the user's cache under a
# hash of all that it depends on, so that an interrupted run resumes.


@dataclass(frozen=True, slots=True)
class RtlBatch:
    """The programs of `count` seeds from `first` on a machine, with each of some memories."""

    config: Config
    first: int
    count: int
    memories: tuple[Dram, ...]

    def cases(self, seed: int) -> list[ProgramCase]:
        """The program of a seed with each memory; every second one has registers at random."""
        length = COUNTS[seed % len(COUNTS)]
        machines = [replace(self.config, dram=dram) for dram in self.memories]
        parity = self.first // PROGRAMS % 2
        return [
            ProgramCase(machine, seed, length, random_start=(number + parity) % 2 > 0)
            for number, machine in enumerate(machines)
        ]


@dataclass(frozen=True, slots=True)
class RtlBatchOutcome:
    """Runs of a batch, what ran, and the CPU time; `mismatches` are numbers of cases and texts."""

    runs: int
    instructions: int
    cycles: int
    cpu_s: float
    mismatches: tuple[tuple[ProgramCase, str], ...] = ()


def split(config: Config, memories: Sequence[Dram], first: int, programs: int) -> list[RtlBatch]:
    """The batches of a machine."""
    ends = range(first, first + programs, PROGRAMS)
    return [RtlBatch(config, at, min(PROGRAMS, first + programs - at), tuple(memories)) for at in ends]


# --- one batch ------------------------------------------------------------------------------------


def run_batch(batch: RtlBatch, opened: Open = rtl_pair) -> RtlBatchOutcome:
    """Runs a batch in this process."""
    begin = time.process_time()
    runs = instructions = cycles = 0
    mismatches: list[tuple[ProgramCase, str]] = []
    with ExitStack() as stack:
        pairs = [stack.enter_context(opened(replace(batch.config, dram=dram))) for dram in batch.memories]
        for seed in range(batch.first, batch.first + batch.count):
            program: Program | None = None
            for case, compare in zip(batch.cases(seed), pairs, strict=True):
                program = program or case.made()
                duration, difference = _run(case, program, compare)
                runs, instructions, cycles = runs + 1, instructions + len(program), cycles + duration
                mismatches += [(case, difference)] if difference else []
    return RtlBatchOutcome(runs, instructions, cycles, time.process_time() - begin, tuple(mismatches))


def _run(case: ProgramCase, program: Program, compare: Comparator) -> tuple[int, str]:
    """The cycles of a run, and how simulator and RTL differ."""
    result = compare(program, random_arrays(program, case.seed), case.conditions(program))
    return 0 if result.statistics is None else result.statistics.total_cycles, result.difference


# --- all of them ----------------------------------------------------------------------------------


def run_batches(
    batches: Sequence[RtlBatch], progress: Progress, workers: int = WORKERS, opened: Open = rtl_pair
) -> list[tuple[RtlBatch, RtlBatchOutcome, bool]]:
    """Each batch with its outcome, and whether that is one of an earlier run; 0 workers: here."""
    paths = {batch: _path(batch) for batch in batches}
    result = [(batch, outcome, True) for batch in batches if (outcome := _kept(paths[batch])) is not None]
    kept = {batch for batch, _, _ in result}
    missing = [batch for batch in batches if batch not in kept]
    total, bad = sum(batch.count * len(batch.memories) for batch in batches), 0
    done = sum(outcome.runs for _, outcome, _ in result)
    progress("start", done, total)
    for batch, outcome in finished(partial(_with_batch, opened=opened), missing, workers):
        if not outcome.mismatches:
            _keep(paths[batch], outcome)
        result.append((batch, outcome, False))
        done, bad = done + outcome.runs, bad + len(outcome.mismatches)
        progress(f"{batch.config.name}, {bad} mismatches", done, total)
    return result


def _with_batch(batch: RtlBatch, opened: Open) -> tuple[RtlBatch, RtlBatchOutcome]:
    return batch, run_batch(batch, opened)


# --- what is kept ---------------------------------------------------------------------------------


def _path(batch: RtlBatch) -> Path:
    library = build_library(batch.config, BuildOptions(assertions=True)).name  # its name has a hash of all sources
    content = [library, batch.config.to_dict(), batch.first, batch.count, [dram.to_dict() for dram in batch.memories]]
    text = json.dumps([toolkit_digest("verification/programs"), *content], sort_keys=True)
    return user_cache("evaluate") / f"rtl-{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


def _kept(path: Path) -> RtlBatchOutcome | None:
    try:
        return RtlBatchOutcome(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _keep(path: Path, outcome: RtlBatchOutcome) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({name: value for name, value in asdict(outcome).items() if name != "mismatches"}))
