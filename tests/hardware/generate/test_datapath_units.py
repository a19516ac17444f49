# SPDX-License-Identifier: Apache-2.0
"""Declarations of several parts: one module with the ports of all, in the slot of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.stateful import depthwise, negated, table
from helpers.stateful_datapaths import echo, tally

import vdla
from vdla import te
from vdla.compiler.extensions import Extension, ExtensionError
from vdla.compiler.extensions.load import unit_of
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_header import stub
from vdla.hardware.generate.datapath_ports import datapath_ports, datapath_units, module_name
from vdla.hardware.generate.extension_datapaths import render_datapaths
from vdla.hardware.generate.extension_files import machine_files
from vdla.verification.generated_tests.datapath_samples import distance

TINY = Config.preset("tiny")


def unit(declare, text=None):
    """The unit of a declaration, its datapath that of the first part or a given text."""
    first, *others = declare(TINY)
    return unit_of("here:1", [replace(first, datapath=text) if text else first, *others]).plug_ins(TINY)


def refusal(text):
    """What is said of a datapath of `tally`, without its place."""
    with pytest.raises(ExtensionError) as failure:
        unit(tally, text)
    return str(failure.value).partition(": extension ")[2]


TALLY = tally(TINY)[0].datapath


def test_units_are_in_the_order_of_their_instructions():
    config = vdla.extend(TINY, tally, distance(1), echo)
    assert [module_name(each) for each in datapath_units(config)] == ["ext_tally", "ext_distance", "ext_echo_keep"]
    assert [[part.name for part in each.parts] for each in datapath_units(config)][::2] == [
        ["tally", "tally_set"],
        ["echo_keep", "echo"],
    ]
    assert datapath_units(TINY) == ()


def test_every_part_has_the_datapath_that_one_names():
    found = unit(tally)
    assert {part.datapath.text for part in found.parts} == {TALLY}
    assert unit(depthwise).datapath is None


def test_names_of_ports_begin_with_the_part_and_rows_are_those_of_states():
    ports = [port.name for port in datapath_ports(TINY, unit(tally))]
    assert ports == [
        "clk_i", "rst_ni",
        "tally_valid_i", "tally_begin_i", "tally_src_i", "tally_counts_row_i", "tally_by_i",
        "tally_set_valid_i", "tally_set_wgt_i", "tally_set_counts_row_i",
        "tally_result_o",
    ]  # fmt: skip


def test_a_stage_has_ports_beside_those_of_instructions_and_alone():
    config = vdla.extend(TINY, table)
    ports = {port.name: port.declaration for port in datapath_ports(config, datapath_units(config)[0])}
    assert list(ports)[-3:] == ["table_valid_i", "table_x_i", "table_result_o"]
    assert ports["table_x_i"] == "input  logic [Batch-1:0][BlockOut-1:0][OutBits-1:0] table_x_i"
    alone = datapath_units(vdla.extend(TINY, negated))[0]
    assert [port.name for port in datapath_ports(TINY, alone)] == ["clk_i", "rst_ni", "valid_i", "x_i", "result_o"]


@pytest.mark.parametrize("declare", [tally, echo, depthwise, table])
def test_a_stub_has_the_ports_that_are_asked_for(declare):
    text = stub(TINY, unit(declare))
    assert unit(declare, text).datapath.text == text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("  input  logic [2:0] tally_counts_row_i,\n", ""),
            "line 2 of its datapath: datapath must have port tally_counts_row_i, got none; "
            "write `input  logic [2:0] tally_counts_row_i`",
        ),
        (
            ("[2:0] tally_set_counts_row_i", "[3:0] tally_set_counts_row_i"),
            "line 15 of its datapath: port tally_set_counts_row_i must have 3 bits, got 4; "
            "write `input  logic [2:0] tally_set_counts_row_i`",
        ),
        (
            ("logic tally_set_valid_i,", "logic tally_set_valid_i, tally_set_begin_i,"),
            "line 13 of its datapath: port must be one of clk_i, rst_ni, tally_valid_i, tally_begin_i, tally_src_i, "
            "tally_counts_row_i, tally_by_i, tally_set_valid_i, tally_set_wgt_i, tally_set_counts_row_i, "
            "tally_result_o, got tally_set_begin_i; remove it",
        ),
        (
            ("module ext_tally", "module ext_tally_set"),
            "line 1 of its datapath: datapath must have a module ext_tally with a list of ports, got ext_tally_set",
        ),
    ],
    ids=["missing", "width", "unknown", "module"],
)
def test_a_wrong_port_is_refused_with_its_line_and_the_remedy(change, said):
    assert change[0] in TALLY
    assert refusal(TALLY.replace(*change, 1)) == f"tally: {said}"


def test_parameters_of_a_module_may_have_parentheses():
    text = TALLY.replace("import vdla_pkg::*;\n(", "import vdla_pkg::*;\n#(\n  localparam Bits = $clog2(6)\n) (")
    text = text.replace("[2:0] tally_counts_row_i", "[Bits-1:0] tally_counts_row_i")
    assert unit(tally, text).datapath.text == text


def test_parts_with_two_datapaths_are_refused():
    first, second = tally(TINY)
    with pytest.raises(ExtensionError) as failure:
        unit_of("here:1", [first, replace(second, datapath=TALLY + "\n")]).plug_ins(TINY)
    rule = "the parts of a declaration that share state must have one datapath"
    assert str(failure.value).partition(": ")[2] == f"{rule}, got another in tally_set than in tally"


POWER = """
module ext_{name}
  import vdla_pkg::*;
