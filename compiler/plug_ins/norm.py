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
// Contract: a step a cycle of sums, first estimates and normal numbers, which are out seven cycles after
// their step. A row is there 4 + $clog2(BlockOut) cycles after its sums, four after its estimate, and
// after the interval of the other steps, which share one multiplier that takes 16 bits a cycle.

module ext_norm
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = 64,
  localparam int unsigned CountBits = $clog2(BlockOut) + 1,
  localparam int unsigned Levels = $clog2(BlockOut),
  localparam int unsigned SumBits = 8 + Levels,
  localparam int unsigned SquareBits = 15 + Levels,
  localparam int unsigned Summed = 3 + Levels
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

  // The multipliers of the machine are in its array: a product is the sum of multiples.
  function automatic logic [47:0] product(logic [31:0] a, logic [15:0] b);
    logic [15:0][47:0] terms;
    for (int unsigned k = 0; k < 16; k++) terms[k] = b[k] ? 48'(signed'(a)) << k : '0;
    for (int unsigned step = 1; step < 16; step *= 2) begin
      for (int unsigned k = 0; k < 16; k += 2 * step) terms[k] += terms[k+step];
    end
    product = terms[0];
  endfunction

  function automatic logic [14:0] multiple(logic [1:0] digit, logic [12:0] factor, logic [14:0] three);
    multiple = digit[1] ? (digit[0] ? three : {1'b0, factor, 1'b0}) : digit[0] ? {2'b0, factor} : '0;
  endfunction

  function automatic logic [20:0] part_of_normal(logic [13:0] a, logic [6:0] b);
    logic [7:0][20:0] terms;
    terms = '0;
    for (int unsigned k = 0; k < 7; k++) terms[k] = b[k] ? 21'(a) << k : '0;
    for (int unsigned step = 1; step < 8; step *= 2) begin
      for (int unsigned k = 0; k < 8; k += 2 * step) terms[k] += terms[k+step];
    end
    part_of_normal = terms[0];
  endfunction

  function automatic logic [3:0] places(logic [31:0] spread);
    places = '0;
    for (int unsigned k = 1; k < 16; k++) if (!spread[31] && |(spread >> (2 * k))) places = 4'(k);
  endfunction

  function automatic logic [15:0] mantissa(logic [31:0] spread, logic [3:0] bits);
    mantissa = 16'(bits < 7 ? spread << {4'd7 - bits, 1'b0} : 32'($signed(spread) >>> {bits - 4'd7, 1'b0}));
  endfunction

  function automatic logic [14:0] line(logic [15:0] mantissa);
    line = mantissa[15] ? 15'(21'd14320 - ((21'({mantissa, 2'd0}) + 21'({mantissa, 1'b0})) >> 6)) :
        15'(21'd20600 - ((21'({mantissa, 4'd0}) + 21'({mantissa, 1'b0})) >> 6));
  endfunction

  function automatic logic signed [13:0] in_range(logic [31:0] mean);
    in_range = $signed(mean) > 8191 ? 14'sd8191 : $signed(mean) < -8192 ? -14'sd8192 : 14'(mean);
  endfunction

  // Squares of sizes below 128: that of 128 has the one bit above them.
  (* rom_style = "logic" *)
  logic [13:0] squares[128];
  initial for (int unsigned k = 0; k < 128; k++) squares[k] = 14'(k * k);

  // --- the steps of rows: number k of their cycles, and the row

  logic [Summed:1] sums_q;
  logic [6:1] mean_q;
  logic [4:1] spread_q;
  logic [3:1] root_q;
  logic [6:1] newton_q;
  logic [Summed:1][5:0] sums_row_q;
  logic [5:0] row, row_q1, row_q2, row_q3;
  logic begins;

  assign begins = norm_mean_valid_i || norm_spread_valid_i || norm_root_valid_i || norm_newton_valid_i;
  assign row = norm_mean_valid_i ? norm_mean_norm_rows_row_i : norm_spread_valid_i ? norm_spread_norm_rows_row_i :
      norm_root_valid_i ? norm_root_norm_rows_row_i : norm_newton_norm_rows_row_i;

  always_ff @(posedge clk_i) begin
    sums_q <= {sums_q[Summed-1:1], rst_ni && norm_sums_valid_i};
    mean_q <= {mean_q[5:1], rst_ni && norm_mean_valid_i};
    spread_q <= {spread_q[3:1], rst_ni && norm_spread_valid_i};
    root_q <= {root_q[2:1], rst_ni && norm_root_valid_i};
    newton_q <= {newton_q[5:1], rst_ni && norm_newton_valid_i};
    sums_row_q <= {sums_row_q[Summed-1:1], norm_sums_norm_rows_row_i};
    if (begins) row_q1 <= row;
    row_q2 <= row_q1;
    row_q3 <= row_q2;
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

  logic [BlockOut-1:0] among_q;  // the elements of sums that are in the row
  logic [20:0] over_q;
  logic [4:0] shift_q;
  logic centred_q;
  logic [15:0] least_q;

  always_ff @(posedge clk_i) begin
    for (int unsigned o = 0; o < BlockOut; o++) among_q[o] <= o < 32'(norm_sums_count_i);
    if (norm_mean_valid_i) begin
      over_q <= norm_mean_over_i;
      shift_q <= norm_mean_shift_i;
      centred_q <= norm_mean_centred_i;
    end
    least_q <= norm_spread_least_i;
  end

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    logic [31:0] mean[Rows], spread[Rows];
    logic [14:0] root[Rows];

    // --- sums of elements and squares, a level of additions a cycle

    logic [BlockOut-1:0][InpBits-1:0] element_q, signed_q2, signed_q3;
    logic [BlockOut-1:0][7:0] size_q2;
    logic [BlockOut-1:0][14:0] square_q3;
    logic [Levels:0][BlockOut-1:0][SumBits-1:0] sum_q;
    logic [Levels:0][BlockOut-1:0][SquareBits-1:0] squares_q;

    always_ff @(posedge clk_i) begin
      element_q <= norm_sums_src_i[b];
      for (int unsigned o = 0; o < BlockOut; o++) begin
        size_q2[o] <= !among_q[o] ? '0 : element_q[o][InpBits-1] ? 8'(-element_q[o]) : 8'(element_q[o]);
        signed_q2[o] <= among_q[o] ? element_q[o] : '0;
        square_q3[o] <= {size_q2[o][7], squares[size_q2[o][6:0]]};
      end
      signed_q3 <= signed_q2;
    end

    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) begin
        sum_q[0][o] = SumBits'(signed'(signed_q3[o]));
        squares_q[0][o] = SquareBits'(square_q3[o]);
      end
    end
    for (genvar k = 1; k <= int'(Levels); k++) begin : gen_level
      always_ff @(posedge clk_i) begin
        sum_q[k] <= '0;
        squares_q[k] <= '0;
        for (int unsigned o = 0; o < BlockOut >> k; o++) begin
          sum_q[k][o] <= sum_q[k-1][2*o] + sum_q[k-1][2*o+1];
          squares_q[k][o] <= squares_q[k-1][2*o] + squares_q[k-1][2*o+1];
        end
      end
    end

    // --- the multiplier: a_q times 16 bits; means take two products, that with the upper bits first

    logic [31:0] a_q, held_q, held_q2, quotient_q;
    logic [15:0] chunk_q, mantissa_q2, mantissa_q3;
    logic [47:0] part_q;
    logic signed [36:0] upper_q;
    logic signed [52:0] total;
    logic [3:0] held_bits_q2;
    logic [14:0] last_q;
    logic signed [13:0] middle;
    logic [13:0] distance;

    assign middle = in_range(a_q);
    assign distance = middle[13] ? -middle : middle;
    assign mantissa_q2 = mantissa(held_q2, held_bits_q2);
    assign total = (53'(upper_q) << 16) + 53'(signed'(part_q));

    always_ff @(posedge clk_i) begin
      // A row, and what is computed with it.
      if (begins) begin
        held_q <= spread[row];
        last_q <= root[row];
      end else if (spread_q[1]) begin
        held_q <= held_q + 32'(least_q);
      end else if (spread_q[3]) begin
        held_q <= held_q - total[31:0];
      end
      held_q2 <= held_q;
      held_bits_q2 <= places(held_q);
      mantissa_q3 <= mantissa_q2;

      // The operands, in the cycle before their product.
      if (begins) a_q <= norm_newton_valid_i ? 32'(root[row]) : mean[row];
      else if (mean_q[2]) a_q <= held_q;
      else if (spread_q[1]) a_q <= 32'(distance);
      else if (newton_q[2]) a_q <= 32'(total[29:14]);
      else if (newton_q[4]) a_q <= 32'd49152 - 32'($signed(total[31:0]) >>> 14);

      if (norm_mean_valid_i) chunk_q <= 16'(norm_mean_over_i[20:16]);
      else if (norm_newton_valid_i) chunk_q <= 16'(root[row]);
      else if (mean_q[2]) chunk_q <= 16'(over_q[20:16]);
      else if (mean_q[1] || mean_q[3]) chunk_q <= over_q[15:0];
      else if (spread_q[1]) chunk_q <= 16'(distance);
      else if (newton_q[2]) chunk_q <= mantissa_q2;
      else if (newton_q[4]) chunk_q <= 16'(last_q);

      part_q <= product(a_q, chunk_q);
      upper_q <= mean_q[2] || mean_q[4] ? 37'(part_q) : '0;
      quotient_q <= 32'(total >>> (6'(shift_q) + (mean_q[3] ? 6'd14 : 6'd8)));
    end

    // --- rows

    always_ff @(posedge clk_i) begin
      if (norm_clear_valid_i) mean[norm_clear_norm_rows_row_i] <= '0;
      else if (sums_q[Summed]) begin
        mean[sums_row_q[Summed]] <= mean[sums_row_q[Summed]] + 32'(signed'(sum_q[Levels][0]));
      end else if (mean_q[4]) mean[row_q3] <= centred_q ? quotient_q : '0;

      if (norm_clear_valid_i) spread[norm_clear_norm_rows_row_i] <= '0;
      else if (sums_q[Summed]) begin
        spread[sums_row_q[Summed]] <= spread[sums_row_q[Summed]] + 32'(squares_q[Levels][0]);
      end else if (mean_q[6]) spread[row_q3] <= quotient_q;
      else if (spread_q[4]) spread[row_q3] <= $signed(held_q) > 0 ? held_q : 32'd1;

      if (norm_clear_valid_i) root[norm_clear_norm_rows_row_i] <= '0;
      else if (mean_q[6] || spread_q[4]) root[row_q3] <= '0;
      else if (root_q[3]) root[row_q3] <= line(mantissa_q3);
      else if (newton_q[6]) root[row_q3] <= 15'($signed(total[31:0]) >>> 15);
    end

    // --- normal numbers: elements and means, both without a sign, times one over the deviation

    logic [31:0] row_mean_q1, row_spread_q1;
    logic [12:0] inverse_q1, inverse_q2;
    logic [14:0] three_q2;
    logic [13:0] middle_q2;
    logic [20:0] low_q3, high_q3;
    logic [26:0] middle_q4;
    logic [3:0] bits_q2, bits_q3, bits_q4, bits_q5;
    logic [BlockOut-1:0][InpBits-1:0] x_q1;
    logic [BlockOut-1:0][7:0] x_q2;

    always_ff @(posedge clk_i) begin
      row_mean_q1 <= mean[at_row_q];
      row_spread_q1 <= spread[at_row_q];
      inverse_q1 <= root[at_row_q][14:2];
      x_q1 <= norm_src_i[b];
      middle_q2 <= in_range(row_mean_q1) ^ 14'h2000;
      bits_q2 <= places(row_spread_q1);
      inverse_q2 <= inverse_q1;
      three_q2 <= 15'(inverse_q1) + {1'b0, inverse_q1, 1'b0};
      for (int unsigned o = 0; o < BlockOut; o++) x_q2[o] <= 8'(signed'(x_q1[o])) ^ 8'h80;
      {bits_q5, bits_q4, bits_q3} <= {bits_q4, bits_q3, bits_q2};
      low_q3 <= part_of_normal(middle_q2, inverse_q2[6:0]);
      high_q3 <= part_of_normal(middle_q2, 7'(inverse_q2[12:7]));
      middle_q4 <= 27'(low_q3) + 27'({high_q3, 7'd0});
    end

    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [16:0] lower_q3, upper_q3;
      logic [20:0] element_q4;
      logic signed [27:0] product_q5, normal_q6;
      logic signed [28:0] result_q7;

      always_ff @(posedge clk_i) begin
        lower_q3 <= 17'(multiple(x_q2[o][1:0], inverse_q2, three_q2))
            + {multiple(x_q2[o][3:2], inverse_q2, three_q2), 2'd0};
        upper_q3 <= 17'(multiple(x_q2[o][5:4], inverse_q2, three_q2))
            + {multiple(x_q2[o][7:6], inverse_q2, three_q2), 2'd0};
        element_q4 <= 21'(lower_q3) + {upper_q3, 4'd0};
        product_q5 <= 28'({element_q4, 6'd0}) - 28'(middle_q4);
        normal_q6 <= product_q5 >>> bits_q5;
        result_q7 <= negative_q[6][o] ? -29'(normal_q6) : 29'(normal_q6);
      end

      assign norm_result_o[b][o] = 32'(result_q7);
    end
  end

endmodule
"""


def declare(config):
    rows = vdla.State("norm_rows", rows=ROWS, shape=(config.batch, 3), dtype="int32")
    position = vdla.State("norm_position", rows=1, shape=(2,), dtype="int32")
    clears = {
        state: te.compute(state.shape, lambda *i: te.const(0, "int32"), f"no_{state.name}")
        for state in (rows, position)
    }
    return [
        normal(config, rows, position),
        vdla.Extension(
            name="norm_clear",
            doc="Begins rows, with sums of 0, and the count of rows.",
            scopes={},
            updates=clears,
            wide=True,
        ),
        sums(config, rows),
        *estimates(rows),
    ]


def normal(config, rows, position):
    """The instruction whose results are normal numbers."""
    entry = (config.batch, config.block_out)
    x, sign = te.placeholder(entry, config.inp_dtype, "x"), te.placeholder(entry[1:], config.wgt_dtype, "sign")
    every, at = te.placeholder((ROWS, *rows.shape), "int32", "every"), te.placeholder((2,), "int32", "at")
    blocks = te.placeholder((1,), "int32", "blocks")

    def number(b, o):
        mean, variance, inverse = (every[at[0] & (ROWS - 1), b, i] for i in range(3))
        return of_sign(normal_number(te.cast("int32", x[b, o]), mean, inverse, places_of(variance)), sign[o])

    def moved(i):
        last = at[1] + 1 >= blocks[0]
        return te.select(i < 1, at[0] + te.cast("int32", last), te.select(last, 0, at[1] + 1))

    return vdla.Extension(
        name="norm",
        doc="Elements less the mean of their row, over its deviation.",
        output=te.compute(entry, number, "acc"),
        scopes={"x": "inp", "every": rows, "at": position, "sign": "wgt", "blocks": "immediate", "acc": "acc"},
        updates={position: te.compute((2,), moved, "moved")},
        fields=[PlugInField("blocks", 12, "The entries of a row.")],
        latency=7,
        datapath=DATAPATH,
        wide=True,
        program=program,
    )


def sums(config, rows):
    """The instruction that adds elements to the sums of their row."""
    lanes = config.block_out
    x, row = te.placeholder((config.batch, lanes), config.inp_dtype, "x"), te.placeholder(rows.shape, "int32", "row")
    count, k = te.placeholder((1,), "int32", "count"), te.reduce_axis(lanes, "k")

    def summed(b, i):
        element = te.select(k < count[0], te.cast("int32", x[b, k]), 0)
        return te.sum(te.select(i < 1, element, te.select(i < 2, element * element, 0)), axis=k, init=row[b, i])

    return vdla.Extension(
        name="norm_sums",
        doc="Adds elements and their squares by row.",
        scopes={"x": "inp", "row": rows, "count": "immediate"},
        updates={rows: te.compute(rows.shape, summed, "sums")},
        fields=[PlugInField("count", lanes.bit_length(), "The elements of an entry that are in the row.")],
        latency=(lanes - 1).bit_length(),
        wide=True,
    )


def estimates(rows):
    """The instructions that take a row from its sums to one over its deviation."""
    row = te.placeholder(rows.shape, "int32", "row")
    centred, least = (te.placeholder((1,), "int32", name) for name in ("centred", "least"))
    over, shift = (te.placeholder((1,), "int64", name) for name in ("over", "shift"))

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

    def step(update, interval, latency, doc, *fields):
        return vdla.Extension(
            name=f"norm_{update.__name__}",
            doc=doc,
            scopes={"row": rows} | {field.name: "immediate" for field in fields},
            updates={rows: te.compute(rows.shape, update, f"norm_{update.__name__}")},
            fields=fields,
            interval=interval,
            latency=latency,
            wide=True,
        )

    means = (
        PlugInField("over", COUNT_BITS + 1, "One over the number of features."),
        PlugInField("shift", 5, "The bits of that number."),
        PlugInField("centred", 1, "Whether the mean counts."),
    )
    epsilon = PlugInField("least", LEAST_BITS, "What is added to a variance.")
    return [
        step(mean, 7, 3, "Replaces the sums of each row by its mean and the mean of its squares.", *means),
        step(spread, 5, 1, "Replaces the mean of squares of each row by its variance.", epsilon),
        step(root, 1, 0, "One over the deviation of each row, a first estimate."),
        step(newton, 7, 3, "One over the deviation of each row, a step nearer."),
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
