# SPDX-License-Identifier: Apache-2.0
"""Block floating point: fifteen numbers of an entry share the exponent that lies behind them."""

import numpy as np

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step: products, their sum, shifted.

module ext_block_floating
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Last = BlockIn - 1;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [InpBits+WgtBits-1:0] product_q[Last];
      logic signed [31:0] sum, sum_q;
      logic [3:0] exponent_q[2];

      always_comb begin
        sum = '0;
        for (int unsigned i = 0; i < Last; i++) sum += 32'(product_q[i]);
      end

      always_ff @(posedge clk_i) begin
        for (int unsigned i = 0; i < Last; i++) begin
          product_q[i] <= $signed(src_i[b][i]) * $signed(wgt_i[o][i]);
        end
        exponent_q[0] <= 4'(src_i[b][Last][2:0]) + 4'(wgt_i[o][Last][2:0]);
        exponent_q[1] <= exponent_q[0];
        sum_q <= sum;
        result_o[b][o] <= sum_q <<< exponent_q[1];
      end
    end
  end

endmodule
"""


def wide(value):
    return te.cast("int32", value)


def exponent(value):
    return wide(value) & 7


def declare(config):
    last = config.block_in - 1
    if min(config.inp_bits, config.wgt_bits) < 4:
        raise ValueError(f"numbers must have at least 4 bits, got {config.inp_dtype} and {config.wgt_dtype}")
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(last, "i")

    def value(b, o):
        return te.sum(wide(x[b, i]) * wide(w[o, i]) << exponent(x[b, last]) + exponent(w[o, last]), axis=i)

    return vdla.Extension(
        name="block_floating",
        doc="Adds the products of the mantissas of two blocks, shifted by the sum of their exponents.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        latency=3,
        datapath=DATAPATH,
        formulation="layer.py",
    )


def blocks(numbers, size=16, bits=8):
    """[..., blocks, size] of [..., terms]: mantissas of so many bits, then their exponent."""
    terms = size - 1
    missing = -np.shape(numbers)[-1] % terms
    padded = np.pad(numbers, [(0, 0)] * (np.ndim(numbers) - 1) + [(0, missing)])
    parts = padded.reshape(*padded.shape[:-1], -1, terms)
    most = np.abs(parts).max(axis=-1, keepdims=True)
    shift = np.ceil(np.log2(np.maximum(most, 1) / (2 ** (bits - 1) - 1))).clip(0, 7).astype(np.int64)
    mantissas = np.rint(parts / 2.0**shift).clip(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    return np.concatenate([mantissas, shift], axis=-1).astype(np.int8)


def product(rows, features, outputs, size=16):
    """A dense layer of so many blocks of features."""
    terms = size - 1
    x = te.placeholder((rows, features // terms, size), "int8", "x")
    w = te.placeholder((outputs, features // terms, size), "int8", "w")
    k, i = te.reduce_axis(features // terms, "k"), te.reduce_axis(terms, "i")

    def value(n, m):
        shift = exponent(x[n, k, terms]) + exponent(w[m, k, terms])
        return te.sum(wide(x[n, k, i]) * wide(w[m, k, i]) << shift, axis=[k, i])

    return te.compute((rows, outputs), value, "product")


def feed_forward():
    """Of a transformer; before, all features share a scale."""
    return vdla.definitions.dense(rows=128, in_features=960, out_features=256), product(128, 960, 256)
