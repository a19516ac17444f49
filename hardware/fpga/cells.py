# SPDX-License-Identifier: Apache-2.0
"""The cells of a mapped Xilinx netlist and their delays: through a cell, out of its registers, into
them.

Carry chains are modelled by bit, since by port a sum would depend on higher bits; all other cells
by port.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from itertools import zip_longest
from typing import Any

from vdla.hardware.fpga.delays import Delays

__all__ = ["Cell", "Clocked", "Group", "Through", "cell_of"]

Pin = tuple[str, int]
"""A port and one of its bits, the number of a net."""


class Group(Enum):
    """The properties of a cell on which nets depend."""

    LUT = "LUT"
    MULTIPLEXER = "wide multiplexer"
    CARRY = "carry chain"
    REGISTER = "register"
    LUT_MEMORY = "LUT memory"
    DSP = "DSP slice"
    RAM = "block RAM"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Through:
    """A delay from any of some inputs to each of some outputs."""

    inputs: tuple[Pin, ...]
    outputs: tuple[int, ...]
    ns: float
    levels: int = 0


@dataclass(frozen=True, slots=True)
class Clocked:
    """A delay from a clock to outputs, or from inputs to a clock."""

    pins: tuple[Pin, ...]
    clock: int
    ns: float


@dataclass(slots=True)
class Cell:
    """A cell; `periods` are the shortest ones of its clocks."""

    name: str
    kind: str
    group: Group
    inputs: tuple[Pin, ...]
    outputs: tuple[Pin, ...]
    through: list[Through] = field(default_factory=list)
    launches: list[Clocked] = field(default_factory=list)
    captures: list[Clocked] = field(default_factory=list)
    periods: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Body:
    """The ports and parameters of a cell in Yosys's JSON format."""

    connections: Mapping[str, list[int | str]]
    parameters: Mapping[str, str]

    def pins(self, pattern: str) -> tuple[Pin, ...]:
        """The connected bits of the ports whose whole name matches a pattern."""
        ports = [port for port in self.connections if re.fullmatch(pattern, port)]
        return tuple((port, bit) for port in ports for bit in self.connections[port] if isinstance(bit, int))

    def bits(self, port: str) -> list[int | None]:
        """The nets of a port by position; None where constant."""
        return [bit if isinstance(bit, int) else None for bit in self.connections.get(port, [])]

    def clock(self, port: str) -> int | None:
        """The net of a clock port; None if the port is constant."""
        return next(iter(self.bits(port)), None)

    def number(self, parameter: str) -> int:
        """A parameter as a number; 0 if absent."""
        text = self.parameters.get(parameter, "0")
        return int(text, 2) if re.fullmatch("[01]+", text) else 0


def cell_of(name: str, body: Mapping[str, Any], delays: Delays) -> Cell:
    """A cell of a module in Yosys's JSON format, with its delays."""
    kind, directions = body["type"], body["port_directions"]
    inputs: list[Pin] = []
    outputs: list[Pin] = []
    for port, bits in body["connections"].items():
        side = outputs if directions[port] == "output" else inputs
        side += [(port, bit) for bit in bits if isinstance(bit, int)]
    group, build = next(
        ((group, build) for pattern, group, build in _KINDS if pattern.fullmatch(kind)), (Group.OTHER, None)
    )
    cell = Cell(name=name, kind=kind, group=group, inputs=tuple(inputs), outputs=tuple(outputs))
    if build is not None:
        build(cell, _Body(body["connections"], body.get("parameters", {})), delays)
    return cell


def _capture(cell: Cell, pins: tuple[Pin, ...], clock: int | None, ns: float) -> None:
    if pins and clock is not None:
        cell.captures.append(Clocked(pins, clock, ns))


def _launch(cell: Cell, pins: tuple[Pin, ...], clock: int | None, ns: float) -> None:
    if pins and clock is not None:
        cell.launches.append(Clocked(pins, clock, ns))


def _through(cell: Cell, inputs: tuple[Pin, ...], outputs: tuple[Pin, ...], ns: float, levels: int = 0) -> None:
    if inputs and outputs:
        cell.through.append(Through(inputs, tuple(bit for _, bit in outputs), ns, levels))


# --- slices --------------------------------------------------------------------------------------


def _lut(cell: Cell, body: _Body, delays: Delays) -> None:
    _through(cell, cell.inputs, cell.outputs, delays.lut, levels=1)


def _multiplexer(cell: Cell, body: _Body, delays: Delays) -> None:
    _through(cell, body.pins("I[01]"), cell.outputs, delays.mux)
    _through(cell, body.pins("S"), cell.outputs, delays.mux_select)


