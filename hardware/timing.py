"""The constants of the timing contract, in clock cycles unless a name says otherwise.

The simulator and the RTL read them here (the RTL through its generated package); docs/timing-contract.md says how they
combine. Changing one changes both sides.
"""

from __future__ import annotations

from vdla.hardware.config import Config
from vdla.hardware.isa.formats import instruction_bytes

PAGE_BYTES = 4096
"""No AXI burst crosses a multiple of this address."""

FETCH_BUFFER_BURSTS = 4
"""Bursts of the instruction stream that fetch buffers: the depth of its FIFO, in bursts of full length."""

MAX_OUTSTANDING = 256
"""Bursts that one requester has outstanding, at most: as many as any `Dram` allows, so the hardware never limits it."""

LOADS_IN_FLIGHT = 4
"""LOADs that the load unit has taken and not completed: the entries of its completion queue."""

STORES_IN_FLIGHT = 4
"""STOREs that the store unit has taken and not completed: the entries of its response queue."""

COMPUTES_IN_FLIGHT = 8
"""GEMMs or VECTORs that the compute unit has started and not ended: the entries of its completion queue."""

LOAD_TAIL = 2
"""From the last beat or pad entry to the end of a LOAD: the width converter's register and the buffer's write."""

ISSUE_OVERHEAD = 2
"""Of a GEMM or VECTOR: decoding it and reading its first micro-op, before the first iteration issues."""

STORE_SETUP = 2
"""From the start of a STORE to its first address: decoding it and reading the first entry of the output buffer."""

PIPELINE_DEPTH = 12
"""Stages of the compute pipeline besides the adder tree: indices, reads, multiply, accumulate, requantise, write."""


def adder_tree_depth(config: Config) -> int:
    """Stages of the adder tree over block_in products."""
    return (config.block_in - 1).bit_length()


def compute_depth(config: Config) -> int:
    """From the issue of a GEMM's or VECTOR's last iteration to its end."""
    return PIPELINE_DEPTH + adder_tree_depth(config)


def compute_cycles(config: Config, iterations: int) -> int:
    """From start to end of a GEMM, or of a VECTOR without conflicts, whose tokens find room."""
    return iterations + ISSUE_OVERHEAD + compute_depth(config)


def load_cycles(config: Config, beats: int) -> int:
    """From start to end of a LOAD without padding that nothing else holds up: the channel free, slots enough."""
    return 1 + config.dram.read_latency + (beats - 1) * config.dram.beat_cycles + LOAD_TAIL


def store_cycles(config: Config, beats: int) -> int:
    """From start to end of a STORE that nothing else holds up."""
    return STORE_SETUP + (beats - 1) * config.dram.beat_cycles + config.dram.write_latency + 1


def page_beats(config: Config) -> int:
    """Beats between the addresses that no burst crosses."""
    return PAGE_BYTES // config.axi_bytes


def fetch_buffer_beats(config: Config) -> int:
    """Beats that fetch has requested and not yet dispatched, at most: room for two instructions in any case."""
    return max(FETCH_BUFFER_BURSTS * config.burst_beats, 2 * instruction_bytes(config) // config.axi_bytes)


def accumulator_half(config: Config, index: int) -> int:
    """Which half of the accumulator an entry lies in; two reads in one half cost VECTOR a cycle."""
    return index // (config.acc_depth // 2)
