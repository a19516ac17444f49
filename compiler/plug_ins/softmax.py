# SPDX-License-Identifier: Apache-2.0
"""Softmax of rows: their largest elements, the sums of powers of two, the logarithms of these, and
the shares, each a pass over the rows of a strip.

What it computes is `definitions.row_softmax`. A row of the state has a row of each of the batch:
its largest element, and the sum of its terms, in whose place comes the logarithm.
"""

import vdla
from vdla import te
from vdla.compiler.layer_programs import row_pieces, row_strips
from vdla.compiler.operators.definitions.row_softmax import FACTOR_BITS, distance, logarithm, share, term
from vdla.isa import Buffer, Emit, Load, PlugInField, isa_of

ROWS = 64
"""The rows of a strip at most."""
DATAPATH = """
// Contract: a step a cycle, of the logarithm in three cycles. The largest element of a row is there
// four cycles after its step, a sum 10 + $clog2(BlockOut), and a share is out nine cycles after its
// step. Functions of ten bits are tables in block memories, one a lane and one for the logarithm.

module ext_softmax
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = 64,
  localparam int unsigned FactorBits = 18,
  localparam int unsigned CountBits = $clog2(BlockOut) + 1,
  localparam int unsigned Levels = $clog2(BlockOut),
  localparam int unsigned SumBits = 16 + Levels,
  localparam int unsigned Fours = (BlockOut + 3) / 4,
  localparam int unsigned Summed = 9 + Levels
) (
  input  logic clk_i,
  input  logic rst_ni,
  input  logic softmax_valid_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic softmax_begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] softmax_src_i,
  input  logic [5:0] softmax_softmax_rows_row_i,
  input  logic [FactorBits-1:0] softmax_factor_i,
  input  logic softmax_clear_valid_i,
  input  logic [5:0] softmax_clear_softmax_rows_row_i,
  input  logic softmax_most_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] softmax_most_src_i,
  input  logic [5:0] softmax_most_softmax_rows_row_i,
  input  logic [CountBits-1:0] softmax_most_count_i,
  input  logic softmax_total_valid_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] softmax_total_src_i,
  input  logic [5:0] softmax_total_softmax_rows_row_i,
  input  logic [FactorBits-1:0] softmax_total_factor_i,
  input  logic [CountBits-1:0] softmax_total_count_i,
  input  logic softmax_log_valid_i,
  input  logic [5:0] softmax_log_softmax_rows_row_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] softmax_result_o
);

  typedef logic [InpBits-1:0] element_t;
  localparam element_t Lowest = element_t'(1 << (InpBits - 1));

  // Of the ten bits behind a whole part: a power of two, and what a logarithm lies above the bits.
  function automatic logic [15:0] power_of(int unsigned k);
    power_of = 16'(32768 - (((1374 - ((11 * k) >> 5)) * k) >> 6));
  endfunction

  function automatic logic [15:0] bend_of(int unsigned k);
    bend_of = 16'(((((1024 - k) * k) >> 8) * (432 - ((162 * k) >> 10))) >> 6);
  endfunction

  // --- the step in each stage; stage 1 has the inputs of the cycle before

  logic [3:1] most_q;
  logic [Summed:1] total_q;
  logic [Summed:1][5:0] row_q;
  logic [8:1][BlockOut-1:0] among_q;  // the elements that are in the row
  logic [2:1][FactorBits-1:0] factor_q;
  logic [FactorBits-1:0] factor_q3;
  logic [FactorBits+1:0] three_q3;
  logic [4:1] share_q;
  element_t [2:1][Batch-1:0][BlockOut-1:0] x_q;

  always_ff @(posedge clk_i) begin
    most_q <= {most_q[2:1], rst_ni && softmax_most_valid_i};
    total_q <= {total_q[Summed-1:1], rst_ni && softmax_total_valid_i};
    share_q <= {share_q[3:1], softmax_valid_i};
    row_q <= {row_q[Summed-1:1], softmax_valid_i ? softmax_softmax_rows_row_i :
        softmax_total_valid_i ? softmax_total_softmax_rows_row_i : softmax_most_softmax_rows_row_i};
    among_q[8:2] <= among_q[7:1];
    for (int unsigned o = 0; o < BlockOut; o++) begin
      among_q[1][o] <= o < 32'(softmax_total_valid_i ? softmax_total_count_i : softmax_most_count_i);
    end
    factor_q <= {factor_q[1], softmax_valid_i ? softmax_factor_i : softmax_total_factor_i};
    factor_q3 <= factor_q[2];
    three_q3 <= (FactorBits + 2)'(factor_q[2]) + {1'b0, factor_q[2], 1'b0};
    x_q <= {x_q[1], softmax_valid_i ? softmax_src_i :
        softmax_total_valid_i ? softmax_total_src_i : softmax_most_src_i};
  end

  // The multipliers of the machine are in its array: a product is the sum of multiples, two bits each.
  function automatic logic [FactorBits+1:0] multiple(
      logic [1:0] digit, logic [FactorBits-1:0] factor, logic [FactorBits+1:0] three);
    multiple = digit[1] ? (digit[0] ? three : {1'b0, factor, 1'b0}) : digit[0] ? {2'b0, factor} : '0;
  endfunction

  // --- the logarithm of a sum, in three cycles

  logic [2:1] log_q;
  logic [5:0] log_row_q[2:1];

  always_ff @(posedge clk_i) begin
    log_q <= {log_q[1], rst_ni && softmax_log_valid_i};
    log_row_q[1] <= softmax_log_softmax_rows_row_i;
    log_row_q[2] <= log_row_q[1];
  end

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    element_t most[Rows];
    logic [31:0] total[Rows];

    // --- the largest element: of four, of an entry, then that of the row

    element_t [BlockOut-1:0] of_four;
    element_t [Fours-1:0] of_four_q, of_entry;
    element_t of_entry_q, held, held3;

    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) of_four[o] = among_q[1][o] ? x_q[1][b][o] : Lowest;
      for (int unsigned step = 1; step < 4 && step < BlockOut; step *= 2) begin
        for (int unsigned o = 0; o < BlockOut; o += 2 * step) begin
          if ($signed(of_four[o+step]) > $signed(of_four[o])) of_four[o] = of_four[o+step];
        end
      end
    end
    always_comb begin
      of_entry = of_four_q;
      for (int unsigned step = 1; step < Fours; step *= 2) begin
        for (int unsigned k = 0; k < Fours; k += 2 * step) begin
          if ($signed(of_entry[k+step]) > $signed(of_entry[k])) of_entry[k] = of_entry[k+step];
        end
      end
    end
    assign held = most[row_q[2]];
    assign held3 = most[row_q[3]];

    always_ff @(posedge clk_i) begin
      for (int unsigned k = 0; k < Fours; k++) of_four_q[k] <= of_four[4*k];
      of_entry_q <= of_entry[0];
      if (softmax_clear_valid_i) most[softmax_clear_softmax_rows_row_i] <= Lowest;
      else if (most_q[3] && $signed(of_entry_q) > $signed(held3)) most[row_q[3]] <= of_entry_q;
    end

    // --- the logarithm: the whole part, the part behind it, and the bend of that

    logic [31:0] summed;
    logic [3:0] bits, bits_q[2:1];
    logic [9:0] part, part_q[2:1];
    logic [15:0] bend_q;
    logic [15:0] bends[1024];

    initial for (int unsigned k = 0; k < 1024; k++) bends[k] = bend_of(k);

    assign summed = total[softmax_log_softmax_rows_row_i];
    always_comb begin
      bits = '0;
      for (int unsigned k = 16; k < 31; k++) if (!summed[31] && summed[k]) bits = 4'(k - 15);
    end
    assign part = 10'(32'($signed(summed) >>> (bits + 5'd5)));

    always_ff @(posedge clk_i) begin
      {bits_q[2], bits_q[1]} <= {bits_q[1], bits};
      {part_q[2], part_q[1]} <= {part_q[1], part};
      bend_q <= bends[part_q[1]];
    end

    // --- powers: of an exponent, the whole part is a shift

    logic [BlockOut-1:0][15:0] terms_q;
    logic [31:0] offset_q4, offset_q5;

    always_ff @(posedge clk_i) begin
      offset_q4 <= share_q[3] ? total[row_q[3]] : '0;
      offset_q5 <= offset_q4;
    end

    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [7:0] below_q3;
      logic [FactorBits+3:0] low_q4, high_q4;
      logic [25:0] steps_q5;
      logic [31:0] exponent_q6;
      logic [9:0] place_q7;
      logic [4:0] shift, shift_q7, shift_q8;
      logic [15:0] power_q8, powers[1024];
      logic [24:0] shifted, share_q9;

      initial for (int unsigned k = 0; k < 1024; k++) powers[k] = power_of(k);

      assign shift = exponent_q6[31] ? '0 : |exponent_q6[30:21] ? '1 : exponent_q6[20:16];
      assign shifted = {power_q8, 9'd0} >> shift_q8;

      always_ff @(posedge clk_i) begin
        below_q3 <= 8'($signed(held)) - 8'($signed(x_q[2][b][o]));
        low_q4 <= (FactorBits + 4)'(multiple(below_q3[1:0], factor_q3, three_q3))
            + {multiple(below_q3[3:2], factor_q3, three_q3), 2'd0};
        high_q4 <= (FactorBits + 4)'(multiple(below_q3[5:4], factor_q3, three_q3))
            + {multiple(below_q3[7:6], factor_q3, three_q3), 2'd0};
        steps_q5 <= 26'(low_q4) + {high_q4, 4'd0};
        exponent_q6 <= 32'(steps_q5) + offset_q5;
        place_q7 <= exponent_q6[15:6];
        shift_q7 <= shift;
        power_q8 <= powers[place_q7];
        shift_q8 <= shift_q7;
        terms_q[o] <= among_q[8][o] ? shifted[24:9] : '0;
        share_q9 <= shifted;
      end

      assign softmax_result_o[b][o] = 32'(share_q9);
    end

    // --- the sum of an entry, a level of additions a cycle

    logic [Levels:0][BlockOut-1:0][SumBits-1:0] level_q;

    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) level_q[0][o] = SumBits'(terms_q[o]);
    end
    for (genvar k = 1; k <= int'(Levels); k++) begin : gen_level
      always_ff @(posedge clk_i) begin
        level_q[k] <= '0;
        for (int unsigned o = 0; o < BlockOut >> k; o++) begin
          level_q[k][o] <= level_q[k-1][2*o] + level_q[k-1][2*o+1];
        end
      end
    end

    always_ff @(posedge clk_i) begin
      if (softmax_clear_valid_i) total[softmax_clear_softmax_rows_row_i] <= '0;
      else if (total_q[Summed]) total[row_q[Summed]] <= total[row_q[Summed]] + 32'(level_q[Levels][0]);
      else if (log_q[2]) total[log_row_q[2]] <= 32'({bits_q[2], part_q[2], 6'd0}) + 32'(bend_q);
    end
  end

endmodule
"""


