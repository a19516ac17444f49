// SPDX-License-Identifier: Apache-2.0
// Executes STOREs up to their last beats: reads output entries in order and writes them in bursts
// (docs/timing-contract.md, sections 2 and 5).
//
// Contract: start_i in cycle S takes a STORE while busy_o is low; its first beat is valid at S +
// StoreSetup, that of the next burst in the cycle after the last beat of the previous one was
// accepted. A burst begins only with may_begin_i and with aw_ready_i, and then finishes: in that
// cycle its address is given with aw_valid_o, and its first beat moves to the register of the port,
// so that it is valid in the next. Beats stay stable until accepted; w_*_o are registers. The buffer
// answers a read in the next cycle and holds the answer until the next read. A beat is AxiPorts beats
// of the port, the lowest bits first; one of those per cycle.

`default_nettype none

module vdla_store_engine
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                    clk_i,
  input  logic                    rst_ni,
  input  logic                    start_i,
  input  command_t                command_i,
  input  logic                    may_begin_i,
  output logic                    busy_o,       // S < t < F
  output logic                    setup_o,      // S < t < S + StoreSetup
  output logic                    begin_o,      // a burst begins
  output logic                    beat_done_o,  // a beat is accepted, its last part too
  output logic                    done_o,       // the last beat of the STORE is accepted
  // The output buffer.
  output logic                    out_re_o,
  output logic [OutFieldBits-1:0] out_index_o,
  input  logic [OutEntryBits-1:0] out_entry_i,
  // The write channel: addresses, to a register of the port, and beats.
  output logic                    aw_valid_o,
  output burst_t                  aw_o,
  input  logic                    aw_ready_i,
  output logic                    w_valid_o,
  output port_beat_t              w_data_o,
  output logic                    w_last_o,
  input  logic                    w_ready_i
);

  localparam int unsigned MaxShift = $clog2(OutBeats);
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1;
  localparam int unsigned BeatBits = OutBeats > 1 ? $clog2(OutBeats) : 1;

  typedef logic [OutFieldBits-1:0] index_t;
  typedef logic [BeatBits-1:0] beat_index_t;

  store_t store;
  logic   unused_bits;

  assign store       = store_t'(command_i.word);
  assign unused_bits = ^{command_i, store};

  // --- the state: set-up, bursts to cut, beats to be accepted

  logic [StoreSetup-2:0] setup_q;  // a bit for each cycle of the set-up
  logic                  busy_q, cuts_q, takes, moves;
  burst_t                cut;
  logic                  cut_is_last;

  assign busy_o  = busy_q;
  assign setup_o = setup_q != '0;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      setup_q <= '0;
      busy_q  <= 1'b0;
      cuts_q  <= 1'b0;
    end else begin
      setup_q <= {setup_q[StoreSetup-3:0], start_i};
      busy_q  <= start_i || (busy_q && !done_o);
      cuts_q  <= setup_q[0] || (cuts_q && !(takes && cut_is_last));
    end
  end

  vdla_burst_cutter #(
    .MaxShift(MaxShift)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .accept_i  (!busy_q),
    .start_i,
    .dram_i    (store.dram),
    .shift_i   (ShiftBits'(MaxShift)),
    .z_size_i  (store.z_size),
    .y_size_i  (store.y_size),
    .x_size_i  (store.x_size),
    .plane_i   (command_i.plane[SizeFieldBits-1:0]),
    .z_stride_i(store.z_stride),
    .y_stride_i(store.y_stride),
    .burst_o   (cut),
    .last_o    (cut_is_last),
    .grant_i   (takes)
  );

  // --- the burst whose beats move to the port

  burst_t burst_q;  // len: beats after this one
  logic   valid_q, begun_q;
  logic   beat_is_last_q, burst_is_last_q;
  logic   port_free;

  assign takes      = cuts_q && (!valid_q || (moves && beat_is_last_q));
  assign moves      = valid_q && port_free && (begun_q || (may_begin_i && aw_ready_i));
  assign begin_o    = moves && !begun_q;
  assign aw_valid_o = begin_o;
  assign aw_o       = burst_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      valid_q <= 1'b0;
      begun_q <= 1'b0;
    end else begin
      valid_q <= takes || (valid_q && !(moves && beat_is_last_q));
      begun_q <= moves ? !beat_is_last_q : begun_q;
    end
  end

  always_ff @(posedge clk_i) begin
    if (takes) begin
      burst_q         <= cut;
      beat_is_last_q  <= cut.len == '0;
      burst_is_last_q <= cut_is_last;
    end else if (moves) begin
      burst_q.len    <= burst_q.len - 1'b1;
      beat_is_last_q <= burst_q.len == 8'd1;
    end
  end

  // --- entries: the next one is read when the last beat of this one moves

  beat_index_t beat_q;
  index_t      index_q;
  logic        entry_ends;
  beat_t       data;

  assign entry_ends  = moves && beat_q == beat_index_t'(OutBeats - 1);
  assign out_re_o    = setup_q[0] || (entry_ends && !(beat_is_last_q && burst_is_last_q));
  assign out_index_o = index_q;

  always_ff @(posedge clk_i) begin
    if (!busy_q) begin
      index_q <= index_t'(store.sram);
      beat_q  <= '0;
    end else begin
      if (out_re_o) index_q <= index_q + 1'b1;
      if (moves) beat_q <= entry_ends ? '0 : beat_q + 1'b1;
    end
  end

  if (OutBeats > 1) begin : gen_beats
    beat_t [OutBeats-1:0] beats;
    assign beats = out_entry_i;
    assign data  = beats[beat_q];
  end else begin : gen_beat
    assign data = out_entry_i;
  end

  // --- the registers of the port

  logic w_valid_q, w_is_end_q;  // w_is_end_q: the last beat of the STORE
  logic part_is_last;           // of a beat

  assign port_free   = !w_valid_q || (w_ready_i && part_is_last);
  assign w_valid_o   = w_valid_q;
  assign beat_done_o = w_valid_q && w_ready_i && part_is_last;
  assign done_o      = beat_done_o && w_is_end_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) w_valid_q <= 1'b0;
    else w_valid_q <= moves || !port_free;
  end

  always_ff @(posedge clk_i) begin
    if (moves) w_is_end_q <= beat_is_last_q && burst_is_last_q;
  end

  if (AxiPorts == 1) begin : gen_whole
    assign part_is_last = 1'b1;

    always_ff @(posedge clk_i) begin
      if (moves) begin
        w_data_o <= data;
        w_last_o <= beat_is_last_q;
      end
    end
  end else begin : gen_parts
    typedef logic [$clog2(AxiPorts)-1:0] part_t;

    beat_t parts_q;    // those that are not accepted, the next one in the lowest bits
    part_t part_q;
    logic  is_last_q;  // the beat is the last one of its burst

    assign part_is_last = part_q == part_t'(AxiPorts - 1);
    assign w_data_o     = parts_q[PortBits-1:0];

    always_ff @(posedge clk_i) begin
      if (!rst_ni) part_q <= '0;
      else if (w_valid_q && w_ready_i) part_q <= part_q + 1'b1;
    end

    always_ff @(posedge clk_i) begin
      if (moves) begin
        parts_q   <= data;
        is_last_q <= beat_is_last_q;
        w_last_o  <= 1'b0;
      end else if (w_ready_i) begin
        parts_q  <= parts_q >> PortBits;
        w_last_o <= is_last_q && part_q == part_t'(AxiPorts - 2);
      end
    end
  end

`ifndef SYNTHESIS
  // The first burst is cut, taken and moved to the port.
  if (StoreSetup != 4) begin : gen_setup
    $error("vdla_store_engine: StoreSetup must be 4");
  end

  // A beat stays valid and stable until it is accepted.
  BeatStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      w_valid_o && !w_ready_i |=> w_valid_o && $stable(w_data_o) && $stable(w_last_o));
  // An address is given only when it is taken.
  AddressTaken_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      aw_valid_o |-> aw_ready_i);
  // A STORE starts only after the last beat of the previous one.
  StartsIdle_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      start_i |-> !busy_o && !w_valid_q && !valid_q && !cuts_q);
  // A STORE ends with the last beat of an entry.
  WholeEntries_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      moves && beat_is_last_q && burst_is_last_q |-> entry_ends);
  // A burst follows another without a pause; one waits to begin; bursts of one beat.
  Follows_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      $past(takes && moves) && begin_o);
  Waits_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      valid_q && !begun_q && port_free && !may_begin_i);
  OneBeat_C: cover property (@(posedge clk_i) disable iff (!rst_ni) begin_o && beat_is_last_q);
`endif

endmodule

`default_nettype wire
