# SPDX-License-Identifier: Apache-2.0
"""Rotary embedding of heads: products of elements, turned by some lanes, with factors of lanes.

What it computes is `definitions.rotary`. A result is a sum of steps: one with the cosines of an
entry's elements, and one with sines for each entry in which other elements of their pairs lie, and
each number of lanes by which these are apart. Sines of pairs that a step does not have are 0.
"""

from math import lcm

import vdla
from vdla import te
from vdla.compiler.layer_programs import row_strips
from vdla.compiler.operators.definitions.rotary import distance
from vdla.isa import Buffer, Emit, Load, MicroOp, PlugInField, isa_of

COSINES = (0, 0)
"""The step whose elements are those of the result."""
DATAPATH = """
// Contract: a step a cycle; a result three cycles after its step.

module ext_rotary
  import vdla_pkg::*;
#(
  localparam int unsigned LaneBits = $clog2(BlockOut)
) (
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][WgtBits-1:0] wgt_i,
  input  logic [LaneBits-1:0] turn_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  logic [BlockOut-1:0][7:0] factor_q;

  always_ff @(posedge clk_i) factor_q <= wgt_i;

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    logic [BlockOut-1:0][InpBits-1:0] turned, level, element_q;

    always_comb begin
      turned = src_i[b];
      for (int unsigned k = 0; k < LaneBits; k++) begin
        level = turned;
        for (int unsigned o = 0; o < BlockOut; o++) begin
          if (turn_i[k]) turned[o] = level[(o+(1<<k))%BlockOut];
        end
      end
    end

    always_ff @(posedge clk_i) element_q <= turned;

    // Products by additions: the multipliers of the machine are in its array.
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [7:0] element, factor;
      logic [7:0][15:0] part;
      logic [15:0] low_q, high_q, sum_q;

      assign element = element_q[o];
      assign factor = factor_q[o];
      for (genvar k = 0; k < 8; k++) begin : gen_part
        assign part[k] = !factor[k] ? '0 : k == 7 ? -(16'(element) << k) : 16'(element) << k;
      end
      always_ff @(posedge clk_i) begin
        low_q <= (part[0] + part[1]) + (part[2] + part[3]);
        high_q <= (part[4] + part[5]) + (part[6] + part[7]);
        sum_q <= low_q + high_q;
      end
      assign result_o[b][o] = 32'(signed'(sum_q));
    end
  end

endmodule
"""


def declare(config):
    if (config.inp_bits, config.wgt_bits) != (8, 8):
        raise ValueError(f"inputs and weights must have 8 bits, got {config.inp_bits} and {config.wgt_bits}")
    lanes = config.block_out
    if lanes < 2:
        raise ValueError(f"block_out must be at least 2, as a step turns lanes, got {lanes}")
    x = te.placeholder((config.batch, lanes), config.inp_dtype, "x")
    factor, turn = te.placeholder((lanes,), config.wgt_dtype, "factor"), te.placeholder((1,), "int32", "turn")
    one = te.reduce_axis(1, "one")

    def turned(b, o):
        element = te.cast("int32", x[b, (o + turn[0]) & (lanes - 1)])
        return te.sum(element * te.cast("int32", factor[o + 0 * one]), axis=one)

    return vdla.Extension(
        name="rotary",
        doc="Adds the elements of an entry, turned by some lanes, times a factor for each lane.",
        output=te.compute(x.shape, turned, "acc"),
        scopes={"x": "inp", "factor": "wgt", "turn": "immediate", "acc": "acc"},
        fields=[PlugInField("turn", (lanes - 1).bit_length(), "The lanes by which elements are turned.")],
        latency=3,
        datapath=DATAPATH,
        program=program,
    )


