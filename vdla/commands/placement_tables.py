# SPDX-License-Identifier: Apache-2.0
"""Where the operators of a compiled network run: one row a device, one row an operator, sentences.

Operators that only pack or unpack tensors for the accelerator are the handover, a device of their
own here, and so are the copies between the memories of the host and of a GPU; every operator of
the model is on exactly one of the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from vdla.commands.device_times import device_names, milliseconds
from vdla.runtime.executor.run_times import is_handover, run_times
from vdla.support.text_table import TextTable, text_table

if TYPE_CHECKING:
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.plan import PlacedOperator, Placement
    from vdla.runtime.studies.explanation import Explanation

DEVICES = ("vdla", "gpu", "cpu", "numpy", "handover", "copy")
_MOST_REASONS = 3


@dataclass(frozen=True, slots=True)
class PlacedRow:
    """An operator, its device, and the bytes that its step reads and writes.

    Of a step with several operators, the first row has the bytes of all.
    """

    device: str
    operator: PlacedOperator
    step: str
    nbytes: int | None


def placed_rows(artifact: Artifact) -> list[PlacedRow]:
    """Every operator in the order of the steps."""
    return [row for step in artifact.plan.steps for row in _rows(artifact, step.name, step.placement)]


def _rows(artifact: Artifact, step: str, placement: Placement) -> Iterator[PlacedRow]:
    for index, operator in enumerate(placement.operators):
        device = "handover" if is_handover(artifact, placement, operator) else placement.device
        yield PlacedRow(device, operator, step, None if index else placement.nbytes)


def tables_of(explanation: Explanation) -> list[TextTable]:
    """The operators, the devices, how near products are to their least cycles."""
    artifact = explanation.artifact
    return [operator_table(artifact), device_table(artifact), *least_tables(artifact)]


def device_table(artifact: Artifact) -> TextTable:
    """Operators, multiply-accumulates and cycles of each device."""
    rows, names = placed_rows(artifact), device_names(artifact)
    total = sum(row.operator.macs for row in rows)
    listed = []
    for device in DEVICES:
        mine = [row for row in rows if row.device == device]
        if mine:
            macs = sum(row.operator.macs for row in mine)
            cells = (f"{len(mine):,}", f"{macs:,}", share(macs, total))
            listed.append((names[device], *cells, _cycles(artifact, device), _estimate(mine)))
    return text_table("", ("device", "operators", "MACs", "share", "cycles", "estimate"), listed)


def share(part: float, total: float) -> str:
    """A part in per cent."""
    return f"{100 * part / total:.1f} %" if total else "-"


def _cycles(artifact: Artifact, device: str) -> str:
    cycles = [step.placement.cycles for step in artifact.plan.steps if step.placement.device == device]
    return f"{sum(cycles):,}" if cycles and None not in cycles else "-"  # type: ignore[arg-type]  # None is excluded


def _estimate(rows: list[PlacedRow]) -> str:
    seconds = [row.operator.seconds for row in rows]
    known = [second for second in seconds if second is not None]
    return milliseconds(sum(known)) if known and len(known) == len(seconds) else "-"


def operator_table(artifact: Artifact, widths: tuple[int, int] | None = None) -> TextTable:
    """Every operator: device, multiply-accumulates, cycles or estimated time, bytes of its step.
    Operators and names are shortened to `widths`.
    """
    listed = []
    for row in placed_rows(artifact):
        op = row.operator
        cycles = "-" if op.cycles is None else f"{op.cycles:,}"
        estimate = "-" if op.seconds is None else f"{1e3 * op.seconds:,.3f}"
        macs, nbytes = (f"{n:,}" if n else "-" for n in (op.macs, row.nbytes))
        kind, name = op.op.removeprefix("vdla."), op.name
        words = (kind, name) if widths is None else map(shortened, (kind, name), widths)
        listed.append((*words, row.device, macs, cycles, estimate, nbytes))
    return text_table("", ("operator", "name", "device", "MACs", "cycles", "ms", "bytes"), listed, texts=3)


def least_tables(artifact: Artifact, width: int | None = None) -> list[TextTable]:
    """The cycles of products in the programs of their regions, over those that no program is below,
    and what the compute unit waits for most; no table where nothing was timed.
    """
    from vdla.commands.run_tables import COUNTER_LABELS

    operators = [operator for step in artifact.plan.steps for operator in step.placement.operators]
    listed = []
    for op in operators:
        if op.cycles and op.least_cycles:
            name = op.name if width is None else shortened(op.name, width)
            gap = f"{100 * (op.cycles / op.least_cycles - 1):.2f}"
            listed.append((name, f"{op.cycles:,}", f"{op.least_cycles:,}", gap, COUNTER_LABELS.get(op.waits, "-")))
    header = ("products", "cycles", "least", "above %", "waits for")
    return [text_table("", header, listed)] if listed else []


def least_sentences(artifact: Artifact) -> Iterator[str]:
    """How near each program is to the cycles that none of its operators is below."""
    from vdla.commands.run_tables import COUNTER_LABELS
    from vdla.compiler.operators.least_cycles import CAUSES

    for step in artifact.plan.steps:
        placed = step.placement
        if placed.cycles is None or not placed.least_cycles:
            continue
        above = placed.cycles - placed.least_cycles
        text = (
            f"{step.name}: no program has fewer than {placed.least_cycles:,} cycles, set by its "
            f"{CAUSES.get(placed.limited_by, placed.limited_by)}; it has {placed.cycles:,}, "
            f"{100 * above / placed.least_cycles:.2f} % above"
        )
        for counter, cycles in placed.waits.items():
            text += f", of which the compute unit spends at most {cycles:,} on '{COUNTER_LABELS.get(counter, counter)}'"
        yield f"{text}."


def shortened(name: str, most: int = 28) -> str:
    """A name that fits a column: its end says more than its beginning."""
    return name if len(name) <= most else f"…{name[1 - most :]}"


# --- sentences ------------------------------------------------------------------------------------


def sentence(artifact: Artifact) -> str:
    """The whole in a sentence or two: how much runs where, and how long by the models."""
    rows = placed_rows(artifact)
    name, steps = artifact.plan.name, len(artifact.plan.steps)
    if artifact.config is None and artifact.grid is None:
        return f"{name} runs wholly on the CPU, in {_count(steps, 'step')}."
    parts = []
    if artifact.config is not None:
        runs = sum(step.placement.device == "vdla" for step in artifact.plan.steps)
        parts.append(f"{_part(rows, 'vdla')} on {artifact.config.name}, in {_count(runs, 'program')}")
    if artifact.grid is not None:
        copies = [row for row in rows if row.device == "copy"]
        nbytes = sum(row.nbytes or 0 for row in copies)
        copied = f"{_count(len(copies), 'copy', 'copies')} of {nbytes:,} bytes"
        parts.append(f"{_part(rows, 'gpu')} on the GPU ({artifact.grid.device}), with {copied}")
    return " ".join([f"{name} runs {'; '.join(parts)}.", *_times_sentence(artifact)])


def _times_sentence(artifact: Artifact) -> list[str]:
    """How long a run takes on the machine, on the CPU and for handovers, if all is estimated."""
    if artifact.config is None or artifact.grid is not None or not artifact.programs:
        return []
    times = run_times(artifact)
    if times is None:
        return []
    parts = (
        f"{milliseconds(times.accelerator)} on {artifact.config.name}",
        f"{milliseconds(times.cpu)} on the CPU",
        f"{milliseconds(times.handover)} in {_count(times.handovers, 'handover')}",
    )
    return [f"A run takes an estimated {milliseconds(times.total)}: {', '.join(parts)}."]


def _part(rows: list[PlacedRow], device: str) -> str:
    """How much of a network runs on a device."""
    of_model = [row for row in rows if row.device not in ("handover", "copy")]
    mine = [row for row in rows if row.device == device]
    macs, total = (sum(row.operator.macs for row in part) for part in (mine, rows))
    return f"{len(mine)} of {_count(len(of_model), 'operator')} and {share(macs, total)} of the MACs"


def _count(number: int, noun: str, nouns: str = "") -> str:
    return f"{number} {noun if number == 1 else nouns or f'{noun}s'}"


def why_cpu(artifact: Artifact) -> list[str]:
    """The commonest causes for which operators are not on the accelerator or have no kernel, each
    with its count and what would change it.
    """
    rows = (row for row in placed_rows(artifact) if row.device in ("cpu", "numpy") and row.operator.reason)
    causes = Counter((_cause(row.operator.reason), row.operator.change) for row in rows)
    common = causes.most_common(_MOST_REASONS)
    lines = [f"{_count(count, 'operator')}: {cause}{to_change(change)}" for (cause, change), count in common]
    rest = sum(causes.values()) - sum(count for _, count in common)
    return [*lines, f"{_count(rest, 'operator')}: other reasons (vdla explain)"] if rest else lines


def _cause(reason: str) -> str:
    """The rule of a reason, without what this operator has instead."""
    return "; ".join(part.partition(", got")[0] for part in reason.split("; "))


def to_change(change: str) -> str:
    """What would move an operator, behind its reason."""
    return f"; to change it: {change}" if change else ""


def document_of(explanation: Explanation) -> dict[str, Any]:
    """The same as JSON-compatible values."""
    artifact = explanation.artifact
    rows = placed_rows(artifact)
    totals = {device: _total([row for row in rows if row.device == device]) for device in DEVICES}
    plan, times = artifact.plan, run_times(artifact) if artifact.programs else None
    return {
        "model": plan.name,
        "machine": artifact.config.name if artifact.config else None,
        "cpu": artifact.cpu.name,
        "gpu": artifact.grid.device if artifact.grid else None,
        "summary": sentence(artifact),
        "totals": totals,
        "times": None if times is None else asdict(times),
        "arena_bytes": plan.arena_bytes,
        "arena_bytes_without_reuse": plan.arena_bytes_without_reuse,
        "gpu_arena_bytes": plan.device_bytes,
        "origin": dict(artifact.origin),
        "programs": [_program_document(step.name, step.placement) for step in plan.steps if step.placement.cycles],
        "operators": [_row_document(row) for row in rows],
    }


def _program_document(name: str, placed: Placement) -> dict[str, Any]:
    """The cycles of a program, those that none of its operators is below, and its longest wait."""
    known = {"cycles": placed.cycles, "least_cycles": placed.least_cycles, "limited_by": placed.limited_by}
    return {"name": name, **known, "waits": dict(placed.waits)}


def _total(rows: list[PlacedRow]) -> dict[str, int]:
    return {"operators": len(rows), "macs": sum(row.operator.macs for row in rows)}


def _row_document(row: PlacedRow) -> dict[str, Any]:
    return {
        "operator": row.operator.op,
        "name": row.operator.name,
        "device": row.device,
        "step": row.step,
        "reason": row.operator.reason,
        "change": row.operator.change,
        "macs": row.operator.macs,
        "cycles": row.operator.cycles,
        "least_cycles": row.operator.least_cycles or None,
        "waits_for": row.operator.waits or None,
        "estimated_seconds": row.operator.seconds,
        "step_bytes": row.nbytes,
    }
