# SPDX-License-Identifier: Apache-2.0
"""The longest paths of a mapped Xilinx netlist: a timing estimate before placement.

Delays of cells are those of the slowest speed grade (`delays.py`). A net costs more the more loads
it has; inside a slice and along carry chains and DSP cascades it costs nothing. Without placement,
routing and false paths the estimate compares designs; it does not predict the clock of a board.

The invariant: every register, memory and DSP slice of the netlist begins and ends paths, and every
path belongs to the clocks of its two ends.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vdla.hardware.fpga.cells import Cell, Group, cell_of
from vdla.hardware.fpga.delays import Delays

__all__ = ["LogicPath", "PathReport", "longest_paths"]

MOST_PATHS = 40
"""Paths kept for each pair of clocks, each to another register."""

_CLOCK_PORTS = frozenset({"C", "G", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK"})
_IN_SLICE = {  # driver and load in one slice, if the load is the driver's only one
    (Group.LUT, Group.REGISTER), (Group.CARRY, Group.REGISTER), (Group.MULTIPLEXER, Group.REGISTER),
    (Group.LUT_MEMORY, Group.REGISTER), (Group.LUT, Group.CARRY), (Group.LUT, Group.MULTIPLEXER),
    (Group.MULTIPLEXER, Group.MULTIPLEXER), (Group.LUT_MEMORY, Group.MULTIPLEXER),
}  # fmt: skip
_CASCADES = frozenset({"PCIN", "ACIN", "BCIN", "CARRYCASCIN", "MULTSIGNIN", "CI"})
_OUTSIDE = -1
"""In place of a clock: the port of the module."""


@dataclass(frozen=True, slots=True)
class LogicPath:
    """A path: its delay, LUTs and carry chains (`levels`), ends, cells with their loads."""

    estimate_ns: float
    levels: int
    start: str
    end: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PathReport:
    """The longest paths, each list from the longest on and with different end registers.

    `paths` are by the clocks of start and end, joined by a space; `inputs` and `outputs` have their
    other end outside; `period_ns` is the shortest period that the blocks of a clock allow.
    """

    paths: Mapping[str, tuple[LogicPath, ...]]
    inputs: tuple[LogicPath, ...] = ()
    outputs: tuple[LogicPath, ...] = ()
    period_ns: Mapping[str, float] = field(default_factory=dict)

    def longest(self, clock: str) -> LogicPath | None:
        """The longest path from a clock to itself."""
        return next(iter(self.paths.get(f"{clock} {clock}", ())), None)

    def fastest_budget(self, clock: str) -> LogicPath | None:
        """The longest path with an end at a clock: from and to related slower clocks as well."""
        candidates = [path for ends, paths in self.paths.items() if clock in ends.split() for path in paths[:1]]
        return max(candidates, key=lambda path: path.estimate_ns, default=None)


@dataclass(frozen=True, slots=True)
class _Arrival:
    """When a net changes after a clock edge, and through what."""

    time_ns: float
    levels: int
    cell: Cell | None
    before: _Arrival | None


@dataclass(frozen=True, slots=True)
class _Arc:
    """A way through a cell to a net."""

    cell: Cell
    port: str
    source: int
    ns: float
    levels: int


class _Netlist:
    """The cells of a flat module with the drivers and loads of its nets."""

    def __init__(self, module: Mapping[str, Any], delays: Delays) -> None:
        self.delays = delays
        self.cells = [cell_of(name, body, delays) for name, body in module["cells"].items()]
        self.names = _names(module)
        self.ports = module.get("ports", {})
        self.driver = {bit: cell for cell in self.cells for _, bit in cell.outputs}
        self.loads: dict[int, int] = defaultdict(int)
        for cell in self.cells:
            for bit in {bit for port, bit in cell.inputs if port not in _CLOCK_PORTS}:
                self.loads[bit] += 1

    def net_ns(self, bit: int, cell: Cell, port: str) -> float:
        """The delay of a net to a pin."""
        driver, delays = self.driver.get(bit), self.delays
        loads = self.loads[bit]
        if driver is None:  # an input of the module
            return delays.net(loads, True)
        if port in _CASCADES and driver.group == cell.group:
            return 0.0
        if loads == 1 and (driver.group, cell.group) in _IN_SLICE and _is_data(cell, port):
            return 0.0
        blocks = {driver.group, cell.group} & {Group.DSP, Group.RAM}
        extra = delays.net_to_block if blocks else 0.0
        return delays.net(loads, driver.group == Group.REGISTER) + extra


def _is_data(cell: Cell, port: str) -> bool:
    """Whether a pin has a wire inside the slice: data of a register, not its enable or reset."""
    return port == "D" if cell.group == Group.REGISTER else port not in ("CI", "CYINIT")


def longest_paths(module: Mapping[str, Any], delays: Delays, most: int = MOST_PATHS) -> PathReport:
    """The longest paths of a flattened module in Yosys's JSON format."""
    netlist = _Netlist(module, delays)
    arrivals = _arrivals(netlist)
    inside: dict[tuple[int, int], dict[str, tuple[float, _Arrival, Cell]]] = defaultdict(dict)
    for cell in netlist.cells:
        for capture in cell.captures:
            for port, bit in capture.pins:
                for clock, arrival in arrivals.get(bit, {}).items():
                    ns = arrival.time_ns + netlist.net_ns(bit, cell, port) + capture.ns
                    _keep(inside[clock, capture.clock], _register(_end(cell, bit, netlist)), (ns, arrival, cell))
    outputs: dict[str, tuple[float, _Arrival, Cell | None]] = {}
    for name, port in netlist.ports.items():
        for bit in port["bits"] if port["direction"] == "output" else ():
            for clock, arrival in arrivals.get(bit, {}).items():
                if clock != _OUTSIDE:
                    ns = arrival.time_ns + delays.net(1, True)
                    _keep(outputs, name, (ns, arrival, None))
    periods: dict[str, float] = {}
    for cell in netlist.cells:
        for clock, ns in cell.periods:
            name = _register(netlist.names.get(clock, ""))
            periods[name] = max(periods.get(name, 0.0), ns)

    def report(slowest: Mapping[str, tuple[float, _Arrival, Cell | None]]) -> tuple[LogicPath, ...]:
        best = sorted(slowest.items(), key=lambda item: (-item[1][0], item[0]))[:most]
        return tuple(_path(netlist, name, *ends) for name, ends in best)

    clocks = {clock: netlist.names.get(clock, str(clock)) for pair in inside for clock in pair}
    return PathReport(
        {f"{clocks[a]} {clocks[b]}": report(slowest) for (a, b), slowest in inside.items() if a != _OUTSIDE},
        report({name: ends for (a, _), slowest in inside.items() if a == _OUTSIDE for name, ends in slowest.items()}),
        report(outputs),
        periods,
    )


