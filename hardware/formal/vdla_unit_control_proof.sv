// SPDX-License-Identifier: Apache-2.0
// Proof: a unit and its token queues. Token queues never over- or underflow, instructions in flight
// never exceed their limit, and each started instruction ends once, not before it completes.
//
// Neighbours push and pop freely within their contract.
module vdla_unit_control_proof
  import vdla_types_pkg::*;
#(
  parameter int unsigned InFlight = 4,
  parameter int unsigned Depth = 8
) (
  input logic    clk_i,
  input logic    halt_i,
  input logic    cmd_valid_i,
  input tokens_t cmd_tokens_i,
  input logic    cmd_sync_i,
  input logic    issue_free_i,
  input logic    finishes_i,
  input logic    gives_i,
  input logic    takes_i
);
  localparam int unsigned LevelBits = $clog2(Depth + 1);
  localparam int unsigned FlightBits = $clog2(InFlight + 1);
  typedef logic [FlightBits-1:0] flight_t;

  logic rst_ni = 1'b0;  // low in the first cycle
  logic take, ended, complete;
  logic prev_available, prev_pop, next_room, next_push;
  logic [FlightBits-1:0] in_flight;
  logic [LevelBits-1:0] in_level, out_level;

  // One queue that the unit pops and one that it pushes; the other side of each behaves the same.
  tokens_t tokens;
  assign tokens = '{
    pop_prev: cmd_tokens_i.pop_prev,
    push_next: cmd_tokens_i.push_next,
    default: 1'b0
  };

  logic in_room, out_available;
  vdla_counter_queue #(.Depth(Depth)) u_in (
    .clk_i, .rst_ni, .push_i(gives_i && in_room), .pop_i(prev_pop),
    .available_o(prev_available), .room_o(in_room), .level_o(in_level)
  );
  vdla_counter_queue #(.Depth(Depth)) u_out (
    .clk_i, .rst_ni, .push_i(next_push), .pop_i(takes_i && out_available),
    .available_o(out_available), .room_o(next_room), .level_o(out_level)
  );

  vdla_unit_control #(
    .InFlight(InFlight)
  ) u_control (
    .clk_i,
    .rst_ni,
    .halt_i,
    .cmd_valid_i,
    .cmd_tokens_i    (tokens),
    .cmd_sync_i,
    .cmd_take_o      (take),
    .prev_available_i(prev_available),
    .next_available_i(1'b0),
    .prev_pop_o      (prev_pop),
    .next_pop_o      (),
    .prev_room_i     (1'b0),
    .next_room_i     (next_room),
    .prev_push_o     (),
    .next_push_o     (next_push),
    .allow_i         (issue_free_i && in_flight < flight_t'(InFlight)),
    .complete_i      (complete),
    .in_flight_o     (in_flight),
    .ended_o         (ended),
    .current_i       (1'b0),
    .current_class_i (CntBusy),
    .current_waits_i (1'b0),
    .covered_i       (1'b0),
    .covered_class_i (CntBusy),
    .class_o         (),
    .tentative_o     ()
  );

  // Instructions other than SYNC: those in flight, and those of them that are incomplete.
  flight_t working_q, incomplete_q, syncs_q;
  logic starts_work, ends_work;
  assign starts_work = take && !cmd_sync_i;
  assign ends_work = ended && !u_control.oldest.sync;
  assign complete = finishes_i && incomplete_q != '0;

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) begin
      working_q    <= '0;
      incomplete_q <= '0;
      syncs_q      <= '0;
    end else begin
      working_q    <= working_q + flight_t'(starts_work) - flight_t'(ends_work);
      incomplete_q <= incomplete_q + flight_t'(starts_work) - flight_t'(complete);
      syncs_q      <= syncs_q + flight_t'(take && cmd_sync_i)
                              - flight_t'(ended && u_control.oldest.sync);
    end
  end

  // The SYNCs in flight, counted in the queue: its head, and the elements in its memory.
  localparam int unsigned Places = InFlight - 1;
  logic [FlightBits:0] place;
  flight_t kept_syncs;
  always_comb begin
    kept_syncs = flight_t'(in_flight != '0 && u_control.oldest.sync);
    for (int unsigned i = 0; i < Places; i++) begin
      place = (FlightBits + 1)'(u_control.u_flight.read_q) + (FlightBits + 1)'(i);
      if (32'(place) >= Places) place -= (FlightBits + 1)'(Places);
      if (i + 1 < 32'(in_flight)) begin
        kept_syncs += flight_t'(u_control.u_flight.memory_q[place].sync);
      end
    end
    // The index after the last one.
    place = (FlightBits + 1)'(u_control.u_flight.read_q);
    if (in_flight != '0) place += (FlightBits + 1)'(in_flight) - 1'b1;
    if (32'(place) >= Places) place -= (FlightBits + 1)'(Places);
  end

  always_comb begin
    if (rst_ni) begin
      if (prev_pop) assert (in_level != '0);
      if (next_push) assert (32'(out_level) < Depth);
      assert (32'(in_level) <= Depth && 32'(out_level) <= Depth);

      assert (32'(in_flight) <= InFlight);
      if (take) assert (32'(in_flight) < InFlight && cmd_valid_i && !u_control.halt_q);
      if (take && tokens.pop_prev) assert (prev_pop);
      if (ended) assert (in_flight != '0 && !u_control.halt_q);
      if (ends_work) assert (working_q > incomplete_q || complete);

      // Invariants for the induction.
      assert (incomplete_q <= working_q);
      assert (u_control.done_q == working_q - incomplete_q);
      assert (u_control.any_done_q == (u_control.done_q != '0));
      assert (32'(in_flight) == 32'(working_q) + 32'(syncs_q));
      assert (kept_syncs == syncs_q);
      assert (32'(u_control.u_flight.read_q) < Places);
      assert (32'(u_control.u_flight.write_q) == 32'(place));
      assert (u_control.u_flight.empty_q == (in_flight == '0));
      assert (u_control.u_flight.stored_q == (32'(in_flight) > 1));
      assert (prev_available == (in_level != '0) && in_room == (32'(in_level) < Depth));
      assert (out_available == (out_level != '0) && next_room == (32'(out_level) < Depth));
    end
  end
endmodule
