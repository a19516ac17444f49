// Reads the instruction stream, checks its words and dispatches them to the command queues of the
// units (docs/timing-contract.md, section 3).
//
// Contract: start_i is a pulse in the cycle before cycle 0; base_i, count_i and read_latency_i are
// stable from then on. A burst is requested from cycle 0 while it fits the buffer: at most
// FetchBufferBeats are granted and not dispatched. An instruction is dispatched at the earliest in
// the cycle after its last beat, in order, if its unit's queue is not full. invalid_o: the next
// word is invalid, and dispatch stops. halt_i: no dispatch. Latency 1 from beat to dispatch; one
// beat and one instruction per cycle.

module vdla_fetch
  import vdla_pkg::*;
  import vdla_types_pkg::*;
(
  input  logic                 clk_i,
  input  logic                 rst_ni,
  input  logic                 start_i,
  input  logic                 halt_i,
  input  addr_t                base_i,            // byte address, a whole number of beats
  input  logic     [     31:0] count_i,           // instructions
  input  logic     [     16:0] read_latency_i,
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
  localparam int unsigned Words = (FetchBufferBeats + InstrBeats - 1) / InstrBeats;
  localparam int unsigned WordIndexBits = $clog2(Words);
  localparam int unsigned WordLevelBits = $clog2(Words + 1);
  localparam int unsigned LaneBits = InstrBeats > 1 ? $clog2(InstrBeats) : 1;
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned PageBeatBits = $clog2(PageBeats);
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;
  localparam int unsigned RoomBits = $clog2(FetchBufferBeats + 1);

  typedef logic [BeatsBits-1:0] beats_t;
  typedef logic [WordIndexBits-1:0] word_index_t;
  typedef logic [WordLevelBits-1:0] word_level_t;
  typedef logic [LaneBits-1:0] lane_t;
  typedef logic [RoomBits-1:0] room_t;
  typedef logic [8:0] burst_beats_t;  // 1 to 256
  typedef logic [PageBeatBits:0] page_beats_t;

  // --- requests: the next burst is cut when the last one is granted, so requests are registered

  addr_t        address_q;
  beats_t       rest_d, rest_q;    // beats of the stream from the next burst on
  page_beats_t  page_d, page_q;    // beats from there to the end of the page
  burst_beats_t cap, burst_q;      // beats of the next burst
  logic         more_q;            // a burst is left to request
  room_t        room_q;            // beats that may be granted
  logic         granted, dispatches;

  assign rest_d = start_i ? beats_t'(count_i) << $clog2(InstrBeats) : rest_q - beats_t'(burst_q);

  // A burst other than the last ends at the page or has BurstCap beats.
  always_comb begin
    if (start_i) page_d = page_beats_t'(PageBeats) - page_beats_t'(base_i[AxiShift+:PageBeatBits]);
    else if (page_q <= page_beats_t'(BurstCap)) page_d = page_beats_t'(PageBeats);
    else page_d = page_q - page_beats_t'(BurstCap);
  end

  assign cap = page_d < page_beats_t'(BurstCap) ? burst_beats_t'(page_d) : burst_beats_t'(BurstCap);

  assign burst_valid_o = more_q && 32'(burst_q) <= 32'(room_q);
  assign burst_o = '{addr: address_q, len: 8'(burst_q - 1'b1)};
  assign granted = burst_valid_o && burst_grant_i;

  always_ff @(posedge clk_i) begin
    if (start_i || granted) begin
      address_q <= start_i ? base_i : address_q + (addr_t'(burst_q) << AxiShift);
      rest_q    <= rest_d;
      page_q    <= page_d;
      burst_q   <= rest_d < beats_t'(cap) ? burst_beats_t'(rest_d) : cap;
    end
  end

  // Grants and dispatches arrive late: they only select among sums of registers.
  room_t spent, spent_and_freed, freed;

  assign spent           = room_q - room_t'(burst_q);
  assign spent_and_freed = room_q - (room_t'(burst_q) - room_t'(InstrBeats));
  assign freed           = room_q + room_t'(InstrBeats);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      more_q <= 1'b0;
      room_q <= room_t'(FetchBufferBeats);
    end else begin
      if (start_i || granted) more_q <= rest_d != '0;
      if (granted && dispatches) room_q <= spent_and_freed;
      else if (granted) room_q <= spent;
      else if (dispatches) room_q <= freed;
    end
  end

  // --- words, written beat by beat and read whole

  lane_t       lane_q;
  word_index_t write_q, read_q;
  word_level_t words_q;  // complete words that are not dispatched
  word_level_t one_more, one_less;
  instr_t      head;
  logic        word_arrives;

  function automatic word_index_t after(word_index_t index);
    return index == word_index_t'(Words - 1) ? '0 : index + 1'b1;
  endfunction

  for (genvar lane = 0; lane < InstrBeats; lane++) begin : gen_lane
    (* ram_style = "distributed" *)
    beat_t memory_q[Words];

    always_ff @(posedge clk_i) begin
      if (beat_valid_i && lane_q == lane_t'(lane)) memory_q[write_q] <= beat_data_i;
    end

    assign head[lane*AxiBits+:AxiBits] = memory_q[read_q];
  end

  // As in vdla_fifo: dispatches arrive late and only select.
  assign one_more = words_q + 1'b1;
  assign one_less = ~(~words_q + 1'b1);
  assign word_arrives = beat_valid_i && lane_q == lane_t'(InstrBeats - 1);

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      lane_q  <= '0;
      write_q <= '0;
      read_q  <= '0;
      words_q <= '0;
    end else begin
      if (beat_valid_i) lane_q <= word_arrives ? '0 : lane_q + 1'b1;
      if (word_arrives) write_q <= after(write_q);
      if (dispatches) read_q <= after(read_q);
      if (word_arrives && !dispatches) words_q <= one_more;
      if (!word_arrives && dispatches) words_q <= one_less;
    end
  end

  // --- dispatch

  load_t       head_load;
  store_t      head_store;
  logic        has_word, valid;
  unit_e       unit;
  logic [31:0] dispatched_q;
  logic [SizeFieldBits-1:0] rows, columns;

  vdla_check u_check (
    .word_i (head),
    .valid_o(valid),
    .unit_o (unit)
  );

  assign has_word = words_q != '0;

  always_comb begin
    dispatch_o = '0;
    for (int unsigned number = 0; number < Units; number++) begin
      dispatch_o[number] = has_word && valid && !halt_i && unit == unit_e'(number)
          && !queue_full_i[number];
    end
  end

  assign dispatches = |dispatch_o;
  assign invalid_o  = has_word && !valid;

  assign head_load  = load_t'(head);
  assign head_store = store_t'(head);

  always_comb begin
    rows    = '0;
    columns = '0;
    if (head_load.opcode == OpLoad) begin
      rows    = head_load.y_size;
      columns = head_load.x_size;
    end else if (head_load.opcode == OpStore) begin
      rows    = head_store.y_size;
      columns = head_store.x_size;
    end
  end

  assign command_o = '{plane: PlaneBits'(rows) * PlaneBits'(columns), word: head};

  always_ff @(posedge clk_i) begin
    if (!rst_ni) dispatched_q <= '0;
    else if (dispatches) dispatched_q <= dispatched_q + 1'b1;
  end

  assign dispatched_o     = dispatched_q;
  assign all_dispatched_o = dispatched_q == count_i;

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
    else if (has_word) class_o = CntCommands;
    else class_o = CntMemoryBandwidth;
  end

  // Only the sizes of a transfer are used here.
  logic unused_fields;
  assign unused_fields = ^{head_load, head_store};

`ifndef SYNTHESIS
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
`endif

endmodule
