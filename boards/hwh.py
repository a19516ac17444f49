# SPDX-License-Identifier: Apache-2.0
"""The hardware handoff file (.hwh) of a board with the accelerator, as pynq reads it.

The invariant: addresses are the board's, registers those of the register table, names those of
`ip`. It describes the same design as the Vivado flow builds, but only what pynq looks at: the
processing system with its clock, the accelerator, the interrupt controller. pynq shows an interrupt
in `ip_dict` only where a controller is between the accelerator and the processing system.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from vdla.boards.board import Board
from vdla.boards.ip import (
    CONTROL_INTERFACE,
    INTERRUPT_CONTROLLER,
    INTERRUPT_PIN,
    IP_INSTANCE,
    IP_VLNV,
    REGISTER_ACCESS,
    ip_parameters,
)
from vdla.hardware.config import Config
from vdla.hardware.generate.registers import REGISTERS, Bit, Register

DESIGN = "vdla_system"
VIVADO = "virtual"
"""What stands in files of the virtual board for the version of Vivado."""
AXI_VLNV = "xilinx.com:interface:aximm:1.0"
PL_CLOCKS = 4

_CONTROLLER_VLNV = "xilinx.com:ip:axi_intc:4.1"


@dataclass(frozen=True, slots=True)
class ProcessingSystem:
    """A processing system as handoff files name it: instance, type, and its first PL clock."""

    instance: str
    modtype: str
    vlnv: str
    clock_pin: str


@dataclass(frozen=True, slots=True)
class _Net:
    """A net and the pins on it, each an instance and a port; the first one drives it."""

    name: str
    pins: tuple[tuple[str, str], ...]


PROCESSING_SYSTEMS = {
    "zynq7": ProcessingSystem(
        instance="processing_system7_0",
        modtype="processing_system7",
        vlnv="xilinx.com:ip:processing_system7:5.5",
        clock_pin="FCLK_CLK0",
    ),
    "zynqmp": ProcessingSystem(
        instance="zynq_ultra_ps_e_0",
        modtype="zynq_ultra_ps_e",
        vlnv="xilinx.com:ip:zynq_ultra_ps_e:3.4",
        clock_pin="pl_clk0",
    ),
}


def render_hwh(board: Board, config: Config, build: str) -> str:
    """The text of the .hwh of a board with a machine; `build` is its hash, as registers show it."""
    root = Element("EDKSYSTEM", EDWVERSION="1.2", TIMESTAMP="", VIVADOVERSION=VIVADO)
    SubElement(root, "SYSTEMINFO", BOARD=board.board_part, DEVICE=board.part, NAME=DESIGN)
    SubElement(root, "EXTERNALPORTS")
    SubElement(root, "EXTERNALINTERFACES")
    modules = SubElement(root, "MODULES")
    _processing_system(modules, board, config)
    _accelerator(modules, board, config, build)
    _interrupt_controller(modules, board)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8" standalone="no" ?>\n{tostring(root, encoding="unicode")}\n'


def _nets(board: Board) -> tuple[_Net, ...]:
    system = PROCESSING_SYSTEMS[board.processor]
    clock = ((system.instance, system.clock_pin), (IP_INSTANCE, "aclk"), (INTERRUPT_CONTROLLER, "s_axi_aclk"))
    return (
        _Net("pl_clk", clock),
        _Net("vdla_irq", ((IP_INSTANCE, INTERRUPT_PIN), (INTERRUPT_CONTROLLER, "intr"))),
        _Net("controller_irq", ((INTERRUPT_CONTROLLER, "irq"), (system.instance, board.interrupt))),
    )


# --- modules --------------------------------------------------------------------------------------


def _processing_system(modules: Element, board: Board, config: Config) -> None:
    system = PROCESSING_SYSTEMS[board.processor]
    clocks = _zynq7_clocks(board) if board.processor == "zynq7" else _zynqmp_clocks(board, config)
    module = _module(modules, system.instance, system.modtype, system.vlnv, clocks)
    _ports(module, board, (system.clock_pin, "O", "clk", None), (board.interrupt, "I", "INTERRUPT", 1))
    interfaces = SubElement(module, "BUSINTERFACES")
    _interface(interfaces, board.control_port, "MASTER", 32)
    for name in board.memory_ports[: config.axi_ports]:
        _interface(interfaces, name, "SLAVE", config.port_bits)
    memory = SubElement(module, "MEMORYMAP")
    for instance, base, interface in (
        (IP_INSTANCE, board.control_base, CONTROL_INTERFACE),
        (INTERRUPT_CONTROLLER, board.interrupt_controller_base, "s_axi"),
    ):
        high = base + board.control_bytes - 1
        SubElement(
            memory,
            "MEMRANGE",
            ADDRESSBLOCK="reg0",
            BASENAME="C_BASEADDR",
            BASEVALUE=f"0x{base:08X}",
            HIGHNAME="C_HIGHADDR",
            HIGHVALUE=f"0x{high:08X}",
            INSTANCE=instance,
            IS_DATA="TRUE",
            IS_INSTRUCTION="TRUE",
            MASTERBUSINTERFACE=board.control_port,
            MEMTYPE="REGISTER",
            SLAVEBUSINTERFACE=interface,
        )


def _accelerator(modules: Element, board: Board, config: Config, build: str) -> None:
    module = _module(modules, IP_INSTANCE, "vdla", IP_VLNV, ip_parameters(board, config, build))
    _register_map(module)
    _ports(module, board, ("aclk", "I", "clk", None), (INTERRUPT_PIN, "O", "INTERRUPT", None))
    interfaces = SubElement(module, "BUSINTERFACES")
    _interface(interfaces, CONTROL_INTERFACE, "SLAVE", 32)
    for name in memory_interfaces(config):
        _interface(interfaces, name, "MASTER", config.port_bits)


def _interrupt_controller(modules: Element, board: Board) -> None:
    parameters = {"C_IS_FAST": "0", "C_NUM_INTR_INPUTS": "1", "C_KIND_OF_INTR": "0x00000000"}
    module = _module(modules, INTERRUPT_CONTROLLER, "axi_intc", _CONTROLLER_VLNV, parameters)
    inputs = (("s_axi_aclk", "I", "clk", None), ("intr", "I", "INTERRUPT", 1))
    _ports(module, board, *inputs, ("irq", "O", "INTERRUPT", None))
    _interface(SubElement(module, "BUSINTERFACES"), "s_axi", "SLAVE", 32)


def memory_interfaces(config: Config) -> list[str]:
    """The names of the accelerator's memory interfaces, as its wrapper has them."""
    return ["m_axi"] if config.axi_ports == 1 else [f"m_axi_{port}" for port in range(config.axi_ports)]


