// SPDX-License-Identifier: Apache-2.0
// Depthwise convolution of 3x5 taps: two rows of the image in a memory, four columns in a window,
// the products by the array of multipliers.
//
// Contract: a step a cycle. A cycle after it, its column of the line buffer is there and is written
// back. In a pass, the array multiplies `Pixels` pixels, each in columns of its own, of `Channels`
// channels; so pixels of as many cycles, a frame, take as many passes, a group of channels each.
// A cycle without a step has a pixel that nobody needs. The result comes 2 * Pixels +
// ArrayPortLatency + 2 cycles after the step.

module ext_dw
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = AccDepth < 512 ? AccDepth : 512,
  localparam int unsigned RowBits = $clog2(Rows)
) (
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic dw_begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic dw_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] dw_src_i,
  input  logic [RowBits-1:0] dw_line_row_i,
  input  logic dw_top_i,
  input  logic [InpBits-1:0] dw_fill_i,
  input  logic dw_alone_i,
  input  logic dw_taps_valid_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] dw_taps_wgt_i,
  input  logic [3:0] dw_taps_taps_row_i,
  input  logic dw_factors_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] dw_factors_src_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [InpBits-1:0] dw_factors_minus_i,
  input  logic dw_factors_odd_i,
  input  logic [3:0] dw_factors_taps_row_i,
  input  logic dw_clear_valid_i,
  input  logic [RowBits-1:0] dw_clear_line_row_i,
  input  logic [3:0] dw_clear_taps_row_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][31:0] array_sums_i,
  // verilator lint_on UNUSEDSIGNAL
  output logic [Batch-1:0][BlockOut-1:0][31:0] dw_result_o,
  output logic array_valid_o,
  output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o,
  output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o
);

  typedef logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] pixel_t;

  // --- the line buffer: a row is read with the step and written a cycle later

  logic step_q, clear_q, top_q, alone_q, same_q;
  logic [InpBits-1:0] fill_q;
  logic [RowBits-1:0] row, row_q;
  pixel_t x_q;
  pixel_t [1:0] line[Rows];
  pixel_t [1:0] read_q, written, written_q, above;
  pixel_t [2:0] column;

  assign row = dw_valid_i ? dw_line_row_i : dw_clear_line_row_i;

  always_ff @(posedge clk_i) begin
    step_q <= dw_valid_i;
    clear_q <= dw_clear_valid_i;
    top_q <= dw_top_i;
    fill_q <= dw_fill_i;
    alone_q <= dw_alone_i;
    x_q <= dw_src_i;
    row_q <= row;
    same_q <= (step_q || clear_q) && row == row_q;
    written_q <= written;
  end

  always_ff @(posedge clk_i) begin
    if (step_q || clear_q) line[row_q] <= written;
    read_q <= line[row];
  end

  always_comb begin
    above = same_q ? written_q : read_q;
    if (top_q) above = {2 * Batch * BlockOut{fill_q}};
    if (alone_q) above = {2{x_q}};
  end

  assign column = {x_q, above};
  assign written = clear_q ? '0 : column[2:1];

  // --- the window: of each row, the columns before

  pixel_t [2:0][3:0] window_q;

  always_ff @(posedge clk_i) begin
    for (int unsigned r = 0; r < 3; r++) begin
      if (clear_q) window_q[r] <= '0;
      else if (step_q && !alone_q) window_q[r] <= {column[r], window_q[r][3:1]};
    end
  end

  // --- the pixels that end with the step, and their weights

  localparam int unsigned Taps = 15;

  logic [Batch-1:0][BlockOut-1:0][Taps-1:0][InpBits-1:0] ended;
  logic [Taps-1:0][BlockOut-1:0][WgtBits-1:0] taps_q;

  always_comb begin
    for (int unsigned b = 0; b < Batch; b++) begin
      for (int unsigned o = 0; o < BlockOut; o++) begin
        for (int unsigned r = 0; r < 3; r++) begin
          for (int unsigned c = 0; c < 4; c++) ended[b][o][5*r+c] = window_q[r][c][b][o];
          ended[b][o][5*r+4] = column[r][b][o];
        end
      end
    end
  end

  // A part of a factor: half of it, or its lowest bit.
  logic [BlockOut-1:0][WgtBits-1:0] parts;

  for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_part
    logic signed [InpBits:0] factor;

    assign factor = signed'(dw_factors_src_i[0][o]) - signed'(dw_factors_minus_i);
    assign parts[o] = dw_factors_odd_i ? WgtBits'(factor[0]) : factor[InpBits:1];
  end

  always_ff @(posedge clk_i) begin
    for (int unsigned k = 0; k < Taps; k++) begin
      if (dw_taps_valid_i && 32'(dw_taps_taps_row_i) == k) taps_q[k] <= dw_taps_wgt_i;
      else if (dw_factors_valid_i && 32'(dw_factors_taps_row_i) == k) taps_q[k] <= parts;
      else if (dw_clear_valid_i && 32'(dw_clear_taps_row_i) == k) taps_q[k] <= '0;
    end
  end

  // --- the place of a cycle in its frame, and whether a pass has pixels of steps

  localparam int unsigned Pixels = ArrayColumns;
  localparam int unsigned Channels = ArrayShares;
  localparam int unsigned PlaceBits = Pixels > 1 ? $clog2(Pixels) : 1;
  localparam int unsigned SumBits = InpBits + WgtBits + $clog2(Taps) - 1;

  typedef logic [Channels-1:0][Taps-1:0][InpBits-1:0] group_t;
  typedef logic [Channels-1:0][SumBits-1:0] sums_t;

  typedef logic [PlaceBits-1:0] place_t;

  place_t place_q;
  logic [2*Pixels+1:1] valid_q;

  always_ff @(posedge clk_i) begin
    if (!rst_ni) begin
      place_q <= '0;
      valid_q <= '0;
    end else begin
      place_q <= later(1);
      valid_q <= {valid_q[2*Pixels:1], dw_valid_i};
    end
  end

  assign array_valid_o = |valid_q[2*Pixels+1:3];

  // The place `n` cycles later; negative ones are earlier.
  function automatic place_t later(int n);
    return Pixels > 1 ? place_q + place_t'(n) : '0;
  endfunction

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    // --- from all groups of a pixel to a group of all pixels: each group is a cycle later than the
    // one before, groups and pixels change places, and pixels wait for the last one of their frame

    group_t groups[Pixels], pixels[Pixels], turned[Pixels];

    for (genvar n = 0; n < int'(Pixels); n++) begin : gen_turn
      vdla_delay #(
        .Bits  ($bits(group_t)),
        .Cycles(n + 1)
      ) u_group (
        .clk_i,
        .data_i(ended[b][n*Channels+:Channels]),
        .data_o(groups[n])
      );

      assign turned[n] = groups[later(-n)];

      vdla_delay #(
        .Bits  ($bits(group_t)),
        .Cycles(Pixels - n)
      ) u_pixel (
        .clk_i,
        .data_i(turned[n]),
        .data_o(pixels[n])
      );
    end

    // --- a pass, of group place_q: the columns that share the weights of a channel have its pixels

    logic [Taps-1:0][Pixels-1:0][Channels-1:0][WgtBits-1:0] taps;
    sums_t sums[Pixels], late[Pixels], back[Pixels];

    assign taps = taps_q;

    for (genvar c = 0; c < int'(Channels); c++) begin : gen_channel
      for (genvar k = 0; k < int'(BlockIn); k++) begin : gen_tap
        if (k < int'(Taps)) begin : gen_used
          assign array_inp_o[b][c][k] = taps[k][place_q][c];
        end else begin : gen_zero
          assign array_inp_o[b][c][k] = '0;
        end
      end

      for (genvar n = 0; n < int'(Pixels); n++) begin : gen_pixel
        localparam int unsigned Column =
            (n / ArrayFields * Channels + c) * ArrayFields + n % ArrayFields;

        assign array_wgt_o[b][Column] = (BlockIn * WgtBits)'(pixels[n][c]);
        assign sums[n][c] = array_sums_i[b][Column][SumBits-1:0];
      end
    end

    // --- and back to all groups of a pixel

    for (genvar n = 0; n < int'(Pixels); n++) begin : gen_back
      sums_t result;

      vdla_delay #(
        .Bits  ($bits(sums_t)),
        .Cycles(n)
      ) u_pixel (
        .clk_i,
        .data_i(sums[n]),
        .data_o(late[n])
      );

      assign back[n] = late[later(-int'(ArrayPortLatency) - n)];

      vdla_delay #(
        .Bits  ($bits(sums_t)),
        .Cycles(Pixels - n)
      ) u_group (
        .clk_i,
        .data_i(back[n]),
        .data_o(result)
      );

      for (genvar c = 0; c < int'(Channels); c++) begin : gen_result
        assign dw_result_o[b][n*Channels+c] = 32'($signed(result[c]));
      end
    end
  end

endmodule
