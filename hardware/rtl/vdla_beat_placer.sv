// The place in its buffer of each beat of the loads in flight: loads and entries in order, low
// beats of an entry first.
//
// Contract: push_i adds a load with data before its first beat arrives; at most LoadsInFlight loads
// have beats to come. With beat_valid_i, the other outputs are the place of that beat, if a load
// waits for one. Latency 0; one beat per cycle, without back-pressure.

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
  typedef logic [SramFieldBits-1:0] index_t;
  typedef logic [BeatIndexBits-1:0] beat_index_t;

  typedef struct packed {
    buffer_e     buffer;
    logic        widen;
    beat_index_t last_beat;
    index_t      first;
    index_t      sides;  // padding between the data of two rows
    index_t      gap;
    size_t       x_size;
    size_t       y_size;
    size_t       z_size;
  } transfer_t;

  transfer_t pushed, head;
  logic      none;

  logic unused_bits;
  assign unused_bits = ^load_i;

  assign pushed = '{
    buffer: load_i.buffer,
    widen: load_i.widen,
    last_beat: last_beat_i,
    first: first_i,
    sides: index_t'(load_i.x_before) + index_t'(load_i.x_after),
    gap: gap_i,
    x_size: load_i.x_size,
    y_size: load_i.y_size,
    z_size: load_i.z_size
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
    .head_o (head),
    .empty_o(none),
    .pop_i  (last_o),
    .level_o()
  );

  beat_index_t beat_q;
  size_t       column_q, row_q, plane_q;
  logic        fresh_q;  // the first entry of the load is not complete
  index_t      index_q, skipped;
  logic        entry_ends, row_ends, plane_ends;

  assign place_valid_o = beat_valid_i && !none;
  assign buffer_o      = head.buffer;
  assign widen_o       = head.widen;
  assign index_o       = fresh_q ? head.first : index_q;
  assign beat_o        = beat_q;

  assign entry_ends = place_valid_o && beat_q == head.last_beat;
  assign row_ends   = entry_ends && size_t'(column_q + 1'b1) == head.x_size;
  assign plane_ends = row_ends && size_t'(row_q + 1'b1) == head.y_size;
  assign last_o     = plane_ends && size_t'(plane_q + 1'b1) == head.z_size;

  always_comb begin
    skipped = '0;
    if (row_ends) skipped = head.sides;
    if (plane_ends) skipped = head.gap;
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      beat_q   <= '0;
      column_q <= '0;
      row_q    <= '0;
      plane_q  <= '0;
      fresh_q  <= 1'b1;
    end else begin
      if (place_valid_o) beat_q <= entry_ends ? '0 : beat_q + 1'b1;
      if (entry_ends) column_q <= row_ends ? '0 : column_q + 1'b1;
      if (entry_ends) fresh_q <= last_o;
      if (row_ends) row_q <= plane_ends ? '0 : row_q + 1'b1;
      if (plane_ends) plane_q <= last_o ? '0 : plane_q + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (entry_ends) index_q <= index_o + skipped + 1'b1;
  end

`ifndef SYNTHESIS
  // A beat belongs to a load that waits for it.
  BeatHasLoad_A: assert property (@(posedge clk_i) disable iff (!rst_ni) beat_valid_i |-> !none);
`endif

endmodule
