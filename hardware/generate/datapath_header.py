# SPDX-License-Identifier: Apache-2.0
"""The check of a datapath's text against the ports that the machine connects, and its stub.

Names and directions are compared here, and widths where their dimensions are made of numbers, the
sizes of `vdla_pkg` and + - * /; slang knows any others, and sees errors in the rest of the module.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from vdla.hardware.array_port import array_port
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_ports import OUTPUT, DatapathPort, datapath_ports, module_name
from vdla.hardware.generate.datapath_source import SourceFault, read_source
from vdla.hardware.generate.register_package import camel
from vdla.hardware.generate.svgen import render_for_datapath
from vdla.hardware.isa.plug_in import PlugInUnit

_ARRAY_SIZES = {"ArrayShares": "shares", "ArrayColumns": "columns", "ArrayPortLatency": "latency"}
_SIZES = ("batch", "block_in", "block_out", "inp_bits", "wgt_bits", "acc_bits", "out_bits")
_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}
_TYPE = r"(?:(?:logic|wire|reg|var|bit)\b\s*)*(?:signed\b\s*)?"
_PARAMETERS = r"\((?:[^()]|\([^()]*\))*\)"  # with parentheses in their values
_PORT = re.compile(rf"(?:(input|output|inout)\b)?\s*{_TYPE}(.*?)\s*(\w+)$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Declared:
    """A port as a module declares it; `bits` is None where they are not known here."""

    name: str
    direction: str
    bits: int | None
    line: int


def check_source(config: Config, unit: PlugInUnit) -> None:
    """ConfigError unless the text of a unit's datapath has the module and the ports that the
    machine connects, and no fault that slang sees; the message begins with the line.
    """
    assert unit.datapath is not None, "called for a datapath"
    source = read_source(unit.datapath.text, module_name(unit), render_for_datapath(config, unit))
    _require_none(unit, source.syntax)
    _check_header(config, unit, dict(source.port_bits))
    _require_none(unit, source.faults)


def _require_none(unit: PlugInUnit, faults: Sequence[SourceFault]) -> None:
    for fault in faults:
        raise ConfigError(f"{datapath_place(unit, fault.line)}: {fault.text}")


def _check_header(config: Config, unit: PlugInUnit, known_bits: Mapping[str, int]) -> None:
    """`known_bits` has the bits of ports whose dimensions are not read here."""
    assert unit.datapath is not None, "called for a datapath"
    text = _without_comments(unit.datapath.text)
    name = module_name(unit)
    match = re.search(rf"\bmodule\s+{name}\b[^(;#]*(?:import[^;]*;\s*)*(?:#\s*{_PARAMETERS}\s*)?\(", text)
    if match is None:
        modules = ", ".join(re.findall(r"\bmodule\s+(\w+)", text)) or "none"
        raise ConfigError(
            f"{datapath_place(unit, 1)}: datapath must have a module {name} with a list of ports, got {modules}"
        )
    declared = {port.name: port for port in _declared(text, match.end(), _sizes(config))}
    for port in datapath_ports(config, unit):
        got = declared.pop(port.name, None)
        if got is not None and got.bits is None:
            got = replace(got, bits=known_bits.get(port.name))
        _check(unit, text.count("\n", 0, match.start()) + 1, port, got)
    for extra in declared.values():
        known = ", ".join(port.name for port in datapath_ports(config, unit))
        raise ConfigError(
            f"{datapath_place(unit, extra.line)}: port must be one of {known}, got {extra.name}; remove it"
        )


def _check(unit: PlugInUnit, line: int, port: DatapathPort, declared: _Declared | None) -> None:
    remedy = f"write `{port.declaration}`"
    if declared is None:
        raise ConfigError(f"{datapath_place(unit, line)}: datapath must have port {port.name}, got none; {remedy}")
    if declared.direction != port.direction.strip():
        rule = f"port {port.name} must be an {port.direction.strip()}"
        raise ConfigError(f"{datapath_place(unit, declared.line)}: {rule}, got an {declared.direction}; {remedy}")
    if declared.bits not in (None, port.bits):
        rule = f"port {port.name} must have {port.bits} bits"
        raise ConfigError(f"{datapath_place(unit, declared.line)}: {rule}, got {declared.bits}; {remedy}")


def datapath_place(unit: PlugInUnit, line: int) -> str:
    """Where a line of the text is: in its own file, or in the text at a line of the user's file."""
    assert unit.datapath is not None, "called for a datapath"
    place = unit.datapath.place
    if place.endswith(".sv"):
        return f"{place}:{line}: extension {unit.name}"
    return f"{place}: extension {unit.name}: line {line} of its datapath"


