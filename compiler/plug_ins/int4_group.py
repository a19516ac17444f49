# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits with a factor for each group of 32 inputs and output.

`int4_group` multiplies by the weights of a group; `int4_group_scale` multiplies its sums by
factors, on the way into the total. The array takes the halves of a step one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.extensions import Extension, Formulation, LayerError, NetworkLayer
from vdla.compiler.layer_programs import Int4Dense
from vdla.compiler.operators.definitions import Definition, requantised
from vdla.hardware.array_port import array_port
from vdla.hardware.config import Config

GROUP = Int4Dense.GROUP
MOST_FACTOR = 16
_SUM_BITS, _FACTOR_BITS = 17, 5

SUMS = """
// Contract: a step every other cycle; a result ArrayPortLatency + 2 cycles after its step: the array
// multiplies the first half of the inputs in the cycle of the step, the second one in the next.

module ext_int4_group
  import vdla_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][1:0][BlockIn-1:0][3:0] wgt_i,
  input  logic [Batch-1:0][BlockOut-1:0][31:0] array_sums_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o,
  output logic array_valid_o,
  output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o,
  output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o
);

  logic second_q;
  logic [1:0][Batch-1:0][BlockIn-1:0][InpBits-1:0] entries;
  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_q, src;
  logic [BlockOut-1:0][BlockIn-1:0][3:0] wgt_q, wgt;
  logic [Batch-1:0][BlockOut-1:0][31:0] sums_q;

  assign entries = src_i;  // one after the other, each with all rows
  assign src = valid_i ? entries[0] : src_q;

  always_ff @(posedge clk_i) begin
    second_q <= rst_ni && valid_i;
    src_q <= entries[1];
    for (int unsigned o = 0; o < BlockOut; o++) wgt_q[o] <= wgt_i[o][1];
    sums_q <= array_sums_i;
  end

  always_comb begin
    for (int unsigned o = 0; o < BlockOut; o++) wgt[o] = valid_i ? wgt_i[o][0] : wgt_q[o];
  end

  assign array_valid_o = valid_i || second_q;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    assign array_inp_o[b] = {ArrayShares{src[b]}};
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      for (genvar i = 0; i < int'(BlockIn); i++) begin : gen_weight
        assign array_wgt_o[b][o][i] = WgtBits'(signed'(wgt[o][i]));
      end
      always_ff @(posedge clk_i) result_o[b][o] <= sums_q[b][o] + array_sums_i[b][o];
    end
  end

endmodule
"""

SCALE = """
// Contract: a step a cycle; a result a cycle after its step.

module ext_int4_group_scale
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  input  logic [Batch-1:0][BlockOut-1:0][31:0] src_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] wgt_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [21:0] sum;
      logic [4:0][21:0] part;

      assign sum = 22'(signed'(src_i[b][o][16:0]));
      for (genvar k = 0; k < 5; k++) begin : gen_part
        assign part[k] = wgt_i[o][k] ? 22'(sum <<< k) : '0;
      end
      always_ff @(posedge clk_i) begin
        result_o[b][o] <= 32'(signed'((part[0] + part[1]) + (part[2] + part[3]) + part[4]));
      end
    end
  end

endmodule
"""


def declare(config: Config) -> Sequence[Extension]:
    """Both instructions; a `ValueError` names what the machine must have."""
    if (config.inp_bits, config.wgt_bits) != (8, 8):
        raise ValueError(f"inputs and weights must have 8 bits, got {config.inp_bits} and {config.wgt_bits}")
    terms = 2 * config.block_in
    if GROUP % terms:
        raise ValueError(f"block_in must divide {GROUP // 2}, the half of a group, got {config.block_in}")
    return [_sums(config), _scale(config)]