def _keep(slowest: dict[str, Any], name: str, ends: tuple[float, _Arrival, Cell | None]) -> None:
    if name not in slowest or ends[0] > slowest[name][0]:
        slowest[name] = ends


# --- arrivals -------------------------------------------------------------------------------------


def _arrivals(netlist: _Netlist) -> dict[int, dict[int, _Arrival]]:
    """The arrivals at each net by the clock of the path's start, in topological order."""
    arcs: dict[int, list[_Arc]] = defaultdict(list)
    for cell in netlist.cells:
        for through in cell.through:
            for out in through.outputs:
                arcs[out] += [_Arc(cell, port, bit, through.ns, through.levels) for port, bit in through.inputs]
    arrivals: dict[int, dict[int, _Arrival]] = defaultdict(dict)
    for name, port in netlist.ports.items():
        if port["direction"] == "input" and not _is_control(name):
            arrivals.update(
                {bit: {_OUTSIDE: _Arrival(0.0, 0, None, None)} for bit in port["bits"] if isinstance(bit, int)}
            )
    for cell in netlist.cells:
        for launch in cell.launches:
            for _, bit in launch.pins:
                arrivals[bit][launch.clock] = _Arrival(launch.ns, 0, cell, None)
    for bit in _topological(arcs):
        for arc in arcs[bit]:
            for clock, before in arrivals.get(arc.source, {}).items():
                chained = arc.port == "CI" and before.cell is not None and before.cell.group == Group.CARRY
                ns = before.time_ns + netlist.net_ns(arc.source, arc.cell, arc.port) + arc.ns
                known = arrivals[bit].get(clock)
                if known is None or ns > known.time_ns:
                    levels = before.levels + (0 if chained else arc.levels)
                    arrivals[bit][clock] = _Arrival(ns, levels, arc.cell, before)
    return arrivals


