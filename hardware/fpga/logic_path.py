"""The longest path between registers of a mapped Xilinx netlist: a timing estimate before
placement.

Cell delays are round numbers of a slow Series 7 part. Every net has the same delay, except the
wires of carry chains and wide multiplexers inside a slice, which have none. Without placement,
routing and false paths the estimate compares designs; it does not predict the clock of a board.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

NET_NS = 0.6
CLOCK_TO_Q_NS = 0.5
SETUP_NS = 0.1

# From any input of a cell to its output; within a carry chain, from slice to slice.
LUT_NS, MUX_NS, CARRY_ENTRY_NS, CARRY_NS = 0.12, 0.25, 0.6, 0.12

MEMORY_OUT_NS = {"RAMB": 2.5, "URAM": 2.5, "SRL": 1.1, "RAM": 1.0}
MEMORY_IN_NS = 0.5

# A DSP slice: through the multiplier, through the adder; the registers are after each.
DSP_MULTIPLY_NS, DSP_ADD_NS = 2.5, 1.4

_LUT = re.compile(r"LUT[1-6]|INV")
_MUX = re.compile(r"MUXF[789]")
_CARRY = re.compile(r"CARRY[48]")
_BLOCK = re.compile(r"RAMB\d+E\d|URAM\d+")
_SHIFT = re.compile(r"SRLC?(16|32)E")
_LUT_MEMORY = re.compile(r"RAM\d+.*")


@dataclass(frozen=True, slots=True)
class LogicPath:
    """A path: LUTs and carry chains (`levels`), estimated delay, ends, types of its cells."""

    levels: int
    estimate_ns: float
    start: str
    end: str
    cells: tuple[str, ...]


@dataclass(slots=True)
class _Cell:
    """The delays of a cell: through it, out of its registers, into them; None where it has none."""

    name: str
    kind: str
    inputs: list[int]
    outputs: list[int]
    through_ns: float | None = None
    launch_ns: float | None = None
    capture_ns: float | None = None
    levels: int = 0
    multiplied: frozenset[int] = frozenset()  # inputs of a DSP slice that pass its multiplier
    multiplied_ns: float = 0.0


@dataclass(frozen=True, slots=True)
class _Arrival:
    time_ns: float
    levels: int
    cell: _Cell
    before: _Arrival | None


def longest_path(module: Mapping[str, Any]) -> LogicPath:
    """The longest path of a flattened module in Yosys's JSON format."""
    cells = [cell for name, body in module["cells"].items() for cell in _cells(name, body)]
    arrivals = _arrivals(cells)
    ends = (
        (_at(arrivals, cell, cell.capture_ns), cell)
        for cell in cells
        if cell.capture_ns is not None and any(bit in arrivals for bit in cell.inputs)
    )
    best = max(ends, key=lambda pair: pair[0][0], default=None)
    if best is None:
        return LogicPath(0, 0.0, "", "", ())
    (time_ns, last), end = best
    way = list(_way(last))
    names = _names(module)
    return LogicPath(
        last.levels, round(time_ns, 2), _name(way[0], names), _name(end, names), (*_summary(way), end.kind)
    )


def _at(arrivals: Mapping[int, _Arrival], cell: _Cell, delay_ns: float) -> tuple[float, _Arrival]:
    """The arrival time after `delay_ns` of a cell, and the latest of its inputs."""
    late = (
        (cell.multiplied_ns if bit in cell.multiplied else 0.0, arrivals[bit]) for bit in cell.inputs if bit in arrivals
    )
    extra_ns, last = max(late, key=lambda pair: pair[0] + pair[1].time_ns)
    if _chained(cell, last):
        return last.time_ns + CARRY_NS, last
    return last.time_ns + (0.0 if _MUX.fullmatch(cell.kind) else NET_NS) + extra_ns + delay_ns, last


def _chained(cell: _Cell, last: _Arrival) -> bool:
    return bool(_CARRY.fullmatch(cell.kind) and _CARRY.fullmatch(last.cell.kind))


def _arrivals(cells: Sequence[_Cell]) -> dict[int, _Arrival]:
    """The arrival at each net that depends on a register or memory, in topological order."""
    driver = {bit: cell for cell in cells if cell.through_ns is not None for bit in cell.outputs}
    readers: dict[int, list[_Cell]] = defaultdict(list)
    waits: dict[str, int] = {}
    ready: deque[_Cell] = deque()
    for cell in cells:
        if cell.through_ns is None:
            continue
        before = {id(driver[bit]) for bit in cell.inputs if bit in driver}
        waits[cell.name] = len(before)
        for one in {id(driver[bit]): driver[bit] for bit in cell.inputs if bit in driver}.values():
            readers[id(one)].append(cell)
        if not before:
            ready.append(cell)
    arrivals = {
        bit: _Arrival(cell.launch_ns, 0, cell, None)
        for cell in cells
        if cell.launch_ns is not None
        for bit in cell.outputs
    }
    while ready:
        cell = ready.popleft()
        assert cell.through_ns is not None
        if any(bit in arrivals for bit in cell.inputs):
            time_ns, last = _at(arrivals, cell, cell.through_ns)
            levels = last.levels + (0 if _chained(cell, last) else cell.levels)
            through = _Arrival(time_ns, levels, cell, last)
            arrivals.update((bit, _later(arrivals.get(bit), through)) for bit in cell.outputs)
        for reader in readers[id(cell)]:
            waits[reader.name] -= 1
            if waits[reader.name] == 0:
                ready.append(reader)
    return arrivals


def _later(old: _Arrival | None, new: _Arrival) -> _Arrival:
    """The later arrival; a LUT memory's output depends on its clock and on its read address."""
    return new if old is None or new.time_ns > old.time_ns else old


