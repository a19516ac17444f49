# SPDX-License-Identifier: Apache-2.0
"""The known machines, as the fields in which each differs from the defaults of `Config`.

The DRAM figures are models for comparing designs, not measurements of the boards.
"""

from __future__ import annotations

from typing import Any

from vdla.hardware.dram import Dram

Fields = dict[str, Any]

_PYNQ: Fields = {}
_PYNQ_512: Fields = {"block_in": 32, "array_rate": 2}  # 512 multiply-accumulates a cycle
_PYNQ_512X2: Fields = {  # the same with two memory ports of 64 bits
    **_PYNQ_512,
    "axi_bits": 128,
    "axi_ports": 2,
    "dram": Dram(outstanding_reads=16),
}
_PYNQ_LM: Fields = {"axi_bits": 128, "axi_ports": 2, "dram": Dram(outstanding_reads=16)}
_ULTRA96: Fields = {
    "axi_bits": 128,
    "dram": Dram(outstanding_reads=16, outstanding_writes=16),
    "clock_mhz": 166.667,  # 6 ns, as for zcu104 and kv260: what the longest path leaves room for
}
_ZCU104: Fields = {
    **_ULTRA96,
    "block_in": 32,
    "block_out": 32,
    "inp_kib": 128,
    "wgt_kib": 1024,
    "scl_kib": 32,
    "uop_kib": 64,
    "acc_kib": 512,
    "out_kib": 128,
}
_KV260: Fields = {**_ZCU104, "wgt_kib": 512, "acc_kib": 256}
_KV260_LM: Fields = {  # two memory ports of 128 bits; a batch of 2 makes entries as wide as their beat
    **_KV260,
    "batch": 2,
    "block_in": 16,
    "block_out": 16,
    "axi_bits": 256,
    "axi_ports": 2,
}
_TINY: Fields = {
    "block_in": 4,
    "block_out": 4,
    "inp_kib": 1,
    "wgt_kib": 1,
    "scl_kib": 1,
    "uop_kib": 1,
    "acc_kib": 1,
    "out_kib": 1,
    "command_depth": 4,
    "token_depth": 8,
    "axi_bits": 32,
    "burst_beats": 4,
    "dram": Dram(read_latency=10, write_latency=5, outstanding_reads=2, outstanding_writes=2),
    "clock_mhz": 50,
}

PRESET_FIELDS: dict[str, Fields] = {
    "pynq_z1": _PYNQ,
    "pynq_z2": _PYNQ,
    "pynq_z1_512": _PYNQ_512,
    "pynq_z1_512x2": _PYNQ_512X2,
    "pynq_z1_lm": _PYNQ_LM,
    "ultra96": _ULTRA96,
    "zcu104": _ZCU104,
    "kv260": _KV260,
    "kv260_lm": _KV260_LM,
    "osdi18": {"wgt_kib": 32, "clock_mhz": 200},
    "tiny": _TINY,
    "int4": {"inp_bits": 4, "wgt_bits": 4, "inp_kib": 16, "wgt_kib": 128, "out_kib": 16},
    "batch4": {"batch": 4, "block_in": 16, "block_out": 8, "inp_kib": 64},
}
