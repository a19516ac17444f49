// SPDX-License-Identifier: Apache-2.0
// A delay by a fixed number of cycles, possibly 0: shift registers without reset.

`default_nettype none

module vdla_delay #(
  parameter int unsigned Bits = 1,
  parameter int unsigned Cycles = 1
) (
  input  logic            clk_i,
  input  logic [Bits-1:0] data_i,
  output logic [Bits-1:0] data_o
);

  if (Cycles == 0) begin : gen_wire
    assign data_o = data_i;
    // verilator lint_off UNUSEDSIGNAL
    logic unused_clk;
    // verilator lint_on UNUSEDSIGNAL
    assign unused_clk = clk_i;
  end else begin : gen_registers
    logic [Bits-1:0] data_q[Cycles];

    always_ff @(posedge clk_i) begin
      data_q[0] <= data_i;
      for (int unsigned k = 1; k < Cycles; k++) data_q[k] <= data_q[k-1];
    end

    assign data_o = data_q[Cycles-1];
  end

endmodule

`default_nettype wire
