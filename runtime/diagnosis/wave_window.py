# SPDX-License-Identifier: Apache-2.0
"""Waveforms of the RTL around the first difference of two devices.

The run that differed is repeated on a machine of its own, which writes waveforms in a window of
cycles only: of a long run, a file of all cycles would have gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vdla.runtime.devices import DeviceError
from vdla.runtime.devices.rtl import RtlDevice
from vdla.runtime.devices.run import run
from vdla.runtime.diagnosis.comparison import Comparison
from vdla.runtime.diagnosis.wave_views import WaveView, signal_groups, wave_markers
from vdla.simulator.stats import Times
from vdla.simulator.stats.times import UNKNOWN, latest_instructions
from vdla.simulator.support.errors import SimulationError
from vdla.support.arrays import Array
from vdla.support.atomic import write_text

AROUND_CYCLES = 200
"""Cycles before the first difference, and behind it."""
_NEIGHBOURS = 12  # instructions with markers


@dataclass(frozen=True, slots=True)
class WaveWindow:
    """The cycles of a run around a difference, from `first` to `last`.

    `instruction` is the one that differs first, None where only totals do.
    """

    first: int
    last: int
    cycle: int
    instruction: int | None


@dataclass(frozen=True, slots=True)
class RecordedWaves:
    """The window, the file of its waveforms, and the saved views of viewers."""

    window: WaveWindow
    file: Path
    views: tuple[Path, ...]

    def __str__(self) -> str:
        """A line that names the cycles and the files."""
        names = " and ".join(map(str, self.views))
        return f"waves of cycles {self.window.first} to {self.window.last}: {self.file}, shown by {names}"


def wave_window(comparison: Comparison, times: Times, culprit: int | None = None) -> WaveWindow:
    """The window around the first difference of runs that are not equal; `times` are the RTL's.

    `culprit` is the instruction that is known to cause a wrong result.
    """
    cycle, instruction = _difference(comparison, times, culprit)
    return WaveWindow(max(0, cycle - AROUND_CYCLES), cycle + AROUND_CYCLES, cycle, instruction)


def _difference(comparison: Comparison, times: Times, culprit: int | None) -> tuple[int, int | None]:
    """The cycle and the instruction of the first difference: of an event, else of the culprit, else
    of the instruction that wrote what differs, else the last event that was seen.
    """
    event, memory, buffer = comparison.first_difference, comparison.memory_difference, comparison.buffer_difference
    if event is not None:
        return min(cycle for cycle in event.cycles if cycle != UNKNOWN), event.instruction
    writers = [] if memory is None else list(memory.stores[:1])
    writers += [] if buffer is None or buffer.writer is None else [buffer.writer]
    writers = writers if culprit is None else [culprit]
    known = [k for k in writers if times.starts[k] != UNKNOWN]
    if known:
        first = min(known, key=lambda k: int(times.starts[k]))
        return int(times.starts[first]), first
    return max(0, *(int(np.max(events, initial=UNKNOWN)) for events in times)), None


def record_waves(
    comparison: Comparison,
    arrays: Mapping[str, Array],
    open_rtl: Callable[[tuple[int, int]], RtlDevice],
    file: Path,
    culprit: int | None = None,
) -> RecordedWaves:
    """Repeat the run of the RTL that differed, and write waveforms of the window with saved views.

    `open_rtl` opens the device for a window, with `file` as its waveforms; `culprit` is as for
    `wave_window`.
    """
    times = next(one.times for one in comparison.runs if one.device == RtlDevice.name)
    window = wave_window(comparison, times, culprit)
    with open_rtl((window.first, window.last)) as device:
        with suppress(DeviceError, SimulationError):  # a run that failed before fails again
            run(comparison.program, arrays, device)
        view = _view(comparison, times, window, device, file)
    paths = (file.with_suffix(".gtkw"), file.with_suffix(".sucl"))
    for path, text in zip(paths, (view.gtkwave(), view.surfer()), strict=True):
        write_text(path, text)
    return RecordedWaves(window, file, paths)


def _view(comparison: Comparison, times: Times, window: WaveWindow, device: RtlDevice, file: Path) -> WaveView:
    first, last, cursor = (device.wave_time(cycle) for cycle in (window.first, window.last, window.cycle))
    near = 0 if window.instruction is None else window.instruction
    count = min(_NEIGHBOURS, len(times.starts))
    instructions = latest_instructions(times, near, window.last, count) if count else []
    events = [
        (f"{k}_{name}", device.wave_time(int(cycles[k])))
        for k in instructions
        for name, cycles in (("start", times.starts), ("end", times.ends))
        if cycles[k] != UNKNOWN
    ]
    return WaveView(
        file=file.name,
        first=first,
        last=last,
        cursor=cursor,
        markers=wave_markers(events, first, last, cursor),
        groups=signal_groups(comparison.program.config),
    )
