# SPDX-License-Identifier: Apache-2.0
"""Sums that become the inputs of the next product, without leaving the chip."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a step a cycle; a result a cycle after its step.

module ext_hand
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][31:0] src_i,
  input  logic [4:0] shift_i,
  output logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] result_o
);

  localparam int Most = 2 ** (InpBits - 1) - 1;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar i = 0; i < int'(BlockIn); i++) begin : gen_element
      logic signed [31:0] scaled;

      assign scaled = signed'(src_i[b][i%BlockOut]) >>> shift_i;
      always_ff @(posedge clk_i) begin
        result_o[b][i] <= scaled < 0 ? '0 : scaled > Most ? InpBits'(Most) : InpBits'(scaled);
      end
    end
  end

endmodule
"""


def declare(config):
    sums = te.placeholder((config.batch, config.block_out), "int32", "sums")
    shift = te.placeholder((1,), "int32", "shift")
    most = 2 ** (config.inp_bits - 1) - 1

    def value(b, i):
        return te.cast(config.inp_dtype, te.clip(sums[b, i % config.block_out] >> shift[0], 0, most))

    return vdla.Extension(
        name="hand",
        doc="Hands sums, scaled and without negative values, back as inputs.",
        output=te.compute((config.batch, config.block_in), value, "inputs"),
        scopes={"sums": "acc", "shift": "immediate", "inputs": "inp"},
        fields=[vdla.isa.PlugInField("shift", 5, "Bits that are dropped from a sum.")],
        latency=1,
        datapath=DATAPATH,
    )
