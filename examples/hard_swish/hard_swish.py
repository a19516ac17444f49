# SPDX-License-Identifier: Apache-2.0
"""Hard-swish on the way out: x * relu6(x + 3) / 6 of results in sixteenths, without a table."""

import vdla
from vdla import te

DATAPATH = """
// Contract: an entry a cycle; a result two cycles after it: the product, the quotient.

module ext_hard_swish
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] x_i,
  output logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] result_o
);

  localparam int Unit = 1 << (OutBits - 4);
  localparam int Factor = ((1 << 16) + 3 * Unit) / (6 * Unit);

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [OutBits-1:0] x;
      logic [OutBits-1:0] gate;
      logic signed [2*OutBits-1:0] product, product_q;
      // verilator lint_off UNUSEDSIGNAL
      logic signed [OutBits+16:0] quotient;
      // verilator lint_on UNUSEDSIGNAL

      // Products as sums of shifts, which leave the DSP slices to the array.
      always_comb begin
        x = x_i[b][o];
        gate = x < -3 * Unit ? '0 : x > 3 * Unit ? OutBits'(6 * Unit) : OutBits'(x + 3 * Unit);
        product = '0;
        quotient = (OutBits + 17)'(36000);
        for (int k = 0; k < OutBits; k++) if (gate[k]) product += (2 * OutBits)'(x) <<< k;
        for (int k = 0; k < 16; k++) if (Factor[k]) quotient += (OutBits + 17)'(product_q) <<< k;
      end

      always_ff @(posedge clk_i) begin
        product_q <= product;
        result_o[b][o] <= quotient[16+:OutBits];
      end
    end
  end

endmodule
"""


ROUNDING = 36_000  # of 2^16: halves of eight bits become even, as in a quantised network


def hard_swish(x, bits=8):
    """An element of results, of which 1 is 2^(bits - 4): sixteenths of eight bits."""
    unit = 1 << (bits - 4)
    factor = ((1 << 16) + 3 * unit) // (6 * unit)
    wide = te.cast("int32", x)
    product = wide * te.clip(wide + 3 * unit, 0, 6 * unit)
    return te.cast(f"int{bits}", (product * factor + ROUNDING) >> 16)


def declare(config):
    x = te.placeholder((config.batch, config.block_out), config.out_dtype, "x")
    return vdla.EmitStage(
        name="hard_swish",
        doc="Replaces a result x by x * relu6(x + 3) / 6.",
        output=te.compute(x.shape, lambda b, o: hard_swish(x[b, o], config.out_bits), "y"),
        scopes={"x": "out", "y": "out"},
        latency=2,
        datapath=DATAPATH,
    )


def activated(layer):
    """The results of a layer, each replaced."""
    return te.compute(layer.shape, lambda *at: hard_swish(layer[at]), "activated")


def expansion():
    """The first convolution of a block of MobileNet v3; after, with its activation."""
    layer = vdla.definitions.convolution(batch=1, in_channels=16, out_channels=64, size=(56, 56), kernel=1, raw=False)
    return layer, activated(layer.output)
