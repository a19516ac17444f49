// SPDX-License-Identifier: Apache-2.0
// The place in its buffer of each beat of the loads in flight: loads and entries in order, low
// beats of an entry first.
//
// Contract: push_i adds a load with data more than two cycles before its first beat; at most
// LoadsInFlight loads have beats to come. With beat_valid_i, the other outputs are the place of
// that beat, if a load waits for one; they are registers, except for the valid and last_o. One beat
// per cycle, without back-pressure.

`default_nettype none

module vdla_beat_placer
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  // A load.
  input  logic                     push_i,
  input  load_t                    load_i,
  input  logic [BeatIndexBits-1:0] last_beat_i,  // beats of an entry, less one
  input  logic [SramFieldBits-1:0] first_i,      // the first entry of data
  input  logic [SramFieldBits-1:0] gap_i,        // padding between the data of two planes
  // A beat and its place.
  input  logic                     beat_valid_i,
  output logic                     place_valid_o,
  output buffer_e                  buffer_o,
  output logic                     widen_o,
  output logic [SramFieldBits-1:0] index_o,
  output logic [BeatIndexBits-1:0] beat_o,
  output logic                     last_o        // the last beat of its load
);

  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SizeFieldBits-2:0] count_t;  // a size; the greatest one, a power of two, is 0 here
  typedef logic [SramFieldBits-1:0] index_t;
  typedef logic [BeatIndexBits-1:0] beat_index_t;

  // Whether a size is one is known before it is needed.
  typedef struct packed {
    logic is_one;
    count_t size;
  } extent_t;

  typedef struct packed {
    buffer_e     buffer;
    logic        widen;
    beat_index_t last_beat;
    index_t      first;
    index_t      past_row;    // from the last entry of a row to the first one of the next
    index_t      past_plane;  // from the last entry of a plane to the first one of the next
    extent_t     columns;
    extent_t     rows;
    extent_t     planes;
  } transfer_t;

  transfer_t pushed, queued;
  transfer_t load_q;  // the load whose beats arrive, in registers of its own
  logic      none_queued, refill;

  logic unused_bits;
  assign unused_bits = ^{load_i, load_q};

  function automatic extent_t extent(size_t size);
    return '{is_one: size == size_t'(1), size: count_t'(size)};
  endfunction

  assign pushed = '{
    buffer: load_i.buffer,
    widen: load_i.widen,
    last_beat: last_beat_i,
    first: first_i,
    past_row: index_t'(load_i.x_before) + index_t'(load_i.x_after) + 1'b1,
    past_plane: gap_i + 1'b1,
    columns: extent(load_i.x_size),
    rows: extent(load_i.y_size),
    planes: extent(load_i.z_size)
  };

  vdla_fifo #(
    .T    (transfer_t),
    .Depth(LoadsInFlight)
  ) u_transfers (
    .clk_i,
    .rst_ni,
    .push_i (push_i),
    .data_i (pushed),
    .full_o (),
    .head_o (queued),
    .empty_o(none_queued),
    .pop_i  (refill),
    .level_o()
  );

  // --- the entry and the beat that arrive next

  logic        valid_q;
  beat_index_t beat_q;
  index_t      index_q, forward;
  count_t      columns_left_q, rows_left_q, planes_left_q;  // this one included
  logic        beat_is_last_q, column_is_last_q, row_is_last_q, plane_is_last_q;
  logic        entry_ends, row_ends, plane_ends;

  assign place_valid_o = beat_valid_i && valid_q;
  assign buffer_o      = load_q.buffer;
  assign widen_o       = load_q.widen;
  assign index_o       = index_q;
  assign beat_o        = beat_q;

  assign entry_ends = place_valid_o && beat_is_last_q;
  assign row_ends   = entry_ends && column_is_last_q;
  assign plane_ends = row_ends && row_is_last_q;
  assign last_o     = plane_ends && plane_is_last_q;
  assign refill     = !none_queued && (last_o || !valid_q);

  always_comb begin
    forward = index_t'(1);
    if (column_is_last_q) forward = row_is_last_q ? load_q.past_plane : load_q.past_row;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) valid_q <= 1'b0;
    else valid_q <= refill || (valid_q && !last_o);
  end

  always_ff @(posedge clk_i) begin
    if (refill) begin
      load_q           <= queued;
      index_q          <= queued.first;
      beat_q           <= '0;
      beat_is_last_q   <= queued.last_beat == '0;
      columns_left_q   <= queued.columns.size;
      column_is_last_q <= queued.columns.is_one;
      rows_left_q      <= queued.rows.size;
      row_is_last_q    <= queued.rows.is_one;
      planes_left_q    <= queued.planes.size;
      plane_is_last_q  <= queued.planes.is_one;
    end else if (place_valid_o) begin
      if (beat_is_last_q) begin
        index_q        <= index_q + forward;
        beat_q         <= '0;
        beat_is_last_q <= load_q.last_beat == '0;
      end else begin
        beat_q         <= beat_q + 1'b1;
        beat_is_last_q <= beat_index_t'(beat_q + 1'b1) == load_q.last_beat;
      end

      if (row_ends) begin
        columns_left_q   <= load_q.columns.size;
        column_is_last_q <= load_q.columns.is_one;
      end else if (entry_ends) begin
        columns_left_q   <= columns_left_q - 1'b1;
        column_is_last_q <= columns_left_q == count_t'(2);
      end

      if (plane_ends) begin
        rows_left_q     <= load_q.rows.size;
        row_is_last_q   <= load_q.rows.is_one;
        planes_left_q   <= planes_left_q - 1'b1;
        plane_is_last_q <= planes_left_q == count_t'(2);
      end else if (row_ends) begin
        rows_left_q   <= rows_left_q - 1'b1;
        row_is_last_q <= rows_left_q == count_t'(2);
      end
    end
  end

`ifndef SYNTHESIS
  // A beat belongs to a load that waits for it.
  BeatHasLoad_A: assert property (@(posedge clk_i) disable iff (!rst_ni) beat_valid_i |-> valid_q);
  // Counts are known to be one exactly when they are.
  OneIsOne_A: assert property (@(posedge clk_i) disable iff (!rst_ni) place_valid_o |->
      beat_is_last_q == (beat_q == load_q.last_beat)
      && column_is_last_q == (columns_left_q == count_t'(1))
      && row_is_last_q == (rows_left_q == count_t'(1))
      && plane_is_last_q == (planes_left_q == count_t'(1)));
  // A load follows another without a pause between their beats.
  Follows_C: cover property (@(posedge clk_i) disable iff (!rst_ni) $past(last_o) && place_valid_o);
`endif

endmodule

`default_nettype wire
