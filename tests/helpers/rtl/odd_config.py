# SPDX-License-Identifier: Apache-2.0
"""A small machine of unusual sizes: batch 2, unequal blocks, narrow operands, odd queues."""

from vdla.hardware.config import Config, Dram

ODD = Config(
    name="odd",
    batch=2,
    block_in=8,
    block_out=4,
    inp_bits=4,
    wgt_bits=2,
    inp_kib=1,
    wgt_kib=1,
    scl_kib=1,
    uop_kib=1,
    acc_kib=2,
    out_kib=2,
    command_depth=5,
    token_depth=9,
    axi_bits=32,
    burst_beats=5,
    dram=Dram(outstanding_reads=3, outstanding_writes=3),
)
