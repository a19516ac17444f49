# SPDX-License-Identifier: Apache-2.0
"""Extensions with datapaths whose results are entries of the input buffer.

Each function gives a `declare(config)` for a latency.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vdla.compiler import te
from vdla.compiler.extensions import Extension
from vdla.hardware.config import Config
from vdla.hardware.isa import PlugInField

Declare = Callable[[Config], Extension]

SUMS = "[Batch-1:0][BlockOut-1:0][31:0]"
ENTRY = "[Batch-1:0][BlockIn-1:0][InpBits-1:0]"
WEIGHTS = "[BlockOut-1:0][BlockIn-1:0][WgtBits-1:0]"


def _datapath(name: str, latency: int, ports: Sequence[str], value: str) -> str:
    """A module that computes `value` for each element [b][i] of an entry, delayed by `latency`."""
    inputs = "".join(f"  input  logic {port},\n" for port in ports)
    return f"""
module ext_{name}
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
{inputs}  // verilator lint_on UNUSEDSIGNAL
  output logic {ENTRY} result_o
);
  logic {ENTRY} stages[{latency}+1];
  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar i = 0; i < BlockIn; i++) begin : gen_column
      assign stages[0][b][i] = {value};
    end
  end
  for (genvar k = 1; k <= {latency}; k++) begin : gen_delay
    always_ff @(posedge clk_i) stages[k] <= stages[k-1];
  end
  assign result_o = stages[{latency}];
endmodule
"""


def handed(latency: int) -> Declare:
    """inp = acc >> k, its low bits: sums become the inputs of the next product."""

    def declare(config: Config) -> Extension:
        sums = te.placeholder((config.batch, config.block_out), "int32", "sums")
        k = te.placeholder((1,), "int32", "k")

        def value(b: te.Value, i: te.Value) -> te.Value:
            return te.cast(config.inp_dtype, sums[b, i % config.block_out] >> k[0])

        return Extension(
            name="handed",
            doc="Hands sums back as inputs.",
            output=te.compute((config.batch, config.block_in), value, "inputs"),
            scopes={"sums": "acc", "k": "immediate", "inputs": "inp"},
            fields=[PlugInField("k", 3, "Bits dropped.")],
            latency=latency,
            datapath=_datapath(
                "handed",
                latency,
                [f"{SUMS} src_i", "[2:0] k_i"],
                "InpBits'(signed'(src_i[b][i % BlockOut]) >>> k_i)",
            ),
        )

    return declare


def woven(latency: int) -> Declare:
    """inp = every other element of two entries, as a step may have written them, and a weight."""

    def declare(config: Config) -> Extension:
        pair = te.placeholder((config.batch, 2 * config.block_in), config.inp_dtype, "pair")
        w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")

        def value(b: te.Value, i: te.Value) -> te.Value:
            return te.cast(config.inp_dtype, pair[b, 2 * i] + te.cast(config.inp_dtype, w[0, i]))

        return Extension(
            name="woven",
            doc="Takes every other element.",
            output=te.compute((config.batch, config.block_in), value, "inputs"),
            scopes={"pair": "inp", "w": "wgt", "inputs": "inp"},
            latency=latency,
            datapath=_datapath(
                "woven",
                latency,
                ["[Batch-1:0][2*BlockIn-1:0][InpBits-1:0] src_i", f"{WEIGHTS} wgt_i"],
                "src_i[b][2*i] + InpBits'(signed'(wgt_i[0][i]))",
            ),
        )

    return declare
