// SPDX-License-Identifier: Apache-2.0
// Proof: the slice gives items in the order in which it takes them, each once and unchanged, holds an
// offered item until it is given, and is ready whenever it holds fewer than two: one item per cycle.
module vdla_slice_proof (
  input logic       clk_i,
  input logic       in_valid_i,
  input logic [3:0] in_data_i,
  input logic       out_ready_i
);
  logic rst_ni = 1'b0;  // low in the first cycle
  logic in_ready, out_valid;
  logic [3:0] out_data;

  vdla_slice #(
    .T(logic [3:0])
  ) u_slice (
    .clk_i,
    .rst_ni,
    .in_valid_i,
    .in_ready_o (in_ready),
    .in_data_i,
    .out_valid_o(out_valid),
    .out_ready_i,
    .out_data_o (out_data)
  );

  // A queue of what was taken and not given, the oldest first.
  logic [3:0] oldest_q, newest_q;
  logic [1:0] count_q;
  logic taken, given;

  assign taken = in_valid_i && in_ready;
  assign given = out_valid && out_ready_i;

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) count_q <= '0;
    else count_q <= count_q + 2'(taken) - 2'(given);
    if (given && count_q == 2'd2) oldest_q <= newest_q;
    else if (taken && (count_q == '0 || given)) oldest_q <= in_data_i;
    if (taken) newest_q <= in_data_i;
  end

  always_comb begin
    if (rst_ni) begin
      assert (out_valid == (count_q != '0));
      assert (in_ready == (count_q < 2'd2));
      if (out_valid) assert (out_data == oldest_q);

      // Invariants for the induction.
      assert (count_q <= 2'd2);
      if (count_q == 2'd2) assert (u_slice.spare_q == newest_q);
      if (count_q == 2'd1) assert (oldest_q == newest_q);
    end
  end
endmodule
