// SPDX-License-Identifier: Apache-2.0
// Proof: the bursts of fetch are the stream from its base to its end without a gap, each the longest
// within burst length, page and stream; a burst is offered, unchanged, until it is granted, and only
// while the buffer has room for it. Base, length, the rate of grants, beats and dispatches are any.
//
// Which words are valid, and for which unit, is free.
module vdla_fetch_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
(
  input logic             clk_i,
  input logic             start_i,
  input logic             halt_i,
  input addr_t            base_i,
  input logic [31:0]      count_i,
  input logic             wants_grant_i,
  input logic             beat_valid_i,
  input beat_t            beat_data_i,
  input logic             beat_last_i,
  input logic [Units-1:0] queue_full_i
);
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;
  localparam int unsigned BeatsBits = 32 + $clog2(InstrBeats);
  localparam int unsigned PlaceBits = AxiAddrBits - AxiShift;
  typedef logic [BeatsBits-1:0] beats_t;
  typedef logic [PlaceBits-1:0] place_t;

  logic   rst_ni = 1'b0;  // low in the first cycle
  logic   valid, grant;
  burst_t burst, burst_q;
  logic [Units-1:0] dispatch;

  assign grant = wants_grant_i && valid;

  vdla_fetch u_fetch (
    .clk_i,
    .rst_ni,
    .start_i,
    .halt_i,
    .base_i,
    .count_i,
    .read_latency_i  ('0),
    .burst_valid_o   (valid),
    .burst_o         (burst),
    .burst_grant_i   (grant),
    .beat_valid_i,
    .beat_data_i,
    .beat_last_i,
    .dispatch_o      (dispatch),
    .command_o       (),
    .queue_full_i,
    .all_dispatched_o(),
    .invalid_o       (),
    .dispatched_o    (),
    .class_o         ()
  );

  // --- the stream: where the next burst begins, beats that are not granted, and not answered

  logic       started_q, valid_q, granted_q;
  logic [1:0] age_q;  // cycles since the start, 3 at most
  place_t     place_q;
  beats_t     rest_q;
  logic [9:0] owed_q;

  function automatic logic [31:0] room_at(place_t place);
    return 32'(PageBeats) - (32'(place) & 32'(PageBeats - 1));
  endfunction

  // The beats of the burst at a place, with this many beats of the stream from there.
  function automatic beats_t beats_at(place_t place, beats_t rest);
    beats_t beats;
    beats = beats_t'(BurstCap);
    if (beats_t'(room_at(place)) < beats) beats = beats_t'(room_at(place));
    if (rest < beats) beats = rest;
    return beats;
  endfunction

  beats_t first, second;
  place_t behind_first, behind;
  assign first        = beats_at(place_q, rest_q);
  assign behind_first = place_q + place_t'(first);
  assign second       = beats_at(behind_first, rest_q - first);
  assign behind       = behind_first + place_t'(second);

  always_ff @(posedge clk_i) begin
    rst_ni    <= 1'b1;
    burst_q   <= burst;
    granted_q <= grant;
    if (!rst_ni) begin
      started_q <= 1'b0;
      valid_q   <= 1'b0;
      owed_q    <= '0;
    end else begin
      if (start_i) started_q <= 1'b1;
      valid_q <= valid;
      owed_q  <= owed_q + (grant ? 10'(burst.len) + 1'b1 : '0) - 10'(beat_valid_i);
    end
    if (start_i) begin
      age_q   <= 2'd1;
      place_q <= base_i[AxiAddrBits-1:AxiShift];
      rest_q  <= beats_t'(count_i) << $clog2(InstrBeats);
    end else begin
      if (age_q != 2'd3) age_q <= age_q + 1'b1;
      if (grant) begin
        place_q <= behind_first;
        rest_q  <= rest_q - first;
      end
    end
  end

  logic [31:0] kept;  // beats that are granted, and whose word is not dispatched
  assign kept = 32'(owed_q) + 32'(u_fetch.lane_q)
      + InstrBeats * (32'(u_fetch.words_q) + 32'(u_fetch.head_valid_q)
                      + 32'(u_fetch.target_q != '0));

  always_comb begin
    if (rst_ni) begin
      // The contract of the users: one start, and beats that were granted.
      if (start_i) assume (!started_q && base_i[AxiShift-1:0] == '0);
      if (beat_valid_i) assume (owed_q != '0);

      // A burst is that of its place, and within its page.
      if (valid) begin
        assert (started_q && age_q == 2'd3 && first != '0);
        assert (burst.addr == {place_q, {AxiShift{1'b0}}} && beats_t'(burst.len) + 1'b1 == first);
        assert (32'(burst.addr[11:0]) + AxiBytes * (32'(burst.len) + 1) <= PageBytes);
        assert (32'(burst.len) < BurstBeats);
      end
      // It is offered until it is granted.
      if (valid_q && !granted_q) assert (valid && burst == burst_q);
      // What is granted and not dispatched fits the buffer.
      assert (32'(u_fetch.room_q) + kept <= FetchBufferBeats);

      // Invariants for the induction.
      assert ((u_fetch.filling_q == 2'b01) == (started_q && age_q == 2'd1));
      assert ((u_fetch.filling_q == 2'b10) == (started_q && age_q == 2'd2));
      assert (u_fetch.filling_q != 2'b11);
      assert (u_fetch.any_word_q == (u_fetch.words_q != '0));
      assert (32'(u_fetch.lane_q) < InstrBeats);
      if (!started_q || age_q != 2'd3) begin
        assert (owed_q == '0 && !valid && u_fetch.burst_q == '0);
        assert (32'(u_fetch.room_q) == FetchBufferBeats && kept == '0);
      end
      if (!started_q || age_q == 2'd1) assert (u_fetch.next_q == '0);
      if (started_q) begin
        assert (age_q != '0 && u_fetch.cap_q != '0);
        assert (u_fetch.address_q == {place_q, {AxiShift{1'b0}}});
        case (age_q)
          2'd1: begin
            assert (u_fetch.rest_q == rest_q && 32'(u_fetch.page_q) == room_at(place_q));
            assert (u_fetch.cap_q == u_fetch.cap_of(u_fetch.page_q));
          end
          2'd2: begin
            assert (u_fetch.rest_q == rest_q - first && beats_t'(u_fetch.next_q) == first);
            if (u_fetch.rest_q != '0) begin
              assert (32'(u_fetch.page_q) == room_at(behind_first));
              assert (u_fetch.cap_q == u_fetch.cap_of(u_fetch.page_q));
            end
          end
          default: begin
            assert (beats_t'(u_fetch.burst_q) == first && beats_t'(u_fetch.next_q) == second);
            assert (u_fetch.rest_q == rest_q - first - second);
            if (first != '0) assert (beats_t'(u_fetch.len_q) + 1'b1 == first);
            if (u_fetch.rest_q != '0) begin
              assert (32'(u_fetch.page_q) == room_at(behind));
              assert (u_fetch.cap_q == u_fetch.cap_of(u_fetch.page_q));
            end
            if (valid) assert (32'(u_fetch.burst_q) <= 32'(u_fetch.room_q));
          end
        endcase
      end
    end
  end
endmodule
