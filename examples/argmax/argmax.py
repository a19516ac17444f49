# SPDX-License-Identifier: Apache-2.0
"""The largest element of each row and its place, in one number: value << 16 less the place."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result two cycles after its step: the largest of pairs, of all.

module ext_argmax
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  input  logic [15:0] first_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  localparam int unsigned Pairs = (BlockIn + 1) / 2;

  logic [15:0] first_q;
  always_ff @(posedge clk_i) first_q <= first_i;

  for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
    logic signed [WgtBits-1:0] best[Pairs], best_q[Pairs];
    logic [15:0] place[Pairs], place_q[Pairs];

    // A tree; of equal elements the first: a later one must be larger.
    always_comb begin
      best = best_q;
      place = place_q;
      for (int unsigned step = 1; step < Pairs; step *= 2) begin
        for (int unsigned p = 0; p + step < Pairs; p += 2 * step) begin
          if (best[p+step] > best[p]) begin
            best[p] = best[p+step];
            place[p] = place[p+step];
          end
        end
      end
    end

    always_ff @(posedge clk_i) begin
      for (int unsigned p = 0; p < Pairs; p++) begin
        best_q[p] <= wgt_i[o][2*p];
        place_q[p] <= 16'(2 * p);
        if (2 * p + 1 < BlockIn && $signed(wgt_i[o][2*p+1]) > $signed(wgt_i[o][2*p])) begin
          best_q[p] <= wgt_i[o][2*p+1];
          place_q[p] <= 16'(2 * p + 1);
        end
      end
      for (int unsigned b = 0; b < Batch; b++) begin
        result_o[b][o] <= {16'(best[0]), 16'd0} - 32'(place[0]) - 32'(first_q);
      end
    end
  end

endmodule
"""


def key(value, place):
    """A number that is the larger the larger the value, and among equal ones the earlier it is."""
    return (te.cast("int32", value) << 16) - place


def declare(config):
    rows = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "rows")
    first, i = te.placeholder((1,), "int32", "first"), te.reduce_axis(config.block_in, "i")
    output = te.compute(
        (config.batch, config.block_out), lambda b, o: te.max(key(rows[o, i], i + first[0]), axis=i), "acc"
    )
    return vdla.Extension(
        name="argmax",
        doc="Keeps the largest element of each row of a weight entry and its place.",
        output=output,
        scopes={"rows": "wgt", "first": "immediate", "acc": "acc"},
        fields=[vdla.isa.PlugInField("first", 16, "The place of the first element of a step.")],
        latency=2,
        datapath=DATAPATH,
    )


def largest(tokens, classes):
    """The largest score of each token and its class; `value_and_place` takes them apart."""
    scores, k = te.placeholder((tokens, classes), "int8", "scores"), te.reduce_axis(classes, "k")
    return te.compute((tokens,), lambda n: te.max(key(scores[n, k], k), axis=k), "largest")


def value_and_place(keys):
    """The two parts of results."""
    places = -keys & 0xFFFF
    return (keys + places) >> 16, places


def words():
    """The next words of a language model."""
    return largest(tokens=64, classes=8192)


def places():
    """The classes alone, as `te.argmax` has them: the same program."""
    scores, k = te.placeholder((64, 8192), "int8", "scores"), te.reduce_axis(8192, "k")
    _, place = te.compute((64,), lambda n: te.argmax(scores[n, k], axis=k), "best")
    return place


def values():
    """Their scores alone, which the plain machine computes."""
    scores, k = te.placeholder((64, 8192), "int8", "scores"), te.reduce_axis(8192, "k")
    return te.compute((64,), lambda n: te.max(te.cast("int32", scores[n, k]), axis=k), "values")
