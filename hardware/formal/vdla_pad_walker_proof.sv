// SPDX-License-Identifier: Apache-2.0
// Proof: the steps of a load are its padding entries, all of them and no other, in ascending order;
// the last one is marked. Planes are walked by rows and columns here, where data is skipped; sizes,
// paddings, place and the rate of steps are any.
module vdla_pad_walker_proof
  import vdla_pkg::*;
(
  input logic                     clk_i,
  input logic                     accept_i,
  input logic                     start_i,
  input load_t                    load_i,
  input logic [SizeFieldBits-1:0] plane_i,
  input logic                     wants_step_i
);
  localparam int unsigned Most = 1 << (SizeFieldBits - 1);  // entries of the deepest buffer

  typedef logic [SizeFieldBits-1:0] size_t;
  typedef logic [SizeFieldBits-2:0] count_t;
  typedef logic [SramFieldBits-1:0] index_t;

  // A padding entry by plane, row and column, and the entries of data before it.
  typedef struct packed {
    size_t plane;
    size_t row;
    size_t column;
    size_t skipped;
  } entry_t;

  logic   rst_ni = 1'b0;  // low in the first cycle
  logic   step, last;
  index_t index;
  load_t  load_q;
  size_t  plane_q, rows, columns, rows_q, columns_q;
  logic   has_data;
  logic   active_q, ready_q;  // a load began; its first entry is known

  assign rows     = size_t'(load_i.y_before) + load_i.y_size + size_t'(load_i.y_after);
  assign columns  = size_t'(load_i.x_before) + load_i.x_size + size_t'(load_i.x_after);
  assign has_data = load_i.y_size != '0 && load_i.x_size != '0;
  assign step     = wants_step_i && ready_q;

  vdla_pad_walker u_walker (
    .clk_i,
    .rst_ni,
    .accept_i,
    .start_i,
    .load_i,
    .has_data_i(has_data),
    .plane_i,
    .rows_i    (count_t'(rows)),
    .columns_i (count_t'(columns)),
    .step_i    (step),
    .index_o   (index),
    .last_o    (last)
  );

  // --- the load, as the contract describes it

  size_t y_first, y_past, x_first, x_past;  // the rows and columns with data
  logic  data_q, sides_q;

  assign data_q  = load_q.y_size != '0 && load_q.x_size != '0;
  assign sides_q = load_q.x_before != '0 || load_q.x_after != '0;
  assign y_first = size_t'(load_q.y_before);
  assign y_past  = y_first + load_q.y_size;
  assign x_first = size_t'(load_q.x_before);
  assign x_past  = x_first + load_q.x_size;

  // An entry, or the first one behind its data; in the next row or plane if there is none in this.
  function automatic entry_t wrapped(entry_t at);
    wrapped = at;
    if (wrapped.column == columns_q) begin
      wrapped.column = '0;
      wrapped.row = at.row + 1'b1;
    end
    if (wrapped.row == rows_q) begin
      wrapped.row = '0;
      wrapped.plane = at.plane + 1'b1;
    end
  endfunction

  function automatic entry_t behind_data(entry_t at);
    behind_data = at;
    if (data_q && at.row >= y_first && at.row < y_past && at.column == x_first) begin
      if (sides_q) begin
        behind_data.column = x_past;
        behind_data.skipped = load_q.x_size;
      end else begin
        behind_data.row = y_past;
        behind_data.skipped = plane_q;
      end
      behind_data = wrapped(behind_data);
    end
  endfunction

  entry_t entry_q, first, next;
  index_t index_q;

  always_comb begin
    next = entry_q;
    next.column = entry_q.column + 1'b1;
    next.skipped = '0;
    next = behind_data(wrapped(next));
    first = behind_data('0);
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
      if (step && last) active_q <= 1'b0;
      ready_q <= active_q && !(step && last);
    end
    if (start_i) begin
      load_q    <= load_i;
      plane_q   <= plane_i;
      rows_q    <= rows;
      columns_q <= columns;
    end
    if (active_q && !ready_q) begin
      entry_q <= first;
      index_q <= load_q.sram + index_t'(first.skipped);
    end else if (step) begin
      entry_q <= next;
      index_q <= index_q + index_t'(next.skipped) + 1'b1;
    end
  end

  // The part in which the entry lies.
  logic is_top, is_bottom, is_before;
  assign is_top    = !data_q || entry_q.row < y_first;
  assign is_bottom = data_q && entry_q.row >= y_past;
  assign is_before = !is_top && !is_bottom && entry_q.column < x_first;

  always_comb begin
    if (rst_ni) begin
      // The contract of the users: a load with padding, which fits its buffer.
      if (start_i) assume (accept_i);
      if (accept_i) assume (!active_q);
      if (start_i) begin
        assume (load_i.z_size != '0 && 32'(load_i.z_size) <= Most);
        assume (32'(load_i.y_before) + 32'(load_i.y_size) + 32'(load_i.y_after) <= Most);
        assume (32'(load_i.x_before) + 32'(load_i.x_size) + 32'(load_i.x_after) <= Most);
        assume (rows != '0 && columns != '0);
        assume (!has_data || load_i.y_before != '0 || load_i.y_after != '0
                || load_i.x_before != '0 || load_i.x_after != '0);
      end

      // What is offered, from the second cycle after the start.
      if (ready_q) begin
        assert (index == index_q);
        assert (last == (next.plane == load_q.z_size));
        assert (!data_q || entry_q.row < y_first || entry_q.row >= y_past
                || entry_q.column < x_first || entry_q.column >= x_past);
      end

      // Invariants for the induction.
      if (active_q) begin
        assert (load_q.z_size != '0 && 32'(load_q.z_size) <= Most);
        assert (rows_q == size_t'(load_q.y_before) + load_q.y_size + size_t'(load_q.y_after));
        assert (columns_q == size_t'(load_q.x_before) + load_q.x_size + size_t'(load_q.x_after));
        assert (32'(load_q.y_before) + 32'(load_q.y_size) + 32'(load_q.y_after) <= Most);
        assert (32'(load_q.x_before) + 32'(load_q.x_size) + 32'(load_q.x_after) <= Most);
        assert (rows_q != '0 && columns_q != '0);
        assert (!data_q || sides_q || load_q.y_before != '0 || load_q.y_after != '0);
        assert (u_walker.has_data_q == data_q);
        assert (u_walker.has_top_q == (!data_q || load_q.y_before != '0));
        assert (u_walker.has_before_q == (data_q && load_q.x_before != '0));
        assert (u_walker.has_after_q == (data_q && load_q.x_after != '0));
        assert (u_walker.has_bottom_q == (data_q && load_q.y_after != '0));
        assert (u_walker.columns_q.size == count_t'(columns_q));
        assert (u_walker.columns_q.is_one == (columns_q == size_t'(1)));
        assert (u_walker.before_q.size == count_t'(load_q.x_before));
        assert (u_walker.before_q.is_one == (load_q.x_before == 1));
        assert (u_walker.after_q.size == count_t'(load_q.x_after));
        assert (u_walker.after_q.is_one == (load_q.x_after == 1));
        assert (u_walker.top_q.size == count_t'(data_q ? y_first : rows_q));
        assert (u_walker.top_q.is_one == ((data_q ? y_first : rows_q) == size_t'(1)));
        assert (u_walker.middle_q.size == count_t'(load_q.y_size));
        assert (u_walker.middle_q.is_one == (load_q.y_size == size_t'(1)));
        assert (u_walker.bottom_q.size == count_t'(load_q.y_after));
        assert (u_walker.bottom_q.is_one == (load_q.y_after == 1));
        assert (u_walker.past_row_q == index_t'(load_q.x_size) + 1'b1);
        assert (u_walker.past_plane_q == index_t'(plane_q) + 1'b1);
      end
      if (ready_q) begin
        assert (active_q && !u_walker.begin_q);
        assert (entry_q.plane < load_q.z_size && entry_q.row < rows_q);
        assert (entry_q.column < columns_q);
        assert (u_walker.part_q == (is_top ? 2'd0 : is_bottom ? 2'd3 : is_before ? 2'd1 : 2'd2));
        assert (u_walker.columns_left_q
                == count_t'((is_before ? x_first : columns_q) - entry_q.column));
        assert (u_walker.column_is_last_q
                == ((is_before ? x_first : columns_q) - entry_q.column == size_t'(1)));
        assert (u_walker.rows_left_q
                == count_t'((is_bottom || !data_q ? rows_q : is_top ? y_first : y_past)
                            - entry_q.row));
        assert (u_walker.row_is_last_q
                == ((is_bottom || !data_q ? rows_q : is_top ? y_first : y_past) - entry_q.row
                    == size_t'(1)));
        assert (u_walker.planes_left_q == count_t'(load_q.z_size - entry_q.plane));
        assert (u_walker.plane_is_last_q == (load_q.z_size - entry_q.plane == size_t'(1)));
      end
      if (!active_q) assert (!u_walker.begin_q && !ready_q);
      if (active_q && !ready_q) begin
        assert (u_walker.begin_q && u_walker.index_q == load_q.sram - 1'b1);
        assert (u_walker.planes_left_q == count_t'(load_q.z_size));
        assert (u_walker.plane_is_last_q == (load_q.z_size == size_t'(1)));
      end
    end
  end
endmodule
