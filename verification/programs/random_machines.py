# SPDX-License-Identifier: Apache-2.0
"""The machines and memories on which devices are compared: presets, and extreme but valid shapes.

Each machine costs a build of the RTL model, a memory does not. All but the presets have queues of
the smallest depth.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.hardware.config import MIN_COMMAND_DEPTH, MIN_TOKEN_DEPTH, Config, Dram

_SMALL = Config(
    name="small",
    block_in=8,
    block_out=8,
    axi_bits=32,
    burst_beats=4,
    inp_kib=1,
    wgt_kib=1,
    scl_kib=1,
    uop_kib=1,
    acc_kib=1,
    out_kib=1,
    command_depth=MIN_COMMAND_DEPTH,
    token_depth=MIN_TOKEN_DEPTH,
)
# Sub-byte weights and the widest bus; one instruction can fill the output buffer.
WIDE = replace(_SMALL, name="wide", batch=4, wgt_bits=4, axi_bits=256, burst_beats=5, acc_kib=8)
# One output channel; a burst length that divides no size.
COLUMN = replace(
    _SMALL, name="column", batch=8, block_out=1, axi_bits=64, burst_beats=3, acc_kib=2, token_depth=MIN_TOKEN_DEPTH + 1
)
# One input channel: no adder tree.
ROW = replace(
    _SMALL,
    name="row",
    batch=4,
    block_in=1,
    block_out=4,
    burst_beats=256,
    acc_kib=4,
    command_depth=MIN_COMMAND_DEPTH + 1,
)
# Multipliers at twice the clock: two halves of the output channels in turn.
DOUBLE = replace(_SMALL, name="double", block_out=4, array_rate=2)
# The same where one slice makes the products of all output channels, which has no halves.
DOUBLE_GROUP = replace(
    DOUBLE,
    name="double_group",
    batch=2,
    block_in=16,
    inp_bits=4,
    wgt_bits=4,
    burst_beats=7,
    token_depth=MIN_TOKEN_DEPTH + 2,
)
# Two memory ports: each beat is two of a port.
TWO_PORTS = replace(_SMALL, name="two_ports", axi_bits=64, axi_ports=2)
# Four memory ports, an odd burst length, and entries of the output buffer as wide as all ports.
FOUR_PORTS = replace(
    _SMALL,
    name="four_ports",
    batch=2,
    axi_bits=128,
    axi_ports=4,
    burst_beats=3,
    acc_kib=2,
    command_depth=MIN_COMMAND_DEPTH + 1,
    token_depth=MIN_TOKEN_DEPTH + 1,
)

MACHINES: tuple[Config, ...] = (
    *map(Config.preset, ("tiny", "pynq_z1", "int4", "batch4")),
    *(WIDE, COLUMN, ROW, DOUBLE, DOUBLE_GROUP, TWO_PORTS, FOUR_PORTS),
)

DRAMS: tuple[Dram, ...] = (
    Dram(),
    Dram(read_latency=1, write_latency=1, outstanding_reads=1, outstanding_writes=1),
    Dram(read_latency=300, write_latency=200, outstanding_reads=2, outstanding_writes=1, beat_cycles=3, burst_gap=2),
    Dram(read_latency=20, write_latency=60, outstanding_reads=256, outstanding_writes=256, burst_gap=1),
    Dram(
        read_latency=7,
        write_latency=3,
        outstanding_reads=3,
        outstanding_writes=2,
        beat_cycles=2,
        bus_bytes=13,
        banks=3,
        page_bytes=512,
        page_miss=9,
        refresh_interval=211,
        refresh_cycles=17,
        turnaround=5,
    ),
)
