# SPDX-License-Identifier: Apache-2.0
"""A table of any function of 8 bits, such as GELU: results are looked up on their way out."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a row is in the table BlockOut cycles after its step, a copy of it for each lane.

module ext_lut
  import vdla_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic lut_load_valid_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] lut_load_wgt_i,
  input  logic [OutBits-$clog2(BlockOut)-1:0] lut_load_table_row_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic lut_valid_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] lut_x_i,
  output logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] lut_result_o
);

  localparam int unsigned LaneBits = $clog2(BlockOut);

  logic [BlockOut-1:0][OutBits-1:0] row_q;
  logic [OutBits-1:0] at_q;  // the element that is written
  logic writes_q;

  always_ff @(posedge clk_i) begin
    writes_q <= rst_ni && (lut_load_valid_i || writes_q && at_q[LaneBits-1:0] != '1);
    at_q <= lut_load_valid_i ? {lut_load_table_row_i, LaneBits'(0)} : at_q + 1'b1;
    if (lut_load_valid_i) row_q <= lut_load_wgt_i;
  end

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      (* ram_style = "distributed" *) logic [OutBits-1:0] table_q[1<<OutBits];

      always_ff @(posedge clk_i) begin
        if (writes_q) table_q[at_q] <= row_q[at_q[LaneBits-1:0]];
        // The least value, whose top bit alone is set, is the first of the table.
        lut_result_o[b][o] <= table_q[lut_x_i[b][o] ^ OutBits'(1 << (OutBits - 1))];
      end
    end
  end

endmodule
"""


def declare(config):
    lanes, values = config.block_out, 1 << config.out_bits
    table = vdla.State("table", rows=values // lanes, shape=(lanes,), dtype=config.out_dtype)

    vector = te.placeholder((lanes,), config.wgt_dtype, "vector")
    load = vdla.Extension(
        name="lut_load",
        doc="Writes a row of the table, an element a cycle.",
        scopes={"vector": "wgt"},
        updates={table: te.compute((lanes,), lambda o: vector[o], "row")},
        interval=lanes,
        latency=max(0, lanes - 29),  # results come 30 cycles later in any case
    )

    x = te.placeholder((config.batch, lanes), config.out_dtype, "x")
    rows = te.placeholder((values // lanes, lanes), config.out_dtype, "rows")

    def looked_up(b, o):
        at = te.cast("int32", x[b, o]) + values // 2
        return rows[at // lanes, at % lanes]

    stage = vdla.EmitStage(
        name="lut",
        doc="Replaces a result by the element of the table at its place, the least one first.",
        output=te.compute(x.shape, looked_up, "y"),
        scopes={"x": "out", "rows": table, "y": "out"},
        latency=1,
        datapath=DATAPATH,
    )
    return [stage, load]
