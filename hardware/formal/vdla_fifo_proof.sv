// SPDX-License-Identifier: Apache-2.0
// Proof: vdla_fifo returns its elements unchanged and in order; the level is their number.
//
// An arbitrary element is followed: `follow_i` is free, and the first push with it is that element.
// `ahead_q` is the number of elements before it.
module vdla_fifo_proof #(
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
  logic full, empty, inside_q;
  logic [1:0] head, value_q;
  logic [LevelBits-1:0] level, count_q, ahead_q;

  vdla_fifo #(
    .T    (logic [1:0]),
    .Depth(Depth)
  ) u_fifo (
    .clk_i,
    .rst_ni,
    .push_i,
    .data_i,
    .full_o (full),
    .head_o (head),
    .empty_o(empty),
    .pop_i,
    .level_o(level)
  );

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) begin
      count_q  <= '0;
      inside_q <= 1'b0;
    end else begin
      count_q <= count_q + LevelBits'(push_i) - LevelBits'(pop_i);
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

  // The place in the memory of an element, counted from the oldest one there.
  localparam int unsigned Places = Depth > 1 ? Depth - 1 : 1;
  typedef logic [LevelBits:0] place_t;

  function automatic place_t place(logic [LevelBits-1:0] after_oldest);
    place_t straight;
    straight = place_t'(u_fifo.read_q) + place_t'(after_oldest);
    return straight >= place_t'(Places) ? straight - place_t'(Places) : straight;
  endfunction

  always_comb begin
    if (rst_ni) begin
      // The contract of the user.
      assume (!(push_i && full));
      assume (!(pop_i && empty));

      assert (level == count_q);
      assert (level <= LevelBits'(Depth));
      assert (full == (count_q == LevelBits'(Depth)));
      assert (empty == (count_q == '0));
      if (inside_q && ahead_q == '0) assert (head == value_q);

      // Invariants for the induction.
      assert (u_fifo.read_q < Places && u_fifo.write_q < Places);
      assert (u_fifo.stored_q == (32'(level) > 1));
      if (level == '0) assert (place_t'(u_fifo.write_q) == place('0));
      else assert (place_t'(u_fifo.write_q) == place(level - 1'b1));
      if (inside_q) assert (ahead_q < count_q);
      if (inside_q && ahead_q != '0) assert (u_fifo.memory_q[place(ahead_q - 1'b1)] == value_q);
    end
  end
endmodule
