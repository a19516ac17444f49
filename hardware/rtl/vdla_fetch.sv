// SPDX-License-Identifier: Apache-2.0
// Reads the instruction stream, checks its words and dispatches them to the command queues of the
// units (docs/timing-contract.md, section 3).
//
// Contract: start_i is a pulse after a reset, FetchStartDelay cycles before cycle 0; base_i, count_i
// and read_latency_i are stable from then on. A burst is requested from cycle 0 while it fits the
// buffer: at most FetchBufferBeats are granted and not dispatched. An instruction is dispatched at
// the earliest DispatchDelay cycles after its last beat, in order, if its unit's queue is not full.
// invalid_o: the next word is invalid, and dispatch stops. halt_i: no dispatch from the next cycle
// on. Requests, commands and the state are registered. One beat and one instruction per cycle.

`default_nettype none

module vdla_fetch
  import vdla_pkg::*;
  import vdla_types_pkg::*;
  import vdla_regs_pkg::*;
  import vdla_ext_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 start_i,
  input  logic                 halt_i,
  input  addr_t                base_i,            // byte address, a whole number of beats
  input  logic     [     31:0] count_i,           // instructions
  input  logic     [ReadLatencyBits-1:0] read_latency_i,
  // Requester of the read channel.
  output logic                 burst_valid_o,
  output burst_t               burst_o,
  input  logic                 burst_grant_i,
  input  logic                 beat_valid_i,
  input  beat_t                beat_data_i,
  input  logic                 beat_last_i,
  // Command queues.
  output logic     [Units-1:0] dispatch_o,
  output command_t             command_o,
  input  logic     [Units-1:0] queue_full_i,
  // State.
  output logic                 all_dispatched_o,
  output logic                 invalid_o,
  output logic     [     31:0] dispatched_o,
  output counter_e             class_o
);

  localparam int unsigned BeatsBits = 32 + $clog2(InstrBeats);
  // Two of the granted words are in head_q and command_q while dispatch waits.
  localparam int unsigned Granted = (FetchBufferBeats + InstrBeats - 1) / InstrBeats;
  localparam int unsigned Words = Granted > 4 ? Granted - 2 : 2;
  localparam int unsigned WordIndexBits = $clog2(Words);
  localparam int unsigned WordLevelBits = $clog2(Words + 1);
  localparam int unsigned LaneBits = InstrBeats > 1 ? $clog2(InstrBeats) : 1;
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned PageBeatBits = $clog2(PageBeats);
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;
  localparam int unsigned RoomBits = $clog2(FetchBufferBeats + 1);
  localparam int unsigned BurstBeatBits = $clog2(BurstCap + 1);

  typedef logic [BeatsBits-1:0] beats_t;
  typedef logic [WordIndexBits-1:0] word_index_t;
  typedef logic [WordLevelBits-1:0] word_level_t;
  typedef logic [LaneBits-1:0] lane_t;
  typedef logic [RoomBits-1:0] room_t;
  typedef logic [BurstBeatBits-1:0] burst_beats_t;
  typedef logic [PageBeatBits:0] page_beats_t;

  logic granted, dispatches;

  // --- bursts, cut two ahead so that requests are registered

  // A burst other than the last one ends at the page or has BurstCap beats.
  function automatic burst_beats_t cap_of(page_beats_t page);
    return page < page_beats_t'(BurstCap) ? burst_beats_t'(page) : burst_beats_t'(BurstCap);
  endfunction

  function automatic page_beats_t page_after(page_beats_t page);
    if (page <= page_beats_t'(BurstCap)) return page_beats_t'(PageBeats);
    return page - page_beats_t'(BurstCap);
  endfunction

  logic [1:0]   filling_q;        // the cycles after start, before the first request
  logic         steps;
  addr_t        address_q;        // of the burst that is requested
  burst_beats_t burst_q, next_q;  // its beats; those of the burst after it; 0: there is none
  logic [7:0]   len_q;            // burst_q less one
  beats_t       rest_q;           // beats of the stream behind these two
  page_beats_t  page_q;           // beats from there to the end of the page
  burst_beats_t cap_q;            // the most beats of a burst there
  logic [BeatsBits:0] beyond;     // beats behind that burst; negative if it is shorter
  burst_beats_t cut;

  assign steps  = filling_q != '0 || granted;
  assign beyond = {1'b0, rest_q} - (BeatsBits + 1)'(cap_q);
  assign cut    = beyond[BeatsBits] ? burst_beats_t'(rest_q) : cap_q;

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      rest_q <= beats_t'(count_i) << $clog2(InstrBeats);
      page_q <= page_beats_t'(PageBeats) - page_beats_t'(base_i[AxiShift+:PageBeatBits]);
      cap_q  <= cap_of(page_beats_t'(PageBeats) - page_beats_t'(base_i[AxiShift+:PageBeatBits]));
    end else if (steps) begin
      rest_q <= beyond[BeatsBits] ? '0 : beyond[BeatsBits-1:0];
      page_q <= page_after(page_q);
      cap_q  <= cap_of(page_after(page_q));
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) address_q <= base_i;
    else if (granted) address_q <= address_q + (addr_t'(burst_q) << AxiShift);
    if (steps) len_q <= 8'(next_q - 1'b1);
  end

  // --- requests: whether the next burst fits the buffer is known for each case before grants and
  // dispatches, which arrive late and only select

  typedef logic [RoomBits:0] room_sum_t;

  room_t     room_q;  // beats that may be granted
  room_t     spent, freed, spent_and_freed;
  room_sum_t both;    // beats of the two next bursts
  logic      request_q, fits, fits_freed, next_fits, next_fits_freed;

  assign spent           = room_q - room_t'(burst_q);
  assign freed           = room_q + room_t'(InstrBeats);
  assign spent_and_freed = (room_q + room_t'(InstrBeats)) - room_t'(burst_q);
  assign both            = room_sum_t'(burst_q) + room_sum_t'(next_q);

  assign fits            = room_t'(burst_q) <= room_q;
  assign fits_freed      = room_sum_t'(burst_q) <= room_sum_t'(room_q) + room_sum_t'(InstrBeats);
  assign next_fits       = both <= room_sum_t'(room_q);
  assign next_fits_freed = both <= room_sum_t'(room_q) + room_sum_t'(InstrBeats);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      filling_q <= '0;
      burst_q   <= '0;
      next_q    <= '0;
      room_q    <= room_t'(FetchBufferBeats);
      request_q <= 1'b0;
    end else begin
      filling_q <= {filling_q[0], start_i};
      if (steps) begin
        burst_q <= next_q;
        next_q  <= cut;
      end
      if (granted && dispatches) room_q <= spent_and_freed;
      else if (granted) room_q <= spent;
      else if (dispatches) room_q <= freed;
      if (steps) request_q <= next_q != '0 && (dispatches ? next_fits_freed : next_fits);
      else request_q <= burst_q != '0 && (dispatches ? fits_freed : fits);
    end
  end

  assign burst_valid_o = request_q;
  assign burst_o       = '{addr: address_q, len: len_q};
  assign granted       = request_q && burst_grant_i;

  // --- words, written beat by beat and read whole into a register

  lane_t       lane_q;
  word_index_t write_q, read_q;
  word_level_t words_q;  // complete words in the memory
  logic        any_word_q;
  logic        word_arrives;
  instr_t      oldest, head_q;
  logic        head_valid_q;
  logic        reads, checks;  // a word moves into head_q, from there into command_q

  function automatic word_index_t after(word_index_t index);
    return index == word_index_t'(Words - 1) ? '0 : index + 1'b1;
  endfunction

  for (genvar lane = 0; lane < InstrBeats; lane++) begin : gen_lane
    (* ram_style = "distributed" *)
    beat_t memory_q[Words];

    always_ff @(posedge clk_i) begin
      if (beat_valid_i && lane_q == lane_t'(lane)) memory_q[write_q] <= beat_data_i;
    end

    assign oldest[lane*AxiBits+:AxiBits] = memory_q[read_q];
  end

  assign word_arrives = beat_valid_i && lane_q == lane_t'(InstrBeats - 1);
  assign reads        = any_word_q && (!head_valid_q || checks);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      lane_q       <= '0;
      write_q      <= '0;
      read_q       <= '0;
      words_q      <= '0;
      any_word_q   <= 1'b0;
      head_valid_q <= 1'b0;
    end else begin
      if (beat_valid_i) lane_q <= word_arrives ? '0 : lane_q + 1'b1;
      if (word_arrives) write_q <= after(write_q);
      if (reads) read_q <= after(read_q);
      if (word_arrives && !reads) words_q <= words_q + 1'b1;
      if (!word_arrives && reads) words_q <= words_q - 1'b1;
      if (word_arrives) any_word_q <= 1'b1;
      else if (reads) any_word_q <= words_q != word_level_t'(1);
      head_valid_q <= reads || (head_valid_q && !checks);
    end
  end

  always_ff @(posedge clk_i) begin
    if (reads) head_q <= ext_straightened(oldest);
  end

  // --- the word is checked, and what its unit needs early is derived from it

  logic        valid;
  unit_e       unit;
  logic [Units-1:0] target, target_q;  // the unit of a valid word, one-hot
  logic        invalid_q;
  command_t    command_q;

  vdla_check u_check (
    .word_i (head_q),
    .valid_o(valid),
    .unit_o (unit)
  );

  always_comb begin
    for (int unsigned number = 0; number < Units; number++) begin
      target[number] = valid && unit == unit_e'(number);
    end
  end

  assign checks = head_valid_q && !invalid_q && (target_q == '0 || dispatches);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      target_q  <= '0;
      invalid_q <= 1'b0;
    end else begin
      if (checks) target_q <= target;
      else if (dispatches) target_q <= '0;
      if (checks) invalid_q <= !valid;
    end
  end

  load_t  load;
  store_t store;
  gemm_t  looped;  // the first fields of a VECTOR are those of a GEMM
  logic [SizeFieldBits-1:0] planes, rows, columns;
  logic   has_data;

  assign load     = load_t'(head_q);
  assign store    = store_t'(head_q);
  assign looped   = gemm_t'(head_q);
  assign planes   = load.opcode == OpLoad ? load.z_size : store.z_size;
  assign rows     = load.opcode == OpLoad ? load.y_size : store.y_size;
  assign columns  = load.opcode == OpLoad ? load.x_size : store.x_size;
  assign has_data = load.y_size != '0 && load.x_size != '0;

  always_ff @(posedge clk_i) begin
    if (checks) begin
      command_q <= '{
        one_uop: looped.uop_end - looped.uop_begin == UopFieldBits'(1),
        one_inner: looped.loop1 == LoopFieldBits'(1),
        one_outer: looped.loop0 == LoopFieldBits'(1),
        has_padding: {load.y_before, load.y_after, load.x_before, load.x_after} != '0,
        has_data: has_data,
        one_row: rows == SizeFieldBits'(1),
        one_plane: planes == SizeFieldBits'(1),
        plane: PlaneBits'(rows) * PlaneBits'(columns),
        word: head_q
      };
    end
  end

  // --- dispatch, from registers

  logic        halt_q;
  logic [31:0] dispatched_q, dispatched_d;
  logic        all_dispatched_q;

  assign dispatch_o   = target_q & ~queue_full_i & {Units{!halt_q}};
  assign dispatches   = dispatch_o != '0;
  assign command_o    = command_q;
  assign invalid_o    = invalid_q;
  assign dispatched_d = dispatched_q + 1'b1;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      halt_q           <= 1'b1;
      dispatched_q     <= '0;
      all_dispatched_q <= 1'b0;
    end else begin
      halt_q <= halt_i;
      if (dispatches) dispatched_q <= dispatched_d;
      if (start_i) all_dispatched_q <= count_i == '0;
      else if (dispatches) all_dispatched_q <= dispatched_d == count_i;
    end
  end

  assign dispatched_o     = dispatched_q;
  assign all_dispatched_o = all_dispatched_q;

  // --- the counter of the cycle

  logic     covered;
  counter_e covered_class;

  vdla_read_monitor u_monitor (
    .clk_i,
    .rst_ni,
    .latency_i(read_latency_i),
    .grant_i  (granted),
    .beat_i   (beat_valid_i),
    .last_i   (beat_last_i),
    .covered_o(covered),
    .class_o  (covered_class)
  );

  always_comb begin
    if (covered) class_o = covered_class;
    else if (dispatches) class_o = CntBusy;
    else if (all_dispatched_o) class_o = CntIdle;
    else if (target_q != '0 || invalid_q) class_o = CntCommands;
    else class_o = CntMemoryBandwidth;
  end

  logic unused_fields;
  assign unused_fields = ^{load, store, looped};

`ifndef SYNTHESIS
  // The delay of dispatch is that of the timing contract.
  if (DispatchDelay != 3) begin : gen_delay
    $error("vdla_fetch: DispatchDelay must be 3");
  end
  // A requested burst stays stable until it is granted.
  BurstStable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      burst_valid_o && !burst_grant_i && !start_i |=> burst_valid_o && $stable(burst_o));
  // Only a requested burst is granted.
  GrantRequested_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      burst_grant_i |-> burst_valid_o);
  // The buffer has room for every granted beat.
  WordHasRoom_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      word_arrives |-> words_q < word_level_t'(Words));
  // An instruction goes to one unit, whose queue has room.
  DispatchOnce_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      $onehot0(dispatch_o) && (dispatch_o & queue_full_i) == '0);
  // A burst is requested if and only if it fits the buffer, a cycle after it is cut.
  Fits_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      filling_q == '0 && !start_i && burst_q != '0 |->
      burst_valid_o == (room_t'(burst_q) <= room_q));
  // A burst of one beat is granted in the cycle of a dispatch; a word waits for its queue.
  OneBeatAndDispatch_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      granted && dispatches && len_q == '0);
  WaitsForQueue_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      target_q != '0 && !dispatches);
`endif

endmodule

`default_nettype wire
