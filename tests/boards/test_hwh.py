# SPDX-License-Identifier: Apache-2.0
"""Handoff files: what a program finds in them. `tests/boards/pynq` reads them with pynq."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from vdla.boards.board import board_names, load_board
from vdla.boards.hwh import memory_interfaces, render_hwh
from vdla.boards.ip import IP_VLNV
from vdla.hardware.generate.registers import OFFSETS, REGISTERS
from vdla.hardware.generate.verilog_wrapper import memory_ports

BUILD = "0123456789ab"
MACHINES = [(name, machine) for name in board_names() for machine in load_board(name).machines]


def root(name: str, preset: str) -> ElementTree.Element:
    board = load_board(name)
    return ElementTree.fromstring(render_hwh(board, board.config(preset), BUILD))


def parameters(element: ElementTree.Element) -> dict[str | None, str | None]:
    return {one.get("NAME"): one.get("VALUE") for one in element.findall("./PARAMETERS/PARAMETER")}


@pytest.mark.parametrize(("name", "preset"), MACHINES)
def test_the_accelerator_says_what_it_is(name: str, preset: str) -> None:
    module = root(name, preset).find("./MODULES/MODULE[@INSTANCE='vdla_0']")
    assert module is not None
    config = load_board(name).config(preset)
    assert module.get("VLNV") == IP_VLNV == "vdla:accelerator:vdla:1.0"
    assert parameters(module) == {
        "PRESET": preset, "FINGERPRINT": config.fingerprint, "BUILD": BUILD, "COHERENT": "0",
    }  # fmt: skip
    buses = {bus.get("NAME"): bus.get("DATAWIDTH") for bus in module.iter("BUSINTERFACE")}
    assert buses == {"s_axi_control": "32", **{port: str(config.port_bits) for port in memory_ports(config)}}
    assert memory_interfaces(config) == memory_ports(config)


@pytest.mark.parametrize("name", board_names())
def test_addresses_are_the_boards(name: str) -> None:
    board = load_board(name)
    ranges = {one.get("INSTANCE"): one for one in root(name, board.preset).iter("MEMRANGE")}
    bases = {instance: int(one.get("BASEVALUE", ""), 16) for instance, one in ranges.items()}
    assert bases == {"vdla_0": board.control_base, "axi_intc_0": board.interrupt_controller_base}
    assert int(ranges["vdla_0"].get("HIGHVALUE", ""), 16) == board.control_base + board.control_bytes - 1


def test_registers_are_those_of_the_table() -> None:
    registers = {one.get("NAME"): one for one in root("pynq_z1", "pynq_z1").iter("REGISTER")}
    offset = "./PROPERTY[@NAME='ADDRESS_OFFSET']"
    found = {name: int(one.find(offset).get("VALUE"), 16) for name, one in registers.items()}  # type: ignore[union-attr]
    assert found == OFFSETS
    assert len(found) == len(REGISTERS)
    fields = [field.get("NAME") for field in registers["STATUS"].iter("FIELD")]
    assert fields == ["busy", "done", "error"]


@pytest.mark.parametrize(
    ("name", "prefix", "divisors"),
    [
        ("pynq_z1", "PCW_FCLK0_PERIPHERAL_", ("10", "1")),
        ("zcu104", "PSU__CRL_APB__PL0_REF_CTRL__", ("9", "1")),
    ],
)
def test_the_clock_is_the_boards(name: str, prefix: str, divisors: tuple[str, str]) -> None:
    board = load_board(name)
    system = next(one for one in root(name, board.preset).iter("MODULE") if one.get("INSTANCE") != "vdla_0")
    values = parameters(system)
    assert (values[f"{prefix}DIVISOR0"], values[f"{prefix}DIVISOR1"]) == divisors
    frequency = values["PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ"]
    assert frequency is not None
    assert float(frequency) == board.clock_mhz


def test_pynq_learns_the_width_of_the_ports_of_an_ultrascale() -> None:
    system = next(root("kv260", "kv260").iter("MODULE"))
    values = parameters(system)
    assert values["C_MAXIGP0_DATA_WIDTH"] == "32"
    assert values["C_SAXIGP2_DATA_WIDTH"] == "128"
