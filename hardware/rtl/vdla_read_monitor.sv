// SPDX-License-Identifier: Apache-2.0
// The counter of a unit's cycle while it has outstanding read bursts: memory latency, memory
// bandwidth, or a beat (docs/timing-contract.md, section 6).
//
// Contract: a grant adds a burst, the last beat removes the oldest; at most MostReads. The first
// beat comes more than PortDelay cycles after the grant. The cycles of the grant and of the last
// beat are both covered. Latency 0; one grant and one beat per cycle.
//
// A burst is due ReadChannelDelay + latency_i cycles after its grant. Grants are at least a cycle
// apart, so at most one burst becomes due per cycle, and a queue of the due times of bursts not yet
// due suffices: each is at the head of the queue in the cycle that it names.

`default_nettype none

module vdla_read_monitor
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic [ReadLatencyBits-1:0] latency_i,  // constant while bursts are outstanding
  input  logic                       grant_i,
  input  logic                       beat_i,
  input  logic                       last_i,  // with beat_i
  output logic                       covered_o,
  output counter_e                   class_o
);

  localparam int unsigned LevelBits = $clog2(MostReads + 1);

  // Wide enough that no burst is due a whole turn of the clock later.
  typedef logic [ReadLatencyBits:0] time_t;
  typedef logic [LevelBits-1:0] level_t;

  time_t  now_q, due_at_q;  // due_at_q: when a burst that is granted now is due
  time_t  queued, head_q;
  level_t early_q, due_q;  // bursts that are not due, and that are
  logic   none_queued, head_valid_q, refill;
  logic   becomes_due, removes, removes_early, leaves;
  logic   begun_q;  // the oldest burst has had a beat

  assign becomes_due   = head_valid_q && head_q == now_q;
  assign removes       = beat_i && last_i;
  assign removes_early = removes && due_q == '0;
  assign leaves        = becomes_due || removes_early;
  assign refill        = !none_queued && (leaves || !head_valid_q);

  // The head has a register of its own: memory and comparison do not fit one cycle.
  vdla_fifo #(
    .T    (time_t),
    .Depth(MostReads)
  ) u_early (
    .clk_i,
    .rst_ni,
    .push_i (grant_i),
    .data_i (due_at_q),
    .full_o (),
    .head_o (queued),
    .empty_o(none_queued),
    .pop_i  (refill),
    .level_o()
  );

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      head_valid_q <= 1'b0;
      early_q      <= '0;
      due_q        <= '0;
      begun_q      <= 1'b0;
    end else begin
      head_valid_q <= refill || (head_valid_q && !leaves);
      early_q      <= early_q + level_t'(grant_i) - level_t'(leaves);
      due_q        <= due_q + level_t'(becomes_due && !removes_early)
          - level_t'(removes && !removes_early);
      if (beat_i) begun_q <= !last_i;
    end
  end

  // Only differences of times matter, so the clock needs no reset.
  always_ff @(posedge clk_i) begin
    now_q    <= now_q + 1'b1;
    due_at_q <= now_q + time_t'(latency_i) + time_t'(ReadChannelDelay + 1);
    if (refill) head_q <= queued;
  end

  assign covered_o = grant_i || early_q != '0 || due_q != '0;

  always_comb begin
    if (beat_i) class_o = CntBusy;
    else if (begun_q || becomes_due || due_q != '0) class_o = CntMemoryBandwidth;
    else class_o = CntMemoryLatency;
  end

`ifndef SYNTHESIS
  // The head is loaded two cycles after the grant, in time for a latency of 0.
  if (PortDelay < 2) begin : gen_delay
    $error("vdla_read_monitor: PortDelay must be at least 2");
  end

  // A beat belongs to a granted burst.
  BeatHasBurst_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      beat_i |-> early_q != '0 || due_q != '0);
  // The oldest burst that is not due is at the head when it becomes due or is complete.
  HeadIsOldest_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      removes_early |-> head_valid_q);
  // The limit of outstanding bursts holds.
  Bounded_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      32'(early_q) + 32'(due_q) <= MostReads);
  // A burst is complete in the cycle in which it becomes due, and before.
  DueAtLast_C: cover property (@(posedge clk_i) disable iff (!rst_ni) becomes_due && removes_early);
  Early_C: cover property (@(posedge clk_i) disable iff (!rst_ni) removes_early && !becomes_due);
`endif

endmodule

`default_nettype wire
