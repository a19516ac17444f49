# SPDX-License-Identifier: Apache-2.0
"""The largest of four pixels in a step, lane by lane: max-pooling."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result a cycle after its step.

module ext_max_pool
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][4*BlockOut-1:0][InpBits-1:0] src_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [InpBits-1:0] largest;

      always_comb begin
        largest = src_i[b][o];
        for (int j = 1; j < 4; j++) begin
          if ($signed(src_i[b][j*BlockOut+o]) > largest) largest = src_i[b][j*BlockOut+o];
        end
      end

      always_ff @(posedge clk_i) result_o[b][o] <= 32'(largest);
    end
  end

endmodule
"""


def declare(config):
    lanes = config.block_out
    x = te.placeholder((config.batch, 4, lanes), config.inp_dtype, "x")
    j = te.reduce_axis(4, "j")

    def largest(b, o):
        return te.max(te.cast("int32", x[b, j, o]), axis=j)

    return vdla.Extension(
        name="max_pool",
        doc="Keeps the largest of four pixels.",
        output=te.compute((config.batch, lanes), largest, "acc"),
        scopes={"x": "inp", "acc": "acc"},
        latency=1,
        datapath=DATAPATH,
    )


def pool(kernel, strides, size=56, channels=64):
    return vdla.definitions.pooling(
        batch=1, channels=channels, size=(size, size), kernel=kernel, strides=strides, kind="max"
    )


def halving():
    """That of VGG and of many detectors."""
    return pool(kernel=2, strides=2)


def pyramid():
    """That of the spatial pyramid of YOLO."""
    return pool(kernel=5, strides=1, size=20, channels=128)
