# SPDX-License-Identifier: Apache-2.0
"""The lower bound on the cycles of a workload: multiply-accumulates at peak rate, or bytes at the
peak rate of the slower channel. Reads and writes have separate channels, so their cycles are never
added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class MachineBound:
    """A lower bound. `macs` and bytes count channels rounded up to whole blocks."""

    macs: int
    read_bytes: int
    written_bytes: int
    compute_cycles: int
    read_cycles: int
    write_cycles: int

    @staticmethod
    def of(config: Config, macs: int, read_bytes: int, written_bytes: int, macs_per_cycle: int = 0) -> MachineBound:
        """The bound of a number of multiply-accumulates and bytes, by default at the rate of the
        GEMM.

        Reads use all ports of the machine, writes the first one.
        """
        beat = config.dram.beat_cycles
        return MachineBound(
            macs=macs,
            read_bytes=read_bytes,
            written_bytes=written_bytes,
            compute_cycles=-(-macs // (macs_per_cycle or config.macs_per_cycle)),
            read_cycles=-(-read_bytes // config.axi_bytes) * beat,
            write_cycles=-(-written_bytes // config.axi_bytes) * beat * config.axi_ports,
        )

    @property
    def cycles(self) -> int:
        """The greatest of the three."""
        return max(self.compute_cycles, self.read_cycles, self.write_cycles)

    @property
    def limited_by(self) -> str:
        """The bottleneck: `compute`, `reads` or `writes`."""
        limits = {"compute": self.compute_cycles, "reads": self.read_cycles, "writes": self.write_cycles}
        return max(limits, key=limits.__getitem__)


def bound(layer: Workload, config: Config, raw: bool = False) -> MachineBound:
    """The bound of a workload, with int32 results if they are `raw`.

    Multiply-accumulates with padding are excluded. Each weight, each output and each input byte in
    use is moved once. Input channels that do not fill one block are not rounded up, since several
    kernel positions can share the block. Depthwise convolutions run on the vector unit, which has
    one multiplier for each result of a cycle.
    """
    depthwise = layer.operator == "depthwise_conv2d"
    batch, ins, outs = _padded_sizes(layer, config)
    rows, cols = (_reads(layer, *sizes) for sizes in _sizes(layer))
    products = outs if depthwise else ins * outs  # for each position under a tap
    inputs = batch * ins * len(np.unique(rows)) * len(np.unique(cols)) * config.inp_bits
    weights = products * layer.kernel * layer.kernel * config.wgt_bits
    results = batch * outs * layer.out_height * layer.out_width * (config.acc_bits if raw else config.out_bits)
    return MachineBound.of(
        config,
        macs=batch * products * len(rows) * len(cols),
        read_bytes=(inputs + weights) // 8,
        written_bytes=results // 8,
        macs_per_cycle=config.batch * config.block_out if depthwise else config.macs_per_cycle,
    )


def _padded_sizes(layer: Workload, config: Config) -> tuple[int, int, int]:
    """Batch, input and output channels as the bound counts them."""
    batch, outs = _round_up(layer.batch, config.batch), _round_up(layer.out_channels, config.block_out)
    if layer.operator == "depthwise_conv2d":
        return batch, outs, outs
    if layer.in_channels < config.block_in:
        return layer.batch, layer.in_channels, layer.out_channels
    return batch, _round_up(layer.in_channels, config.block_in), outs


def _sizes(layer: Workload) -> tuple[tuple[int, int], tuple[int, int]]:
    """Input and output rows, input and output columns."""
    return (layer.height, layer.out_height), (layer.width, layer.out_width)


def _reads(layer: Workload, size: int, out_size: int) -> Ints:
    """The number of reads of image rows (or columns) by outputs."""
    taps = np.arange(layer.kernel)
    if layer.operator == "conv2d_transpose":
        row = np.arange(size)[:, None]
        result = row * layer.strides + taps - layer.pads
        return np.broadcast_to(row, result.shape)[(result >= 0) & (result < out_size)]
    reads = np.arange(out_size)[:, None] * layer.strides + taps - layer.pads
    return np.asarray(reads[(reads >= 0) & (reads < size)])


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
