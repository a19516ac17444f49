// Executes STOREs up to their last beats: reads output entries in order and writes them in bursts
// (docs/timing-contract.md, sections 2 and 5).
//
// Contract: start_i in cycle S takes a STORE while busy_o is low; its first beat and address are
// valid at S + StoreSetup, those of the next burst in the cycle after beats and address of the last
// one were accepted. A burst begins only with may_begin_i, and then finishes. Beats and addresses
// stay stable until accepted. The buffer answers a read in the next cycle and holds the answer
// until the next read. One beat per cycle.

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
  output logic                    begun_o,      // a burst has begun and is not complete
  output logic                    burst_o,      // the first beat of a burst is accepted
  output logic                    done_o,       // the last burst of the STORE is complete
  // The output buffer.
  output logic                    out_re_o,
  output logic [OutFieldBits-1:0] out_index_o,
  input  logic [OutEntryBits-1:0] out_entry_i,
  // The write channel.
  output logic                    aw_valid_o,
  output burst_t                  aw_o,
  input  logic                    aw_ready_i,
  output logic                    w_valid_o,
  output beat_t                   w_data_o,
  output logic                    w_last_o,
  input  logic                    w_ready_i
);

  localparam int unsigned MaxShift = $clog2(OutBeats);
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1;
  localparam int unsigned BeatBits = OutBeats > 1 ? $clog2(OutBeats) : 1;

  typedef logic [OutFieldBits-1:0] index_t;
  typedef logic [BeatBits-1:0] beat_index_t;

  typedef enum logic [1:0] {Idle, Setup, Write} state_e;

  state_e state_q, state_d;
  store_t store;
  logic   last_burst, unused_bits;

  assign store       = store_t'(command_i.word);
  assign unused_bits = ^{command_i, store};

  // --- bursts: beats and address are accepted independently

  logic       offers, begun_q, beats_done_q, address_done_q;
  logic       beat_taken, address_taken, beats_done, address_done, burst_done;
  logic [7:0] count_q;  // accepted beats of the burst

  assign offers        = state_q == Write && (begun_q || may_begin_i);
  assign w_valid_o     = offers && !beats_done_q;
  assign aw_valid_o    = offers && !address_done_q;
  assign w_last_o      = count_q == aw_o.len;
  assign beat_taken    = w_valid_o && w_ready_i;
  assign address_taken = aw_valid_o && aw_ready_i;
  assign beats_done    = beats_done_q || (beat_taken && w_last_o);
  assign address_done  = address_done_q || address_taken;
  assign burst_done    = beats_done && address_done;

  assign busy_o  = state_q != Idle;
  assign setup_o = state_q == Setup;
  assign begun_o = begun_q;
  assign burst_o = beat_taken && count_q == '0;
  assign done_o  = burst_done && last_burst;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      Idle:    if (start_i) state_d = Setup;
      Setup:   state_d = Write;
      Write:   if (done_o) state_d = Idle;
      default: state_d = Idle;
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      state_q        <= Idle;
      begun_q        <= 1'b0;
      beats_done_q   <= 1'b0;
      address_done_q <= 1'b0;
      count_q        <= '0;
    end else begin
      state_q        <= state_d;
      begun_q        <= offers && !burst_done;
      beats_done_q   <= beats_done && !burst_done;
      address_done_q <= address_done && !burst_done;
      if (beat_taken) count_q <= w_last_o ? '0 : count_q + 1'b1;
    end
  end

  vdla_burst_cutter #(
    .MaxShift(MaxShift)
  ) u_bursts (
    .clk_i,
    .rst_ni,
    .start_i,
    .dram_i    (store.dram),
    .shift_i   (ShiftBits'(MaxShift)),
    .z_size_i  (store.z_size),
    .y_size_i  (store.y_size),
    .x_size_i  (store.x_size),
    .plane_i   (command_i.plane[SizeFieldBits-1:0]),
    .z_stride_i(store.z_stride),
    .y_stride_i(store.y_stride),
    .burst_o   (aw_o),
    .last_o    (last_burst),
    .grant_i   (burst_done)
  );

  // --- entries: the next one is read when the last beat of this one is accepted

  beat_index_t beat_q;
  index_t      index_q;
  logic        entry_ends;

  assign entry_ends  = beat_taken && beat_q == beat_index_t'(OutBeats - 1);
  assign out_re_o    = state_q == Setup || (entry_ends && !(w_last_o && last_burst));
  assign out_index_o = index_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      index_q <= index_t'(store.sram);
      beat_q  <= '0;
    end else begin
      if (out_re_o) index_q <= index_q + 1'b1;
      if (beat_taken) beat_q <= entry_ends ? '0 : beat_q + 1'b1;
    end
  end

  if (OutBeats > 1) begin : gen_beats
    beat_t [OutBeats-1:0] beats;
    assign beats    = out_entry_i;
    assign w_data_o = beats[beat_q];
  end else begin : gen_beat
    assign w_data_o = out_entry_i;
  end

`ifndef SYNTHESIS
  // The first entry has been read when it is needed.
  if (StoreSetup != 2) begin : gen_setup
    $error("vdla_store_engine: StoreSetup must be 2");
  end

  // A beat stays valid and stable until it is accepted.
  BeatStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      w_valid_o && !w_ready_i |=> w_valid_o && $stable(w_data_o) && $stable(w_last_o));
  // An address stays valid and stable until it is accepted.
  AddressStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      aw_valid_o && !aw_ready_i |=> aw_valid_o && $stable(aw_o));
  // A STORE starts only after the last beat of the previous one.
  StartsIdle_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> !busy_o);
  // A STORE ends with the last beat of an entry.
  WholeEntries_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      beat_taken && w_last_o && last_burst |-> entry_ends);
`endif

endmodule
