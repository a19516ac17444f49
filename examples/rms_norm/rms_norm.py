# SPDX-License-Identifier: Apache-2.0
"""Sums of squares of rows in the weight buffer: the reduction of RMSNorm."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result two cycles after its step: squares, their sum.

module ext_rms_norm
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
    logic [BlockIn-1:0][2*WgtBits-1:0] square_q;
    logic [31:0] sum;

    always_comb begin
      sum = '0;
      for (int unsigned i = 0; i < BlockIn; i++) sum += 32'(square_q[i]);
    end

    always_ff @(posedge clk_i) begin
      for (int unsigned i = 0; i < BlockIn; i++) begin
        square_q[i] <= $signed(wgt_i[o][i]) * $signed(wgt_i[o][i]);
      end
      for (int unsigned b = 0; b < Batch; b++) result_o[b][o] <= sum;
    end
  end

endmodule
"""


def square(value):
    return te.cast("int32", value) * te.cast("int32", value)


def declare(config):
    rows = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "rows")
    i = te.reduce_axis(config.block_in, "i")
    output = te.compute((config.batch, config.block_out), lambda b, o: te.sum(square(rows[o, i]), axis=i), "acc")
    return vdla.Extension(
        name="rms_norm",
        doc="Adds the squares of each row of a weight entry.",
        output=output,
        scopes={"rows": "wgt", "acc": "acc"},
        latency=2,
        datapath=DATAPATH,
    )


def squares(tokens, features):
    """The sum of the squares of each token's features."""
    data, k = te.placeholder((tokens, features), "int8", "data"), te.reduce_axis(features, "k")
    return te.compute((tokens,), lambda n: te.sum(square(data[n, k]), axis=k), "squares")


def tokens():
    return squares(tokens=128, features=768)