def _cells(name: str, body: Mapping[str, Any]) -> Iterator[_Cell]:
    """The cell; a LUT memory as two, since no path leads from its write to its read port."""
    cell = _cell(name, body)
    if _LUT_MEMORY.fullmatch(cell.kind) and not _BLOCK.fullmatch(cell.kind):
        addresses = {bit for port in _read_addresses(body["connections"]) for bit in body["connections"][port]}
        written = [bit for bit in cell.inputs if bit not in addresses]
        yield replace(cell, inputs=written, outputs=[], through_ns=None, launch_ns=None)
        cell.inputs, cell.capture_ns = [bit for bit in cell.inputs if bit in addresses], None
    if cell.inputs or cell.outputs:
        yield cell


def _read_addresses(connections: Mapping[str, Any]) -> Iterator[str]:
    """The read address ports of a LUT memory."""
    for port in connections:
        if port.startswith("ADDR"):
            reads = bool(connections.get(f"DO{port[4:]}"))
        elif re.fullmatch(r"A\d*", port):
            reads = bool(connections.get("SPO") or connections.get("O"))
        else:
            reads = port.startswith("DPRA")
        if reads:
            yield port


def _cell(name: str, body: Mapping[str, Any]) -> _Cell:
    directions, connections = body["port_directions"], body["connections"]
    kind = body["type"]
    ports: dict[str, list[int]] = {"input": [], "output": []}
    for port, bits in connections.items():
        if port not in ("C", "CLK", "WCLK") or _is_dsp(kind):
            ports[directions[port]] += [bit for bit in bits if isinstance(bit, int)]
    cell = _Cell(name=name, kind=kind, inputs=ports["input"], outputs=ports["output"])
    if _LUT.fullmatch(kind):
        cell.through_ns, cell.levels = LUT_NS, 1
    elif _MUX.fullmatch(kind):
        cell.through_ns = MUX_NS
    elif _CARRY.fullmatch(kind):
        cell.through_ns, cell.levels = CARRY_ENTRY_NS, 1
    elif _is_dsp(kind):
        _dsp(cell, body)
    else:
        _stateful(cell)
    return cell


def _stateful(cell: _Cell) -> None:
    """Set the delays of a register or memory."""
    cell.capture_ns, cell.launch_ns = SETUP_NS, CLOCK_TO_Q_NS
    if _BLOCK.fullmatch(cell.kind):
        cell.capture_ns, cell.launch_ns = MEMORY_IN_NS, MEMORY_OUT_NS[cell.kind[:4]]
    elif _SHIFT.fullmatch(cell.kind):
        cell.capture_ns, cell.launch_ns = MEMORY_IN_NS, MEMORY_OUT_NS["SRL"]
    elif _LUT_MEMORY.fullmatch(cell.kind):
        cell.capture_ns, cell.launch_ns = MEMORY_IN_NS, MEMORY_OUT_NS["RAM"]
        cell.through_ns, cell.levels = LUT_NS, 1


def _is_dsp(kind: str) -> bool:
    return kind.startswith("DSP48")


def _dsp(cell: _Cell, body: Mapping[str, Any]) -> None:
    """Set the delays of a DSP slice, which depend on its pipeline registers."""
    connections = body["connections"]
    cell.inputs = [bit for bit in cell.inputs if bit not in connections.get("CLK", [])]
    has = {name: int(str(body["parameters"].get(name, "0")), 2) > 0 for name in ("AREG", "MREG", "PREG")}
    multiplies = body["parameters"].get("USE_MULT", "MULTIPLY").strip() != "NONE"
    if multiplies and not has["AREG"]:
        cell.multiplied = frozenset(bit for port in "ABD" for bit in connections.get(port, []) if isinstance(bit, int))
        cell.multiplied_ns = DSP_MULTIPLY_NS
    if has["PREG"]:
        cell.launch_ns, cell.capture_ns = CLOCK_TO_Q_NS, DSP_ADD_NS + SETUP_NS
        cell.multiplied_ns -= DSP_ADD_NS if has["MREG"] else 0.0
    elif has["MREG"] or has["AREG"]:
        cell.launch_ns = CLOCK_TO_Q_NS + DSP_ADD_NS + (0.0 if has["MREG"] else DSP_MULTIPLY_NS)
        cell.capture_ns = SETUP_NS
    else:
        cell.through_ns, cell.levels = DSP_ADD_NS, 1


# --- names ---------------------------------------------------------------------------------------


def _way(last: _Arrival) -> Iterator[_Cell]:
    """The cells of a path in order."""
    if last.before is not None:
        yield from _way(last.before)
    yield last.cell


def _summary(way: Sequence[_Cell]) -> list[str]:
    """The types of the cells, a carry chain as one."""
    kinds: list[str] = []
    for cell in way:
        if not (kinds and _CARRY.fullmatch(cell.kind) and kinds[-1] == cell.kind):
            kinds.append(cell.kind)
    return kinds


def _names(module: Mapping[str, Any]) -> dict[int, str]:
    """The shortest declared name of each net."""
    names: dict[int, str] = {}
    for name, net in module["netnames"].items():
        if net.get("hide_name"):
            continue
        for position, bit in enumerate(net["bits"]):
            if isinstance(bit, int) and (bit not in names or len(name) < len(names[bit])):
                names[bit] = f"{name}[{position}]" if len(net["bits"]) > 1 else name
    return names


def _name(cell: _Cell, names: Mapping[int, str]) -> str:
    """The name of a path's end: that of the net it drives, else of the cell."""
    known = [names[bit] for bit in cell.outputs if bit in names]
    return min(known, key=len) if known else cell.name