# --- parameters -----------------------------------------------------------------------------------


def _zynq7_clocks(board: Board) -> dict[str, str]:
    """The PL clocks of a Zynq-7000: 1000 MHz of the IO PLL by two divisors, the first clock on.

    pynq 4.0.0 asks for the reached frequency under its name on Zynq UltraScale+, and fails where an
    enabled clock has none.
    """
    parameters: dict[str, str] = {}
    for clock in range(PL_CLOCKS):
        first, second = _divisors(1000, board.clock_mhz) if clock == 0 else (1, 1)
        parameters |= {
            f"PCW_FPGA_FCLK{clock}_ENABLE": str(int(clock == 0)),
            f"PCW_FCLK{clock}_PERIPHERAL_DIVISOR0": str(first),
            f"PCW_FCLK{clock}_PERIPHERAL_DIVISOR1": str(second),
            f"PCW_FCLK{clock}_PERIPHERAL_CLKSRC": "IO PLL",
        }
    return {**parameters, "PSU__CRL_APB__PL0_REF_CTRL__ACT_FREQMHZ": f"{board.clock_mhz:f}"}


def _zynqmp_clocks(board: Board, config: Config) -> dict[str, str]:
    """The PL clocks of a Zynq UltraScale+ from 1500 MHz, and the widths of its ports.

    pynq sets the widths of ports by parameters C_MAXIGP* and C_SAXIGP*; HP ports begin at 2.
    """
    parameters: dict[str, str] = {}
    for clock in range(PL_CLOCKS):
        first, second = _divisors(1500, board.clock_mhz) if clock == 0 else (1, 1)
        prefix = f"PSU__CRL_APB__PL{clock}_REF_CTRL__"
        parameters |= {
            f"PSU__FPGA_PL{clock}_ENABLE": str(int(clock == 0)),
            f"{prefix}DIVISOR0": str(first),
            f"{prefix}DIVISOR1": str(second),
            f"{prefix}SRCSEL": "IOPLL",
            f"{prefix}ACT_FREQMHZ": f"{board.clock_mhz:f}",
        }
    numbers = [2 + int(re.sub(r"\D", "", port)) for port in board.memory_ports[: config.axi_ports]]
    widths = {f"C_SAXIGP{number}_DATA_WIDTH": str(config.port_bits) for number in numbers}
    return {**parameters, "C_MAXIGP0_DATA_WIDTH": "32", **widths}