def _without_comments(text: str) -> str:
    """The text with spaces for comments, so that lines keep their numbers."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), text, flags=re.S)


def _declared(text: str, start: int, sizes: Mapping[str, int]) -> Iterator[_Declared]:
    """The ports of the list that begins at `start`; one without a direction has the last's."""
    direction, dimensions = "input", ""
    for at, part in _parts(text, start):
        match = _PORT.match(part.strip())
        if match is None:
            continue
        direction, dimensions = (match[1], match[2]) if match[1] else (direction, match[2] or dimensions)
        line = text.count("\n", 0, at + len(part) - len(part.lstrip())) + 1
        yield _Declared(match[3], direction, _bits(dimensions, sizes), line)


def _parts(text: str, start: int) -> Iterator[tuple[int, str]]:
    depth, begin = 0, start
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0 or (depth == 0 and text[at] == ","):
            yield begin, text[begin:at]
            begin = at + 1
        if depth < 0:
            return


def _bits(dimensions: str, sizes: Mapping[str, int]) -> int | None:
    """The product of packed dimensions; None where one is not made of numbers and sizes."""
    rest = re.sub(r"\[[^\]]*\]", "", dimensions).strip()
    bits = 1
    for high, low in re.findall(r"\[([^:\]]*):([^\]]*)\]", dimensions):
        ends = _number(high, sizes), _number(low, sizes)
        if ends[0] is None or ends[1] is None:
            return None
        bits *= abs(ends[0] - ends[1]) + 1
    return None if rest else bits


def _number(text: str, sizes: Mapping[str, int]) -> int | None:
    try:
        return _value(ast.parse(text.strip().replace("/", "//"), mode="eval").body, sizes)
    except (SyntaxError, ValueError, KeyError, ZeroDivisionError):
        return None


def _value(node: ast.expr, sizes: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return value
        case ast.Name(id=name):
            return sizes[name]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_value(left, sizes), _value(right, sizes))
    raise ValueError("not a constant")


def _sizes(config: Config) -> dict[str, int]:
    array = array_port(config)
    return {
        **{camel(name): getattr(config, name) for name in _SIZES},
        **{name: getattr(array, size) for name, size in _ARRAY_SIZES.items()},
        "Lanes": config.batch * config.block_out,
    }


def stub(config: Config, unit: PlugInUnit) -> str:
    """A datapath with the right ports and no logic, to begin with."""
    ports = datapath_ports(config, unit)
    width = max(len(port.declaration) for port in ports) + 1
    outputs = [port for port in ports if port.direction == OUTPUT]
    lines = [*_heading(unit), f"module {module_name(unit)}", "  import vdla_pkg::*;", "("]
    lines.append("  // verilator lint_off UNUSEDSIGNAL")
    for port in ports:
        if outputs and port == outputs[0]:
            lines.append("  // verilator lint_on UNUSEDSIGNAL")
        end = "," if port != ports[-1] else ""
        lines.append(f"  {port.declaration + end:{width}}  // {port.doc}")
    lines += [");", "", *(f"  assign {port.name} = '0;" for port in outputs), "", "endmodule"]
    return "\n".join(lines) + "\n"


def _heading(unit: PlugInUnit) -> list[str]:
    """What the parts do, a line each."""
    if len(unit.parts) == 1:
        return [f"// {unit.parts[0].doc}"]
    return [f"// {part.name}: {part.doc}" for part in unit.parts]
