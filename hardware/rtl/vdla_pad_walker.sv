// The padding entries of a load in ascending order, one per step; data regions are skipped between
// steps.
//
// Contract: start_i begins a load with padding, whose fields are at load_i, plane_i and columns_i
// from the next cycle. At each step_i index_o is the next entry to fill; last_o marks the last one.
// Latency 1, one entry per cycle: the steps of a load are exactly its padding entries.
//
// A plane is a top of whole rows, the rows with data, and a bottom of whole rows; a row with data
// has padding before and after them. A load without data is all top. Between two parts lie no data,
// the data of a row, or, if rows have no padding, those of a plane.

module vdla_pad_walker
  import vdla_pkg::*;
(
  input  logic                     clk_i,
  input  logic                     start_i,
  input  load_t                    load_i,
  input  logic [SizeFieldBits-1:0] plane_i,    // entries of data in a plane
  input  logic [SizeFieldBits-1:0] columns_i,  // entries of a row with its padding
  input  logic                     step_i,
  output logic [SramFieldBits-1:0] index_o,
  output logic                     last_o
);

  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SramFieldBits-1:0] index_t;

  typedef enum logic [1:0] {Top, Before, After, Bottom} part_e;
  typedef enum logic [1:0] {SkipNothing, SkipRow, SkipPlane} skip_e;

  // A part, and the data between its next entry and the previous one.
  typedef struct packed {
    part_e part;
    skip_e skip;
  } step_t;

  // --- the shape of a plane

  logic  has_data, has_top, has_before, has_after, has_sides, has_bottom;
  size_t top_rows;
  step_t plane_entry, row_entry;

  assign has_data   = load_i.y_size != '0 && load_i.x_size != '0;
  assign has_top    = !has_data || load_i.y_before != '0;
  assign has_before = has_data && load_i.x_before != '0;
  assign has_after  = has_data && load_i.x_after != '0;
  assign has_sides  = has_before || has_after;
  assign has_bottom = has_data && load_i.y_after != '0;

  assign top_rows = has_data ? size_t'(load_i.y_before)
      : size_t'(load_i.y_before) + load_i.y_size + size_t'(load_i.y_after);

  assign row_entry = has_before ? '{part: Before, skip: SkipNothing}
                                : '{part: After, skip: SkipRow};

  always_comb begin
    plane_entry = '{part: Bottom, skip: SkipPlane};
    if (has_sides) plane_entry = row_entry;
    if (has_top) plane_entry = '{part: Top, skip: SkipNothing};
  end

  logic unused_bits;
  assign unused_bits = ^{load_i, plane_i};

  // --- the entry of this step

  logic   fresh_q;  // before the first step
  step_t  step_q, step;
  index_t index_q, skipped;
  size_t  column_q, row_q, plane_q;
  size_t  columns, rows;
  logic   part_ends, row_ends, rows_end, plane_ends;

  assign step = fresh_q ? plane_entry : step_q;

  always_comb begin
    unique case (step.skip)
      SkipRow:   skipped = index_t'(load_i.x_size);
      SkipPlane: skipped = index_t'(plane_i);
      default:   skipped = '0;
    endcase
  end

  always_comb begin
    unique case (step.part)
      Before:  begin columns = size_t'(load_i.x_before); rows = load_i.y_size; end
      After:   begin columns = size_t'(load_i.x_after); rows = load_i.y_size; end
      Top:     begin columns = columns_i; rows = top_rows; end
      default: begin columns = columns_i; rows = size_t'(load_i.y_after); end
    endcase
  end

  assign index_o   = (fresh_q ? load_i.sram : index_q) + skipped + index_t'(!fresh_q);
  assign part_ends = size_t'(column_q + 1'b1) == columns;
  assign row_ends  = part_ends && !(step.part == Before && has_after);
  assign rows_end  = row_ends && size_t'(row_q + 1'b1) == rows;
  assign last_o    = plane_ends && size_t'(plane_q + 1'b1) == load_i.z_size;

  always_comb begin
    unique case (step.part)
      Bottom:  plane_ends = rows_end;
      Top:     plane_ends = rows_end && !has_sides && !has_bottom;
      default: plane_ends = rows_end && !has_bottom;
    endcase
  end

  // --- the next step

  step_t step_d;
  skip_e tail;  // the data at the end of a row

  assign tail = step.part == Before ? SkipRow : SkipNothing;

  always_comb begin
    step_d = '{part: step.part, skip: SkipNothing};
    unique case (step.part)
      Top: begin
        if (plane_ends) step_d.skip = has_data ? SkipPlane : SkipNothing;
        else if (rows_end && has_sides) step_d = row_entry;
        else if (rows_end) step_d = '{part: Bottom, skip: SkipPlane};
      end
      Bottom: begin
        if (plane_ends) step_d = plane_entry;
      end
      default: begin
        if (part_ends && !row_ends) step_d = '{part: After, skip: SkipRow};
        else if (plane_ends) step_d = plane_entry;
        else if (rows_end) step_d = '{part: Bottom, skip: SkipNothing};
        else if (row_ends) step_d = row_entry;
        if (row_ends && tail == SkipRow) step_d.skip = SkipRow;
      end
    endcase
  end

  always_ff @(posedge clk_i) begin
    if (start_i) begin
      fresh_q  <= 1'b1;
      column_q <= '0;
      row_q    <= '0;
      plane_q  <= '0;
    end else if (step_i) begin
      fresh_q  <= 1'b0;
      step_q   <= step_d;
      index_q  <= index_o;
      column_q <= part_ends ? '0 : column_q + 1'b1;
      if (row_ends) row_q <= rows_end ? '0 : row_q + 1'b1;
      if (plane_ends) plane_q <= plane_q + 1'b1;
    end
  end

endmodule
