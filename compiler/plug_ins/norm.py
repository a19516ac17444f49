# SPDX-License-Identifier: Apache-2.0
"""LayerNorm and RMSNorm of rows: sums, means, one over the deviation, and normal numbers.

What it computes is `definitions.row_norm`. A row of the state has a row of each of the batch: the
sum of its elements, in whose place comes the mean; the sum of their squares, then the variance; and
one over the deviation. In the last pass all three indices are those of elements, signs and results,
so that the steps count rows and blocks themselves: it goes through one row after another.
"""

import vdla
from vdla import te
from vdla.compiler.layer_programs import row_pieces, row_strips
from vdla.compiler.operators.definitions.row_norm import (
    COUNT_BITS,
    LEAST_BITS,
    first_root,
    mean_of,
    mean_square_of,
    next_root,
    normal_number,
    of_sign,
    over_features,
    places_of,
    variance_of,
)
from vdla.isa import Buffer, Emit, Load, PlugInField, isa_of

ROWS = 64
"""The rows of a strip at most."""
DATAPATH = """
// Contract: a step a cycle of sums and of normal numbers, seven cycles after their step; rows are
// computed in three to seven cycles each. A row is there five cycles after its sums, and after the
// interval of the other steps.

module ext_norm
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = 64,
  localparam int unsigned CountBits = $clog2(BlockOut) + 1
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic norm_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic norm_begin_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] norm_wgt_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] norm_src_i,
  input  logic [11:0] norm_blocks_i,
  input  logic norm_clear_valid_i,
  input  logic [5:0] norm_clear_norm_rows_row_i,
  input  logic norm_sums_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] norm_sums_src_i,
  input  logic [5:0] norm_sums_norm_rows_row_i,
  input  logic [CountBits-1:0] norm_sums_count_i,
  input  logic norm_mean_valid_i,
  input  logic [5:0] norm_mean_norm_rows_row_i,
  input  logic [20:0] norm_mean_over_i,
  input  logic [4:0] norm_mean_shift_i,
  input  logic norm_mean_centred_i,
  input  logic norm_spread_valid_i,
  input  logic [5:0] norm_spread_norm_rows_row_i,
  input  logic [15:0] norm_spread_least_i,
  input  logic norm_root_valid_i,
  input  logic [5:0] norm_root_norm_rows_row_i,
  input  logic norm_newton_valid_i,
  input  logic [5:0] norm_newton_norm_rows_row_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] norm_result_o
);

  // Products by additions: the multipliers of the machine are in its array.
  function automatic logic [31:0] product(logic [31:0] a, logic [15:0] b);
    logic [15:0][31:0] terms;
    for (int unsigned k = 0; k < 16; k++) terms[k] = b[k] ? a << k : '0;
    for (int unsigned step = 1; step < 16; step *= 2) begin
      for (int unsigned k = 0; k < 16; k += 2 * step) terms[k] += terms[k+step];
    end
    product = terms[0];
  endfunction

  function automatic logic [15:0] square(logic [7:0] a);
    logic [7:0][15:0] terms;
    for (int unsigned k = 0; k < 8; k++) terms[k] = a[k] ? 16'(a) << k : '0;
    for (int unsigned step = 1; step < 8; step *= 2) begin
      for (int unsigned k = 0; k < 8; k += 2 * step) terms[k] += terms[k+step];
    end
    square = terms[0];
  endfunction

  function automatic logic signed [22:0] part_of_normal(logic signed [15:0] a, logic [6:0] b);
    logic [7:0][22:0] terms;
    terms = '0;
    for (int unsigned k = 0; k < 7; k++) terms[k] = b[k] ? 23'(a) << k : '0;
    for (int unsigned step = 1; step < 8; step *= 2) begin
      for (int unsigned k = 0; k < 8; k += 2 * step) terms[k] += terms[k+step];
    end
    part_of_normal = terms[0];
  endfunction

  function automatic logic signed [38:0] part_of_mean(logic signed [31:0] a, logic [6:0] b);
    logic [7:0][38:0] terms;
    terms = '0;
    for (int unsigned k = 0; k < 7; k++) terms[k] = b[k] ? 39'(a) << k : '0;
    for (int unsigned step = 1; step < 8; step *= 2) begin
      for (int unsigned k = 0; k < 8; k += 2 * step) terms[k] += terms[k+step];
    end
    part_of_mean = terms[0];
  endfunction

  function automatic logic [3:0] places(logic [31:0] spread);
    places = '0;
    for (int unsigned k = 1; k < 16; k++) if (!spread[31] && |(spread >> (2 * k))) places = 4'(k);
  endfunction

  function automatic logic [15:0] mantissa(logic [31:0] spread);
    logic [3:0] bits;
    bits = places(spread);
    mantissa = 16'(bits < 7 ? spread << {4'd7 - bits, 1'b0} : 32'($signed(spread) >>> {bits - 4'd7, 1'b0}));
  endfunction

  function automatic logic signed [13:0] in_range(logic [31:0] mean);
    in_range = $signed(mean) > 8191 ? 14'sd8191 : $signed(mean) < -8192 ? -14'sd8192 : 14'(mean);
  endfunction

  // --- the steps of rows: number k of their cycles, and the row

  logic [4:1] sums_q;
  logic [3:1] mean_q;
  logic [2:1] spread_q, root_q;
  logic [6:1] newton_q;
  logic [4:1][5:0] sums_row_q;
  logic [6:1][5:0] row_q;
  logic [5:0] row;

  assign row = norm_mean_valid_i ? norm_mean_norm_rows_row_i : norm_spread_valid_i ? norm_spread_norm_rows_row_i :
      norm_root_valid_i ? norm_root_norm_rows_row_i : norm_newton_norm_rows_row_i;

  always_ff @(posedge clk_i) begin
    sums_q <= {sums_q[3:1], rst_ni && norm_sums_valid_i};
    mean_q <= {mean_q[2:1], rst_ni && norm_mean_valid_i};
    spread_q <= {spread_q[1], rst_ni && norm_spread_valid_i};
    root_q <= {root_q[1], rst_ni && norm_root_valid_i};
    newton_q <= {newton_q[5:1], rst_ni && norm_newton_valid_i};
    sums_row_q <= {sums_row_q[3:1], norm_sums_norm_rows_row_i};
    row_q <= {row_q[5:1], row};
  end

  // --- the row and the block of normal numbers

  logic [5:0] at_row_q;
  logic [11:0] at_block_q;
  logic last;

  assign last = 13'(at_block_q) + 13'd1 >= 13'(norm_blocks_i);

  always_ff @(posedge clk_i) begin
    if (norm_clear_valid_i) begin
      at_row_q <= '0;
      at_block_q <= '0;
    end else if (norm_valid_i) begin
      at_row_q <= at_row_q + 6'(last);
      at_block_q <= last ? '0 : at_block_q + 12'd1;
    end
  end

  logic [6:1][BlockOut-1:0] negative_q;
  always_ff @(posedge clk_i) begin
    negative_q[6:2] <= negative_q[5:1];
    for (int unsigned o = 0; o < BlockOut; o++) negative_q[1][o] <= norm_wgt_i[o][WgtBits-1];
  end

  logic [CountBits-1:0] count_q;
  logic [20:0] over_q;
  logic [4:0] shift_q[3:1];
  logic centred_q[3:1];
  logic [15:0] least_q[2:1];

  always_ff @(posedge clk_i) begin
    count_q <= norm_sums_count_i;
    over_q <= norm_mean_over_i;
    shift_q[1] <= norm_mean_shift_i;
    centred_q[1] <= norm_mean_centred_i;
    least_q[1] <= norm_spread_least_i;
    least_q[2] <= least_q[1];
    for (int unsigned k = 2; k < 4; k++) begin
      shift_q[k] <= shift_q[k-1];
      centred_q[k] <= centred_q[k-1];
    end
  end

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    logic [31:0] mean[Rows], spread[Rows];
    logic [14:0] root[Rows];

    // --- sums of elements and squares

    logic [BlockOut-1:0][31:0] entry_sum, entry_squares;
    logic [31:0] entry_sum_q, entry_squares_q, partial_q;
    logic [BlockOut-1:0][InpBits-1:0] element_q;
    logic [BlockOut-1:0][InpBits-1:0] size_q;
    logic [BlockOut-1:0][15:0] square_q;
    logic [31:0] partial2_q;

    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) begin
        entry_sum[o] = o < 32'(count_q) ? 32'($signed(element_q[o])) : '0;
        entry_squares[o] = 32'(square_q[o]);
      end
      for (int unsigned step = 1; step < BlockOut; step *= 2) begin
        for (int unsigned o = 0; o < BlockOut; o += 2 * step) begin
          entry_sum[o] += entry_sum[o+step];
          entry_squares[o] += entry_squares[o+step];
        end
      end
    end

    always_ff @(posedge clk_i) begin
      element_q <= norm_sums_src_i[b];
      for (int unsigned o = 0; o < BlockOut; o++) begin
        size_q[o] <= o >= 32'(count_q) ? '0 : element_q[o][InpBits-1] ? -element_q[o] : element_q[o];
        square_q[o] <= square(8'(size_q[o]));
      end
      partial_q <= entry_sum[0];
      partial2_q <= partial_q;
      entry_sum_q <= partial2_q;
      entry_squares_q <= entry_squares[0];
    end

    // --- means

    logic signed [31:0] total_q, squares_q;
    logic signed [38:0] total_parts_q[3], squares_parts_q[3];
    logic signed [52:0] total_over_q, squares_over_q;

    always_ff @(posedge clk_i) begin
      total_q <= mean[row];
      squares_q <= spread[row];
      for (int unsigned k = 0; k < 3; k++) begin
        total_parts_q[k] <= part_of_mean(total_q, over_q[7*k+:7]);
        squares_parts_q[k] <= part_of_mean(squares_q, over_q[7*k+:7]);
      end
      total_over_q <= 53'(total_parts_q[0]) + (53'(total_parts_q[1]) <<< 7) + (53'(total_parts_q[2]) <<< 14);
      squares_over_q <= 53'(squares_parts_q[0]) + (53'(squares_parts_q[1]) <<< 7) + (53'(squares_parts_q[2]) <<< 14);
    end

    // --- the variance

    logic signed [13:0] middle_q;
    logic [31:0] mean_square_q, mean_square2_q, middle_square_q, variance;
    logic [13:0] middle_size;

    assign middle_size = middle_q[13] ? -middle_q : middle_q;

    assign variance = mean_square2_q - middle_square_q + 32'(least_q[2]);

    always_ff @(posedge clk_i) begin
      middle_q <= in_range(mean[row]);
      mean_square_q <= spread[row];
      mean_square2_q <= mean_square_q;
      middle_square_q <= product(32'(middle_size), 16'(middle_size));
    end

    // --- one over the deviation: the first estimate, and a step of Newton's method

    logic [31:0] spread_q1;
    logic [14:0] root_q1, root_q2, root_q3, root_q4, root_q5;
    logic [15:0] mantissa_q2, mantissa_q3, square_q3;
    logic [31:0] product_q4, rest_q5, new_root_q6;
    logic [14:0] line;

    assign line = mantissa_q2[15] ? 15'(21'd14320 - ((21'({mantissa_q2, 2'd0}) + 21'({mantissa_q2, 1'b0})) >> 6)) :
        15'(21'd20600 - ((21'({mantissa_q2, 4'd0}) + 21'({mantissa_q2, 1'b0})) >> 6));

    always_ff @(posedge clk_i) begin
      spread_q1 <= spread[row];
      root_q1 <= root[row];
      mantissa_q2 <= mantissa(spread_q1);
      root_q2 <= root_q1;
      mantissa_q3 <= mantissa_q2;
      root_q3 <= root_q2;
      square_q3 <= 16'(product(32'(root_q2), 16'(root_q2)) >> 14);
      product_q4 <= product(32'(square_q3), mantissa_q3);
      {root_q5, root_q4} <= {root_q4, root_q3};
      rest_q5 <= 32'd49152 - 32'($signed(product_q4) >>> 14);
      new_root_q6 <= product(rest_q5, 16'(root_q5));
    end

    // --- rows

    always_ff @(posedge clk_i) begin
      if (norm_clear_valid_i) mean[norm_clear_norm_rows_row_i] <= '0;
      else if (sums_q[4]) mean[sums_row_q[4]] <= mean[sums_row_q[4]] + entry_sum_q;
      else if (mean_q[3]) mean[row_q[3]] <= centred_q[3] ? 32'(total_over_q >>> (6'(shift_q[3]) + 6'd14)) : '0;

      if (norm_clear_valid_i) spread[norm_clear_norm_rows_row_i] <= '0;
      else if (sums_q[4]) spread[sums_row_q[4]] <= spread[sums_row_q[4]] + entry_squares_q;
      else if (mean_q[3]) spread[row_q[3]] <= 32'(squares_over_q >>> (6'(shift_q[3]) + 6'd8));
      else if (spread_q[2]) spread[row_q[2]] <= $signed(variance) > 0 ? variance : 32'd1;

      if (norm_clear_valid_i) root[norm_clear_norm_rows_row_i] <= '0;
      else if (mean_q[3]) root[row_q[3]] <= '0;
      else if (spread_q[2]) root[row_q[2]] <= '0;
      else if (root_q[2]) root[row_q[2]] <= line;
      else if (newton_q[6]) root[row_q[6]] <= 15'($signed(new_root_q6) >>> 15);
    end

    // --- normal numbers

    logic [31:0] row_mean_q1, row_spread_q1;
    logic [12:0] inverse_q1, inverse_q2, inverse_q3;
    logic signed [13:0] middle_q2;
    logic [3:0] bits_q2, bits_q3, bits_q4, bits_q5;
    logic [BlockOut-1:0][InpBits-1:0] x_q1, x_q2;

    always_ff @(posedge clk_i) begin
      row_mean_q1 <= mean[at_row_q];
      row_spread_q1 <= spread[at_row_q];
      inverse_q1 <= root[at_row_q][14:2];
      x_q1 <= norm_src_i[b];
      middle_q2 <= in_range(row_mean_q1);
      bits_q2 <= places(row_spread_q1);
      inverse_q2 <= inverse_q1;
      x_q2 <= x_q1;
      {bits_q5, bits_q4, bits_q3} <= {bits_q4, bits_q3, bits_q2};
      inverse_q3 <= inverse_q2;
    end

    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [15:0] distance_q3;
      logic signed [22:0] low_q4, high_q4;
      logic signed [29:0] product_q5, normal_q6;
      logic [31:0] result_q7;

      always_ff @(posedge clk_i) begin
        distance_q3 <= 16'($signed({x_q2[o], 6'd0})) - 16'(middle_q2);
        low_q4 <= part_of_normal(distance_q3, inverse_q3[6:0]);
        high_q4 <= part_of_normal(distance_q3, 7'(inverse_q3[12:7]));
        product_q5 <= 30'(low_q4) + (30'(high_q4) <<< 7);
        normal_q6 <= product_q5 >>> bits_q5;
        result_q7 <= negative_q[6][o] ? -32'(normal_q6) : 32'(normal_q6);
      end

      assign norm_result_o[b][o] = result_q7;
    end
  end

endmodule
"""


