# SPDX-License-Identifier: Apache-2.0
"""Sums of absolute differences for block matching: a tile of blocks against a window."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step: difference, magnitude, sum.

module ext_sad
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

  localparam int unsigned Bits = (InpBits > WgtBits ? InpBits : WgtBits) + 1;

  logic signed [Batch-1:0][BlockOut-1:0][BlockIn-1:0][Bits-1:0] difference_q;
  logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][Bits-1:0] magnitude_q;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [31:0] sum;

      always_comb begin
        sum = '0;
        for (int unsigned i = 0; i < BlockIn; i++) sum += 32'(magnitude_q[b][o][i]);
      end

      always_ff @(posedge clk_i) begin
        for (int unsigned i = 0; i < BlockIn; i++) begin
          difference_q[b][o][i] <= Bits'($signed(src_i[b][i])) - Bits'($signed(wgt_i[o][i]));
          magnitude_q[b][o][i] <= difference_q[b][o][i][Bits-1] ? -difference_q[b][o][i]
                                                                : difference_q[b][o][i];
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
    inp = te.placeholder((config.batch, config.block_in), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "wgt")
    i = te.reduce_axis(config.block_in, "i")

    def difference(b, o):
        return te.sum(te.abs(wide(inp[b, i]) - wide(wgt[o, i])), axis=i)

    return vdla.Extension(
        name="sad",
        doc="Adds the absolute differences of an input entry and each row of a weight entry.",
        output=te.compute((config.batch, config.block_out), difference, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=3,
        datapath=DATAPATH,
    )


def matching(blocks, size, window):
    """Every block of a tile against every place of a window: [blocks, places, places]."""
    places = window - size + 1
    frame = te.placeholder((window, window), "int8", "frame")
    block = te.placeholder((blocks, size, size), "int8", "block")
    ky, kx = te.reduce_axis(size, "ky"), te.reduce_axis(size, "kx")

    def distance(m, y, x):
        return te.sum(te.abs(wide(frame[y + ky, x + kx]) - wide(block[m, ky, kx])), axis=[ky, kx])

    return te.compute((blocks, places, places), distance, "matching")


def search():
    return matching(blocks=16, size=16, window=47)
