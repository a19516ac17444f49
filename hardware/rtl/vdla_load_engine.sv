// SPDX-License-Identifier: Apache-2.0
// Executes LOADs for the load unit and for compute: writes padding, requests bursts, places beats
// (docs/timing-contract.md, sections 2 and 5).
//
// Contract: start_i in cycle S takes a LOAD, while busy_o is low and fewer than LoadsInFlight loads
// are between start and completion. Padding is filled at one entry per cycle from the first cycle,
// S + LoadSetup at the earliest, in which alone_i says that no older load is in flight; bursts are
// requested after it, or without padding from S + LoadSetup. Beats arrive in the order of the
// bursts, the first more than PortDelay cycles after its grant, without back-pressure. write_o comes
// one cycle after its beat or padding entry, complete_o LoadTail cycles after the last one. One
// burst and one beat per cycle.

`default_nettype none

module vdla_load_engine
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic          clk_i,
  input  logic          rst_ni,
  input  logic          start_i,
  input  command_t      command_i,
  input  logic          alone_i,          // only this load is in flight
  output logic          busy_o,           // S < t < F
  output logic          requesting_o,     // q <= t < F
  output logic          padding_waits_o,  // S < t < p
  output logic          burst_valid_o,
  output burst_t        burst_o,
  input  logic          burst_grant_i,
  input  logic          beat_valid_i,
  input  beat_t         beat_data_i,
  output logic          write_valid_o,
  output buffer_write_t write_o,
  output logic          complete_o
);

  localparam int unsigned MaxShift = $clog2(MostBeats);
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1;

  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SramFieldBits-1:0] index_t;
  typedef logic [BeatIndexBits-1:0] beat_index_t;
  typedef logic [ShiftBits-1:0] shift_t;

  typedef enum logic [1:0] {StIdle, StSetUp, StPad, StRequest} state_e;

  // The logarithm of the beats of an entry in DRAM.
  function automatic shift_t entry_shift(buffer_e buffer, logic widen);
    unique case (buffer)
      BufInp:  return shift_t'($clog2(InpBeats));
      BufWgt:  return shift_t'($clog2(WgtBeats));
      BufScl:  return shift_t'($clog2(SclBeats));
      BufUop:  return shift_t'($clog2(UopBeats));
      default: return widen ? shift_t'($clog2(OutBeats)) : shift_t'($clog2(AccBeats));
    endcase
  endfunction

  // --- the load that is started, and the one that is executed

  load_t  load, load_q;
  shift_t shift, shift_q;
  size_t  plane, rows, columns;
  index_t columns_q;
  logic   has_data, has_data_q, has_padding_q;
  logic   accepts;  // the next command
  logic   unused_bits;

  assign load        = load_t'(command_i.word);
  assign shift       = entry_shift(load.buffer, load.widen);
  assign has_data    = command_i.has_data;
  assign plane       = command_i.plane[SizeFieldBits-1:0];
  assign rows        = size_t'(load.y_before) + load.y_size + size_t'(load.y_after);
  assign columns     = size_t'(load.x_before) + load.x_size + size_t'(load.x_after);
  assign unused_bits = ^{command_i, load_q, rows, columns};

  always_ff @(posedge clk_i) begin
    if (accepts) begin
      load_q        <= load;
      shift_q       <= shift;
      has_data_q    <= has_data;
      has_padding_q <= command_i.has_padding;
      columns_q     <= index_t'(columns);
    end
  end

  // --- padding, then bursts

  state_e state_q, state_d;
  logic   requests_q, queued_q;  // requests_q is state_q == StRequest, as the arbiter needs it early
  logic   filling, last_fill, last_burst;

  // A start arrives late: the registers follow the next command until it comes.
  assign accepts         = state_q == StIdle;
  assign busy_o          = !accepts;
  assign requesting_o    = requests_q;
  assign burst_valid_o   = requests_q;
  assign filling         = state_q == StPad && alone_i;
  assign padding_waits_o = (state_q == StSetUp && has_padding_q) || (state_q == StPad && !alone_i);

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      StIdle:    if (start_i) state_d = StSetUp;
      StSetUp:   state_d = has_padding_q ? StPad : StRequest;
      StPad:     if (filling && last_fill) state_d = has_data_q ? StRequest : StIdle;
      StRequest: if (burst_grant_i && last_burst) state_d = StIdle;
      default:   state_d = StIdle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q    <= StIdle;
      requests_q <= 1'b0;
    end else begin
      state_q    <= state_d;
      requests_q <= state_d == StRequest;
    end
    queued_q <= requests_q && state_d == StRequest;
  end

  index_t fill_index;

  vdla_pad_walker u_padding (
    .clk_i,
    .rst_ni,
    .accept_i  (accepts),
    .start_i,
    .load_i    (load),
    .has_data_i(has_data),
    .plane_i   (plane),
    .rows_i    (rows[SizeFieldBits-2:0]),
    .columns_i (columns[SizeFieldBits-2:0]),
    .step_i    (filling),
    .index_o   (fill_index),
    .last_o    (last_fill)
  );

  vdla_burst_cutter #(
    .MaxShift(MaxShift)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .accept_i  (accepts),
    .start_i,
    .dram_i    (load.dram),
    .shift_i   (shift),
    .z_size_i  (load.z_size),
    .y_size_i  (load.y_size),
    .x_size_i  (load.x_size),
    .plane_i   (plane),
    .z_stride_i(load.z_stride),
    .y_stride_i(load.y_stride),
    .burst_o,
    .last_o    (last_burst),
    .grant_i   (burst_grant_i)
  );

  // --- the first entry of data, and the padding between two planes

  // Rows of padding are added at one per cycle while they are filled, which takes at least as long.
  index_t     first_q, gap_q;
  logic [7:0] before_left_q, after_left_q;

  always_ff @(posedge clk_i) begin
    if (accepts) begin
      first_q       <= load.sram + index_t'(load.x_before);
      gap_q         <= index_t'(load.x_before) + index_t'(load.x_after);
      before_left_q <= load.y_before;
      after_left_q  <= load.y_after;
    end else if (before_left_q != '0) begin
      first_q       <= first_q + columns_q;
      gap_q         <= gap_q + columns_q;
      before_left_q <= before_left_q - 1'b1;
    end else if (after_left_q != '0) begin
      gap_q        <= gap_q + columns_q;
      after_left_q <= after_left_q - 1'b1;
    end
  end

  // --- arriving beats

  logic        place_valid, place_widen, place_last;
  buffer_e     place_buffer;
  index_t      place_index;
  beat_index_t place_beat;

  vdla_beat_placer u_places (
    .clk_i,
    .rst_ni,
    .push_i       (requests_q && !queued_q),
    .load_i       (load_q),
    .last_beat_i  (beat_index_t'((32'd1 << shift_q) - 32'd1)),
    .first_i      (first_q),
    .gap_i        (gap_q),
    .beat_valid_i,
    .place_valid_o(place_valid),
    .buffer_o     (place_buffer),
    .widen_o      (place_widen),
    .index_o      (place_index),
    .beat_o       (place_beat),
    .last_o       (place_last)
  );

  // --- the write, and the end of the load

  logic                write_valid_q;
  buffer_write_t       write_q;
  logic [LoadTail-1:0] tail_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      write_valid_q <= 1'b0;
      tail_q        <= '0;
    end else begin
      write_valid_q <= filling || place_valid;
      tail_q        <= {tail_q[LoadTail-2:0], place_last || (filling && last_fill && !has_data_q)};
    end
  end

  always_ff @(posedge clk_i) begin
    write_q.buffer    <= filling ? load_q.buffer : place_buffer;
    write_q.fill      <= filling;
    write_q.widen     <= place_widen && !filling;
    write_q.index     <= filling ? fill_index : place_index;
    write_q.beat      <= place_beat;
    write_q.data      <= beat_data_i;
    write_q.pad_value <= load_q.pad_value;
  end

  assign write_valid_o = write_valid_q;
  assign write_o       = write_q;
  assign complete_o    = tail_q[LoadTail-1];

`ifndef SYNTHESIS
  // Padding and bursts are known two cycles after the start.
  if (LoadSetup != 2) begin : gen_setup
    $error("vdla_load_engine: LoadSetup must be 2");
  end

  int unsigned fills_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      fills_q <= 32'(load.z_size)
          * ((32'(load.y_before) + 32'(load.y_size) + 32'(load.y_after))
             * (32'(load.x_before) + 32'(load.x_size) + 32'(load.x_after))
             - 32'(load.y_size) * 32'(load.x_size));
    end else if (filling) begin
      fills_q <= fills_q - 1;
    end
  end

  // Exactly the padding is filled.
  FillsPadding_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      filling |-> last_fill == (fills_q == 1) && fills_q != 0);
  // Padding is filled while no older load has beats to come.
  FillsAlone_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !(filling && beat_valid_i));
  // A load starts only after the last grant of the previous one.
  StartsIdle_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // Only requested bursts are granted.
  GrantAsked_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      burst_grant_i |-> burst_valid_o);
  // A load waits for its turn to fill, one fills at once, and one has only padding.
  FillWaits_C: cover property (@(posedge clk_i) disable iff (!rst_ni) state_q == StPad && !alone_i);
  FillsAtOnce_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      $past(state_q == StSetUp) && filling);
  OnlyPadding_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      filling && last_fill && !has_data_q);
  // The place of the data is known when the first burst is requested.
  PlaceKnown_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      requests_q |-> before_left_q == '0 && after_left_q == '0);
`endif

endmodule

`default_nettype wire
