// SPDX-License-Identifier: Apache-2.0
// The bursts of a transfer in order: rows and planes that are contiguous in memory are merged into
// runs, and each run is cut from its start (docs/timing-contract.md, section 2).
//
// Contract: while accept_i is high the registers follow the inputs, and start_i, with accept_i,
// starts a transfer with data; from the second cycle after it burst_o is its first burst. grant_i
// advances to the next one, valid in the following cycle even if it starts a run; last_o marks the
// last one. No transfer is accepted before the last grant. Latency 2, one burst per cycle.
//
// A transfer fits its buffer, so counts of entries have the bits of a size. Beats of runs and
// bursts are counted less one, as AXI does. No register of a transfer has a reset: the user knows
// when outputs are valid. Grants arrive late: they only enable registers.

`default_nettype none

module vdla_burst_cutter
  import vdla_pkg::*;
  import vdla_types_pkg::*;
#(
  parameter int unsigned MaxShift = 4,  // an entry has at most 2**MaxShift beats
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
  input  logic                       accept_i,
  input  logic                       start_i,
  input  logic [31:0]                dram_i,      // in beats, like the strides
  input  logic [ShiftBits-1:0]       shift_i,     // an entry has 2**shift_i beats
  input  logic [SizeFieldBits-1:0]   z_size_i,
  input  logic [SizeFieldBits-1:0]   y_size_i,
  input  logic [SizeFieldBits-1:0]   x_size_i,
  input  logic [SizeFieldBits-1:0]   plane_i,     // y_size_i * x_size_i
  input  logic [StrideFieldBits-1:0] z_stride_i,
  input  logic [StrideFieldBits-1:0] y_stride_i,
  output burst_t                     burst_o,
  output logic                       last_o,
  input  logic                       grant_i
);

  localparam int unsigned RunBits = SizeFieldBits + MaxShift;
  localparam int unsigned WideBits = RunBits > StrideFieldBits ? RunBits : StrideFieldBits;
  localparam int unsigned PageBeats = PageBytes / AxiBytes;
  localparam int unsigned PageBits = $clog2(PageBeats);
  localparam int unsigned BurstCap = BurstBeats < PageBeats ? BurstBeats : PageBeats;

  typedef logic [31:0] place_t;
  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SizeFieldBits-2:0] rest_t;  // a size less one: a size is at most 2**(bits - 1)
  typedef logic [RunBits-1:0] run_t;
  typedef logic [RunBits-2:0] run_rest_t;  // the beats of a run less one
  typedef logic [WideBits-1:0] wide_t;
  typedef logic [ShiftBits-1:0] shift_t;
  typedef logic [PageBits-1:0] in_page_t;
  typedef logic [7:0] length_t;  // of a burst, less one

  // --- the cycle of the start: sizes, their product, which runs merge

  logic                       begin_q;  // the cycle after the start
  size_t                      x_size_q, total_q;
  rest_t                      plane_size_q;  // used if there are several planes
  rest_t                      rows_q;        // runs of a plane less one, if rows do not merge
  shift_t                     shift_q;
  logic                       one_plane_q, rows_merge_q, planes_match_q, planes_merge;
  logic [StrideFieldBits-1:0] z_stride_q, y_stride_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin_q <= 1'b0;
    else begin_q <= start_i;
  end

  run_rest_t row_beats, plane_beats;  // used if there are several of them

  assign row_beats   = run_rest_t'(x_size_i) << shift_i;
  assign plane_beats = run_rest_t'(plane_i) << shift_i;

  // Used only in the next cycle.
  always_ff @(posedge clk_i) begin
    shift_q        <= shift_i;
    x_size_q       <= x_size_i;
    plane_size_q   <= rest_t'(plane_i);
    total_q        <= z_size_i * plane_i;
    one_plane_q    <= z_size_i == size_t'(1);
    planes_match_q <= wide_t'(z_stride_i) == wide_t'(plane_beats);
  end

  always_ff @(posedge clk_i) begin
    if (accept_i) begin
      rows_q       <= rest_t'(y_size_i - 1'b1);
      rows_merge_q <= y_size_i == size_t'(1)
          || wide_t'(y_stride_i) == wide_t'(row_beats);
      z_stride_q   <= z_stride_i;
      y_stride_q   <= y_stride_i;
    end
  end

  assign planes_merge = rows_merge_q && (one_plane_q || planes_match_q);

  // --- the cycle after it: the first run

  size_t     run_entries;
  run_rest_t first_run;

  always_comb begin
    run_entries = x_size_q;
    if (rows_merge_q) run_entries = size_t'(plane_size_q);
    if (planes_merge) run_entries = total_q;
  end

  assign first_run = run_rest_t'((run_t'(run_entries) << shift_q) - 1'b1);

  // --- the burst that is offered

  place_t    addr_q;                      // of the burst
  place_t    row_q, plane_q;              // where its run and its plane begin
  place_t    next_run;
  run_rest_t left_q, run_q;               // beats left in the run, beats of each run
  rest_t     rows_left_q, planes_left_q;  // runs of the plane after this one, planes after this one
  logic      row_is_last_q, plane_is_last_q;
  in_page_t  room, next_room;             // beats to the end of the page
  length_t   cap_q, next_cap;             // upper bound of the burst
  run_rest_t next_left;
  logic      run_ends_q;                  // with this burst

  assign next_run = row_is_last_q ? plane_q + place_t'(z_stride_q) : row_q + place_t'(y_stride_q);

  assign burst_o.addr = {{(AxiAddrBits - 32 - AxiShift) {1'b0}}, addr_q, {AxiShift{1'b0}}};
  assign burst_o.len  = run_ends_q ? length_t'(left_q) : cap_q;
  assign last_o       = run_ends_q && row_is_last_q && plane_is_last_q;

  // The longest burst with this many beats to the end of the page.
  function automatic length_t cap_of(in_page_t left);
    return 32'(left) < BurstCap ? length_t'(left) : length_t'(BurstCap - 1);
  endfunction

  // A burst that does not end its run ends at the page or has BurstCap beats.
  assign room      = ~addr_q[PageBits-1:0];
  assign next_room = 32'(room) < BurstCap ? '1 : room - in_page_t'(BurstCap);

  always_comb begin
    next_cap  = cap_of(next_room);
    next_left = left_q - run_rest_t'(cap_q) - 1'b1;
    if (run_ends_q) begin
      next_cap  = cap_of(~next_run[PageBits-1:0]);
      next_left = run_q;
    end
    if (begin_q) begin
      next_cap  = cap_of(room);
      next_left = first_run;
    end
  end

  always_ff @(posedge clk_i) begin
    if (begin_q || grant_i) begin
      cap_q      <= next_cap;
      left_q     <= next_left;
      run_ends_q <= next_left <= run_rest_t'(next_cap);
    end
    if (begin_q) run_q <= first_run;
  end

  always_ff @(posedge clk_i) begin
    if (accept_i) begin
      addr_q  <= dram_i;
      row_q   <= dram_i;
      plane_q <= dram_i;
    end else if (grant_i && run_ends_q) begin
      addr_q <= next_run;
      row_q  <= next_run;
      if (row_is_last_q) plane_q <= next_run;
    end else if (grant_i) begin
      addr_q <= addr_q + place_t'(cap_q) + 1'b1;
    end
  end

  always_ff @(posedge clk_i) begin
    if (accept_i) planes_left_q <= rest_t'(z_size_i - 1'b1);
    if (begin_q) begin
      rows_left_q     <= rows_q;
      row_is_last_q   <= rows_merge_q;
      plane_is_last_q <= one_plane_q || planes_merge;
    end else if (grant_i && run_ends_q && row_is_last_q) begin
      rows_left_q     <= rows_q;
      row_is_last_q   <= rows_merge_q;
      planes_left_q   <= planes_left_q - 1'b1;
      plane_is_last_q <= planes_left_q == rest_t'(1);
    end else if (grant_i && run_ends_q) begin
      rows_left_q   <= rows_left_q - 1'b1;
      row_is_last_q <= rows_left_q == rest_t'(1);
    end
  end

`ifndef SYNTHESIS
  // No burst crosses a page or exceeds the configured length.
  InPage_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i |-> 32'(addr_q[PageBits-1:0]) + 32'(burst_o.len) < PageBeats);
  Length_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i |-> 32'(burst_o.len) < BurstBeats);
  // A burst stays stable until it is granted.
  Stable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !accept_i && !begin_q && !grant_i |=> $stable(burst_o) && $stable(last_o));
  // A transfer starts only while it is accepted, and none is accepted while bursts are granted.
  Accepts_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      (start_i |-> accept_i) and (accept_i |-> !grant_i));
  // The first burst is known two cycles after the start.
  SetUp_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      start_i || begin_q |-> !grant_i);
  // A burst ends its run and the page, and one ends only the page.
  RunEndsAtPage_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i && run_ends_q && run_rest_t'(room) == left_q);
  RunCrossesPage_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i && !run_ends_q && 32'(room) < BurstCap);
`endif

endmodule

`default_nettype wire