def _carry(cell: Cell, body: _Body, delays: Delays) -> None:
    """From the inputs of a bit to its sum and to all that is above."""
    carries = body.pins("CI|CYINIT|CI_TOP")
    ports = {port: body.bits(port) for port in ("S", "DI", "O", "CO")}
    below: list[Pin] = []
    for select, data, total, carry in zip_longest(*ports.values()):  # unused outputs are left out
        inputs = [(port, bit) for port, bit in (("S", select), ("DI", data)) if bit is not None]
        if total is not None:
            _through(cell, tuple(pin for pin in inputs if pin[0] == "S"), (("O", total),), delays.carry_out, levels=1)
            _through(cell, tuple(below), (("O", total),), delays.carry_in + delays.carry_sum, levels=1)
            _through(cell, carries, (("O", total),), delays.carry_out)
        below += inputs
        if carry is not None:
            _through(cell, tuple(below), (("CO", carry),), delays.carry_in, levels=1)
            _through(cell, carries, (("CO", carry),), delays.carry_through)


def _register(cell: Cell, body: _Body, delays: Delays) -> None:
    clock = body.clock("C") or body.clock("G")
    _launch(cell, body.pins("Q"), clock, delays.register_out)
    _capture(cell, body.pins("D"), clock, delays.register_setup)
    _capture(cell, body.pins("CE|GE"), clock, delays.enable_setup)
    _capture(cell, body.pins("R|S|CLR|PRE"), clock, delays.reset_setup)


def _shift_register(cell: Cell, body: _Body, delays: Delays) -> None:
    clock = body.clock("CLK")
    _launch(cell, cell.outputs, clock, delays.shift_out)
    _capture(cell, body.pins("D|CE"), clock, delays.lut_memory_setup)
    _through(cell, body.pins(r"A\d*"), body.pins("Q"), delays.lut, levels=1)


def _lut_ram(cell: Cell, body: _Body, delays: Delays) -> None:
    """No path leads from the write to the read port."""
    clock = body.clock("WCLK")
    _launch(cell, cell.outputs, clock, delays.lut_ram_out)
    many = "H" if "ADDRH" in body.connections else "D"
    _capture(cell, body.pins(rf"D|DI\w?|WE|A\d*|ADDR{many}"), clock, delays.lut_memory_setup)
    for letter in "ABCDEFGH":
        _through(cell, body.pins(f"ADDR{letter}"), body.pins(f"DO{letter}"), delays.lut, levels=1)
    _through(cell, body.pins(r"A\d*"), body.pins("SPO|O"), delays.lut, levels=1)
    _through(cell, body.pins(r"DPRA\d*"), body.pins("DPO"), delays.lut, levels=1)


# --- blocks --------------------------------------------------------------------------------------


def _block_ram(cell: Cell, body: _Body, delays: Delays) -> None:
    """Each side has its clock; in the widest form side A reads and side B writes."""
    simple = body.parameters.get("RAM_MODE") == "SDP" or body.number("READ_WIDTH_A") == 72
    reads, writes = "DO(UT)?P?", "DI(N)?P?"
    for side, clock in (("A", body.clock("CLKARDCLK")), ("B", body.clock("CLKBWRCLK"))):
        output = f"{reads}[AB].*" if simple and side == "A" else f"{reads}{side}.*"
        data = f"{writes}[AB].*" if simple and side == "B" else f"{writes}{side}.*"
        registered = body.number(f"DO{side}_REG") > 0
        _launch(
            cell,
            () if simple and side == "B" else body.pins(output),
            clock,
            delays.block_ram_registered_out if registered else delays.block_ram_out,
        )
        _capture(cell, () if simple and side == "A" else body.pins(data), clock, delays.block_ram_data_setup)
        _capture(cell, body.pins(f"(ADDR|EN|REGCE|RSTRAM|RSTREG|WE){side}.*"), clock, delays.block_ram_setup)
        if clock is not None:
            cell.periods.append((clock, delays.block_ram_period))


def _ultra_ram(cell: Cell, body: _Body, delays: Delays) -> None:
    clock = body.clock("CLK")
    _launch(cell, body.pins("DOUT_[AB]"), clock, delays.ultra_ram_out)
    _capture(cell, tuple(pin for pin in cell.inputs if pin[0] != "CLK"), clock, delays.ultra_ram_setup)
    if clock is not None:
        cell.periods.append((clock, delays.ultra_ram_period))


_DSP_REGISTERS = {
    "A": "AREG", "ACIN": "AREG", "B": "BREG", "BCIN": "BREG", "C": "CREG", "D": "DREG", "OPMODE": "OPMODEREG",
    "ALUMODE": "ALUMODEREG", "INMODE": "INMODEREG", "CARRYIN": "CARRYINREG", "CARRYINSEL": "CARRYINSELREG",
}  # fmt: skip
_DSP_REGISTER_NAMES = (*_DSP_REGISTERS.values(), "ADREG", "MREG", "PREG")


