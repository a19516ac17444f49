# SPDX-License-Identifier: Apache-2.0
"""The header of a datapath: what is missing or wrong is refused with its line and the remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vdla.compiler.extensions import ExtensionError
from vdla.hardware.config import Config
from vdla.hardware.generate.datapath_header import stub
from vdla.hardware.isa import PlugInField, PlugInUnit
from vdla.verification.generated_tests.datapath_samples import distance, fused

TINY = Config.preset("tiny")
GOOD = distance(1)(TINY).datapath


def refusal(text):
    """What is said of a datapath, without the place of its declaration."""
    with pytest.raises(ExtensionError) as failure:
        replace(distance(1)(TINY), datapath=text).plug_in(TINY)
    return str(failure.value).partition(": extension ")[2]


def test_a_stub_has_the_ports_that_are_asked_for():
    for declare in (distance(1), fused(2)):
        extension = declare(TINY)
        text = stub(TINY, PlugInUnit((extension.plug_in(TINY),)))
        assert replace(extension, datapath=text).plug_in(TINY).datapath.text == text


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("  input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i,\n", ""),
            "line 2 of its datapath: datapath must have port src_i, got none; "
            "write `input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i`",
        ),
        (
            ("[WgtBits-1:0] wgt_i", "[2*WgtBits-1:0] wgt_i"),
            "line 11 of its datapath: port wgt_i must have 128 bits, got 256; "
            "write `input  logic [BlockOut-1:0][BlockIn-1:0][WgtBits-1:0] wgt_i`",
        ),
        (
            ("output logic", "input  logic"),
            "line 13 of its datapath: port result_o must be an output, got an input; "
            "write `output logic [Batch-1:0][BlockOut-1:0][31:0] result_o`",
        ),
        (
            ("  input  logic begin_i,\n", "  input  logic begin_i, ready_i,\n"),
            "line 9 of its datapath: port must be one of clk_i, rst_ni, valid_i, begin_i, src_i, wgt_i, result_o, "
            "got ready_i; remove it",
        ),
        (
            ("module ext_distance", "module distance"),
            "line 1 of its datapath: datapath must have a module ext_distance with a list of ports, got distance",
        ),
    ],
    ids=["missing", "width", "direction", "unknown", "module"],
)
def test_a_wrong_port_is_refused_with_its_line_and_the_remedy(change, said):
    assert change[0] in GOOD
    assert refusal(GOOD.replace(*change, 1)) == f"distance: {said}"


def test_the_line_is_that_of_the_file_of_the_datapath(tmp_path):
    path = tmp_path / "ext_distance.sv"
    path.write_text(GOOD.replace("begin_i", "starts_i"))
    with pytest.raises(ExtensionError) as failure:
        replace(distance(1)(TINY), datapath=path).plug_in(TINY)
    rule = "datapath must have port begin_i, got none; write `input  logic begin_i`"
    assert str(failure.value) == f"{path}:2: extension distance: {rule}"


OTHER = GOOD.replace("[Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i", "[Batch-1:0][BlockIn-1:0][$clog2(256)-1:0] src_i")
WRONG = OTHER.replace("$clog2(256)", "$clog2(128)")


def test_dimensions_of_other_names_are_left_to_the_tools(monkeypatch):
    monkeypatch.setattr("vdla.hardware.generate.datapath_source.find_spec", lambda name: None)
    for text in (OTHER, WRONG):
        assert replace(distance(1)(TINY), datapath=text).plug_in(TINY).datapath.text == text


def test_slang_knows_dimensions_of_other_names():
    pytest.importorskip("pyslang")
    assert replace(distance(1)(TINY), datapath=OTHER).plug_in(TINY).datapath.text == OTHER
    assert refusal(WRONG) == (
        "distance: line 10 of its datapath: port src_i must have 32 bits, got 28; "
        "write `input  logic [Batch-1:0][BlockIn-1:0][InpBits-1:0] src_i`"
    )


def test_a_field_must_not_have_the_name_of_a_port():
    wrong = replace(distance(1)(TINY), fields=[PlugInField("begin", 4, "A field.")], latency="1 + begin")
    with pytest.raises(ExtensionError) as failure:
        wrong.plug_in(TINY)
    rule = "a field of an extension with a datapath must not have the name of a port"
    assert str(failure.value).partition(": ")[2] == f"extension distance: {rule}, got begin"


def test_a_latency_of_fields_that_the_datapath_does_not_see_is_refused():
    with pytest.raises(ExtensionError) as failure:
        replace(distance(1)(TINY), latency="1 + loop0").plug_in(TINY)
    rule = "with a datapath, latency must be a constant or a formula of the extension's own fields"
    assert str(failure.value).partition(": ")[2] == f"extension distance: {rule}, got 1 + loop0, which has loop0"