def _divisors(source_mhz: float, clock_mhz: float) -> tuple[int, int]:
    """The two divisors, each of 6 bits, that come closest to a clock; the smaller product wins."""
    pairs = [(first, second) for second in range(1, 64) for first in range(second, 64)]
    return min(pairs, key=lambda pair: (abs(source_mhz / (pair[0] * pair[1]) - clock_mhz), pair[1]))


# --- the register map -----------------------------------------------------------------------------


def _register_map(module: Element) -> None:
    blocks = SubElement(module, "ADDRESSBLOCKS")
    block = SubElement(
        blocks, "ADDRESSBLOCK", ACCESS="", INTERFACE=CONTROL_INTERFACE, NAME="reg0", RANGE="4096", USAGE="register"
    )
    registers = SubElement(block, "REGISTERS")
    for register in REGISTERS:
        _register(registers, register)


def _register(registers: Element, register: Register) -> None:
    element = SubElement(registers, "REGISTER", NAME=register.name)
    values = {
        "DESCRIPTION": register.doc,
        "ADDRESS_OFFSET": f"0x{register.offset:X}",
        "SIZE": "32",
        "ACCESS": REGISTER_ACCESS[register.access],
        "IS_ENABLED": "true",
        "RESET_VALUE": f"0x{register.reset:X}",
    }
    _properties(element, values)
    fields = SubElement(element, "FIELDS")
    for bit in register.bits or (_whole(register),):
        width = 1 if register.bits else register.width
        field = SubElement(fields, "FIELD", NAME=bit.name)
        values = {
            "DESCRIPTION": bit.doc,
            "BIT_OFFSET": str(bit.position),
            "BIT_WIDTH": str(width),
            "ACCESS": REGISTER_ACCESS[register.access],
        }
        _properties(field, values)


def _whole(register: Register) -> Bit:
    return Bit(register.name.lower(), 0, register.doc)


# --- elements -------------------------------------------------------------------------------------


def _module(modules: Element, instance: str, modtype: str, vlnv: str, parameters: Mapping[str, str]) -> Element:
    version = vlnv.split(":")[-1]
    module = SubElement(
        modules,
        "MODULE",
        COREREVISION="1",
        FULLNAME=f"/{instance}",
        HWVERSION=version,
        INSTANCE=instance,
        IPTYPE="PERIPHERAL",
        IS_ENABLE="1",
        MODCLASS="PERIPHERAL",
        MODTYPE=modtype,
        NAME=modtype,
        VLNV=vlnv,
    )
    listed = SubElement(module, "PARAMETERS")
    for name, value in parameters.items():
        SubElement(listed, "PARAMETER", NAME=name, VALUE=value)
    return module


def _ports(module: Element, board: Board, *ports: tuple[str, str, str, int | None]) -> None:
    """The ports of a module: name, direction, kind, and the width of a vector."""
    instance = module.get("INSTANCE", "")
    listed = SubElement(module, "PORTS")
    for name, direction, kind, width in ports:
        net = next(net for net in _nets(board) if (instance, name) in net.pins)
        span = {} if width is None else {"LEFT": str(width - 1), "RIGHT": "0"}
        port = SubElement(listed, "PORT", span, DIR=direction, NAME=name, SIGIS=kind, SIGNAME=net.name)
        connections = SubElement(port, "CONNECTIONS")
        driver, *driven = net.pins
        for other, pin in driven if (instance, name) == driver else (driver,):
            SubElement(connections, "CONNECTION", INSTANCE=other, PORT=pin)


def _interface(interfaces: Element, name: str, kind: str, bits: int) -> None:
    bus = SubElement(
        interfaces, "BUSINTERFACE", BUSNAME=f"bus_{name}", DATAWIDTH=str(bits), NAME=name, TYPE=kind, VLNV=AXI_VLNV
    )
    SubElement(bus, "PARAMETER", NAME="DATA_WIDTH", VALUE=str(bits))


def _properties(element: Element, values: Mapping[str, str]) -> None:
    for name, value in values.items():
        SubElement(element, "PROPERTY", NAME=name, VALUE=value)
