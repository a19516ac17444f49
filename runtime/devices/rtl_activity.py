# SPDX-License-Identifier: Apache-2.0
"""The events of a run on the RTL, from counters bound to its modules in the harness and from the
memory's own.

The counters (harness/activity/activity.sv) run from power-up, so a run is a difference of two
readings.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from vdla.hardware.config import Config
from vdla.runtime.devices.device import DeviceError
from vdla.runtime.devices.rtl_buffers import COUNTERS
from vdla.runtime.devices.rtl_library import RtlMachine
from vdla.simulator.energy.event import Action, EventCounts, LaneStep, MachineEvent, lane_events

Ints = NDArray[np.int64]
Counters = Mapping[str, Ints]

_RAM = re.compile(
    r"u_(?P<buffer>inp|wgt|scl|uop|out|accumulator)"
    r"(\.gen_[a-z]+\[\d+\](\.gen_kept)?|\.gen_stored\.u_stored)?\.u_ram\.u_activity$"
)
_PIPELINE = (LaneStep.GEMM, LaneStep.PASS, LaneStep.PRODUCT)


def model_counters(machine: RtlMachine) -> Counters:
    """The counters of a model by hierarchical name; none in a model without them."""
    memories = machine.memories().items()
    return {name: content.view("<i8").ravel() for name, content in memories if name.rpartition(".")[2] in COUNTERS}


def activity_counts(config: Config, machine: RtlMachine, before: Counters) -> EventCounts:
    """The events since the counters were read; DeviceError in a model without counters."""
    now = model_counters(machine)
    if not now:
        raise DeviceError("device rtl: events must be counted by a model with activity=True, got one without")
    total: Counter[MachineEvent] = Counter()
    for name, counts in now.items():
        since = counts - before.get(name, np.zeros_like(counts))
        total.update(dict(_events(config, name, since, counts)))
    (read, written), (reads, writes) = machine.bytes_moved, machine.bursts
    beat = config.axi_bytes
    total[MachineEvent("dram", Action.READ, 8 * beat)] += read // beat
    total[MachineEvent("dram", Action.WRITE, 8 * beat)] += written // beat
    total[MachineEvent("reads", Action.BURST)] += reads
    total[MachineEvent("writes", Action.BURST)] += writes
    return {event: count for event, count in total.items() if count}


def _events(config: Config, name: str, since: Ints, counts: Ints) -> Iterator[tuple[MachineEvent, int]]:
    ram = _RAM.search(name)
    if ram is not None:
        part, lanes, lane_bits = ram["buffer"].replace("accumulator", "acc"), len(counts) - 2, int(counts[-1])
        yield MachineEvent(part, Action.READ, lanes * lane_bits), int(since[0])
        for written in range(1, lanes + 1):
            yield MachineEvent(part, Action.WRITE, written * lane_bits), int(since[written])
    elif name.endswith(".u_steps"):
        for plug_in, steps in zip(config.extensions, since.tolist(), strict=False):
            yield MachineEvent(plug_in.name, Action.STEP), steps
    elif len(counts) == len(_PIPELINE):
        for step, count in zip(_PIPELINE, since.tolist(), strict=True):
            yield from ((event, count * many) for event, many in lane_events(config, step))
    else:
        requantised, staged = since.tolist()
        yield from ((event, requantised * many) for event, many in lane_events(config, LaneStep.REQUANTISE))
        if config.stage is not None:
            yield MachineEvent(config.stage.name, Action.STEP), staged
