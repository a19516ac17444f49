"""A convolution layer to measure: its random data, what it computes in plain numpy, and the machine's bound on it.

The reference shares no code with the compiler or the simulator, so that agreement means something. Tensors are NCHW
and OIHW; requantisation is `clip((wrap32(sum + bias) * mult + half) >> shift)`, with one `mult` and `shift` a channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config

Int8 = NDArray[np.int8]
Ints = NDArray[np.int64]

SCALE_BITS = 23  # significant bits of the random multipliers


@dataclass(frozen=True, slots=True)
class LayerData:
    """The operands of one layer: `data` [N, C, H, W], `weight` [O, C, K, K], `bias mult shift` [O]."""

    data: Int8
    weight: Int8
    bias: Ints
    mult: Ints
    shift: Ints


def random_data(layer: Workload, config: Config, seed: int) -> LayerData:
    """Operands over their whole range, scaled so that results fill the range of the output without clipping much."""
    rng = np.random.default_rng([seed, *layer.name.encode()])
    data = _integers(rng, config.inp_bits, (layer.batch, layer.in_channels, layer.height, layer.width))
    weight = _integers(rng, config.wgt_bits, (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel))
    spread = _spread(layer, config)
    bias = rng.integers(-int(spread), int(spread), layer.out_channels, endpoint=True)
    factor = 2.0 ** (config.out_bits - 1) / 3 / spread * rng.uniform(0.5, 1.5, layer.out_channels)
    shift = SCALE_BITS - 1 - np.floor(np.log2(factor)).astype(np.int64)
    return LayerData(data, weight, bias, np.round(factor * 2.0**shift).astype(np.int64), shift)


def _integers(rng: np.random.Generator, bits: int, shape: tuple[int, ...]) -> Int8:
    return rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape, np.int8)


def _spread(layer: Workload, config: Config) -> float:
    """The standard deviation of a sum of products of uniformly distributed operands."""
    terms = layer.in_channels * layer.kernel * layer.kernel
    return float(np.sqrt(terms) * 2.0**config.inp_bits * 2.0**config.wgt_bits / 12)


def reference(layer: Workload, operands: LayerData, out_bits: int) -> Int8:
    """The requantised result [N, O, H', W'], computed with numpy alone."""
    sums = _sums(layer, operands.data, operands.weight)
    biased = (sums + operands.bias[:, None, None]).astype(np.int32).astype(np.int64)
    half = np.where(operands.shift > 0, np.int64(1) << np.maximum(operands.shift - 1, 0), 0)
    scaled = (biased * operands.mult[:, None, None] + half[:, None, None]) >> operands.shift[:, None, None]
    limit = 2 ** (out_bits - 1)
    return scaled.clip(-limit, limit - 1).astype(np.int8)


def _sums(layer: Workload, data: Int8, weight: Int8) -> Ints:
    """The convolution in float64, which holds these sums exactly."""
    border = (layer.pads, layer.pads)
    padded = np.pad(data, ((0, 0), (0, 0), border, border)).astype(np.float64)
    rows, columns = layer.out_height, layer.out_width
    total = np.zeros((layer.batch, layer.out_channels, rows, columns))
    for ky in range(layer.kernel):
        for kx in range(layer.kernel):
            window = padded[:, :, ky :: layer.strides, kx :: layer.strides][:, :, :rows, :columns]
            total += np.einsum("oc,nchw->nohw", weight[:, :, ky, kx].astype(np.float64), window, optimize=True)
    return total.astype(np.int64)


# --- the bound -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """What the machine cannot beat: `macs` and `nbytes` count channels rounded up to the block."""

    macs: int
    nbytes: int
    compute_cycles: int
    memory_cycles: int

    @property
    def cycles(self) -> int:
        """The greater of the two."""
        return max(self.compute_cycles, self.memory_cycles)


def bound(layer: Workload, config: Config) -> Bound:
    """MACs / MACs per cycle or bytes / AXI bytes per cycle; every touched input, weight and output byte once.

    A layer whose input channels do not fill one block is not rounded up: kernel positions may share the block.
    """
    batch, ins, outs = _padded_sizes(layer, config)
    pixels, taps = layer.out_height * layer.out_width, layer.kernel * layer.kernel
    macs = batch * pixels * ins * outs * taps
    touched = _touched(layer.height, layer.out_height, layer) * _touched(layer.width, layer.out_width, layer)
    bits = batch * ins * touched * config.inp_bits + ins * outs * taps * config.wgt_bits
    bits += batch * outs * pixels * config.out_bits
    return Bound(macs, bits // 8, -(-macs // config.macs_per_cycle), -(-bits // 8 // config.axi_bytes))


def _padded_sizes(layer: Workload, config: Config) -> tuple[int, int, int]:
    """Batch, input and output channels as the bound counts them."""
    if layer.in_channels < config.block_in:
        return layer.batch, layer.in_channels, layer.out_channels
    batch, ins = _round_up(layer.batch, config.batch), _round_up(layer.in_channels, config.block_in)
    return batch, ins, _round_up(layer.out_channels, config.block_out)


def _touched(size: int, out_size: int, layer: Workload) -> int:
    """How many of `size` rows (or columns) any output reads: a strided 1x1 convolution skips some."""
    reads = np.arange(out_size)[:, None] * layer.strides + np.arange(layer.kernel) - layer.pads
    return len(np.unique(reads[(reads >= 0) & (reads < size)]))


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
