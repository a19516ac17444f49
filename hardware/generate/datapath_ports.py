# SPDX-License-Identifier: Apache-2.0
"""The ports of a datapath: what the module `ext_<unit>` of a declaration must look like.

Operands are packed arrays with the elements of the tensors of a step, [row][column][bit], so that
`src_i[b][i]` is the element of the behaviour. Their bits are those of the buffers. A unit of one
part has the ports of that part; in one of several, each has the name of its part in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.hardware.array_port import array_port
from vdla.hardware.config import Buffer, Config, ConfigError
from vdla.hardware.isa.formats import plug_in_fields
from vdla.hardware.isa.plug_in import OldSum, PlugIn, PlugInStage, PlugInUnit, Port
from vdla.hardware.isa.plug_in_state import PlugInState, StatePort

INPUT, OUTPUT = "input ", "output"
CLOCK_PORTS = ("clk_i", "rst_ni")
MOST_LATENCY = 255
"""The most cycles from the operands of a step to its result, and so the most steps in a datapath at
once.
"""
ARRAY_PORTS = ("array_sums_i", "array_valid_o", "array_inp_o", "array_wgt_o")
"""Those of a datapath that uses the array of multipliers."""


@dataclass(frozen=True, slots=True)
class DatapathPort:
    """A port of a datapath: its dimensions as written, its bits, what it carries."""

    direction: str
    name: str
    dimensions: str
    bits: int
    doc: str

    @property
    def declaration(self) -> str:
        """The port as a module declares it."""
        return f"{self.direction} logic {self.dimensions + ' ' if self.dimensions else ''}{self.name}"


def datapath_units(config: Config) -> tuple[PlugInUnit, ...]:
    """The declarations of a machine, in the order of their instructions."""
    stage = config.stage
    names = dict.fromkeys(plug_in.unit for plug_in in config.extensions)
    if stage is not None:
        names[stage.unit] = None
    return tuple(
        PlugInUnit(
            tuple(plug_in for plug_in in config.extensions if plug_in.unit == name),
            stage if stage is not None and stage.unit == name else None,
        )
        for name in names
    )


def uses_array(config: Config) -> bool:
    """Whether a datapath of a machine uses the array of multipliers."""
    return any(unit.array for unit in datapath_units(config))


def unit_of_part(config: Config, part: PlugIn | PlugInStage) -> PlugInUnit:
    """The declaration of an instruction or of the stage of a machine."""
    return next(unit for unit in datapath_units(config) if part in unit.parts)


def module_name(unit: PlugInUnit) -> str:
    """The name of the datapath's module."""
    return f"ext_{unit.name}"


def prefix(unit: PlugInUnit, part: PlugIn | PlugInStage) -> str:
    """What the names of a part's ports begin with."""
    return f"{part.name}_" if len(unit.parts) > 1 else ""


def result_name(unit: PlugInUnit, part: PlugIn | PlugInStage) -> str:
    """The port of a part's results."""
    return f"{prefix(unit, part)}result_o"


def row_bits(state: PlugInState) -> int:
    """Bits of the index of a row."""
    return max(1, (state.rows - 1).bit_length())


def datapath_ports(config: Config, unit: PlugInUnit) -> tuple[DatapathPort, ...]:
    """The ports of a datapath on a machine, inputs first; ConfigError where two have one name."""
    ports = tuple(_ports(config, unit))
    names = [port.name for port in ports]
    for plug_in in unit.plug_ins:
        _check_latency(plug_in)
        for field in plug_in.fields:
            if names.count(f"{prefix(unit, plug_in)}{field.name}_i") > 1:
                rule = "a field of an extension with a datapath must not have the name of a port"
                raise ConfigError(f"extension {plug_in.name}: {rule}, got {field.name}")
    for name in names:
        if names.count(name) > 1:
            rule = "ports of a datapath must differ in name"
            raise ConfigError(f"extension {unit.name}: {rule}, got {name} twice; rename an operand, a field or a state")
    return ports


def step_ports(config: Config, unit: PlugInUnit) -> tuple[DatapathPort, ...]:
    """The ports of a datapath without clock and reset, and those to the array of multipliers."""
    others = (*CLOCK_PORTS, *(ARRAY_PORTS if unit.array else ()))
    return tuple(port for port in datapath_ports(config, unit) if port.name not in others)


def _check_latency(plug_in: PlugIn) -> None:
    """Refuse a latency that a datapath cannot know, one of fields that have no port; and a constant
    that is too long.
    """
    names = [field.name for field in plug_in.fields]
    if not plug_in.latency.names and plug_in.latency.value(str) > MOST_LATENCY:
        rule = f"latency must be at most {MOST_LATENCY} cycles for its datapath"
        raise ConfigError(f"extension {plug_in.name}: {rule}, got {plug_in.latency.text}")
    for name in plug_in.latency.names:
        if name not in names:
            rule = "with a datapath, latency must be a constant or a formula of the extension's own fields"
            raise ConfigError(f"extension {plug_in.name}: {rule}, got {plug_in.latency.text}, which has {name}")


