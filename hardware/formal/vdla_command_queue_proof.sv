// SPDX-License-Identifier: Apache-2.0
// Proof: vdla_command_queue returns its commands unchanged and in order, each as soon as the timing
// contract says; the level is their number.
//
// An arbitrary command is followed: `follow_i` is free, and the first push with it is that command.
// `ahead_q` is the number of commands before it.
module vdla_command_queue_proof #(
  parameter int unsigned Depth = 4
) (
  input logic       clk_i,
  input logic       push_i,
  input logic [1:0] data_i,
  input logic       pop_i,
  input logic       follow_i
);
  localparam int unsigned LevelBits = $clog2(Depth + 1);

  logic rst_ni = 1'b0;  // low in the first cycle
  logic full, empty, valid, inside_q, pushed_q;
  logic [1:0] head, value_q;
  logic [LevelBits-1:0] level, count_q, ahead_q;

  vdla_command_queue #(
    .T    (logic [1:0]),
    .Depth(Depth)
  ) u_queue (
    .clk_i,
    .rst_ni,
    .push_i,
    .data_i,
    .full_o (full),
    .head_o (head),
    .valid_o(valid),
    .pop_i,
    .empty_o(empty),
    .level_o(level)
  );

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) begin
      count_q  <= '0;
      inside_q <= 1'b0;
      pushed_q <= 1'b0;
    end else begin
      count_q  <= count_q + LevelBits'(push_i) - LevelBits'(pop_i);
      pushed_q <= push_i;
      if (inside_q) begin
        if (pop_i) ahead_q <= ahead_q - 1'b1;
        if (pop_i && ahead_q == '0) inside_q <= 1'b0;
      end else if (push_i && follow_i) begin
        inside_q <= 1'b1;
        ahead_q  <= count_q - LevelBits'(pop_i);
        value_q  <= data_i;
      end
    end
  end

  // The index of an element of the memory, counted from the oldest.
  typedef logic [LevelBits:0] place_t;

  function automatic place_t place(logic [LevelBits-1:0] after_oldest);
    place_t straight;
    straight = place_t'(u_queue.read_q) + place_t'(after_oldest);
    return straight >= place_t'(Depth) ? straight - place_t'(Depth) : straight;
  endfunction

  always_comb begin
    if (rst_ni) begin
      // The contract of the user.
      assume (!(push_i && full));
      assume (!(pop_i && !valid));

      assert (level == count_q);
      assert (level <= LevelBits'(Depth));
      assert (full == (count_q == LevelBits'(Depth)));
      assert (empty == (count_q == '0));
      if (inside_q && ahead_q == '0 && valid) assert (head == value_q);
      // There is a head, unless the only command was pushed in the previous cycle.
      assert (valid == (count_q > LevelBits'(pushed_q)));

      // Invariants for the induction.
      assert (u_queue.read_q < Depth && u_queue.write_q < Depth);
      assert (u_queue.stored_q == level - LevelBits'(valid));
      assert (u_queue.any_stored_q == (u_queue.stored_q != '0));
      assert (place_t'(u_queue.write_q) == place(u_queue.stored_q));
      if (inside_q) assert (ahead_q < count_q);
      if (inside_q && !(valid && ahead_q == '0))
        assert (u_queue.memory_q[place(ahead_q - LevelBits'(valid))] == value_q);
    end
  end
endmodule
