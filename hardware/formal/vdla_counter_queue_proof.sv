// SPDX-License-Identifier: Apache-2.0
// Proof: vdla_counter_queue counts exactly and never over- or underflows if users keep its
// contract.
module vdla_counter_queue_proof #(
  parameter int unsigned Depth = 4
) (
  input logic clk_i,
  input logic wants_push_i,
  input logic wants_pop_i
);
  localparam int unsigned LevelBits = $clog2(Depth + 1);

  logic rst_ni = 1'b0;  // low in the first cycle
  logic available, room, push, pop;
  logic [LevelBits-1:0] level;
  logic [LevelBits:0] count_q;  // a bit wider, to show an overflow

  // The contract of the users: any push and pop that the outputs allow.
  assign push = wants_push_i && room;
  assign pop  = wants_pop_i && available;

  vdla_counter_queue #(
    .Depth(Depth)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .push_i     (push),
    .pop_i      (pop),
    .available_o(available),
    .room_o     (room),
    .level_o    (level)
  );

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) count_q <= '0;
    else count_q <= count_q + (LevelBits + 1)'(push) - (LevelBits + 1)'(pop);
  end

  always_comb begin
    if (rst_ni) begin
      assert (32'(count_q) <= Depth);
      assert ((LevelBits + 1)'(level) == count_q);
      assert (available == (count_q != '0));
      assert (room == (32'(count_q) < Depth));
    end
  end
endmodule
