# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits with a factor for each group of 32 inputs and output.

`int4_group` multiplies by the weights of a group, and the sums by its factors on the way into the
total. The array takes the halves of a step one after the other. Factors come from a state, which
`int4_group_factors` fills an entry at a time; the steps count their groups themselves, as all
indices are those of inputs, weights and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from vdla.compiler import te
from vdla.compiler.extensions import Extension, Formulation, LayerError, NetworkLayer, State
from vdla.compiler.layer_programs import Int4Dense
from vdla.compiler.operators.definitions import Definition, requantised
from vdla.hardware.array_port import array_port
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField

GROUP, ROWS = Int4Dense.GROUP, Int4Dense.ROWS
MOST_FACTOR = 16
_FACTOR_BITS = 5


DATAPATH = """
// Contract: a step every other cycle; a result ArrayPortLatency + 3 cycles after its step: the array
// multiplies the first half of the inputs in the cycle of the step, the second one in the next; the
// sum of both is multiplied by the factors of its group a cycle later.

module ext_int4_group
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = 32,
  localparam int unsigned Group = 32,
  localparam int unsigned FactorBits = 5,
  localparam int unsigned SumBits = 17,
  localparam int unsigned StepBits = $clog2(Group / 2 / BlockIn),
  localparam int unsigned InRowBits = $clog2(BlockIn),
  localparam int unsigned PlaceBits = $clog2(Rows) + InRowBits,
  localparam int unsigned Delay = ArrayPortLatency + 1
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic int4_group_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic int4_group_begin_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] int4_group_factors_wgt_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][1:0][BlockIn-1:0][InpBits-1:0] int4_group_src_i,
  input  logic [BlockOut-1:0][1:0][BlockIn-1:0][3:0] int4_group_wgt_i,
  input  logic int4_group_clear_valid_i,
  input  logic [$clog2(Rows)-1:0] int4_group_clear_group_factors_row_i,
  input  logic int4_group_factors_valid_i,
  input  logic [$clog2(Rows)-1:0] int4_group_factors_group_factors_row_i,
  input  logic [InRowBits-1:0] int4_group_factors_offset_i,
  input  logic [Batch-1:0][BlockOut-1:0][31:0] array_sums_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] int4_group_result_o,
  output logic array_valid_o,
  output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o,
  output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o
);

  // --- the array, whose operands are the halves of a step one after the other

  logic second_q;
  logic [1:0][Batch-1:0][BlockIn-1:0][InpBits-1:0] entries;
  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_q, src;
  logic [BlockOut-1:0][BlockIn-1:0][3:0] wgt_q, wgt;

  assign entries = int4_group_src_i;  // one after the other, each with all rows
  assign src = int4_group_valid_i ? entries[0] : src_q;

  always_ff @(posedge clk_i) begin
    second_q <= rst_ni && int4_group_valid_i;
    src_q <= entries[1];
    for (int unsigned o = 0; o < BlockOut; o++) wgt_q[o] <= int4_group_wgt_i[o][1];
  end

  always_comb begin
    for (int unsigned o = 0; o < BlockOut; o++) wgt[o] = int4_group_valid_i ? int4_group_wgt_i[o][0] : wgt_q[o];
  end

  assign array_valid_o = int4_group_valid_i || second_q;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_operands
    assign array_inp_o[b] = {ArrayShares{src[b]}};
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      for (genvar i = 0; i < int'(BlockIn); i++) begin : gen_weight
        assign array_wgt_o[b][o][i] = WgtBits'(signed'(wgt[o][i]));
      end
    end
  end

  // --- factors: where the next step is among them, and those of the step whose sums are complete

  logic [BlockIn-1:0][BlockOut-1:0][FactorBits-1:0] memory[Rows];
  logic [BlockIn-1:0][BlockOut-1:0][FactorBits-1:0] loaded, row;
  logic [BlockOut-1:0][FactorBits-1:0] factor_q;
  logic [PlaceBits+StepBits-1:0] at_q;
  logic [Delay:1][PlaceBits-1:0] place_q;

  always_comb begin
    for (int unsigned i = 0; i < BlockIn; i++) begin
      for (int unsigned o = 0; o < BlockOut; o++) begin
        loaded[i][o] = int4_group_clear_valid_i ? '0 : int4_group_factors_wgt_i[o][i][FactorBits-1:0];
      end
    end
  end

  always_ff @(posedge clk_i) begin
    if (int4_group_clear_valid_i || int4_group_factors_valid_i) begin
      memory[int4_group_clear_valid_i ? int4_group_clear_group_factors_row_i :
          int4_group_factors_group_factors_row_i] <= loaded;
    end
    if (int4_group_clear_valid_i) at_q <= '0;
    else if (int4_group_factors_valid_i) at_q <= (PlaceBits + StepBits)'(int4_group_factors_offset_i) << StepBits;
    else if (int4_group_valid_i) at_q <= at_q + 1'b1;
    place_q <= {place_q[Delay-1:1], PlaceBits'(at_q >> StepBits)};
    factor_q <= row[place_q[Delay][InRowBits-1:0]];
  end

  assign row = memory[place_q[Delay][PlaceBits-1:InRowBits]];

  // --- the sum of both halves, and its product by additions

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [SumBits-1:0] half_q, sum_q;
      logic [FactorBits-1:0][SumBits+FactorBits-1:0] part;
      logic [SumBits+FactorBits-1:0] product_q;

      for (genvar k = 0; k < int'(FactorBits); k++) begin : gen_part
        assign part[k] = factor_q[o][k] ? (SumBits + FactorBits)'(signed'(sum_q)) << k : '0;
      end
      always_ff @(posedge clk_i) begin
        half_q <= array_sums_i[b][o][SumBits-1:0];
        sum_q <= half_q + array_sums_i[b][o][SumBits-1:0];
        product_q <= (part[0] + part[1]) + (part[2] + part[3]) + part[4];
      end
      assign int4_group_result_o[b][o] = 32'(signed'(product_q));
    end
  end

endmodule
"""


