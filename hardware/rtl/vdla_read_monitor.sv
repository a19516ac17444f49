// The counter of a unit's cycle while it has outstanding read bursts: memory latency, memory
// bandwidth, or a beat (docs/timing-contract.md, section 6).
//
// Contract: a grant adds a burst, the last beat removes the oldest; at most MaxOutstanding. The
// cycles of the grant and of the last beat are both covered. Latency 0; one grant and one beat per
// cycle.
//
// A burst is due from latency_i cycles after its grant. Grants are at least a cycle apart, so at
// most one burst becomes due per cycle, and a queue of the grant times of bursts not yet due
// suffices: no age exceeds the latency, however slow the memory.

module vdla_read_monitor
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic        clk_i,
  input  logic        rst_ni,
  input  logic [16:0] latency_i,  // constant while bursts are outstanding
  input  logic        grant_i,
  input  logic        beat_i,
  input  logic        last_i,  // with beat_i
  output logic        covered_o,
  output counter_e    class_o
);

  localparam int unsigned LevelBits = $clog2(MaxOutstanding + 1);

  typedef logic [16:0] time_t;
  typedef logic [LevelBits-1:0] level_t;

  time_t  now_q, granted_at, age;
  level_t early, due_q;
  logic   no_early, becomes_due, removes, removes_early;
  logic   begun_q;  // the oldest burst has had a beat

  assign age           = now_q - granted_at;
  assign becomes_due   = !no_early && age >= latency_i;
  assign removes       = beat_i && last_i;
  assign removes_early = removes && due_q == '0;

  vdla_fifo #(
    .T    (time_t),
    .Depth(MaxOutstanding)
  ) u_early (
    .clk_i,
    .rst_ni,
    .push_i (grant_i),
    .data_i (now_q),
    .full_o (),
    .head_o (granted_at),
    .empty_o(no_early),
    .pop_i  (!no_early && (becomes_due || removes_early)),
    .level_o(early)
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      now_q   <= '0;
      due_q   <= '0;
      begun_q <= 1'b0;
    end else begin
      now_q <= now_q + 1'b1;
      due_q <= due_q + level_t'(becomes_due && !removes_early)
          - level_t'(removes && !removes_early);
      if (beat_i) begun_q <= !last_i;
    end
  end

  assign covered_o = grant_i || !no_early || due_q != '0;

  always_comb begin
    if (beat_i) class_o = CntBusy;
    else if (begun_q || becomes_due || due_q != '0) class_o = CntMemoryBandwidth;
    else class_o = CntMemoryLatency;
  end

`ifndef SYNTHESIS
  // A beat belongs to a granted burst.
  BeatHasBurst_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      beat_i |-> !no_early || due_q != '0);
  // The limit of outstanding bursts holds.
  Bounded_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      32'(early) + 32'(due_q) <= MaxOutstanding);
`endif

endmodule
