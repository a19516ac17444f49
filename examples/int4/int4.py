# SPDX-License-Identifier: Apache-2.0
"""Weights of four bits: twice the products of GEMM for one entry of weights."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step: products, sums of eight, the sum.

module ext_int4
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][2*BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][2*BlockIn-1:0][3:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Terms = 2 * BlockIn;
  localparam int unsigned Parts = (Terms + 7) / 8;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [InpBits+3:0] product_q[Terms];
      logic signed [InpBits+6:0] part[Parts], part_q[Parts];
      logic signed [31:0] sum;

      always_comb begin
        part = '{default: '0};
        sum = '0;
        for (int unsigned i = 0; i < Terms; i++) part[i/8] += (InpBits + 7)'(product_q[i]);
        for (int unsigned p = 0; p < Parts; p++) sum += 32'(part_q[p]);
      end

      always_ff @(posedge clk_i) begin
        for (int unsigned i = 0; i < Terms; i++) begin
          product_q[i] <= $signed(src_i[b][i]) * $signed(wgt_i[o][i]);
        end
        part_q <= part;
        result_o[b][o] <= sum;
      end
    end
  end

endmodule
"""


def declare(config):
    terms = 2 * config.block_in
    inp = te.placeholder((config.batch, terms), config.inp_dtype, "inp")
    wgt = te.placeholder((config.block_out, terms), "int4", "wgt")
    i = te.reduce_axis(terms, "i")

    def product(b, o):
        return te.sum(te.cast("int32", inp[b, i]) * te.cast("int32", wgt[o, i]), axis=i)

    return vdla.Extension(
        name="int4",
        doc="Multiplies two input entries by the four-bit weights of one entry.",
        output=te.compute((config.batch, config.block_out), product, "acc"),
        scopes={"inp": "inp", "wgt": "wgt", "acc": "acc"},
        latency=3,
        datapath=DATAPATH,
    )
