# SPDX-License-Identifier: Apache-2.0
"""A token of a decoder as a picture: the programs of a step one behind the other, and when the
instructions of each kind execute. What runs on the CPU between programs takes no room.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from vdla.charts.blocks import ChartBlock, Row, RowChart
from vdla.commands.run_page import instruction_kind
from vdla.hardware.program import Program
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.plan import ProgramStep
from vdla.simulator.stats import RunStats

_LEAST = 1 / 500  # the part of the plot whose gaps are closed
_NAMES = {
    "LOAD wgt": "weights", "LOAD inp": "inputs", "LOAD other": "scales", "GEMM": "products",
    "extension": "extensions", "VECTOR": "vectors", "STORE": "results",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Span:
    """The cycles `first..end` of a program in which `count` instructions follow each other."""

    first: int
    end: int
    count: int


def step_picture(name: str, artifact: Artifact, result: NetworkResult) -> str:
    """The picture of a run's programs as SVG text."""
    runs = [
        (artifact.programs[run.step.program], run.statistics)
        for run in result.steps
        if isinstance(run.step, ProgramStep) and run.statistics is not None
    ]
    total = sum(stats.total_cycles for _, stats in runs)
    begins = list(accumulate((stats.total_cycles for _, stats in runs), initial=0))
    assert artifact.config is not None, "programs are of a machine"
    title = f"A token of {name} on {artifact.config.name}: {total:,} cycles in {len(runs)} programs"
    chart = RowChart(title=title, high=max(1, total), pitch=24.0, bar=16.0, unit="cycles")
    programs = [
        ChartBlock(begin, begin + stats.total_cycles, "sync", f"{program.name}: {stats.total_cycles:,} cycles")
        for begin, (program, stats) in zip(begins, runs, strict=False)
    ]
    rows = [Row("program", [programs[::2], programs[1::2]])]
    for kind, name in _NAMES.items():
        blocks = [
            _block(block, kind, program, begin)
            for begin, (program, stats) in zip(begins, runs, strict=False)
            for block in _spans(program, stats, kind, total * _LEAST)
        ]
        rows += [Row(name, [blocks])] if blocks else []
    return chart.draw(rows, alone=True)


def _block(span: _Span, kind: str, program: Program, begin: int) -> ChartBlock:
    tip = f"{program.name}, {span.count} of {kind}: cycles {span.first:,} to {span.end - 1:,}"
    return ChartBlock(begin + span.first, begin + span.end, kind.replace(" ", "").lower(), tip)


def _spans(program: Program, stats: RunStats, kind: str, least: float) -> Iterator[_Span]:
    """When instructions of a kind execute; gaps shorter than `least` are closed."""
    numbers = [at for at, row in enumerate(program.columns) if instruction_kind(row) == kind]
    span = None
    for first, end in sorted((int(stats.starts[at]), int(stats.ends[at]) + 1) for at in numbers):
        if span is not None and first - span.end < least:
            span = _Span(span.first, max(span.end, end), span.count + 1)
            continue
        if span is not None:
            yield span
        span = _Span(first, end, 1)
    if span is not None:
        yield span
