// SPDX-License-Identifier: Apache-2.0
// The padding entries of a load in ascending order, one per step; data regions are skipped between
// steps.
//
// Contract: while accept_i is high the registers follow the inputs, and start_i, with accept_i,
// starts a load with padding. From the second cycle after it index_o is the first entry to fill and
// last_o marks the last one; step_i advances to the next one, valid in the following cycle. Latency
// 2, one entry per cycle: the steps of a load are exactly its padding entries.
//
// A plane is a top of whole rows, the rows with data, and a bottom of whole rows; a row with data
// has padding before and after them. A load without data is all top. Between two parts lie no data,
// the data of a row, or, if rows have no padding, those of a plane. No register of a load has
// a reset.

`default_nettype none

module vdla_pad_walker
  import vdla_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     rst_ni,
  input  logic                     accept_i,
  input  logic                     start_i,
  input  load_t                    load_i,
  input  logic                     has_data_i,
  input  logic [SizeFieldBits-1:0] plane_i,    // entries of data in a plane
  input  logic [SizeFieldBits-2:0] rows_i,     // rows of a plane, and
  input  logic [SizeFieldBits-2:0] columns_i,  // entries of a row, with their padding
  input  logic                     step_i,
  output logic [SramFieldBits-1:0] index_o,
  output logic                     last_o
);

  localparam int unsigned PadBits = $bits(load_i.x_before);

  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SizeFieldBits-2:0] count_t;  // a size; the greatest one, a power of two, is 0 here
  typedef logic [SramFieldBits-1:0] index_t;
  typedef logic [PadBits-1:0] pad_t;

  typedef enum logic [1:0] {PadTop, PadBefore, PadAfter, PadBottom} part_e;
  typedef enum logic [1:0] {SkipNothing, SkipRow, SkipPlane} skip_e;

  // A part, and the data between its next entry and the previous one.
  typedef struct packed {
    part_e part;
    skip_e skip;
  } step_t;

  // Entries or rows of a part; whether it is one is known before it is selected.
  typedef struct packed {
    logic is_one;
    count_t size;
  } extent_t;

  // --- the shape of a plane, from the cycle after the start

  logic    begin_q;  // that cycle
  logic    has_data_q, has_top_q, has_before_q, has_after_q, has_bottom_q;
  logic    has_sides;
  extent_t columns_q, before_q, after_q;    // entries of a row of each part
  extent_t top_q, middle_q, bottom_q;       // rows
  index_t  past_row_q, past_plane_q;        // from an entry to the next one behind skipped data
  step_t   plane_entry, row_entry;

  // Whether a size with its padding is 1, without their sum.
  function automatic logic sum_is_one(pad_t first, size_t size, pad_t last);
    return (first == pad_t'(1) && size == '0 && last == '0)
        || (first == '0 && size == size_t'(1) && last == '0)
        || (first == '0 && size == '0 && last == pad_t'(1));
  endfunction

  function automatic extent_t pads(pad_t count);
    return '{is_one: count == pad_t'(1), size: count_t'(count)};
  endfunction

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin_q <= 1'b0;
    else begin_q <= start_i;
  end

  always_ff @(posedge clk_i) begin
    if (accept_i) begin
      has_data_q   <= has_data_i;
      has_top_q    <= !has_data_i || load_i.y_before != '0;
      has_before_q <= has_data_i && load_i.x_before != '0;
      has_after_q  <= has_data_i && load_i.x_after != '0;
      has_bottom_q <= has_data_i && load_i.y_after != '0;
      columns_q    <= '{
        is_one: sum_is_one(load_i.x_before, load_i.x_size, load_i.x_after),
        size: columns_i
      };
      before_q     <= pads(load_i.x_before);
      after_q      <= pads(load_i.x_after);
      if (has_data_i) top_q <= pads(load_i.y_before);
      else begin
        top_q <= '{
          is_one: sum_is_one(load_i.y_before, load_i.y_size, load_i.y_after),
          size: rows_i
        };
      end
      middle_q     <= '{is_one: load_i.y_size == size_t'(1), size: count_t'(load_i.y_size)};
      bottom_q     <= pads(load_i.y_after);
      past_row_q   <= index_t'(load_i.x_size) + 1'b1;
      past_plane_q <= index_t'(plane_i) + 1'b1;
    end
  end

  assign has_sides = has_before_q || has_after_q;
  assign row_entry = has_before_q ? '{part: PadBefore, skip: SkipNothing}
                                  : '{part: PadAfter, skip: SkipRow};

  always_comb begin
    plane_entry = '{part: PadBottom, skip: SkipPlane};
    if (has_sides) plane_entry = row_entry;
    if (has_top_q) plane_entry = '{part: PadTop, skip: SkipNothing};
  end

  logic unused_bits;
  assign unused_bits = ^{load_i, plane_i};

  // --- the entry of this step, and how many follow it

  part_e  part_q;
  index_t index_q, forward;
  count_t columns_left_q, rows_left_q, planes_left_q;  // this one included
  logic   column_is_last_q, row_is_last_q, plane_is_last_q;
  logic   row_ends, rows_end, plane_ends, advances;

  assign index_o  = index_q;
  assign row_ends = column_is_last_q && !(part_q == PadBefore && has_after_q);
  assign rows_end = row_ends && row_is_last_q;
  assign last_o   = plane_ends && plane_is_last_q;
  assign advances = begin_q || step_i;

  always_comb begin
    unique case (part_q)
      PadBottom:  plane_ends = rows_end;
      PadTop:     plane_ends = rows_end && !has_sides && !has_bottom_q;
      default: plane_ends = rows_end && !has_bottom_q;
    endcase
  end

  // --- the next step: after the last row of a part, after another row or part of one, or within it

  step_t after_rows, after_row, next;

  always_comb begin
    after_rows = plane_entry;
    unique case (part_q)
      PadTop: begin
        if (has_sides) after_rows = row_entry;
        else if (has_bottom_q) after_rows = '{part: PadBottom, skip: SkipPlane};
        else after_rows.skip = has_data_q ? SkipPlane : SkipNothing;
      end
      PadBefore: begin
        if (has_bottom_q) after_rows.part = PadBottom;
        after_rows.skip = SkipRow;
      end
      PadAfter:   if (has_bottom_q) after_rows = '{part: PadBottom, skip: SkipNothing};
      default: after_rows = plane_entry;
    endcase
  end

  always_comb begin
    after_row = '{part: part_q, skip: SkipNothing};
    unique case (part_q)
      PadBefore:  after_row = '{part: has_after_q ? PadAfter : PadBefore, skip: SkipRow};
      PadAfter:   after_row = row_entry;
      default: after_row.skip = SkipNothing;
    endcase
  end

  always_comb begin
    next = '{part: part_q, skip: SkipNothing};
    if (begin_q) next = plane_entry;
    else if (rows_end) next = after_rows;
    else if (column_is_last_q) next = after_row;
  end

  always_comb begin
    unique case (next.skip)
      SkipRow:   forward = past_row_q;
      SkipPlane: forward = past_plane_q;
      default:   forward = index_t'(1);
    endcase
  end

  // --- the extents of the part of the next step

  extent_t next_columns, next_rows;

  always_comb begin
    unique case (next.part)
      PadBefore:  next_columns = before_q;
      PadAfter:   next_columns = after_q;
      default: next_columns = columns_q;
    endcase
  end

  always_comb begin
    unique case (next.part)
      PadTop:     next_rows = top_q;
      PadBottom:  next_rows = bottom_q;
      default: next_rows = middle_q;
    endcase
  end

  always_ff @(posedge clk_i) begin
    // The first entry is reached like others, from the entry before the load.
    if (accept_i) index_q <= load_i.sram - 1'b1;
    else if (advances) index_q <= index_q + forward;

    if (advances) part_q <= next.part;

    if (begin_q || (step_i && column_is_last_q)) begin
      columns_left_q   <= next_columns.size;
      column_is_last_q <= next_columns.is_one;
    end else if (step_i) begin
      columns_left_q   <= columns_left_q - 1'b1;
      column_is_last_q <= columns_left_q == count_t'(2);
    end

    if (begin_q || (step_i && rows_end)) begin
      rows_left_q   <= next_rows.size;
      row_is_last_q <= next_rows.is_one;
    end else if (step_i && row_ends) begin
      rows_left_q   <= rows_left_q - 1'b1;
      row_is_last_q <= rows_left_q == count_t'(2);
    end

    if (accept_i) begin
      planes_left_q   <= count_t'(load_i.z_size);
      plane_is_last_q <= load_i.z_size == size_t'(1);
    end else if (step_i && plane_ends) begin
      planes_left_q   <= planes_left_q - 1'b1;
      plane_is_last_q <= planes_left_q == count_t'(2);
    end
  end

`ifndef SYNTHESIS
  // A load starts only while it is accepted.
  Accepts_A: assert property (@(posedge clk_i) disable iff (!rst_ni) start_i |-> accept_i);
  // The first entry is known two cycles after the start.
  SetUp_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      accept_i || begin_q |-> !step_i);
  // A step stays in a part that the load has.
  HasPart_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      step_i |->
      (part_q == PadTop && has_top_q) || (part_q == PadBefore && has_before_q)
      || (part_q == PadAfter && has_after_q) || (part_q == PadBottom && has_bottom_q));
  // Sizes are known to be one exactly when they are.
  OneIsOne_A: assert property (@(posedge clk_i) disable iff (!rst_ni)
      step_i |->
      column_is_last_q == (columns_left_q == count_t'(1))
      && row_is_last_q == (rows_left_q == count_t'(1))
      && plane_is_last_q == (planes_left_q == count_t'(1)));
  // Every part follows every other that it can follow.
  TopOnly_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      step_i && part_q == PadTop && plane_ends);
  TopToBottom_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      step_i && next == step_t'{PadBottom, SkipPlane});
  BeforeToBottom_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      step_i && next == step_t'{PadBottom, SkipRow});
  AfterToBottom_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      step_i
      && part_q == PadAfter && next == step_t'{PadBottom, SkipNothing});
  SidesOnly_C: cover property (@(posedge clk_i) disable iff (!rst_ni)
      step_i && part_q == PadAfter && plane_ends);
`endif

endmodule

`default_nettype wire
