# SPDX-License-Identifier: Apache-2.0
"""Products of numbers that are +1 or -1, eight of them in each byte: XNOR and a count of bits."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result two cycles after its step: counts of bytes, their sum.

module ext_xnor
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Products = BlockIn * InpBits;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [BlockIn-1:0][$clog2(InpBits + 1)-1:0] count, count_q;
      logic [31:0] sum;

      always_comb begin
        sum = 32'(Products);
        for (int unsigned i = 0; i < BlockIn; i++) begin
          count[i] = '0;
          for (int unsigned k = 0; k < InpBits; k++) begin
            count[i] += $bits(count[i])'(src_i[b][i][k] ^ wgt_i[o][i][k]);
          end
          sum -= 32'({count_q[i], 1'b0});
        end
      end

      always_ff @(posedge clk_i) begin
        count_q <= count;
        result_o[b][o] <= sum;
      end
    end
  end

endmodule
"""


def products(x, w, bits=8):
    """The sum of the products of two bytes: those that agree, less those that differ."""
    differ = x ^ w if bits == 8 else te.cast("uint8", x ^ w) & 2**bits - 1
    return bits - 2 * te.cast("int32", te.popcount(differ))


def declare(config):
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")
    bits = config.inp_bits
    output = te.compute(
        (config.batch, config.block_out), lambda b, o: te.sum(products(inp[b, i], wgt[o, i], bits), axis=i), "acc"
    )
    return vdla.Extension(
        name="xnor",
        doc="Adds the products of numbers that are +1 or -1, of which a byte holds eight.",
        output=output,
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=2,
        datapath=DATAPATH,
        formulation="layer.py",
    )


def convolution(size, channels, filters, kernel):
    """A convolution of binary images, a multiple of eight channels, without padding."""
    places = size - kernel + 1
    image = te.placeholder((size, size, channels // 8), "int8", "image")
    taps = te.placeholder((filters, kernel, kernel, channels // 8), "int8", "taps")
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")
    c = te.reduce_axis(channels // 8, "c")

    def value(y, x, o):
        return te.sum(products(image[y + ky, x + kx, c], taps[o, ky, kx, c]), axis=[ky, kx, c])

    return te.compute((places, places, filters), value, "binary")


def binary():
    """Before, numbers of eight bits; after, a bit each."""
    before = vdla.definitions.convolution(batch=1, in_channels=128, out_channels=128, size=(30, 30), kernel=3)
    return before, convolution(size=30, channels=128, filters=128, kernel=3)
