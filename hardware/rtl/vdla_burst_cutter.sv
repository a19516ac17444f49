// The bursts of a transfer in order: rows and planes that are contiguous in memory are merged into
// runs, and each run is cut from its start (docs/timing-contract.md, section 2).
//
// Contract: start_i takes a transfer with data; from the next cycle burst_o is its first burst.
// grant_i advances to the next one, valid in the following cycle even if it starts a run; last_o
// marks the last one. No transfer starts before the last grant. Latency 1, one burst per cycle.
//
// A transfer fits its buffer, so counts of entries have the bits of a size. No register has a
// reset: the user knows when outputs are valid.

module vdla_burst_cutter
  import vdla_pkg::*;
  import vdla_types_pkg::*;
#(
  parameter int unsigned MaxShift = 4,  // an entry has at most 2**MaxShift beats
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1
) (
  input  logic                       clk_i,
  input  logic                       rst_ni,
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
  typedef logic [RunBits-1:0] run_t;
  typedef logic [WideBits-1:0] wide_t;
  typedef logic [PageBits:0] length_t;

  // --- the runs of the transfer that starts

  run_t row_beats, plane_beats, total_beats, first_run;
  logic rows_follow, planes_follow;

  assign row_beats     = run_t'(x_size_i) << shift_i;
  assign plane_beats   = run_t'(plane_i) << shift_i;
  assign total_beats   = run_t'(size_t'(z_size_i * plane_i)) << shift_i;
  assign rows_follow   = y_size_i == size_t'(1) || wide_t'(y_stride_i) == wide_t'(row_beats);
  assign planes_follow = rows_follow
      && (z_size_i == size_t'(1) || wide_t'(z_stride_i) == wide_t'(plane_beats));

  always_comb begin
    first_run = row_beats;
    if (rows_follow) first_run = plane_beats;
    if (planes_follow) first_run = total_beats;
  end

  // --- the burst that is offered

  place_t                     addr_q;               // of the burst
  place_t                     row_q, plane_q;       // where its run and its plane begin
  place_t                     next_run;
  run_t                       left_q, run_q;        // beats left in the run, beats of each run
  size_t                      rows_q, rows_left_q;  // runs of a plane, and left in it, less one
  size_t                      planes_left_q;        // planes after this one
  logic [StrideFieldBits-1:0] z_stride_q, y_stride_q;
  length_t                    room_q, room;         // beats to the end of the page
  length_t                    cap, cap_q;           // upper bound of the burst
  logic [7:0]                 cap_len_q;            // as a length: one less
  logic                       run_ends, plane_ends;

  assign run_ends   = left_q <= run_t'(cap_q);
  assign plane_ends = rows_left_q == '0;
  assign next_run   = plane_ends ? plane_q + place_t'(z_stride_q) : row_q + place_t'(y_stride_q);

  assign burst_o.addr = {{(AxiAddrBits - 32 - AxiShift) {1'b0}}, addr_q, {AxiShift{1'b0}}};
  assign burst_o.len  = run_ends ? 8'(left_q - 1'b1) : cap_len_q;
  assign last_o       = run_ends && plane_ends && planes_left_q == '0;

  // A burst that does not end its run ends at the page or has BurstCap beats.
  always_comb begin
    if (start_i) room = length_t'(PageBeats) - length_t'(dram_i[PageBits-1:0]);
    else if (run_ends) room = length_t'(PageBeats) - length_t'(next_run[PageBits-1:0]);
    else if (room_q <= length_t'(BurstCap)) room = length_t'(PageBeats);
    else room = room_q - length_t'(BurstCap);
  end

  assign cap = room < length_t'(BurstCap) ? room : length_t'(BurstCap);

  always_ff @(posedge clk_i) begin
    if (start_i || grant_i) begin
      room_q    <= room;
      cap_q     <= cap;
      cap_len_q <= 8'(cap - 1'b1);
    end
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      addr_q        <= dram_i;
      row_q         <= dram_i;
      plane_q       <= dram_i;
      left_q        <= first_run;
      run_q         <= first_run;
      rows_q        <= rows_follow ? '0 : y_size_i - 1'b1;
      rows_left_q   <= rows_follow ? '0 : y_size_i - 1'b1;
      planes_left_q <= planes_follow ? '0 : z_size_i - 1'b1;
      z_stride_q    <= z_stride_i;
      y_stride_q    <= y_stride_i;
    end else if (grant_i && run_ends) begin
      addr_q <= next_run;
      row_q  <= next_run;
      left_q <= run_q;
      if (plane_ends) begin
        plane_q       <= next_run;
        rows_left_q   <= rows_q;
        planes_left_q <= planes_left_q - 1'b1;
      end else begin
        rows_left_q <= rows_left_q - 1'b1;
      end
    end else if (grant_i) begin
      addr_q <= addr_q + place_t'(cap_q);
      left_q <= left_q - run_t'(cap_q);
    end
  end

`ifndef SYNTHESIS
  // No burst crosses a page or exceeds the configured length.
  InPage_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i |-> 32'(addr_q[PageBits-1:0]) + 32'(burst_o.len) < PageBeats);
  Length_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      grant_i |-> 32'(burst_o.len) < BurstBeats);
  // Every burst has a beat.
  NotEmpty_A: assert property (@(posedge clk_i) disable iff (!rst_ni) grant_i |-> left_q != '0);
  // A burst stays stable until it is granted.
  Stable_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      !start_i && !grant_i |=> $stable(burst_o) && $stable(last_o));
`endif

endmodule
