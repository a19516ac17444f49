# SPDX-License-Identifier: Apache-2.0
"""What datapaths are told of the array of multipliers, and what is built where one uses it."""

from __future__ import annotations

from dataclasses import replace

import pytest

import vdla
from vdla.compiler.extensions import ExtensionError
from vdla.hardware.config import Config
from vdla.hardware.fpga import synthesis
from vdla.hardware.fpga.parts import part_of_preset
from vdla.hardware.generate.datapath_header import stub
from vdla.hardware.generate.datapath_ports import datapath_units
from vdla.hardware.generate.extension_files import machine_files
from vdla.hardware.generate.svgen import render
from vdla.runtime.checks.datapath_bench import bench_module, datapath_files
from vdla.verification.generated_tests.datapath_samples import lend
from vdla.verification.generated_tests.samples import borrow, rise

TINY = Config.preset("tiny")
PYNQ = Config.preset("pynq_z1")
PORTS = """\
array_sums_i, // sums, ArrayPortLatency cycles after their operands
// verilator lint_on UNUSEDSIGNAL
output logic [Batch-1:0][BlockOut-1:0][31:0] result_o, // 8 cycles after its step; is added to the entry
output logic array_valid_o, // the array multiplies these operands
output logic [Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0] array_inp_o, \
// inputs, each common to the columns that share it
output logic [Batch-1:0][BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] array_wgt_o // weights of each column
);
"""


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (TINY, vdla.ArrayPort(shares=1, columns=4, latency=6, fields=2)),
        (PYNQ, vdla.ArrayPort(shares=4, columns=4, latency=8, fields=2)),
        (Config.preset("pynq_z1_512"), vdla.ArrayPort(shares=4, columns=4, latency=9, fields=2)),
        (Config.preset("int4"), vdla.ArrayPort(shares=2, columns=8, latency=8, fields=4)),
        (replace(PYNQ, block_out=1, batch=16), vdla.ArrayPort(shares=1, columns=1, latency=8, fields=1)),
    ],
    ids=["tiny", "pynq_z1", "twice the clock", "int4", "a column"],
)
def test_columns_share_operands_and_sums_come_in_time(config, expected):
    assert vdla.array_port(config) == vdla.array_port(replace(config, array_rate=2)) == expected
    found = [expected.share(column) for column in range(config.block_out)]
    assert [found.count(share) for share in range(expected.shares)] == [expected.columns] * expected.shares


def test_a_slice_of_either_rate_has_the_columns_of_one_share():
    assert [vdla.array_port(PYNQ).share(column) for column in range(16)] == [0, 0, 1, 1, 2, 2, 3, 3] * 2


def test_the_stub_has_the_ports_of_the_array():
    config = vdla.extend(PYNQ, borrow)
    text = stub(config, *datapath_units(config))
    assert PORTS in "".join(f"{' '.join(line.split())}\n" for line in text.splitlines())


def test_machines_know_of_the_array_where_a_datapath_uses_it():
    alone, lent = vdla.extend(TINY, rise), vdla.extend(TINY, borrow)
    assert "ArrayShares" not in render(alone) and "ArrayShares = 1;" in render(lent)
    assert "ArrayIsLent = 1'b0;" in machine_files(alone)["vdla_ext_pkg.sv"]
    assert "{array_valid_o, array_inp_o, array_wgt_o} = '0;" in machine_files(alone)["vdla_ext_datapaths.sv"]
    part = part_of_preset("pynq_z1")
    assert "vdla_ext_array" not in synthesis.script(alone, part).split("setattr", 1)[1]
    assert "keep_hierarchy 1 vdla_ext_array$*" in synthesis.script(lent, part)


def test_the_datapath_that_is_valid_has_the_array():
    text = machine_files(vdla.extend(TINY, borrow, lend))["vdla_ext_datapaths.sv"]
    assert "assign array_valid_o = valid_borrow || valid_lend;" in text
    assert "assign array_inp_o = valid_lend ? inp_lend : inp_borrow;" in text
    assert "$onehot0({valid_borrow, valid_lend})" in text


def test_the_port_changes_no_instruction():
    without = replace(borrow(TINY), array=False, datapath=None)
    assert vdla.extend(TINY, lambda _: without).fingerprint == vdla.extend(TINY, borrow).fingerprint


def test_a_datapath_without_the_port_is_refused():
    wrong = replace(borrow(TINY), datapath=borrow(TINY).datapath.replace("array_valid_o,", "valid_o,"))
    with pytest.raises(ExtensionError) as failure:
        wrong.plug_in(TINY)
    rule = "datapath must have port array_valid_o, got none; write `output logic array_valid_o`"
    assert str(failure.value).endswith(f"extension borrow: line 2 of its datapath: {rule}")


def test_a_testbench_has_the_array_around_the_datapath():
    config = vdla.extend(replace(TINY, array_rate=2), borrow)
    (unit,) = datapath_units(config)
    files = datapath_files(config, unit)
    first, *_, own, around = files
    assert (first, own, around) == ("vdla_pkg.sv", "ext_borrow.sv", "ext_borrow_on_array.sv")
    assert "ArrayRate = 1;" in files["vdla_pkg.sv"] and "vdla_gemm_core.sv" in files
    assert bench_module(unit) == "ext_borrow_on_array"


@pytest.mark.rtl
@pytest.mark.long
def test_the_check_of_a_datapath_has_the_real_array():
    machine = vdla.extend(replace(TINY, batch=2, block_in=8, block_out=8, inp_kib=2, acc_kib=2), borrow)
    assert vdla.check_datapath(machine, machine.extensions[0]) == 60
    text = borrow(machine.plain).datapath.replace("src_i[b][(i+s)%BlockIn]", "src_i[b][i]")
    wrong = vdla.extend(machine.plain, lambda config: replace(borrow(config), datapath=text))
    with pytest.raises(AssertionError, match=r"^\S+:\d+: datapath of borrow: result_o\[\d\]\[\d\] of step 0 must be "):
        vdla.check_datapath(wrong, wrong.extensions[0])
