# SPDX-License-Identifier: Apache-2.0
"""Convolution layers on the simulator, checked bit for bit against plain NumPy.

The reference shares no code with the compiler or the simulator. Tensors are NCHW and OIHW;
requantisation is `clip(round(wrap32(sum + bias) * mult / 2**shift))`, half to even, with one `mult`
and `shift` per channel.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.workloads import Workload
from vdla.hardware.config import Config

if TYPE_CHECKING:
    from vdla.compiler.operators.vdla import Operator
    from vdla.hardware.program import Program
    from vdla.simulator.stats import RunStats

Int8 = NDArray[np.int8]
Ints = NDArray[np.int64]

_SCALE_BITS = 23  # significant bits of the random multipliers


@dataclass(frozen=True, slots=True)
class LayerData:
    """Operands: `data` [N, C, H, W], `weight` [O, C, K, K], `bias`, `mult` and `shift` [O]."""

    data: Int8
    weight: Int8
    bias: Ints
    mult: Ints
    shift: Ints


def random_data(layer: Workload, config: Config, seed: int) -> LayerData:
    """Operands over their whole range; multipliers that fill the output's range."""
    rng = np.random.default_rng([seed, *layer.name.encode()])
    data = _integers(rng, config.inp_bits, (layer.batch, layer.in_channels, layer.height, layer.width))
    weight = _integers(rng, config.wgt_bits, (layer.out_channels, layer.in_channels, layer.kernel, layer.kernel))
    spread = _spread(layer, config)
    bias = rng.integers(-int(spread), int(spread), layer.out_channels, endpoint=True)
    factor = 2.0 ** (config.out_bits - 1) / 3 / spread * rng.uniform(0.5, 1.5, layer.out_channels)
    shift = _SCALE_BITS - 1 - np.floor(np.log2(factor)).astype(np.int64)
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
    scaled = _round_half_even(biased * operands.mult[:, None, None], operands.shift[:, None, None])
    limit = 2 ** (out_bits - 1)
    return scaled.clip(-limit, limit - 1).astype(np.int8)


def _round_half_even(values: Ints, shift: Ints) -> Ints:
    """The quotients by 2**shift: the floor, plus 1 above a half, or at a half if that is even."""
    floor = values >> shift
    twice = 2 * (values - (floor << shift))  # of the remainder
    unit = np.int64(1) << shift
    return np.asarray(floor + ((twice > unit) | ((twice == unit) & (floor % 2 == 1))), np.int64)


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


# --- runs -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LayerRun:
    """One run of a layer. `pack_seconds` is the time to lay out the operands on the host."""

    operator: Operator
    stats: RunStats
    exact: bool
    pack_seconds: float
    packed_bytes: int

    @property
    def program(self) -> Program:
        """The program that ran."""
        return self.operator.program


def layer_operator(layer: Workload, config: Config, threads: int) -> Operator:
    """The convolution template applied to a workload."""
    from vdla.compiler.templates import conv2d

    return conv2d(
        config,
        batch=layer.batch,
        height=layer.height,
        width=layer.width,
        in_channels=layer.in_channels,
        out_channels=layer.out_channels,
        kernel=layer.kernel,
        strides=layer.strides,
        pads=layer.pads,
        virtual_threads=threads,
        name=layer.name,
    )


def pack(operator: Operator, operands: LayerData) -> dict[str, Any]:
    """The operands in the layouts of the program; the multipliers are `mult / 2**shift`."""
    multiplier = operands.mult * 2.0 ** -operands.shift.astype(np.float64)
    return operator.pack(data=operands.data, weight=operands.weight, bias=operands.bias, multiplier=multiplier)


def measure(layer: Workload, operator: Operator, seed: int) -> LayerRun:
    """Run `operator` on random operands and compare the result with the NumPy reference."""
    from vdla.simulator.simulate import simulate

    config = operator.config
    operands = random_data(layer, config, seed)
    start = time.perf_counter()
    arrays = pack(operator, operands)
    pack_seconds = time.perf_counter() - start
    result = simulate(operator.program, arrays)
    exact = np.array_equal(operator.unpack(result.outputs), reference(layer, operands, config.out_bits))
    return LayerRun(operator, result.statistics, exact, pack_seconds, operator.program.tensor("data").nbytes)
