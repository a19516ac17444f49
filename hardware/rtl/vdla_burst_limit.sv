// SPDX-License-Identifier: Apache-2.0
// The number of outstanding bursts of a channel, and whether one more may begin.
//
// Contract: a burst begins only with may_begin_o, which is registered: fewer bursts are outstanding
// than limit_i was in the previous cycle, and fewer than Most. A burst is outstanding from
// the cycle after begin_i to that of end_i. One begin and one end per cycle.

`default_nettype none

module vdla_burst_limit
  import vdla_pkg::*;
#(
  parameter int unsigned LimitBits = 9,
  parameter int unsigned Most = MaxOutstanding
) (
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic [LimitBits-1:0] limit_i,
  input  logic                 begin_i,
  input  logic                 end_i,
  output logic                 may_begin_o,
  output logic                 outstanding_o
);

  localparam int unsigned LevelBits = $clog2(Most + 1);
  localparam int unsigned WideBits = LimitBits > LevelBits ? LimitBits : LevelBits;

  typedef logic [LevelBits-1:0] level_t;
  typedef logic [WideBits-1:0] wide_t;

  level_t level_q, kept, more;  // kept: without the burst that ends; more: with one that begins
  logic   may_begin_q;

  // Below the limit of the user, and below that of the counter and of the monitors' queues.
  function automatic logic has_room(level_t level, logic [LimitBits-1:0] limit);
    return wide_t'(level) < wide_t'(limit) && level < level_t'(Most);
  endfunction

  assign kept = level_q - level_t'(end_i);
  assign more = kept + 1'b1;

  // Begins arrive late: they only select.
  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      level_q     <= '0;
      may_begin_q <= 1'b0;
    end else begin
      level_q     <= begin_i ? more : kept;
      may_begin_q <= begin_i ? has_room(more, limit_i) : has_room(kept, limit_i);
    end
  end

  assign may_begin_o   = may_begin_q;
  assign outstanding_o = level_q != '0;

`ifndef SYNTHESIS
  // A burst begins only below the limit.
  BeginHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni) begin_i |-> may_begin_o);
  Bounded_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      32'(level_q) <= Most);
  // Only an outstanding burst ends.
  EndHasBurst_A: assert property (@(posedge clk_i) disable iff (!rst_ni) end_i |-> level_q != '0);
  // The limit is reached, and a burst begins in the first cycle with room.
  AtLimit_C: cover property (@(posedge clk_i) disable iff (!rst_ni) $past(!may_begin_o) && begin_i);
`endif

endmodule

`default_nettype wire