def _dsp(cell: Cell, body: _Body, delays: Delays) -> None:
    """Each value goes from its pin, or from its last register, to the next register or to P."""
    clock = body.clock("CLK")
    has = {name for name in _DSP_REGISTER_NAMES if clock is not None and body.number(name)}
    multiplies = body.parameters.get("USE_MULT", "MULTIPLY").strip() != "NONE"
    adds_first = body.parameters.get("USE_DPORT", "FALSE") == "TRUE" or body.number("AMULTSEL") > 0
    for port in (*_DSP_REGISTERS, "PCIN", "CARRYCASCIN", "MULTSIGNIN"):
        pins = body.pins(port)
        ends, ns = _dsp_entry(port, has, multiplies, adds_first, delays)
        if ends:
            _capture(cell, pins, clock, ns)
        else:
            _through(cell, pins, body.pins("P|CARRYOUT"), ns, levels=1)
            _through(cell, pins, body.pins("PCOUT|CARRYCASCOUT|MULTSIGNOUT"), ns + delays.dsp_pcout, levels=1)
    _capture(cell, body.pins("CE[A-Z]+[12]?|RST[A-Z]+"), clock, delays.dsp_control_setup)
    launch_ns = _dsp_launch(has, multiplies, adds_first, delays)
    if launch_ns is not None:
        _launch(cell, body.pins("P|CARRYOUT"), clock, launch_ns)
        _launch(cell, body.pins("PCOUT|CARRYCASCOUT|MULTSIGNOUT"), clock, launch_ns + delays.dsp_pcout)
    for port, register in (("A", "AREG"), ("B", "BREG")):
        cascade = body.pins(f"{port}COUT")
        if register in has:
            _launch(cell, cascade, clock, delays.dsp_p_out)
        else:
            _through(cell, body.pins(f"{port}|{port}CIN"), cascade, delays.dsp_pcout)
    if clock is not None and has:
        cell.periods.append((clock, _dsp_period(has, multiplies, adds_first, delays)))


def _dsp_entry(port: str, has: set[str], multiplies: bool, adds_first: bool, delays: Delays) -> tuple[bool, float]:
    """Whether a value from a pin ends at a register, and the delay to there or to P."""
    if _DSP_REGISTERS.get(port) in has:
        return True, delays.dsp_setup
    if not multiplies or port not in ("A", "ACIN", "B", "BCIN", "D", "INMODE"):
        return "PREG" in has, delays.dsp_cascade_add if port == "PCIN" else delays.dsp_add
    preadd = delays.dsp_preadd if adds_first and port not in ("B", "BCIN") else 0.0
    if preadd and "ADREG" in has:
        return True, preadd
    if "MREG" in has:
        return True, preadd + delays.dsp_multiply
    return "PREG" in has, preadd + delays.dsp_multiply_add


def _dsp_launch(has: set[str], multiplies: bool, adds_first: bool, delays: Delays) -> float | None:
    """The delay from the clock to P: from the register that is furthest from it."""
    if "PREG" in has:
        return delays.dsp_p_out
    ways = [delays.dsp_c_out] if has & {"CREG", "OPMODEREG", "ALUMODEREG", "CARRYINREG", "CARRYINSELREG"} else []
    if multiplies and "MREG" in has:
        ways.append(delays.dsp_m_out)
    elif multiplies and has & {"AREG", "BREG", "DREG", "ADREG", "INMODEREG"}:
        before = adds_first and "ADREG" not in has and has & {"AREG", "DREG", "INMODEREG"}
        ways.append(delays.dsp_a_out + (delays.dsp_preadd if before else 0.0))
    elif has & {"AREG", "BREG"}:
        ways.append(delays.dsp_c_out)
    return max(ways, default=None)


def _dsp_period(has: set[str], multiplies: bool, adds_first: bool, delays: Delays) -> float:
    """The shortest period, which a stage between two registers inside the slice sets."""
    first = has & {"AREG", "BREG", "DREG", "ADREG"}
    if multiplies and first and "PREG" in has and "MREG" not in has:
        return delays.dsp_period_without_m
    if multiplies and adds_first and "ADREG" not in has and has & {"AREG", "DREG"} and "MREG" in has:
        return delays.dsp_period_without_ad
    return delays.dsp_period


_Build = Callable[[Cell, _Body, Delays], None]
_KINDS: tuple[tuple[re.Pattern[str], Group, _Build], ...] = (
    (re.compile(r"LUT[1-6]|INV"), Group.LUT, _lut),
    (re.compile(r"MUXF[789]"), Group.MULTIPLEXER, _multiplexer),
    (re.compile(r"CARRY[48]"), Group.CARRY, _carry),
    (re.compile(r"(FD[RSCP]E|LD[CP]E)(_1)?"), Group.REGISTER, _register),
    (re.compile(r"SRLC?(16|32)E?"), Group.LUT_MEMORY, _shift_register),
    (re.compile(r"RAM(32|64)M(8|16)?|RAM\d+X\w+"), Group.LUT_MEMORY, _lut_ram),
    (re.compile(r"RAMB\d+E\d"), Group.RAM, _block_ram),
    (re.compile(r"URAM\d+\w*"), Group.RAM, _ultra_ram),
    (re.compile(r"DSP48E[12]"), Group.DSP, _dsp),
)
