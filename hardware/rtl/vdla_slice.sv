// SPDX-License-Identifier: Apache-2.0
// A register slice of a valid/ready stream: neither data nor either control passes through it
// without a register.
//
// Contract: an item is taken with in_valid_i && in_ready_o, and given with out_valid_o &&
// out_ready_i. Items keep their order; none is lost or doubled. An item that is offered stays
// offered, unchanged, until it is given. Latency 1, one item per cycle; holds two items.

`default_nettype none

module vdla_slice #(
  parameter type T = logic
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic in_valid_i,
  output logic in_ready_o,
  input  T     in_data_i,
  output logic out_valid_o,
  input  logic out_ready_i,
  output T     out_data_o
);

  // The spare holds the item that was taken in the cycle in which the output was first refused.
  logic ready_q, valid_q, moves;
  T     data_q, spare_q;

  assign in_ready_o  = ready_q;
  assign out_valid_o = valid_q;
  assign out_data_o  = data_q;
  assign moves       = !valid_q || out_ready_i;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      ready_q <= 1'b1;
      valid_q <= 1'b0;
    end else begin
      // The spare is full, so the slice is not ready, only while the output is refused.
      ready_q <= moves || (ready_q && !in_valid_i);
      valid_q <= !moves || !ready_q || in_valid_i;
    end
  end

  always_ff @(posedge clk_i) begin
    if (ready_q) spare_q <= in_data_i;
    if (moves) data_q <= ready_q ? in_data_i : spare_q;
  end

`ifndef SYNTHESIS
  // An item that is offered stays offered, unchanged, until it is given.
  OutStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      out_valid_o && !out_ready_i |=> out_valid_o && $stable(out_data_o));
  // An empty slice is ready.
  EmptyReady_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !out_valid_o |-> in_ready_o);
  // Both registers are full, and the output is given.
  Full_C: cover property (@(posedge clk_i) disable iff (!rst_ni) !in_ready_o && out_ready_i);
`endif

endmodule

`default_nettype wire
