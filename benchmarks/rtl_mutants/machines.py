"""The machines whose RTL is mutated: small, and together they elaborate every module."""

from __future__ import annotations

from dataclasses import replace

from vdla.hardware.config import Config

_TINY = Config.preset("tiny")

MACHINES: tuple[Config, ...] = (
    _TINY,
    replace(_TINY, name="deep", batch=2, block_in=16, axi_bits=64, wgt_kib=2, command_depth=5),
    replace(_TINY, name="ports", axi_bits=64, axi_ports=2, block_in=8, block_out=8, wgt_kib=2),
    replace(_TINY, name="double", array_rate=2, block_in=16, block_out=8, axi_bits=64, wgt_kib=4),
)
"""`deep` has adder trees, FIFOs whose depth is no power of two, and entries of several beats;
`ports` two memory ports; `double` an array at twice the clock.
"""
