"""The lower bound on the cycles of a workload: multiply-accumulates at peak rate, or bytes at the
peak rate of the channel that moves more of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config


@dataclass(frozen=True, slots=True)
class MachineBound:
    """A lower bound. `macs` and bytes count channels rounded up to whole blocks."""

    macs: int
    read_bytes: int
    written_bytes: int
    compute_cycles: int
    read_cycles: int
    write_cycles: int

    @property
    def cycles(self) -> int:
        """The greatest of the three."""
        return max(self.compute_cycles, self.read_cycles, self.write_cycles)

    @property
    def limited_by(self) -> str:
        """What decides: `compute`, `reads` or `writes`."""
        limits = {"compute": self.compute_cycles, "reads": self.read_cycles, "writes": self.write_cycles}
        return max(limits, key=limits.__getitem__)


def bound(layer: Workload, config: Config) -> MachineBound:
    """MACs / MACs per cycle or bytes / AXI bytes per cycle, whichever is greater.

    Products with the zeros around the image are not needed. Each weight, each output and each input
    byte that any output reads is moved once; reads and writes have channels of their own. Input
    channels that do not fill one block are not rounded up, since several kernel positions can share
    the block.
    """
    batch, ins, outs = _padded_sizes(layer, config)
    pixels, taps = layer.out_height * layer.out_width, layer.kernel * layer.kernel
    rows, cols = _reads(layer.height, layer.out_height, layer), _reads(layer.width, layer.out_width, layer)
    macs = batch * ins * outs * len(rows) * len(cols)
    touched = len(np.unique(rows)) * len(np.unique(cols))
    read = (batch * ins * touched * config.inp_bits + ins * outs * taps * config.wgt_bits) // 8
    written = batch * outs * pixels * config.out_bits // 8
    return MachineBound(
        macs=macs,
        read_bytes=read,
        written_bytes=written,
        compute_cycles=-(-macs // config.macs_per_cycle),
        read_cycles=-(-read // config.axi_bytes),
        write_cycles=-(-written // config.axi_bytes),
    )


def _padded_sizes(layer: Workload, config: Config) -> tuple[int, int, int]:
    """Batch, input and output channels as the bound counts them."""
    if layer.in_channels < config.block_in:
        return layer.batch, layer.in_channels, layer.out_channels
    batch, ins = _round_up(layer.batch, config.batch), _round_up(layer.in_channels, config.block_in)
    return batch, ins, _round_up(layer.out_channels, config.block_out)


def _reads(size: int, out_size: int, layer: Workload) -> NDArray[np.int64]:
    """The rows (or columns) of the image that outputs read, once for every read."""
    reads = np.arange(out_size)[:, None] * layer.strides + np.arange(layer.kernel) - layer.pads
    return np.asarray(reads[(reads >= 0) & (reads < size)])


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
