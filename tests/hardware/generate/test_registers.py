# SPDX-License-Identifier: Apache-2.0
"""The register table, its SystemVerilog package and its page agree; offsets are unique."""

from __future__ import annotations

import re

import pytest

from vdla.hardware.config import Config
from vdla.hardware.generate import register_package
from vdla.hardware.generate import register_page as registerdoc
from vdla.hardware.generate.registers import ADDRESS_BITS, OFFSETS, REGISTERS, RegisterAccess, counter_offset
from vdla.hardware.generate.svgen import AXI_ADDRESS_BITS, packages
from vdla.hardware.isa import COUNTERS, UNITS


def test_registers_do_not_overlap():
    assert len(OFFSETS) == len(REGISTERS) == len(set(OFFSETS.values()))
    assert list(OFFSETS.values()) == sorted(OFFSETS.values())
    assert all(offset % 4 == 0 and offset < 1 << ADDRESS_BITS for offset in OFFSETS.values())


def test_register_offsets_never_change():
    known = {"ID": 0, "CONTROL": 0x10, "STATUS": 0x14, "STREAM_LO": 0x24, "COUNT": 0x2C, "CYCLES_LO": 0x40}
    known |= {"FETCH_BUSY_LO": 0x100, "STORE_IDLE_HI": 0x2C4, "COMPUTE_COMMANDS": 0x68, "COMPUTE_COMMANDS_LO": 0x238}
    assert {name: OFFSETS[name] for name in known} == known


def test_counter_offsets_follow_unit_and_counter_order():
    for unit in UNITS:
        for counter in COUNTERS:
            name = f"{unit}_{counter}".upper()
            assert OFFSETS[f"{name}_LO"] == counter_offset(unit, counter) == OFFSETS[f"{name}_HI"] - 4


@pytest.mark.parametrize("register", REGISTERS, ids=OFFSETS)
def test_values_and_bits_fit_their_register(register):
    assert 1 <= register.width <= 32
    assert register.reset < 1 << register.width
    assert [bit.position for bit in register.bits] == list(range(len(register.bits)))
    assert not register.bits or len(register.bits) == register.width


def test_the_stream_has_an_address_of_the_memory_port():
    high = next(register for register in REGISTERS if register.name == "STREAM_HI")
    assert 32 + high.width == AXI_ADDRESS_BITS


def test_memory_registers_hold_the_limits_of_every_configuration():
    widths = {register.name: register.width for register in REGISTERS}
    assert (1 << widths["READ_LATENCY"]) > 65536
    assert min(1 << widths["READ_LIMIT"], 1 << widths["WRITE_LIMIT"]) > 256


def test_only_limits_of_outstanding_bursts_have_limits():
    limits = {register.name: register.limits for register in REGISTERS if register.limits is not None}
    assert limits == {"READ_LIMIT": (1, 256), "WRITE_LIMIT": (1, 256)}
    text = register_package.render()
    assert "parameter int unsigned ReadLimitLeast = 1;" in text
    assert "parameter int unsigned WriteLimitMost = 256;" in text


def test_levels_hold_the_deepest_queues():
    deepest = Config(name="deep", command_depth=4096, token_depth=4096)
    levels = [register for register in REGISTERS if register.name.endswith(("_COMMANDS", "_TOKENS"))]
    assert len(levels) == 7
    assert all(deepest.token_depth < 1 << register.width for register in levels)


def test_the_committed_register_page_is_up_to_date(root):
    text = (root / "docs" / "registers.md").read_text()
    assert text == registerdoc.render(), "run python -m vdla.hardware.generate.register_page > docs/registers.md"


def test_the_page_names_every_register_bit_and_counter():
    page = registerdoc.render()
    for register in REGISTERS[: len(REGISTERS) - 2 * len(UNITS) * len(COUNTERS)]:
        assert f"| `{register.name}` |" in page and register.doc in page
        assert all(f"| `{bit.name}` | {bit.doc} |" in page for bit in register.bits)
    assert all(f"| `{counter}` |" in page for counter in COUNTERS)


def test_the_package_has_the_offsets_of_the_table():
    text = register_package.render()
    found = {int(value, 16) for value in re.findall(r"reg_addr_t Reg\w+ = 12'h(\w+);", text)}
    counters = {offset for offset in OFFSETS.values() if offset > 0x100}
    assert found == set(OFFSETS.values()) - counters
    assert packages(Config.preset("tiny"))["vdla_regs_pkg.sv"] == text


def test_software_writes_exactly_the_setup_registers():
    names = [register.name for register in REGISTERS if register.access is RegisterAccess.RW]
    assert names == ["STREAM_LO", "STREAM_HI", "COUNT", "READ_LATENCY", "READ_LIMIT", "WRITE_LIMIT"]
