// SPDX-License-Identifier: Apache-2.0
// A register of its own for a part of the loads of a signal, against fan-out.
//
// Contract: data_o is data_i of the cycle before. The module keeps its boundary and its registers in
// synthesis, so that tools neither merge copies nor make shift registers of them.

`default_nettype none

(* keep_hierarchy = "yes" *)
module vdla_copy #(
  parameter type T = logic
) (
  input  logic clk_i,
  input  T     data_i,
  output T     data_o
);

  (* dont_touch = "yes" *)
  T data_q;

  always_ff @(posedge clk_i) begin
    data_q <= data_i;
  end

  assign data_o = data_q;

endmodule

`default_nettype wire
