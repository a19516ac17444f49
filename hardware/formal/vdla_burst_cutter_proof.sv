// SPDX-License-Identifier: Apache-2.0
// Proof: the bursts of a transfer are its runs in order, each from its start to its end without a
// gap, every burst the longest within burst length, page and run; the last one is marked, and a
// burst stays as it is until it is granted. Sizes, strides, place and the rate of grants are any.
module vdla_burst_cutter_proof
  import vdla_pkg::*;
  import vdla_types_pkg::*;
#(
  parameter int unsigned MaxShift = 4,
  localparam int unsigned ShiftBits = MaxShift > 0 ? $clog2(MaxShift + 1) : 1
) (
  input logic                       clk_i,
  input logic                       accept_i,
  input logic                       start_i,
  input logic [31:0]                dram_i,
  input logic [ShiftBits-1:0]       shift_i,
  input logic [SizeFieldBits-1:0]   z_size_i,
  input logic [SizeFieldBits-1:0]   y_size_i,
  input logic [SizeFieldBits-1:0]   x_size_i,
  input logic [SizeFieldBits-1:0]   plane_i,
  input logic [StrideFieldBits-1:0] z_stride_i,
  input logic [StrideFieldBits-1:0] y_stride_i,
  input logic                       wants_grant_i
);
  localparam int unsigned Most = 1 << (SizeFieldBits - 1);  // entries of the deepest buffer
  localparam int unsigned PageBeats = PageBytes / AxiBytes;

  typedef logic [SizeFieldBits-1:0] size_t;

  logic   rst_ni = 1'b0;  // low in the first cycle
  logic   grant, last;
  burst_t burst;

  vdla_burst_cutter #(
    .MaxShift(MaxShift)
  ) u_cutter (
    .clk_i,
    .rst_ni,
    .accept_i,
    .start_i,
    .dram_i,
    .shift_i,
    .z_size_i,
    .y_size_i,
    .x_size_i,
    .plane_i,
    .z_stride_i,
    .y_stride_i,
    .burst_o(burst),
    .last_o (last),
    .grant_i(grant)
  );

  // --- the transfer, as the contract describes it

  size_t       total;
  logic [31:0] row_beats, plane_beats, total_beats;
  logic        rows_join, planes_join;

  assign total       = z_size_i * plane_i;
  assign row_beats   = 32'(x_size_i) << shift_i;
  assign plane_beats = 32'(plane_i) << shift_i;
  assign total_beats = 32'(total) << shift_i;
  assign rows_join   = y_size_i == size_t'(1) || 32'(y_stride_i) == row_beats;
  assign planes_join = rows_join && (z_size_i == size_t'(1) || 32'(z_stride_i) == plane_beats);

  // The beats of a run, its number in the plane and that of the plane, beats before the burst.
  logic [31:0] run_q, place_q, plane_place_q, y_stride_q, z_stride_q, done_q;
  size_t       runs_q, planes_q, run_number_q, plane_number_q;
  logic        active_q, ready_q;  // a transfer began; its first burst is known

  logic [31:0] place, left, room, beats;
  logic        run_ends, plane_ends;

  assign place      = place_q + done_q;
  assign left       = run_q - done_q;
  assign room       = PageBeats - (place & (PageBeats - 1));
  assign run_ends   = beats == left;
  assign plane_ends = run_number_q == runs_q;
  assign grant      = wants_grant_i && ready_q;

  always_comb begin
    beats = BurstBeats;
    if (room < beats) beats = room;
    if (left < beats) beats = left;
  end

  always_ff @(posedge clk_i) begin
    rst_ni <= 1'b1;
    if (!rst_ni) begin
      active_q <= 1'b0;
      ready_q  <= 1'b0;
    end else if (start_i) begin
      active_q <= 1'b1;
      ready_q  <= 1'b0;
    end else begin
      if (grant && last) active_q <= 1'b0;
      ready_q <= active_q && !(grant && last);
    end
    if (start_i) begin
      run_q          <= planes_join ? total_beats : rows_join ? plane_beats : row_beats;
      runs_q         <= rows_join ? size_t'(1) : y_size_i;
      planes_q       <= planes_join ? size_t'(1) : z_size_i;
      place_q        <= dram_i;
      plane_place_q  <= dram_i;
      y_stride_q     <= 32'(y_stride_i);
      z_stride_q     <= 32'(z_stride_i);
      done_q         <= '0;
      run_number_q   <= size_t'(1);
      plane_number_q <= size_t'(1);
    end else if (grant && !run_ends) begin
      done_q <= done_q + beats;
    end else if (grant) begin
      done_q       <= '0;
      run_number_q <= plane_ends ? size_t'(1) : run_number_q + 1'b1;
      place_q      <= plane_ends ? plane_place_q + z_stride_q : place_q + y_stride_q;
      if (plane_ends) begin
        plane_place_q  <= plane_place_q + z_stride_q;
        plane_number_q <= plane_number_q + 1'b1;
      end
    end
  end

  always_comb begin
    if (rst_ni) begin
      // The contract of the users: a transfer fits its buffer, and begins when the last has ended.
      if (start_i) assume (accept_i);
      if (accept_i) assume (!active_q);
      if (start_i) begin
        assume (32'(shift_i) <= MaxShift);
        assume (z_size_i != '0 && y_size_i != '0 && x_size_i != '0);
        assume (32'(y_size_i) <= 32'(plane_i) && 32'(x_size_i) <= 32'(plane_i));
        assume (32'(plane_i) <= 32'(total) && 32'(z_size_i) <= 32'(total) && 32'(total) <= Most);
        if (y_size_i == size_t'(1)) assume (plane_i == x_size_i);
        else assume (2 * 32'(x_size_i) <= 32'(plane_i));
        if (z_size_i != size_t'(1)) assume (2 * 32'(plane_i) <= 32'(total));
      end

      // What is offered, from the second cycle after the start.
      if (ready_q) begin
        assert (burst.addr == AxiAddrBits'({place, {$clog2(AxiBytes){1'b0}}}));
        assert (32'(burst.len) == beats - 1);
        assert (last == (run_ends && plane_ends && plane_number_q == planes_q));
        assert (beats != '0 && beats <= BurstBeats && beats <= room);
      end

      // Invariants for the induction.
      if (ready_q) begin
        assert (done_q < run_q && run_q <= 32'(Most) << MaxShift && active_q);
        assert (run_number_q != '0 && run_number_q <= runs_q && 32'(runs_q) <= Most);
        assert (plane_number_q != '0 && plane_number_q <= planes_q && 32'(planes_q) <= Most);
        assert (u_cutter.addr_q == place && u_cutter.row_q == place_q);
        assert (u_cutter.plane_q == plane_place_q);
        assert (32'(u_cutter.left_q) == left - 1 && 32'(u_cutter.run_q) == run_q - 1);
        assert (32'(u_cutter.cap_q) == (room < BurstBeats ? room : BurstBeats) - 1);
        assert (u_cutter.run_ends_q == run_ends);
        assert (u_cutter.row_is_last_q == plane_ends);
        assert (u_cutter.plane_is_last_q == (plane_number_q == planes_q));
        assert (!u_cutter.begin_q);
        assert (u_cutter.rows_merge_q == (runs_q == size_t'(1)));
        if (runs_q != size_t'(1)) begin
          assert (32'(u_cutter.rows_q) == 32'(runs_q) - 1);
          assert (32'(u_cutter.rows_left_q) == 32'(runs_q) - 32'(run_number_q));
        end
        if (planes_q != size_t'(1)) begin
          assert (32'(u_cutter.planes_left_q) == 32'(planes_q) - 32'(plane_number_q));
        end
        assert (32'(u_cutter.y_stride_q) == y_stride_q && 32'(u_cutter.z_stride_q) == z_stride_q);
      end
      if (!active_q) assert (!u_cutter.begin_q && !ready_q);
      if (active_q && !ready_q) begin
        assert (u_cutter.begin_q && done_q == '0 && run_q != '0);
        assert (run_number_q == size_t'(1) && plane_number_q == size_t'(1));
      end
    end
  end
endmodule