def _ports(config: Config, unit: PlugInUnit) -> Iterator[DatapathPort]:
    yield DatapathPort(INPUT, "clk_i", "", 1, "the clock of the machine")
    yield DatapathPort(INPUT, "rst_ni", "", 1, "synchronous, active low")
    for plug_in in unit.plug_ins:
        yield from _inputs(config, prefix(unit, plug_in), plug_in)
    if unit.stage is not None:
        head = prefix(unit, unit.stage)
        yield DatapathPort(INPUT, f"{head}valid_i", "", 1, "a requantised entry on its way out")
        yield DatapathPort(INPUT, f"{head}{unit.stage.operand}_i", *_results(config), "the entry")
    if unit.array:
        yield DatapathPort(INPUT, "array_sums_i", *_sums(config), "sums, ArrayPortLatency cycles after their operands")
    for part in unit.parts:
        if isinstance(part, PlugInStage):
            doc = f"{part.latency} cycles after its entry; what is written instead"
            yield DatapathPort(OUTPUT, result_name(unit, part), *_results(config), doc)
        elif part.has_result:
            entry = _inputs_entry(config) if part.writes_inputs else _sums(config)
            yield DatapathPort(OUTPUT, result_name(unit, part), *entry, _result_doc(part))
    if unit.array:
        yield from _array_operands(config)


def _array_operands(config: Config) -> Iterator[DatapathPort]:
    shares = array_port(config).shares
    inp_bits = config.batch * shares * config.block_in * config.inp_bits
    wgt_bits = config.batch * config.block_out * config.block_in * config.wgt_bits
    inp, wgt = "[Batch-1:0][ArrayShares-1:0][BlockIn-1:0][InpBits-1:0]", "[Batch-1:0][BlockOut-1:0][BlockIn-1:0]"
    yield DatapathPort(OUTPUT, "array_valid_o", "", 1, "the array multiplies these operands")
    yield DatapathPort(OUTPUT, "array_inp_o", inp, inp_bits, "inputs, each common to the columns that share it")
    yield DatapathPort(OUTPUT, "array_wgt_o", f"{wgt}[WgtBits-1:0]", wgt_bits, "weights of each column")


def _inputs(config: Config, head: str, plug_in: PlugIn) -> Iterator[DatapathPort]:
    yield DatapathPort(INPUT, f"{head}valid_i", "", 1, "a step, with all operands")
    if plug_in.writes_sums:
        yield DatapathPort(INPUT, f"{head}begin_i", "", 1, "the step begins a sum")
    if plug_in.src is not None:
        yield _operand(config, f"{head}src_i", plug_in.src)
    if plug_in.wgt is not None:
        yield _operand(config, f"{head}wgt_i", plug_in.wgt)
    if plug_in.old is OldSum.READ:
        yield DatapathPort(INPUT, f"{head}old_i", *_sums(config), "the accumulator's entry before the step")
    for held in plug_in.states:
        if held.index is not None:
            yield _row(head, held)
    widths = {field.name: field.width(config) for field in plug_in_fields(plug_in)}
    for declared in plug_in.fields:
        width = widths[declared.name]
        sign = "signed " if declared.signed else ""
        yield DatapathPort(INPUT, f"{head}{declared.name}_i", f"{sign}[{width - 1}:0]", width, declared.doc.rstrip("."))


def _row(head: str, held: StatePort) -> DatapathPort:
    state, bits = held.state, row_bits(held.state)
    doc = f"the row of {state.name}, one of {state.rows} of {state.dtype}{list(state.shape)}"
    return DatapathPort(INPUT, f"{head}{state.name}_row_i", f"[{bits - 1}:0]", bits, doc)


def _operand(config: Config, name: str, port: Port) -> DatapathPort:
    if port.buffer is Buffer.ACC:
        return DatapathPort(INPUT, name, *_sums(config), f"{port.operand}, an accumulator entry")
    group = f"{port.entries}*" if port.entries > 1 else ""
    what = "a vector" if port.vector else f"a group of {port.entries} entries" if group else "an entry"
    if port.buffer is Buffer.INP:
        columns, count = ("BlockOut", config.block_out) if port.vector else (f"{group}BlockIn", config.block_in)
        bits = config.batch * count * config.inp_bits * port.entries
        dimensions = f"[Batch-1:0][{columns}-1:0][InpBits-1:0]"
        return DatapathPort(INPUT, name, dimensions, bits, f"{port.operand}, {what}")
    bits = config.block_out * config.wgt_bits * (1 if port.vector else config.block_in * port.entries)
    if port.bits is not None:
        row = f"[{group}BlockIn*WgtBits/{port.bits}-1:0][{port.bits - 1}:0]"
    else:
        row = "[WgtBits-1:0]" if port.vector else f"[{group}BlockIn-1:0][WgtBits-1:0]"
    return DatapathPort(INPUT, name, f"[BlockOut-1:0]{row}", bits, f"{port.operand}, {what}")


def _sums(config: Config) -> tuple[str, int]:
    return "[Batch-1:0][BlockOut-1:0][31:0]", config.batch * config.block_out * 32


def _inputs_entry(config: Config) -> tuple[str, int]:
    return "[Batch-1:0][BlockIn-1:0][InpBits-1:0]", config.batch * config.block_in * config.inp_bits


def _results(config: Config) -> tuple[str, int]:
    return "[Batch-1:0][BlockOut-1:0][OutBits-1:0]", config.batch * config.block_out * config.out_bits


def _result_doc(plug_in: PlugIn) -> str:
    reducer = plug_in.datapath.reducer if plug_in.datapath else ""
    use = {"sum": "is added to the entry", "max": "the entry is at least this", "min": "the entry is at most this"}
    return f"{plug_in.latency.text} cycles after its step; {use.get(reducer, 'the new entry')}"
