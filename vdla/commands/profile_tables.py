# SPDX-License-Identifier: Apache-2.0
"""Tables of profiles of networks: a row per operator, and the totals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vdla.commands.console import column_width, table
from vdla.commands.device_times import milliseconds
from vdla.commands.placement_tables import shortened
from vdla.commands.run_tables import COUNTER_LABELS

if TYPE_CHECKING:
    from rich.table import Table

    from vdla.runtime.executor.profile import NetworkProfile, OperatorProfile


def operator_table(profile: NetworkProfile, *, accelerator_only: bool = False) -> Table:
    """Cycles, time, share of the time, utilisation and what compute waited for."""
    listing = table(f"{profile.model}", "operator", "name", "device", "cycles", "ms", "%", "used %", "waits for")
    total = profile.accelerator_seconds if accelerator_only else profile.seconds
    for column in (1, 2, 7):
        listing.columns[column].justify = "left"
    for operator in profile.operators:
        if accelerator_only and operator.cycles is None:
            continue
        cycles = "-" if operator.cycles is None else f"{operator.cycles:,}"
        used = "-" if not operator.utilisation else f"{100 * operator.utilisation:.1f}"
        time = (f"{1e3 * operator.seconds:,.3f}", f"{100 * operator.seconds / total:.1f}" if total else "-")
        name = shortened(operator.name, column_width(14))
        listing.add_row(
            shortened(operator_label(operator), 14), name, operator.device, cycles, *time, used, stall_text(operator)
        )
    return listing


def operator_label(profile: OperatorProfile) -> str:
    """The operators of a row, without the prefix of VDLA's own."""
    names = [name.removeprefix("vdla.") for name in profile.op.split("+")]
    return names[0] if len(names) == 1 else f"{names[0]} +{len(names) - 1}"


def stall_text(profile: OperatorProfile) -> str:
    """What the compute unit waited for longest, and its share of the operator's cycles."""
    if profile.main_stall is None or not profile.cycles:
        return "-"
    label = COUNTER_LABELS[profile.main_stall].removeprefix("token ")
    return f"{label} {100 * profile.stalls[profile.main_stall] / profile.cycles:.0f} %"


def summary(profile: NetworkProfile) -> Iterator[str]:
    """Sentences about the whole."""
    if profile.config is not None and profile.utilisation is not None:
        clock = (
            f"{profile.cycles:,} cycles, {milliseconds(profile.accelerator_seconds)} at {profile.config.clock_mhz} MHz"
        )
        yield f"{profile.config.name}: {clock}, utilisation {100 * profile.utilisation:.1f} %"
    gpu = " and GPU" if any(operator.device == "gpu" for operator in profile.operators) else ""
    yield f"CPU{gpu} steps: {milliseconds(profile.cpu_seconds)} on this machine ({profile.cpu}), not on the board"
    images = "" if profile.images == 1 else f", {profile.images} images a run"
    yield f"{profile.frames_per_second:,.1f} frames per second, {milliseconds(profile.seconds)} a run{images}"
    if profile.config is not None and profile.accelerator_seconds:
        alone = profile.images / profile.accelerator_seconds
        yield f"{alone:,.1f} frames per second of the accelerator alone"
