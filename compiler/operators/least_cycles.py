# SPDX-License-Identifier: Apache-2.0
"""Cycles that no program of a layer can be below: its products, its reads or its writes, each with
what must come before and after by the timing contract.

True for every schedule, layout and size of tiles that computes the layer's products one by one. A
step of the GEMM adds at most `block_in` products to each of `batch * block_out` results, one of the
vector unit at most one. Each operand element that is used is read once, each result written once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vdla.compiler.operators.workloads import Workload
from vdla.hardware import timing as contract
from vdla.hardware.config import Config
from vdla.hardware.isa import instruction_bytes

Ints = NDArray[np.int64]

CAUSES = {"compute": "products", "reads": "bytes read", "writes": "bytes written"}
SCALE_BYTES = 8  # of an output channel: its bias and its multiplier


@dataclass(frozen=True, slots=True)
class LeastCycles:
    """Lower bounds in cycles, by what sets them; each of them holds."""

    compute: int
    reads: int
    writes: int

    @staticmethod
    def of(config: Config, steps: int, read_bytes: int, written_bytes: int, operands: int = 1) -> LeastCycles:
        """Those of a number of steps of the compute unit and of bytes.

        The first step needs a micro-op and an entry of inputs, and one of weights if there are two
        `operands`.
        """
        chain = _Chain(config, operands)
        return LeastCycles(chain.of_steps(steps), chain.of_reads(read_bytes), chain.of_writes(written_bytes))

    @property
    def cycles(self) -> int:
        """The greatest."""
        return max(self.compute, self.reads, self.writes)

    @property
    def limited_by(self) -> str:
        """What sets the greatest: `compute`, `reads` or `writes`."""
        return max(CAUSES, key=lambda name: getattr(self, name))

    def gap(self, cycles: float) -> float:
        """The share by which a number of cycles is above the bound."""
        return cycles / self.cycles - 1


class _Chain:
    """What a run cannot avoid: the first instruction is fetched, an operand loaded, a step
    computed, a result stored.
    """

    def __init__(self, config: Config, operands: int) -> None:
        self.config = config
        beats = [config.uop_entry_bytes, config.inp_entry_bytes, config.wgt_entry_bytes][: 1 + operands]
        word = instruction_bytes(config) // config.axi_bytes
        fetched = self._latency + (word - 1) * config.dram.beat_cycles + contract.DISPATCH_DELAY
        self.first_request = fetched + contract.COMMAND_DELAY + contract.LOAD_SETUP
        last_operand = self.first_request + self._latency + sum(beats) // config.axi_bytes - 1
        self.first_step = last_operand + contract.LOAD_TAIL + 1

    @property
    def _latency(self) -> int:
        return self.config.dram.read_latency + contract.read_delay(self.config)

    @property
    def _pipeline(self) -> int:
        """From the start of an instruction to that of the STORE of its result, less its steps."""
        return contract.ISSUE_DELAY + contract.compute_depth(self.config) + 1

    def _end(self, store: int, port_beats: int) -> int:
        """The cycles of a run whose last STORE starts then."""
        dram = self.config.dram
        last = store + contract.STORE_SETUP + (port_beats - 1) * dram.beat_cycles
        return 1 + last + dram.write_latency + contract.STORE_TAIL

    @property
    def _entry_beats(self) -> int:
        """Port beats of the shortest STORE."""
        return self.config.out_entry_bytes // self.config.axi_bytes * self.config.axi_ports

    def of_steps(self, steps: int) -> int:
        """All steps, one a cycle, between the first operands and the last result."""
        return self._end(self.first_step + steps + self._pipeline, self._entry_beats)

    def of_reads(self, nbytes: int) -> int:
        """All bytes after the first request, then one step with the last of them."""
        config = self.config
        beats = -(-nbytes // config.axi_bytes)
        if beats == 0:
            return 0
        last = self.first_request + self._latency + (beats - 1) * config.dram.beat_cycles
        waiting = -(-beats // config.burst_beats) * (self._latency + 1) // contract.outstanding_reads(config)
        last = max(last, self.first_request + waiting)
        return self._end(last + contract.LOAD_TAIL + 1 + 1 + self._pipeline, self._entry_beats)

    def of_writes(self, nbytes: int) -> int:
        """All bytes after the first result."""
        port_beats = -(-nbytes // self.config.axi_bytes) * self.config.axi_ports
        return self._end(self.first_step + 1 + self._pipeline, port_beats) if port_beats else 0


# --- layers ---------------------------------------------------------------------------------------


def least_cycles(layer: Workload, config: Config, raw: bool = False) -> LeastCycles:
    """The bounds of a layer, with int32 results if they are `raw`."""
    depthwise = layer.operator == "depthwise_conv2d"
    rows, cols = (_taps(layer, *sizes) for sizes in _sizes(layer))
    products = np.multiply.outer(rows.sum(axis=1), cols.sum(axis=1))  # of an output pixel, by channel
    if not depthwise:
        products = -(-products * layer.in_channels // config.block_in)
    results = layer.batch * layer.out_channels
    kernel = int(rows.any(axis=0).sum()) * int(cols.any(axis=0).sum())
    weights = layer.out_channels * (1 if depthwise else layer.in_channels) * kernel * config.wgt_bits
    inputs = inputs_used(layer) * config.inp_bits
    scales = 0 if raw else layer.out_channels * SCALE_BYTES
    written = results * layer.out_height * layer.out_width * (config.acc_bits if raw else config.out_bits)
    return LeastCycles.of(
        config,
        steps=-(-int(products.sum()) * results // (config.batch * config.block_out)),
        read_bytes=(inputs + weights) // 8 + scales,
        written_bytes=written // 8,
        operands=1 if depthwise else 2,
    )


def inputs_used(layer: Workload) -> int:
    """The elements of the image that a window reads."""
    rows, cols = (int(_images(layer, *sizes).any(axis=0).sum()) for sizes in _sizes(layer))
    return layer.batch * layer.in_channels * rows * cols


def _sizes(layer: Workload) -> tuple[tuple[int, int], tuple[int, int]]:
    """Input and output rows, input and output columns."""
    return (layer.height, layer.out_height), (layer.width, layer.out_width)


def _places(layer: Workload, size: int, out_size: int) -> tuple[Ints, NDArray[np.bool_]]:
    """As `window_places`."""
    transposed = layer.operator == "conv2d_transpose"
    return window_places(size, out_size, layer.kernel, layer.strides, layer.pads, transposed=transposed)


def window_places(
    size: int, out_size: int, kernel: int, stride: int, pad: int, dilation: int = 1, *, transposed: bool = False
) -> tuple[Ints, NDArray[np.bool_]]:
    """The input row that each tap of each output row reads, and whether there is one,
    [out_size, kernel].
    """
    out, taps = np.arange(out_size)[:, None], np.arange(kernel) * dilation
    if transposed:
        scaled = out + pad - taps
        return scaled // stride, (scaled % stride == 0) & (scaled >= 0) & (scaled < size * stride)
    places = out * stride + taps - pad
    return places, (places >= 0) & (places < size)


def _taps(layer: Workload, size: int, out_size: int) -> NDArray[np.bool_]:
    """The taps of each output row that read the image, [out_size, kernel]."""
    return _places(layer, size, out_size)[1]


def _images(layer: Workload, size: int, out_size: int) -> NDArray[np.bool_]:
    """The input rows that each output row reads, [out_size, size]."""
    places, valid = _places(layer, size, out_size)
    result = np.zeros((out_size, size), np.bool_)
    result[np.nonzero(valid)[0], places[valid]] = True
    return result