def declare(config):
    entry, lanes = (config.batch, config.block_out), config.block_out
    rows = vdla.State("norm_rows", rows=ROWS, shape=(config.batch, 3), dtype="int32")
    x, row = te.placeholder(entry, config.inp_dtype, "x"), te.placeholder(rows.shape, "int32", "row")
    position = vdla.State("norm_position", rows=1, shape=(2,), dtype="int32")
    every, at = te.placeholder((ROWS, *rows.shape), "int32", "every"), te.placeholder((2,), "int32", "at")
    sign = te.placeholder((lanes,), config.wgt_dtype, "sign")
    names = ("count", "centred", "least", "blocks")
    count, centred, least, blocks = (te.placeholder((1,), "int32", name) for name in names)
    over, shift = (te.placeholder((1,), "int64", name) for name in ("over", "shift"))
    k = te.reduce_axis(lanes, "k")

    def sums(b, i):
        element = te.select(k < count[0], te.cast("int32", x[b, k]), 0)
        return te.sum(te.select(i < 1, element, te.select(i < 2, element * element, 0)), axis=k, init=row[b, i])

    def mean(b, i):
        middle = te.select(centred[0] > 0, mean_of(row[b, 0], over[0], shift[0] + COUNT_BITS), 0)
        square = mean_square_of(row[b, 1], over[0], shift[0] + COUNT_BITS)
        return te.select(i < 1, middle, te.select(i < 2, square, 0))

    def spread(b, i):
        return te.select(i < 1, row[b, 0], te.select(i < 2, variance_of(row[b, 1], row[b, 0], least[0]), 0))

    def root(b, i):
        return te.select(i < 2, row[b, te.minimum(i, 1)], first_root(row[b, 1]))

    def newton(b, i):
        return te.select(i < 2, row[b, te.minimum(i, 1)], next_root(row[b, 1], row[b, 2]))

    def normal(b, o):
        mean, variance, inverse = (every[at[0] & (ROWS - 1), b, i] for i in range(3))
        return of_sign(normal_number(te.cast("int32", x[b, o]), mean, inverse, places_of(variance)), sign[o])

    def moved(i):
        last = at[1] + 1 >= blocks[0]
        return te.select(i < 1, at[0] + te.cast("int32", last), te.select(last, 0, at[1] + 1))

    def of_rows(name, doc, update, interval, latency=0, **more):
        scopes = {"row": rows} | dict.fromkeys((field.name for field in more.get("fields", ())), "immediate")
        updates = {rows: te.compute(rows.shape, update, name)}
        return vdla.Extension(
            name=name, doc=doc, scopes=scopes, updates=updates, interval=interval, latency=latency, wide=True, **more
        )

    return [
        vdla.Extension(
            name="norm",
            doc="Elements less the mean of their row, over its deviation.",
            output=te.compute(entry, normal, "acc"),
            scopes={"x": "inp", "every": rows, "at": position, "sign": "wgt", "blocks": "immediate", "acc": "acc"},
            updates={position: te.compute((2,), moved, "moved")},
            fields=[PlugInField("blocks", 12, "The entries of a row.")],
            latency=7,
            datapath=DATAPATH,
            wide=True,
            program=program,
        ),
        vdla.Extension(
            name="norm_clear",
            doc="Begins rows, with sums of 0, and the count of rows.",
            scopes={},
            updates={
                state: te.compute(state.shape, lambda *i: te.const(0, "int32"), f"no_{state.name}")
                for state in (rows, position)
            },
            wide=True,
        ),
        vdla.Extension(
            name="norm_sums",
            doc="Adds elements and their squares by row.",
            scopes={"x": "inp", "row": rows, "count": "immediate"},
            updates={rows: te.compute(rows.shape, sums, "sums")},
            fields=[PlugInField("count", lanes.bit_length(), "The elements of an entry that are in the row.")],
            latency=1,
            wide=True,
        ),
        of_rows(
            "norm_mean",
            "Replaces the sums of each row by its mean and the mean of its squares.",
            mean,
            4,
            fields=[
                PlugInField("over", COUNT_BITS + 1, "One over the number of features."),
                PlugInField("shift", 5, "The bits of that number."),
                PlugInField("centred", 1, "Whether the mean counts."),
            ],
        ),
        of_rows(
            "norm_spread",
            "Replaces the mean of squares of each row by its variance.",
            spread,
            3,
            fields=[PlugInField("least", LEAST_BITS, "What is added to a variance.")],
        ),
        of_rows("norm_root", "One over the deviation of each row, a first estimate.", root, 3),
        of_rows("norm_newton", "One over the deviation of each row, a step nearer.", newton, 7, 3),
    ]