def _sums(config: Config) -> Extension:
    """Two entries lie one after the other, each with all rows."""
    batch = config.batch
    x = te.placeholder((batch, 2, config.block_in), config.inp_dtype, "x")
    numbers = te.placeholder((config.block_out, 2, config.block_in), "int4", "numbers")
    e, i = te.reduce_axis(2, "e"), te.reduce_axis(config.block_in, "i")

    def products(b: te.Value, o: te.Value) -> te.Value:
        at = e * batch + b
        return te.sum(te.cast("int32", x[at // 2, at % 2, i]) * te.cast("int32", numbers[o, e, i]), axis=[e, i])

    return Extension(
        name="int4_group",
        doc="Multiplies two input entries by the four-bit weights of one entry.",
        output=te.compute((batch, config.block_out), products, "acc"),
        scopes={"x": "inp", "numbers": "wgt", "acc": "acc"},
        interval=2,
        latency=array_port(config).latency + 2,
        datapath=SUMS,
        array=True,
        formulation=grouped,
        program=programs,
    )


def _scale(config: Config) -> Extension:
    shape, one = (config.batch, config.block_out), te.reduce_axis(1, "one")
    sums, factor = te.placeholder(shape, "int32", "sums"), te.placeholder((config.block_out,), "int8", "factor")
    unused = 32 - _SUM_BITS

    def scaled(b: te.Value, o: te.Value) -> te.Value:
        known = (sums[b, o] << unused) >> unused
        return te.sum(known * (te.cast("int32", factor[o + 0 * one]) & (1 << _FACTOR_BITS) - 1), axis=one)

    return Extension(
        name="int4_group_scale",
        doc="Adds an accumulator entry of 17 bits times factors of 5 bits.",
        output=te.compute(shape, scaled, "acc"),
        scopes={"sums": "acc", "factor": "wgt", "acc": "acc"},
        latency=1,
        datapath=SCALE,
    )


# --- layers ---------------------------------------------------------------------------------------


def grouped(layer: NetworkLayer, config: Config) -> Formulation:
    """A dense layer whose weights are numbers of four bits times a factor for each group."""
    layer.definition.require("dense")
    data, weights = layer.definition.inputs[0], layer.constants["weight"]
    numbers, factors = numbers_and_factors(weights)
    (rows, features), (outputs, groups) = data.shape, factors.shape
    w = te.placeholder((outputs, groups, GROUP), "int4", "numbers")
    f = te.placeholder((outputs, groups), "int8", "factors")
    g, i = te.reduce_axis(groups, "g"), te.reduce_axis(GROUP, "i")

    def value(m: te.Value, n: te.Value) -> te.Value:
        at = g * GROUP + i
        x = te.cast("int32", te.select(at < features, data[m, at], te.const(0, data.dtype)))
        return te.sum(x * te.cast("int32", w[n, g, i]) * te.cast("int32", f[n, g]), axis=[g, i])

    sums = te.compute((rows, outputs), value, "sums")
    return Formulation(requantised(sums, 1)[1], {"numbers": numbers, "factors": factors})


def numbers_and_factors(weights: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Numbers from -8 to 7 [outputs, groups, 32] and factors from 1 to 16 [outputs, groups], whose
    products are weights [outputs, inputs].

    Raises:
        LayerError: there are none.
    """
    outputs, inputs = weights.shape
    parts = np.pad(weights.astype(np.int16), ((0, 0), (0, -inputs % GROUP))).reshape(outputs, -1, GROUP)
    factors = np.zeros(parts.shape[:2], np.int8)
    for factor in range(MOST_FACTOR, 0, -1):
        fits = (parts % factor == 0) & (parts >= -8 * factor) & (parts <= 7 * factor)
        factors = np.where(fits.all(axis=2), np.int8(factor), factors)
    if not factors.all():
        got = f"others in {np.count_nonzero(factors == 0):,} of {factors.size:,} groups"
        raise LayerError(f"weights must be numbers of 4 bits times 1 to {MOST_FACTOR} in groups of {GROUP}, got {got}")
    return (parts // factors[..., None]).astype(np.int8), factors


def programs(layer: Definition, config: Config) -> list[Any]:
    """Programs of such a layer, in tiles of several sizes."""
    return Int4Dense.sizes(layer, config)