def declare(config):
    entry, lanes = (config.batch, config.block_out), config.block_out
    rows = vdla.State("softmax_rows", rows=ROWS, shape=(config.batch, 2), dtype="int32")
    x, row = te.placeholder(entry, config.inp_dtype, "x"), te.placeholder(rows.shape, "int32", "row")
    factor, count = (te.placeholder((1,), "int32", name) for name in ("factor", "count"))
    factor_field = PlugInField("factor", FACTOR_BITS, "The exponent of one step of an element.")
    count_field = PlugInField("count", lanes.bit_length(), "The elements of an entry that are in the row.")
    lowest = -(1 << (config.inp_bits - 1))
    k = te.reduce_axis(lanes, "k")

    def below(b, o):
        return distance(row[b, 0], x[b, o])

    def most(b, i):
        element = te.select(te.all_of(i < 1, k < count[0]), te.cast("int32", x[b, k]), lowest)
        return te.max(element, axis=k, init=row[b, i])

    def total(b, i):
        element = te.select(te.all_of(i > 0, k < count[0]), term(below(b, k) * factor[0]), 0)
        return te.sum(element, axis=k, init=row[b, i])

    shared = {"x": "inp", "row": rows}
    return [
        vdla.Extension(
            name="softmax",
            doc="The shares of elements in the sums of their rows.",
            output=te.compute(entry, lambda b, o: share(below(b, o) * factor[0] + row[b, 1]), "acc"),
            scopes={**shared, "factor": "immediate", "acc": "acc"},
            fields=[factor_field],
            latency=9,
            datapath=DATAPATH,
            wide=True,
            program=program,
        ),
        vdla.Extension(
            name="softmax_clear",
            doc="Begins rows: the least element, and no sum.",
            scopes={},
            updates={
                rows: te.compute(rows.shape, lambda b, i: te.select(i < 1, te.const(lowest, "int32"), 0), "cleared")
            },
            wide=True,
        ),
        vdla.Extension(
            name="softmax_most",
            doc="Keeps the largest element of each row.",
            scopes={**shared, "count": "immediate"},
            updates={rows: te.compute(rows.shape, most, "most")},
            fields=[count_field],
            wide=True,
        ),
        vdla.Extension(
            name="softmax_total",
            doc="Adds the powers of two of the elements of each row.",
            scopes={**shared, "factor": "immediate", "count": "immediate"},
            updates={rows: te.compute(rows.shape, total, "total")},
            fields=[factor_field, count_field],
            latency=6 + (lanes - 1).bit_length(),
            wide=True,
        ),
        vdla.Extension(
            name="softmax_log",
            doc="Replaces the sum of each row by its logarithm.",
            scopes={"row": rows},
            updates={
                rows: te.compute(rows.shape, lambda b, i: te.select(i < 1, row[b, 0], logarithm(row[b, 1])), "log")
            },
            interval=3,
            wide=True,
        ),
    ]


