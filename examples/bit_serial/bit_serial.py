# SPDX-License-Identifier: Apache-2.0
"""Weights of any width, a plane of bits in each step: a bit is +1 or -1 times its place value."""

import numpy as np

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step: sums of bytes, of all, shifted.

module ext_bit_serial
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][WgtBits*BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  input  logic [3:0] plane_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Bits = InpBits + $clog2(WgtBits + 1);

  logic [3:0] plane_q[2];
  always_ff @(posedge clk_i) plane_q <= '{plane_i, plane_q[0]};

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [Bits-1:0] part[BlockIn], part_q[BlockIn];
      logic signed [31:0] sum, sum_q;

      always_comb begin
        part = '{default: '0};
        sum = '0;
        for (int unsigned i = 0; i < BlockIn; i++) begin
          for (int unsigned k = 0; k < WgtBits; k++) begin
            if (wgt_i[o][i][k]) part[i] += Bits'($signed(src_i[b][WgtBits*i+k]));
            else part[i] -= Bits'($signed(src_i[b][WgtBits*i+k]));
          end
          sum += 32'(part_q[i]);
        end
      end

      always_ff @(posedge clk_i) begin
        part_q <= part;
        sum_q <= sum;
        result_o[b][o] <= sum_q <<< plane_q[1];
      end
    end
  end

endmodule
"""


def term(x, byte, bit, plane):
    """x or -x, as a bit says, times the place value of its plane."""
    wide = te.cast("int32", x)
    return te.select((te.cast("int32", byte) >> bit & 1) > 0, wide, 0 - wide) << plane


def declare(config):
    x = te.placeholder((config.batch, config.block_in, config.wgt_bits), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    plane = te.placeholder((1,), "int32", "plane")
    i, bit = te.reduce_axis(config.block_in, "i"), te.reduce_axis(config.wgt_bits, "bit")

    def value(b, o):
        return te.sum(term(x[b, i, bit], w[o, i], bit, plane[0]), axis=[i, bit])

    return vdla.Extension(
        name="bit_serial",
        doc="Adds inputs or subtracts them, as the bits of weights say, times a power of two.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        scopes={"x": "inp", "w": "wgt", "plane": "immediate", "acc": "acc"},
        fields=[vdla.isa.PlugInField("plane", 4, "The place of the bits in their weights.")],
        latency=3,
        datapath=DATAPATH,
        formulation="layer.py",
    )


def planes(weights, width):
    """[width, ..., bytes] of odd weights [..., channels] between -(2**width) and 2**width."""
    bits = (np.asarray(weights) + 2**width - 1 >> 1)[..., None] >> np.arange(width) & 1
    return np.packbits(np.moveaxis(bits, -1, 0).astype(np.uint8), axis=-1, bitorder="little").view(np.int8)


def convolution(size, channels, filters, kernel, width):
    """A convolution without padding, of channels in bytes."""
    places = size - kernel + 1
    image = te.placeholder((size, size, channels), "int8", "image")
    taps = te.placeholder((width, filters, kernel, kernel, channels // 8), "int8", "taps")
    ky, kx = te.reduce_axis(kernel, "ky"), te.reduce_axis(kernel, "kx")
    c, bit, p = te.reduce_axis(channels // 8, "c"), te.reduce_axis(8, "bit"), te.reduce_axis(width, "p")

    def value(y, x, o):
        data, byte = image[y + ky, x + kx, 8 * c + bit], taps[p, o, ky, kx, c]
        return te.sum(term(data, byte, bit, p), axis=[p, ky, kx, c, bit])

    return te.compute((places, places, filters), value, f"width_{width}")


def layers(width):
    """Before, weights of eight bits; after, as many planes as the width."""
    before = vdla.definitions.convolution(batch=1, in_channels=128, out_channels=128, size=(30, 30), kernel=3)
    return before, convolution(size=30, channels=128, filters=128, kernel=3, width=width)


def one():
    return layers(1)


def three():
    return layers(3)
