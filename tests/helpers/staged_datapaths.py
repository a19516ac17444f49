# SPDX-License-Identifier: Apache-2.0
"""A stage on the way out with a datapath, alone: no state, and no instruction."""

from vdla import te
from vdla.compiler.extensions import EmitStage

RESULTS = "[Batch-1:0][BlockOut-1:0][OutBits-1:0]"


def leaky(latency):
    """A `declare(config)`: quarters results below zero, rounded down."""
    datapath = f"""
module ext_leaky
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic {RESULTS} x_i,
  output logic {RESULTS} result_o
);
  logic {RESULTS} stages[{latency}+1];
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      assign stages[0][b][o] = OutBits'(signed'(x_i[b][o]) >>> (x_i[b][o][OutBits-1] ? 2 : 0));
    end
  end
  for (genvar k = 1; k <= {latency}; k++) begin : gen_delay
    always_ff @(posedge clk_i) stages[k] <= stages[k-1];
  end
  assign result_o = stages[{latency}];
endmodule
"""

    def declare(config):
        x = te.placeholder((config.batch, config.block_out), config.out_dtype, "x")
        return EmitStage(
            name="leaky",
            doc="Quarters results below zero.",
            output=te.compute(x.shape, lambda b, o: te.select(x[b, o] < 0, x[b, o] >> 2, x[b, o]), "y"),
            scopes={"x": "out", "y": "out"},
            latency=latency,
            datapath=datapath,
        )

    return declare
