"""The known machines by name.

The DRAM figures are models to compare designs with, not measurements of the boards.
"""

from __future__ import annotations

from dataclasses import replace

from vdla.hardware.config import Config, Dram

PYNQ_Z1 = Config(name="pynq_z1")
ULTRA96 = replace(
    PYNQ_Z1,
    name="ultra96",
    axi_bits=128,
    dram=Dram(outstanding_reads=16, outstanding_writes=16),
    clock_mhz=250,
)
ZCU104 = replace(
    ULTRA96,
    name="zcu104",
    block_in=32,
    block_out=32,
    inp_kib=128,
    wgt_kib=1024,
    scl_kib=32,
    uop_kib=64,
    acc_kib=512,
    out_kib=128,
    clock_mhz=300,
)
KV260 = replace(ZCU104, name="kv260", wgt_kib=512, acc_kib=256, clock_mhz=250)
OSDI18 = replace(
    PYNQ_Z1,
    name="osdi18",
    wgt_kib=32,
    clock_mhz=200,
)
TINY = Config(
    name="tiny",
    block_in=4,
    block_out=4,
    inp_kib=1,
    wgt_kib=1,
    scl_kib=1,
    uop_kib=1,
    acc_kib=1,
    out_kib=1,
    command_depth=4,
    token_depth=8,
    axi_bits=32,
    burst_beats=4,
    dram=Dram(read_latency=10, write_latency=5, outstanding_reads=2, outstanding_writes=2),
    clock_mhz=50,
)
INT4 = replace(PYNQ_Z1, name="int4", inp_bits=4, wgt_bits=4, inp_kib=16, wgt_kib=128, out_kib=16)
BATCH4 = replace(PYNQ_Z1, name="batch4", batch=4, block_in=16, block_out=8, inp_kib=64)

PRESETS = {
    config.name: config
    for config in (PYNQ_Z1, replace(PYNQ_Z1, name="pynq_z2"), ULTRA96, ZCU104, KV260, OSDI18, TINY, INT4, BATCH4)
}
