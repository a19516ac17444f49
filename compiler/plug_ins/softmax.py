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
// three cycles after its step, a sum ten, and a share is out eight cycles after its step.

module ext_softmax
  import vdla_pkg::*;
#(
  localparam int unsigned Rows = 64,
  localparam int unsigned FactorBits = 18,
  localparam int unsigned CountBits = $clog2(BlockOut) + 1
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

  // Products by additions: the multipliers of the machine are in its array.
  function automatic logic [25:0] steps_of(logic [7:0] below, logic [FactorBits-1:0] factor);
    logic [7:0][25:0] terms;
    for (int unsigned k = 0; k < 8; k++) terms[k] = below[k] ? 26'(factor) << k : '0;
    for (int unsigned step = 1; step < 8; step *= 2) begin
      for (int unsigned k = 0; k < 8; k += 2 * step) terms[k] += terms[k+step];
    end
    steps_of = terms[0];
  endfunction

  function automatic logic [20:0] product(logic [10:0] a, logic [9:0] b);
    logic [15:0][20:0] terms;
    terms = '0;
    for (int unsigned k = 0; k < 10; k++) terms[k] = b[k] ? 21'(a) << k : '0;
    for (int unsigned step = 1; step < 16; step *= 2) begin
      for (int unsigned k = 0; k < 16; k += 2 * step) terms[k] += terms[k+step];
    end
    product = terms[0];
  endfunction

  // --- the step in each stage; stage 1 has the inputs of the cycle before

  logic [9:1] most_q, total_q;
  logic [9:1][5:0] row_q;
  logic [7:1][CountBits-1:0] count_q;
  logic [3:1][FactorBits-1:0] factor_q;
  logic [4:1] share_q;
  element_t [2:1][Batch-1:0][BlockOut-1:0] x_q;

  always_ff @(posedge clk_i) begin
    most_q <= {most_q[8:1], rst_ni && softmax_most_valid_i};
    total_q <= {total_q[8:1], rst_ni && softmax_total_valid_i};
    share_q <= {share_q[3:1], softmax_valid_i};
    row_q <= {row_q[8:1], softmax_valid_i ? softmax_softmax_rows_row_i :
        softmax_total_valid_i ? softmax_total_softmax_rows_row_i : softmax_most_softmax_rows_row_i};
    count_q <= {count_q[6:1], softmax_total_valid_i ? softmax_total_count_i : softmax_most_count_i};
    factor_q <= {factor_q[2:1], softmax_valid_i ? softmax_factor_i : softmax_total_factor_i};
    x_q <= {x_q[1], softmax_valid_i ? softmax_src_i :
        softmax_total_valid_i ? softmax_total_src_i : softmax_most_src_i};
  end

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

    // --- the largest element: among those of an entry, then that of the row

    element_t [BlockOut-1:0] largest;
    element_t largest_q, held;
    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) largest[o] = o < 32'(count_q[1]) ? x_q[1][b][o] : Lowest;
      for (int unsigned step = 1; step < BlockOut; step *= 2) begin
        for (int unsigned o = 0; o < BlockOut; o += 2 * step) begin
          if ($signed(largest[o+step]) > $signed(largest[o])) largest[o] = largest[o+step];
        end
      end
    end
    assign held = most[row_q[2]];

    always_ff @(posedge clk_i) begin
      largest_q <= largest[0];
      if (softmax_clear_valid_i) most[softmax_clear_softmax_rows_row_i] <= Lowest;
      else if (most_q[2] && $signed(largest_q) > $signed(held)) most[row_q[2]] <= largest_q;
    end

    // --- the logarithm: the whole part, the part behind it, and the bend of that

    logic [31:0] summed;
    logic [3:0] bits, bits_q[2:1];
    logic [9:0] part, part_q[2:1];
    logic [10:0] curve, curve_q;
    logic [8:0] slope, slope_q;
    logic [20:0] bend;

    assign summed = total[softmax_log_softmax_rows_row_i];
    always_comb begin
      bits = '0;
      for (int unsigned k = 16; k < 31; k++) if (!summed[31] && summed[k]) bits = 4'(k - 15);
    end
    assign part = 10'(32'($signed(summed) >>> (bits + 5'd5)));
    assign curve = 11'(product(11'd1024 - 11'(part_q[1]), part_q[1]) >> 8);
    assign slope = 9'(18'd432 - (({1'b0, part_q[1], 7'd0} + {3'd0, part_q[1], 5'd0} + {7'd0, part_q[1], 1'b0}) >> 10));
    assign bend = product(curve_q, 10'(slope_q));

    always_ff @(posedge clk_i) begin
      {bits_q[2], bits_q[1]} <= {bits_q[1], bits};
      {part_q[2], part_q[1]} <= {part_q[1], part};
      curve_q <= curve;
      slope_q <= slope;
    end

    // --- powers: of an exponent, the whole part is a shift

    logic [BlockOut-1:0][15:0] terms_q;
    logic [31:0] offset_q, entry_sum_q;
    logic [BlockOut-1:0][31:0] entry_sum;

    always_ff @(posedge clk_i) offset_q <= share_q[3] ? total[row_q[3]] : '0;

    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic [7:0] below_q;
      logic [25:0] steps_q;
      logic [31:0] exponent_q;
      logic [9:0] place_q;
      logic [10:0] line_q;
      logic [4:0] shift, shift_q[7:6];
      logic [15:0] power_q;
      logic [31:0] share_out_q;

      assign shift = exponent_q[31] ? '0 : |exponent_q[30:21] ? '1 : exponent_q[20:16];

      always_ff @(posedge clk_i) begin
        below_q <= 8'($signed(held)) - 8'($signed(x_q[2][b][o]));
        steps_q <= steps_of(below_q, factor_q[3]);
        exponent_q <= 32'(steps_q) + offset_q;
        place_q <= exponent_q[15:6];
        line_q <= 11'(14'd1374 - (({1'b0, exponent_q[15:6], 3'd0} + {3'd0, exponent_q[15:6], 1'b0}
            + {4'd0, exponent_q[15:6]}) >> 5));
        shift_q[6] <= shift;
        power_q <= 16'(21'd32768 - (product(line_q, place_q) >> 6));
        shift_q[7] <= shift_q[6];
        terms_q[o] <= o < 32'(count_q[7]) ? power_q >> shift_q[7] : '0;
        share_out_q <= {7'd0, power_q, 9'd0} >> shift_q[7];
      end

      assign softmax_result_o[b][o] = share_out_q;
    end

    always_comb begin
      for (int unsigned o = 0; o < BlockOut; o++) entry_sum[o] = 32'(terms_q[o]);
      for (int unsigned step = 1; step < BlockOut; step *= 2) begin
        for (int unsigned o = 0; o < BlockOut; o += 2 * step) entry_sum[o] += entry_sum[o+step];
      end
    end

    always_ff @(posedge clk_i) begin
      entry_sum_q <= entry_sum[0];
      if (softmax_clear_valid_i) total[softmax_clear_softmax_rows_row_i] <= '0;
      else if (total_q[9]) total[row_q[9]] <= total[row_q[9]] + entry_sum_q;
      else if (log_q[2]) begin
        total[log_row_q[2]] <= {12'(bits_q[2]), part_q[2], 6'd0} + 32'(bend >> 6);
      end
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
            latency=8,
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
            latency=6,
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
