"""The ports of a datapath: what the module `ext_<name>` of an extension must look like.

Operands are packed arrays with the elements of the tensors of a step, [row][column][bit], so that
`src_i[b][i]` is the element of the behaviour. Their bits are those of the buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vdla.hardware.config import Buffer, Config, ConfigError
from vdla.hardware.isa.formats import plug_in_fields
from vdla.hardware.isa.plug_in import OldSum, PlugIn, Port

RESULT = "result_o"


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


def module_name(plug_in: PlugIn) -> str:
    """The name of the datapath's module."""
    return f"ext_{plug_in.name}"


def datapath_ports(config: Config, plug_in: PlugIn) -> tuple[DatapathPort, ...]:
    """The ports of a plug-in's datapath on a machine; ConfigError where two have one name."""
    ports = tuple(_ports(config, plug_in))
    names = [port.name for port in ports]
    for field in plug_in.fields:
        if names.count(f"{field.name}_i") > 1:
            rule = "a field of an extension with a datapath must not have the name of a port"
            raise ConfigError(f"extension {plug_in.name}: {rule}, got {field.name}")
    return ports


def _ports(config: Config, plug_in: PlugIn) -> Iterator[DatapathPort]:
    yield DatapathPort("input ", "clk_i", "", 1, "the clock of the machine")
    yield DatapathPort("input ", "rst_ni", "", 1, "synchronous, active low")
    yield DatapathPort("input ", "valid_i", "", 1, "a step, with all operands")
    yield DatapathPort("input ", "begin_i", "", 1, "the step begins a sum")
    if plug_in.src is not None:
        yield _operand(config, "src_i", plug_in.src)
    if plug_in.wgt is not None:
        yield _operand(config, "wgt_i", plug_in.wgt)
    if plug_in.old is OldSum.READ:
        yield DatapathPort("input ", "old_i", *_sums(config), "the accumulator's entry before the step")
    widths = {field.name: field.width(config) for field in plug_in_fields(plug_in)}
    for own in plug_in.fields:
        width = widths[own.name]
        sign = "signed " if own.signed else ""
        yield DatapathPort("input ", f"{own.name}_i", f"{sign}[{width - 1}:0]", width, own.doc.rstrip("."))
    yield DatapathPort("output", RESULT, *_sums(config), _result_doc(plug_in))


def _operand(config: Config, name: str, port: Port) -> DatapathPort:
    if port.buffer is Buffer.ACC:
        return DatapathPort("input ", name, *_sums(config), f"{port.operand}, an accumulator entry")
    group = f"{port.entries}*" if port.entries > 1 else ""
    what = "a vector" if port.vector else f"a group of {port.entries} entries" if group else "an entry"
    if port.buffer is Buffer.INP:
        columns, count = ("BlockOut", config.block_out) if port.vector else (f"{group}BlockIn", config.block_in)
        bits = config.batch * count * config.inp_bits * port.entries
        dimensions = f"[Batch-1:0][{columns}-1:0][InpBits-1:0]"
        return DatapathPort("input ", name, dimensions, bits, f"{port.operand}, {what}")
    bits = config.block_out * config.wgt_bits * (1 if port.vector else config.block_in * port.entries)
    if port.bits is not None:
        row = f"[{group}BlockIn*WgtBits/{port.bits}-1:0][{port.bits - 1}:0]"
    else:
        row = "[WgtBits-1:0]" if port.vector else f"[{group}BlockIn-1:0][WgtBits-1:0]"
    return DatapathPort("input ", name, f"[BlockOut-1:0]{row}", bits, f"{port.operand}, {what}")


def _sums(config: Config) -> tuple[str, int]:
    return "[Batch-1:0][BlockOut-1:0][31:0]", config.batch * config.block_out * 32


def _result_doc(plug_in: PlugIn) -> str:
    reducer = plug_in.datapath.reducer if plug_in.datapath else ""
    use = {"sum": "is added to the entry", "max": "the entry is at least this", "min": "the entry is at most this"}
    return f"{plug_in.latency.text} cycles after its step; {use.get(reducer, 'the new entry')}"