def _is_control(name: str) -> bool:
    """Whether a port of the module is a clock or a reset."""
    return bool(re.match(r"(clk|rst|aclk|areset)", name))


def _topological(arcs: Mapping[int, Iterable[_Arc]]) -> Iterator[int]:
    """The nets behind arcs, each after those it depends on."""
    waits = {bit: len({arc.source for arc in into if arc.source in arcs}) for bit, into in arcs.items()}
    readers: dict[int, set[int]] = defaultdict(set)
    for bit, into in arcs.items():
        for arc in into:
            if arc.source in arcs:
                readers[arc.source].add(bit)
    ready = deque(bit for bit, count in waits.items() if not count)
    while ready:
        bit = ready.popleft()
        yield bit
        for reader in readers[bit]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)


# --- names ----------------------------------------------------------------------------------------


def _names(module: Mapping[str, Any]) -> dict[int, str]:
    """A declared name of each net: that of a register if it has one, else the shortest."""
    names: dict[int, tuple[bool, int, str]] = {}
    for name, net in module["netnames"].items():
        if net.get("hide_name"):
            continue
        key = (not name.endswith("_q"), len(name))
        for position, bit in enumerate(net["bits"]):
            if isinstance(bit, int) and (bit not in names or key < names[bit][:2]):
                names[bit] = (*key, f"{name}[{position}]" if len(net["bits"]) > 1 else name)
    return {bit: name for bit, (_, _, name) in names.items()}


def _register(name: str) -> str:
    """The name of a whole register or memory: without the bit, the same for equal instances."""
    name = re.sub(r"(\[\d+\]|\.\d+)+$", "", name)
    return re.sub(r"\[\d+\]", "[*]", name)


def _end(cell: Cell, bit: int, netlist: _Netlist) -> str:
    """The name of a path's end: that of a net it drives, else of the net that ends there, else the
    module that it is in.
    """
    known = [netlist.names[out] for _, out in cell.outputs if out in netlist.names]
    if known:
        return min(known, key=len)
    return netlist.names.get(bit) or re.sub(r"\$flatten|\\|\.?\$auto.*", "", cell.name)


def _path(netlist: _Netlist, name: str, ns: float, last: _Arrival, end: Cell | None) -> LogicPath:
    way: list[_Arrival] = []
    at: _Arrival | None = last
    while at is not None:
        way.insert(0, at)
        at = at.before
    first = way[0].cell
    start = "input" if first is None else _register(_end(first, 0, netlist))
    cells = [_cell_text(netlist, arrival.cell) for arrival in way if arrival.cell is not None]
    shown = [
        text
        for k, text in enumerate(cells)
        if k == 0 or not (text.startswith("CARRY") and cells[k - 1].startswith("CARRY"))
    ]
    return LogicPath(round(ns, 2), last.levels, start, name, (*shown, *([end.kind] if end is not None else [])))


def _cell_text(netlist: _Netlist, cell: Cell) -> str:
    """The type of a cell and the most loads that an output of it has, such as LUT4(12)."""
    if cell.group == Group.CARRY:
        return cell.kind
    return f"{cell.kind}({max((netlist.loads[bit] for _, bit in cell.outputs), default=0)})"