def program(layer, config):
    """The program of a `rotary`; a LayerError says why there is none."""
    layer.require("rotary")
    data, turns, scale = layer.inputs
    (matrices, rows, features), lanes = data.shape, config.block_out
    if matrices > 1:
        raise vdla.LayerError(f"matrices must be 1, whose rows are those of factors, got {matrices}")
    if config.batch > 1 and rows > 1:
        raise vdla.LayerError(f"rows must be 1, as rows of an entry share their factors, got {rows}")
    size, terms = layer.options["size"], terms_of(layer.options, features, lanes)
    period, blocks = len(terms), -(-features // lanes)
    kinds = sorted({term for several in terms for term in several}, key=lambda term: (term != COSINES, term))
    entries = -(-len(kinds) * period * rows // config.block_in)
    if entries > config.wgt_depth:
        raise vdla.LayerError(f"factors must fit the weight buffer, {config.wgt_depth} entries, got {entries}")
    builder = vdla.ProgramBuilder(config, "rotary")

    def factor(v, o):
        kind, block, row = v // (period * rows), v // rows % period, v % rows
        place, is_sine = (block * lanes + o) % size, te.minimum(kind, 1)
        apart, turn = (sum(term[i] * equal(kind, number) for number, term in enumerate(kinds)) for i in (0, 1))
        wrong = (apart * lanes + (o + turn) % lanes - o - distance(place, **pairs_of(layer.options))) * is_sine
        return te.select(te.all_of(wrong >= 0, wrong <= 0), turns[row * 0, row, place + size * is_sine], 0)

    builder.input(te.compute((entries * config.block_in, lanes), factor, "factors"), "weight")
    builder.input(te.compute((1, lanes), lambda _, o: scale[o * 0], "scales"), "weight")
    builder.add([Load(Buffer.WGT, x_size=entries)], "factors")
    builder.add([Load(Buffer.SCL, x_size=1)], "scales")
    step = isa_of(config).format_named("rotary").cls

    def steps(strip):
        result = []
        for block, several in enumerate(terms):
            for place, (apart, turn) in enumerate(several):
                count = len(range(block + max(apart, 0), blocks, period))
                at = int(place == 0) + 2 * int(place == len(several) - 1)
                here = strip.base + block * strip.count
                loops = {"loop0": count, "loop1": strip.count, "acc": here, "acc0": period * strip.count, "acc1": 1}
                source = {"src": here + apart * strip.count, "src0": period * strip.count, "src1": 1}
                first = (kinds.index((apart, turn)) * period + block) * rows + strip.first
                factors = {"wgt": first, "wgt1": 1}
                emit = {"emit": Emit.REQUANT, "out": here, "clip_lo": -128, "clip_hi": 127} if at >= 2 else {}
                if count:
                    options = {"turn": turn, "init": 1, "uop_begin": at, "uop_end": at + 1}
                    result.append(step(**options, **loops, **source, **factors, **emit))
        return result

    micro_ops = [MicroOp(first=first, last=last) for last in (0, 1) for first in (0, 1)]
    return row_strips(builder, config, data, layer.output, rows, steps, micro_ops)


def equal(value, number):
    """1 where a value is a number, else 0, in terms that an index may have."""
    return te.maximum(te.minimum(value - number + 1, number + 1 - value), 0)


def pairs_of(options):
    """The options that say which elements are a pair."""
    return {"turned": options["turned"], "interleaved": options["interleaved"]}


def terms_of(options, features, lanes):
    """The steps of each block of a period of heads: by how many blocks and lanes pairs are apart.

    The first one has the cosines; a step that reads blocks behind the last one, for elements that
    are none, is not the last.
    """
    size, turned, interleaved = (options[name] for name in ("size", "turned", "interleaved"))
    period, blocks = lcm(size, lanes) // lanes, -(-features // lanes)

    def partner_of(feature):
        place = feature % size
        if place >= turned:
            return None
        if interleaved:
            return feature + 1 - 2 * (place % 2)
        return feature + turned // 2 if place < turned // 2 else feature - turned // 2

    made = []
    for block in range(min(period, blocks)):
        apart = set()
        for lane in range(lanes):
            feature = block * lanes + lane
            partner = partner_of(feature)
            if partner is not None and feature < features:
                apart.add((partner // lanes - block, (partner - lane) % lanes))
        last_block = len(range(block, blocks, period)) * period - period + block
        ordered = sorted(apart, key=lambda term: (last_block + term[0] < blocks, term))
        if ordered and last_block + ordered[-1][0] >= blocks:
            raise vdla.LayerError(f"heads must fill whole blocks of {lanes} features, got {features} features")
        made.append([COSINES, *ordered])
    return made
