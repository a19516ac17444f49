# SPDX-License-Identifier: Apache-2.0
"""Products with two weights of every four: each is six bits wide, and two more say which it is."""

import numpy as np

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step: chosen inputs, products, the sum.

module ext_sparse
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][2*BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Bits = WgtBits - 2;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [InpBits-1:0] chosen_q[BlockIn];
      logic signed [Bits-1:0] weight_q[BlockIn];
      logic signed [InpBits+Bits-1:0] product_q[BlockIn];
      logic signed [31:0] sum;

      always_comb begin
        sum = '0;
        for (int unsigned i = 0; i < BlockIn; i++) sum += 32'(product_q[i]);
      end

      always_ff @(posedge clk_i) begin
        for (int unsigned i = 0; i < BlockIn; i++) begin
          // A multiplexer of four inputs is all that sparsity adds to a multiplier.
          chosen_q[i] <= src_i[b][$clog2(2*BlockIn)'(4*(i/2))+$clog2(2*BlockIn)'(wgt_i[o][i][1:0])];
          weight_q[i] <= wgt_i[o][i][WgtBits-1:2];
          product_q[i] <= chosen_q[i] * weight_q[i];
        end
        result_o[b][o] <= sum;
      end
    end
  end

endmodule
"""


def wide(value):
    return te.cast("int32", value)


def declare(config):
    if config.wgt_bits < 4:
        raise ValueError(f"weights must have at least 4 bits, two of them the index, got {config.wgt_dtype}")
    groups = config.block_in // 2
    x = te.placeholder((config.batch, groups, 4), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, groups, 2), config.wgt_dtype, "w")
    g, j = te.reduce_axis(groups, "g"), te.reduce_axis(2, "j")

    def value(b, o):
        weight = wide(w[o, g, j])
        return te.sum((weight >> 2) * wide(x[b, g, weight & 3]), axis=[g, j])

    return vdla.Extension(
        name="sparse",
        doc="Adds the products of two weights and those of four inputs that their low bits name.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        latency=3,
        datapath=DATAPATH,
        formulation="layer.py",
    )


def packed(weights):
    """Weights [..., channels] of six bits, at most two of every four not 0, as bytes."""
    groups = np.asarray(weights).reshape(*np.shape(weights)[:-1], -1, 4)
    chosen = np.sort(np.argsort(groups == 0, axis=-1, kind="stable")[..., :2], axis=-1)
    return (np.take_along_axis(groups, chosen, axis=-1) << 2 | chosen).reshape(*groups.shape[:-2], -1).astype(np.int8)


def convolution(size, channels, filters, kernel):
    """A convolution without padding, of which a half of the weights is stored."""
    places = size - kernel + 1
    image = te.placeholder((size, size, channels), "int8", "image")
    taps = te.placeholder((filters, kernel, kernel, channels // 2), "int8", "taps")
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")
    c = te.reduce_axis(channels // 2, "c")

    def value(y, x, o):
        weight = wide(taps[o, ky, kx, c])
        return te.sum((weight >> 2) * wide(image[y + ky, x + kx, 4 * (c // 2) + (weight & 3)]), axis=[ky, kx, c])

    return te.compute((places, places, filters), value, "pruned")


def pruned():
    """Before, all weights; after, two of every four."""
    before = vdla.definitions.convolution(batch=1, in_channels=128, out_channels=128, size=(30, 30), kernel=3)
    return before, convolution(size=30, channels=128, filters=128, kernel=3)