def declare(config: Config) -> Sequence[Extension]:
    """The instructions; a `ValueError` names what the machine must have."""
    if (config.inp_bits, config.wgt_bits) != (8, 8):
        raise ValueError(f"inputs and weights must have 8 bits, got {config.inp_bits} and {config.wgt_bits}")
    terms = 2 * config.block_in
    if GROUP % terms:
        raise ValueError(f"block_in must divide {GROUP // 2}, the half of a group, got {config.block_in}")
    factors = State("group_factors", rows=ROWS, shape=(config.block_out, config.block_in), dtype=config.wgt_dtype)
    position = State("group_position", rows=1, shape=(1,), dtype="int32")
    return [_sums(config, factors, position), *_states(config, factors, position)]


def _sums(config: Config, factors: State, position: State) -> Extension:
    """Two entries lie one after the other, each with all rows."""
    batch, steps = config.batch, GROUP // (2 * config.block_in)
    x = te.placeholder((batch, 2, config.block_in), config.inp_dtype, "x")
    numbers = te.placeholder((config.block_out, 2, config.block_in), "int4", "numbers")
    every = te.placeholder((ROWS, *factors.shape), config.wgt_dtype, "every")
    at = te.placeholder((1,), "int32", "at")
    e, i = te.reduce_axis(2, "e"), te.reduce_axis(config.block_in, "i")

    def products(b: te.Value, o: te.Value) -> te.Value:
        entry, group = e * batch + b, at[0] // steps
        row, place = group // config.block_in & (ROWS - 1), group & (config.block_in - 1)
        factor = te.cast("int32", every[row, o, place]) & (1 << _FACTOR_BITS) - 1
        return te.sum(
            te.cast("int32", x[entry // 2, entry % 2, i]) * te.cast("int32", numbers[o, e, i]) * factor, axis=[e, i]
        )

    return Extension(
        name="int4_group",
        doc="Multiplies two input entries by the four-bit weights of one entry and the factors of their group.",
        output=te.compute((batch, config.block_out), products, "acc"),
        scopes={"x": "inp", "numbers": "wgt", "every": factors, "at": position, "acc": "acc"},
        updates={position: te.compute((1,), lambda i: at[i] + 1, "moved")},
        interval=2,
        latency=array_port(config).latency + 3,
        datapath=DATAPATH,
        array=True,
        formulation=grouped,
        program=programs,
    )


def _states(config: Config, factors: State, position: State) -> Iterator[Extension]:
    """What fills the state."""
    steps = GROUP // (2 * config.block_in)
    read = te.placeholder(factors.shape, config.wgt_dtype, "factors")
    offset = te.placeholder((1,), "int32", "offset")
    yield Extension(
        name="int4_group_clear",
        doc="Clears factors, and begins with the first of them.",
        scopes={},
        updates={
            factors: te.compute(factors.shape, lambda o, i: te.const(0, config.wgt_dtype), "no_factors"),
            position: te.compute((1,), lambda i: te.const(0, "int32"), "first"),
        },
    )
    yield Extension(
        name="int4_group_factors",
        doc="Keeps an entry of factors of groups, and begins with that at an offset in the first entry.",
        scopes={"factors": "wgt", "offset": "immediate"},
        updates={
            factors: te.compute(factors.shape, lambda o, i: read[o, i], "kept"),
            position: te.compute((1,), lambda i: offset[i] * steps, "begun"),
        },
        fields=[PlugInField("offset", config.block_in.bit_length() - 1, "The factors of an entry before the first.")],
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
