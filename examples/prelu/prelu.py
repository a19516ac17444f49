# SPDX-License-Identifier: Apache-2.0
"""PReLU on finished sums: below zero, a slope of the channel; before results are narrowed."""

import vdla
from vdla import te

DATAPATH = """
// Contract: a result a cycle after its step.

module ext_prelu
  import vdla_pkg::*;
(
  input  logic clk_i,
  // verilator lint_off UNUSEDSIGNAL
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [BlockOut-1:0][WgtBits-1:0] wgt_i,
  input  logic [Batch-1:0][BlockOut-1:0][31:0] old_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < int'(Batch); b++) begin : gen_row
    for (genvar o = 0; o < int'(BlockOut); o++) begin : gen_lane
      logic signed [31:0] total;
      logic signed [WgtBits-1:0][31:0] parts;

      // The product as a tree of shifted sums, which leaves the DSP slices to the array.
      always_comb begin
        total = old_i[b][o];
        for (int k = 0; k < WgtBits; k++) parts[k] = wgt_i[o][k] ? total <<< k : '0;
        parts[WgtBits-1] = -parts[WgtBits-1];
        for (int step = 1; step < WgtBits; step *= 2) begin
          for (int k = 0; k + step < WgtBits; k += 2 * step) parts[k] += parts[k+step];
        end
      end

      always_ff @(posedge clk_i) begin
        result_o[b][o] <= total < 0 ? parts[0] : total <<< (WgtBits - 1);
      end
    end
  end

endmodule
"""


def sloped(total, slope, unit):
    """A sum times `unit`, or below zero times its slope, of which 1 is `unit`."""
    return te.maximum(total, 0) * unit + te.minimum(total, 0) * te.cast("int32", slope)


def declare(config):
    sums = te.placeholder((config.batch, config.block_out), "int32", "sums")
    slope = te.placeholder((config.block_out,), config.wgt_dtype, "slope")
    unit = 1 << (config.wgt_bits - 1)
    return vdla.Extension(
        name="prelu",
        doc="Multiplies sums by 128, or below zero by the slope of their lane.",
        output=te.compute(sums.shape, lambda b, o: sloped(sums[b, o], slope[o], unit), "acc"),
        scopes={"sums": "acc", "slope": "wgt", "acc": "acc"},
        in_place="sums",
        latency=1,
        datapath=DATAPATH,
    )


def activated(sums, channels):
    """The sums of a layer with PReLU; `channels` is the dimension of its channels."""
    slope = te.placeholder((sums.shape[channels],), "int8", "slope")
    return te.compute(sums.shape, lambda *at: sloped(sums[at], slope[at[channels]], 128), "activated")


def expansion():
    """An expansion of a network that compares faces, with its activation."""
    layer = vdla.definitions.convolution(batch=1, in_channels=64, out_channels=128, size=(28, 28), kernel=1)
    _, result = vdla.definitions.requantised(activated(layer.output, 1), 1)
    return result