def program(layer, config):
    """The program of a `row_norm`; a LayerError says why there is none."""
    layer.require("row_norm")
    data, sign, scale = layer.inputs
    features = data.shape[-1]
    lanes, isa = config.block_out, isa_of(config)
    blocks = -(-features // lanes)
    if blocks > config.scl_depth or blocks > config.wgt_depth * config.block_in:
        raise vdla.LayerError(f"the scales of a row must fit their buffer, {config.scl_depth} entries, got {blocks}")
    over, shift = over_features(features)
    builder = vdla.ProgramBuilder(config, "norm")
    vectors = -(-blocks // config.block_in) * config.block_in

    def of_lanes(tensor, count, name):
        element = lambda b, o: te.select(b * lanes + o < features, tensor[b * lanes + o], 0)
        builder.input(te.compute((count, lanes), element, name), "weight")

    of_lanes(scale, blocks, "scales")
    of_lanes(sign, vectors, "signs")
    builder.add([Load(Buffer.SCL, x_size=blocks)], "scales")
    builder.add([Load(Buffer.WGT, x_size=vectors // config.block_in)], "signs")
    clear, sums, mean, spread, root, newton, normal = (
        isa.format_named(name).cls
        for name in ("norm_clear", "norm_sums", "norm_mean", "norm_spread", "norm_root", "norm_newton", "norm")
    )
    centred, least = int(layer.options["centred"]), layer.options["least"]

    def steps(strip):
        by_row = {"loop0": strip.count, "acc0": 1, "uop_end": 1}
        result = [clear(loop0=ROWS, acc0=1, uop_end=1)]
        for piece in row_pieces(features, lanes):
            place = strip.base + piece.first * strip.count
            loops = {"loop0": piece.blocks, "loop1": strip.count, "uop_end": 1}
            places = {"src": place, "src0": strip.count, "src1": 1, "acc1": 1}
            result.append(sums(count=piece.elements, **loops, **places))
        result += [mean(over=over, shift=shift - COUNT_BITS, centred=centred, **by_row), spread(least=least, **by_row)]
        result += [root(**by_row), newton(**by_row), newton(**by_row)]
        loops = {"loop0": strip.count, "loop1": strip.blocks, "uop_end": 1, "wgt1": 1, "scl1": 1}
        places = {"acc": strip.base, "acc0": 1, "acc1": strip.count, "src": strip.base, "src0": 1, "src1": strip.count}
        emit = {"emit": Emit.REQUANT, "out": strip.base, "clip_lo": -128, "clip_hi": 127}
        return [*result, normal(blocks=strip.blocks, **loops, **places, **emit)]

    return row_strips(builder, config, data, layer.output, ROWS, steps)