(
  input  logic clk_i,
  input  logic rst_ni,
  input  logic valid_i,
  input  logic begin_i,
  input  logic [Batch-1:0][BlockOut-1:0][InpBits-1:0] src_i,
  output logic [Batch-1:0][BlockOut-1:0][31:0] result_o
);
  assign result_o = '0;
endmodule
"""


def power(name, exponent, text=POWER):
    """An instruction without state, with a datapath of its own."""
    x = te.placeholder((TINY.batch, TINY.block_out), TINY.inp_dtype, "x")

    def value(b, o):
        factor = te.cast("int32", x[b, o])
        return factor * factor * factor if exponent == 3 else factor * factor

    output = te.compute(x.shape, value, "acc")
    datapath = text.format(name=name)
    return Extension(name=name, doc="A power.", output=output, scopes={"x": "inp", "acc": "acc"}, datapath=datapath)


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (2, 1, 3, 0)])
def test_parts_that_share_no_state_have_datapaths_of_their_own(order):
    def declare(config):
        parts = [power("square", 2), power("cube", 3), *tally(config)]
        return [parts[place] for place in order]

    machine = vdla.extend(TINY, declare)
    units = {module_name(unit): [part.name for part in unit.parts] for unit in datapath_units(machine)}
    assert units == {"ext_square": ["square"], "ext_cube": ["cube"], "ext_tally": ["tally", "tally_set"]}
    assert [part.name for part in machine.extensions] == [part.name for part in declare(TINY)]
    assert {"ext_square.sv", "ext_cube.sv", "ext_tally.sv"} <= set(machine_files(machine))
    again = vdla.Config.from_dict(machine.to_dict())
    assert again == machine


def test_parts_that_share_no_state_may_have_one_datapath():
    both = "\n".join(POWER.format(name="square").splitlines())
    with pytest.raises(ExtensionError, match=r"must have port square_valid_i, got none"):
        unit_of("here:1", [power("square", 2, both), power("cube", 3, both)]).plug_ins(TINY)


def test_ports_of_one_name_are_refused():
    x = te.placeholder((TINY.batch, TINY.block_out), TINY.out_dtype, "valid")
    output = te.compute(x.shape, lambda b, o: x[b, o], "y")
    stage = replace(negated(TINY), output=output, scopes={"valid": "out", "y": "out"})
    with pytest.raises(ConfigError) as failure:
        datapath_ports(TINY, unit_of("here:1", stage).plug_ins(TINY))
    rule = "ports of a datapath must differ in name, got valid_i twice; rename an operand, a field or a state"
    assert str(failure.value) == f"extension negated: {rule}"


def test_the_slot_connects_rows_and_fields():
    text = render_datapaths(vdla.extend(TINY, distance(1), tally, echo))
    for pin in (
        ".tally_counts_row_i(rows_i.wgt[2:0])",
        ".tally_set_counts_row_i(rows_i.acc[2:0])",
        ".tally_valid_i(valid_i && step_i.number == ext_number_t'(1))",
        ".echo_valid_i(valid_q && step_q.number == ext_number_t'(4))",
        ".tally_by_i(step_i.own[0+:4])",
    ):
        assert text.count(pin) == 1, pin


def test_units_without_a_datapath_are_refused_by_their_parts():
    with pytest.raises(ConfigError, match=r"^rtl: extensions must have a datapath, got dw, dw_taps, dw_clear without"):
        machine_files(vdla.extend(TINY, tally, depthwise))