def program(layer, config):
    """The program of a `row_softmax`; a LayerError says why there is none."""
    layer.require("row_softmax")
    data, scale = layer.inputs
    names = ("softmax", "softmax_clear", "softmax_most", "softmax_total", "softmax_log")
    share_of, clear, most, total, log = (isa_of(config).format_named(name).cls for name in names)
    factor = {"factor": layer.options["factor"]}
    builder = vdla.ProgramBuilder(config, "softmax")
    builder.input(te.compute((1, config.block_out), lambda _, o: scale[o * 0], "scales"), "weight")
    builder.add([Load(Buffer.SCL, x_size=1)], "scales")

    def steps(strip):
        by_row = {"loop0": strip.count, "acc0": 1, "uop_end": 1}
        result = [clear(**by_row)]
        for step, fields in ((most, {}), (total, factor)):
            for piece in row_pieces(data.shape[-1], config.block_out):
                result.append(
                    step(
                        **fields,
                        count=piece.elements,
                        loop0=piece.blocks,
                        loop1=strip.count,
                        src=strip.base + piece.first * strip.count,
                        src0=strip.count,
                        src1=1,
                        acc1=1,
                        uop_end=1,
                    )
                )
        result.append(log(**by_row))
        loops = {"loop0": strip.blocks, "loop1": strip.count, "uop_end": 1}
        places = {"src": strip.base, "src0": strip.count, "src1": 1, "acc": strip.base, "acc0": strip.count, "acc1": 1}
        emit = {"emit": Emit.REQUANT, "out": strip.base, "clip_lo": -128, "clip_hi": 127}
        return [*result, share_of(**factor, **loops, **places, **emit, wgt1=1)]

    return row_strips(builder, config, data, layer.output, ROWS, steps)
