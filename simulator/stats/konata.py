# SPDX-License-Identifier: Apache-2.0
"""A run as a log for Konata, a viewer of pipelines: its format "Kanata", version 0004.

A line is a command, its fields parted by tabs: C passes cycles, I begins an instruction, L gives it
a text, S begins a stage, R ends it, W draws an arrow. Events are in the order of time. The format:
https://github.com/shioyadan/Konata/blob/master/docs/kanata-log-format.md
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vdla.hardware.asm.disassembler import row_text
from vdla.hardware.isa import COL, COUNTERS, Unit
from vdla.hardware.program import Program
from vdla.simulator.stats.run_stats import RunStats
from vdla.simulator.stats.tokens import NONE, token_givers

_HEADER = "Kanata\t0004"
_ROW, _HOVER = 0, 1  # where a text is shown
_QUEUED = "Q"
_STAGES = {Unit.LOAD: "Ld", Unit.COMPUTE: "Cp", Unit.STORE: "St"}
_DISPATCH, _START, _END = range(3)


def konata_lines(program: Program, stats: RunStats) -> Iterator[str]:
    """The lines of the log of a run whose times are known.

    An instruction is in stage Q, the command queue, from its dispatch to its start, then in Ld, Cp
    or St until its end. Units are the threads; arrows are tokens.
    """
    yield _HEADER
    yield "C=\t0"
    times = np.stack([stats.dispatches, stats.starts, stats.ends + 1], axis=1)
    order = np.argsort(times.reshape(-1), kind="stable")
    units = [Unit(unit) for unit in program.columns[:, COL["unit"]].tolist()]
    givers, cycle, retired = token_givers(program.columns).tolist(), 0, 0
    for place, when in zip(order.tolist(), times.reshape(-1)[order].tolist(), strict=True):
        if when > cycle:
            yield f"C\t{when - cycle}"
            cycle = when
        k, event = divmod(place, times.shape[1])
        if event == _DISPATCH:
            yield from _begun(program, stats, k, units[k])
        elif event == _START:
            yield f"S\t{k}\t0\t{_STAGES[units[k]]}"
            yield from (f"W\t{k}\t{giver}\t0" for giver in givers[k] if giver != NONE)
        else:
            yield f"R\t{k}\t{retired}\t0"
            retired += 1


def _begun(program: Program, stats: RunStats, k: int, unit: Unit) -> Iterator[str]:
    """An instruction that is dispatched: its texts, and its first stage."""
    yield f"I\t{k}\t{k}\t{int(unit)}"
    yield f"L\t{k}\t{_ROW}\t{k}: {row_text(program, k)}"
    line = int(program.source_of[k])
    if line >= 0:
        yield f"L\t{k}\t{_HOVER}\tfrom: {program.source_lines[line].strip()}; "
    if stats.waits is not None:
        waits = zip(COUNTERS, stats.waits[k].tolist(), strict=True)
        yield f"L\t{k}\t{_HOVER}\t" + ", ".join(f"{name} {cycles}" for name, cycles in waits if cycles)
    yield f"S\t{k}\t0\t{_QUEUED}"
