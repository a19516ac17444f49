# SPDX-License-Identifier: Apache-2.0
"""The constants and formulas of the timing contract, in clock cycles unless named otherwise.

The one source for the simulator and, through its generated package, for the RTL;
docs/timing-contract.md says how the constants combine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vdla.hardware.config import Config
from vdla.hardware.isa.formats import instruction_bytes
from vdla.hardware.isa.instruction_set import COL, EXTENSION_COLUMN, isa_of
from vdla.hardware.isa.instructions import EXTENSION, Buffer
from vdla.hardware.isa.plug_in import PlugIn
from vdla.hardware.isa.rules import own_fields, reader
from vdla.support.arrays import Ints

Values = Ints

PAGE_BYTES = 4096
"""AXI bursts never cross a multiple of this address."""

FETCH_BUFFER_BURSTS = 4
"""Depth of the fetch FIFO in bursts of full length."""

MAX_OUTSTANDING = 256
"""Largest number of outstanding bursts of a requester: the largest that any `Dram` allows."""

LOADS_IN_FLIGHT = 4
"""Entries of the load unit's completion queue: LOADs started and not ended."""

STORES_IN_FLIGHT = 4
"""Entries of the store unit's response queue: STOREs started and not ended."""

COMPUTES_IN_FLIGHT = 8
"""Entries of the compute unit's completion queue: GEMMs or VECTORs started and not ended."""

DISPATCH_DELAY = 3
"""From the last beat of an instruction to its earliest dispatch: reading the word, checking it."""

COMMAND_DELAY = 2
"""From the dispatch of an instruction to its earliest start: the command queue, its register."""

PORT_DELAY = 2
"""Cycles in registers of the port: address and beat of a read, a response and the next write."""

MERGE_DELAY = 2
"""With several ports: from the last port beat of a beat to the beat, assembled and in order."""

PORT_BURSTS = 8
"""With several ports: read bursts for which the buffer of each port has room."""

LOAD_SETUP = 2
"""From the start of a LOAD to its first burst request or padding entry: sizes, lengths of runs."""

LOAD_TAIL = 2
"""From the last beat or pad entry of a LOAD to its end: width converter, buffer write."""

ISSUE_DELAY = 3
"""From the read of an iteration's micro-op to its slot in the compute pipeline: memory, adders."""

STORE_SETUP = 4
"""From the start of a STORE to its first beat at the port: runs, burst, the port's register."""

STORE_TAIL = 2
"""From the last response of a STORE to its end: the port's register, the count of responses."""

DRAIN_TO_STAGE = 15
"""From the end of a compute instruction to a result of the next one at the stage on the way out."""

RESULT_DELAY = {Buffer.ACC: 1, Buffer.INP: 5}
"""From the result of a step of an extension to the step that reads it, by its buffer."""

PIPELINE_DEPTH = 14
"""Stages of the compute pipeline without the adder tree."""


def adder_tree_depth(config: Config) -> int:
    """Stages of the adder tree, which sums block_in products."""
    return (config.block_in - 1).bit_length()


def compute_depth(config: Config) -> int:
    """From the last slot of a GEMM or VECTOR to its end; a stage on the way out makes it deeper."""
    return PIPELINE_DEPTH + adder_tree_depth(config) + (config.stage.latency if config.stage is not None else 0)


def merge_delay(config: Config) -> int:
    """From the last port beat of a beat to the beat inside the machine."""
    return MERGE_DELAY if config.axi_ports > 1 else 0


def read_delay(config: Config) -> int:
    """What the machine adds to the latency of a read, from its grant to its first beat."""
    return PORT_DELAY + config.axi_ports - 1 + merge_delay(config)


def most_reads(config: Config) -> int:
    """The most read bursts between grant and last beat, whatever the memory."""
    return MAX_OUTSTANDING if config.axi_ports == 1 else PORT_BURSTS * config.axi_ports


def outstanding_reads(config: Config) -> int:
    """The most read bursts between grant and last beat: of the memory, or of the ports' buffers."""
    return min(config.dram.outstanding_reads, most_reads(config))


def compute_cycles(config: Config, iterations: int) -> int:
    """Cycles of a GEMM, or of a VECTOR without conflicts, that waits for no token queue."""
    return iterations + ISSUE_DELAY + compute_depth(config)


def extension_step(plug_in: PlugIn, field: Callable[[str], Any]) -> Any:  # noqa: ANN401  a number or a column
    """Cycles from one step of a plug-in's instruction to the next, for fields by name.

    A datapath that reads where results are written waits for that of the step before; two entries
    of the accumulator are read in two cycles.
    """
    back = 1 if plug_in.rereads is None else RESULT_DELAY[plug_in.rereads] + plug_in.latency.value(field)
    return np.maximum(np.maximum(plug_in.interval.value(field), plug_in.accumulator_reads), back)


def extension_cycles(plug_in: PlugIn, field: Callable[[str], Any], iterations: Any) -> Any:  # noqa: ANN401  as above
    """Cycles of a plug-in's instruction in the issue stage, until the last result is on its way."""
    return extension_step(plug_in, field) * iterations + plug_in.latency.value(field) + ISSUE_DELAY


def step_to_stage(config: Config, latency: int) -> int:
    """The minimum number of cycles from the last step of an instruction that writes state read by
    the output stage to the first result in the stage, which is from the next instruction, after the
    pipeline drains.
    """
    return latency + compute_depth(config) + DRAIN_TO_STAGE


def extension_rows(config: Config, columns: Values, iterations: Values) -> Iterator[tuple[Values, Values]]:
    """(Rows, cycles in the issue stage) of each plug-in's instructions, given all iterations."""
    for number, plug_in in enumerate(config.extensions):
        rows = np.flatnonzero((columns[:, COL["opcode"]] == EXTENSION) & (columns[:, EXTENSION_COLUMN] == number))
        field = own_fields(plug_in, reader(columns[rows], isa_of(config).col))
        yield rows, extension_cycles(plug_in, field, iterations[rows])


def load_cycles(config: Config, beats: int) -> int:
    """Cycles of a LOAD without padding on an idle read channel with outstanding bursts to spare."""
    latency = read_delay(config) + config.dram.read_latency
    return LOAD_SETUP + latency + (beats - 1) * config.dram.beat_cycles + LOAD_TAIL


def store_cycles(config: Config, beats: int) -> int:
    """Cycles of a STORE with outstanding bursts to spare."""
    port_beats = beats * config.axi_ports
    return STORE_SETUP + (port_beats - 1) * config.dram.beat_cycles + config.dram.write_latency + STORE_TAIL


def page_beats(config: Config) -> int:
    """Beats of a page."""
    return PAGE_BYTES // config.axi_bytes


def fetch_buffer_beats(config: Config) -> int:
    """Depth of the fetch FIFO in beats, which holds at least two instructions."""
    return max(FETCH_BUFFER_BURSTS * config.burst_beats, 2 * instruction_bytes(config) // config.axi_bytes)


def accumulator_half(config: Config, index: int) -> int:
    """The half of the accumulator of an entry; VECTOR reads each half once per cycle."""
    return index // (config.acc_depth // 2)
