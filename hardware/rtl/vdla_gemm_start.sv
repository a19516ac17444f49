// SPDX-License-Identifier: Apache-2.0
// The start of a chain of slices, which corrects the offset of the weights in its lower fields: it
// depends on the activations alone. Latency: Cycles, at least 1.
`default_nettype none

module vdla_gemm_start
  import vdla_pkg::*;
  import vdla_gemm_pkg::*;
#(
  parameter int unsigned Cycles = 1
) (
  input  logic                      clk_i,
  input  logic [Depth*InpBits-1:0]  inp_i,
  output logic signed [SumBits-1:0] start_o
);
  if (Fields > 1) begin : gen_fields
    logic [Spacing-1:0] total;
    logic [Cycles-1:0][Spacing-1:0] field_q;

    always_comb begin
      total = '0;
      for (int unsigned k = 0; k < Depth; k++) begin
        total += Spacing'(signed'(inp_i[k*InpBits+:InpBits]));
      end
    end

    always_ff @(posedge clk_i) begin
      field_q[0] <= Spacing'(Offset) - (total << (WgtBits - 1));
      for (int unsigned s = 1; s < Cycles; s++) field_q[s] <= field_q[s-1];
    end

    assign start_o = SumBits'({(Fields - 1) {field_q[Cycles-1]}});
  end else begin : gen_plain
    logic unused;
    assign unused = ^{clk_i, inp_i};
    assign start_o = '0;
  end
endmodule

`default_nettype wire
