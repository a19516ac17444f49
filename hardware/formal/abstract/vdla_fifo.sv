// SPDX-License-Identifier: Apache-2.0
// In place of vdla_fifo in proofs of its users: what its proof shows of it, and nothing else.
// An element is followed, which the proof chooses by follow; the head is that element when those
// ahead of it are popped, and any value before and after. Signals without a driver are free.
module vdla_fifo #(
  parameter type T = logic,
  parameter int unsigned Depth = 4,
  localparam int unsigned LevelBits = unsigned'($clog2(Depth + 1))
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 push_i,
  input  T                     data_i,
  output logic                 full_o,
  output T                     head_o,
  output logic                 empty_o,
  input  logic                 pop_i,
  output logic [LevelBits-1:0] level_o
);
  logic follow;
  T     other;

  logic inside_q;
  T     value_q;
  logic [LevelBits-1:0] level_q, ahead_q;

  assign full_o  = level_q == LevelBits'(Depth);
  assign empty_o = level_q == '0;
  assign level_o = level_q;
  assign head_o  = inside_q && ahead_q == '0 ? value_q : other;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      level_q  <= '0;
      inside_q <= 1'b0;
    end else begin
      level_q <= level_q + LevelBits'(push_i) - LevelBits'(pop_i);
      if (inside_q) begin
        if (pop_i) ahead_q <= ahead_q - 1'b1;
        if (pop_i && ahead_q == '0) inside_q <= 1'b0;
      end else if (push_i && follow) begin
        inside_q <= 1'b1;
        ahead_q  <= level_q - LevelBits'(pop_i);
        value_q  <= data_i;
      end
    end
  end
endmodule
