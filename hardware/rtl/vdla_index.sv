// SPDX-License-Identifier: Apache-2.0
// An index of the sequencer: base + i * outer + j * inner for loop counters i and j.
//
// Contract: load_i loads the base for the next cycle; next_i without it advances the inner loop,
// with outer_i the outer one. All arithmetic is modulo 2**Bits.

`default_nettype none

module vdla_index #(
  parameter int unsigned Bits = 8
) (
  input  logic            clk_i,
  input  logic            load_i,
  input  logic [Bits-1:0] base_i,
  input  logic            next_i,
  input  logic            outer_i,
  input  logic [Bits-1:0] step_outer_i,
  input  logic [Bits-1:0] step_inner_i,
  output logic [Bits-1:0] index_o
);

  logic [Bits-1:0] row_q, sum;

  assign sum = outer_i ? row_q + step_outer_i : index_o + step_inner_i;

  always_ff @(posedge clk_i) begin
    if (load_i) begin
      row_q <= base_i;
      index_o <= base_i;
    end else if (next_i) begin
      if (outer_i) row_q <= sum;
      index_o <= sum;
    end
  end

endmodule

`default_nettype wire
