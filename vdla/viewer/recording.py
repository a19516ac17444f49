# SPDX-License-Identifier: Apache-2.0
"""What the page shows of one run: times, fields, tokens, waits and footprints of all instructions.

The programs of a network follow each other, so that their instructions and cycles are numbered
through; tensors and lines of schedules likewise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vdla.hardware import timing as contract
from vdla.hardware.asm.disassembler import defaults, neighbours
from vdla.hardware.config import Config
from vdla.hardware.isa import COL, COUNTERS, SIDES, UNITS, Format, Unit, isa_of
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats
from vdla.simulator.stats.critical_path import CriticalPath, PathCause, critical_path
from vdla.simulator.stats.tokens import NONE, token_givers
from vdla.support.arrays import Ints
from vdla.viewer.footprint_columns import BUFFERS, FootprintColumns


@dataclass(frozen=True, slots=True, eq=False)
class ViewedProgram:
    """A program and its run; `operators` have a name and a number of source lines each."""

    program: Program
    statistics: RunStats
    operators: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """`head` is JSON-compatible; `times` are the columns that a first picture needs, `details` the
    others.
    """

    title: str
    head: Mapping[str, Any]
    times: Mapping[str, Ints]
    details: Mapping[str, Ints]


def recording(title: str, parts: Sequence[ViewedProgram]) -> Recording:
    """The recording of programs that run one after another on one machine."""
    config = parts[0].statistics.config
    footprints = FootprintColumns()
    for part in parts:
        footprints.add(part.program)
    paths = [critical_path(part.program, part.statistics) for part in parts]
    head = {
        "title": title,
        "machine": config.name,
        "cycles": sum(part.statistics.total_cycles for part in parts),
        "units": list(UNITS),
        "counters": list(COUNTERS),
        "command_delay": contract.COMMAND_DELAY,
        "buffers": [
            {"name": one.name.lower(), "depth": config.depths[one], "used": used}
            for one, used in zip(BUFFERS, footprints.used, strict=True)
        ],
        "formats": [_format(one) for one in isa_of(config).formats.values()],
        "neighbours": [list(neighbours(unit)) for unit in Unit],
        "tensors": [tensor.name for part in parts for tensor in part.program.tensors],
        "lines": [line for part in parts for line in part.program.source_lines],
        "operators": _operators(parts),
        "parts": _parts(parts),
        "causes": [cause.label for cause in PathCause],
    }
    return Recording(title, head, _times(config, parts, paths), _details(config, parts) | footprints.columns())


def _parts(parts: Sequence[ViewedProgram]) -> list[dict[str, Any]]:
    """The name of every program, its first instruction, cycle and line of a schedule."""
    cycle = instruction = line = 0
    result = []
    for part in parts:
        result.append({"name": part.program.name, "instruction": instruction, "cycle": cycle, "line": line})
        cycle, instruction = cycle + part.statistics.total_cycles, instruction + len(part.program)
        line += len(part.program.source_lines)
    return result


def _operators(parts: Sequence[ViewedProgram]) -> list[dict[str, Any]]:
    """The name of every operator, and its first line."""
    result, line = [], 0
    for part in parts:
        end = line + len(part.program.source_lines)
        for name, count in part.operators:
            result.append({"name": name, "line": line})
            line += count
        line = end
    return result


def _format(encoding: Format) -> dict[str, Any]:
    """How the text of an instruction is made; as in `hardware/asm`, required fields come first."""
    default = defaults(encoding.cls)
    fields = []
    for slot, column in zip(encoding.values, encoding.value_columns, strict=True):
        field = slot.field
        names = None if field.enum is None else {int(member): member.name.lower() for member in field.enum}
        fields.append({"name": field.name, "column": column, "default": default.get(field.name), "names": names})
    fields.sort(key=lambda field: field["name"] in default)
    mnemonic = encoding.name.lower()
    return {"code": encoding.code, "mnemonic": mnemonic, "fields": fields}


# --- columns --------------------------------------------------------------------------------------


def _times(config: Config, parts: Sequence[ViewedProgram], paths: Sequence[CriticalPath]) -> dict[str, Ints]:
    table = np.concatenate([part.program.columns for part in parts])
    cycles = _offsets([part.statistics.total_cycles for part in parts])
    numbers = _offsets([len(part.program) for part in parts])
    starts = _joined([part.statistics.starts for part in parts], cycles)
    return {
        "unit": table[:, COL["unit"]],
        "code": isa_of(config).codes_of_columns(table),
        "buffer": table[:, COL["buffer"]],
        "waited": starts - _joined([part.statistics.dispatches for part in parts], cycles),
        "start": starts,
        "duration": _joined([part.statistics.ends for part in parts], cycles) - starts,
        "path_begin": _joined([path.begins for path in paths], cycles),
        "path_instruction": _joined([path.instructions for path in paths], numbers),
        "path_cause": np.concatenate([path.causes for path in paths]),
    }


def _details(config: Config, parts: Sequence[ViewedProgram]) -> dict[str, Ints]:
    table = np.concatenate([part.program.columns for part in parts])
    numbers = np.arange(len(table))
    result = {
        "tensor": _numbered([part.program.tensor_of for part in parts], [len(part.program.tensors) for part in parts]),
        "line": _numbered(
            [part.program.source_of for part in parts], [len(part.program.source_lines) for part in parts]
        ),
    }
    givers = [token_givers(part.program.columns) for part in parts]
    for number, side in enumerate(SIDES):
        column = _numbered([pairs[:, number] for pairs in givers], [len(part.program) for part in parts])
        result[f"from_{side}"] = np.where(column == NONE, 0, numbers - column)
    for number, name in enumerate(isa_of(config).columns):
        if table[:, number].any() and name not in ("opcode", "unit", "buffer"):
            result[f"field {number}"] = table[:, number]
    if all(part.statistics.waits is not None for part in parts):
        waits = np.concatenate([part.statistics.waits for part in parts if part.statistics.waits is not None])
        result |= {f"wait {name}": waits[:, number] for number, name in enumerate(COUNTERS) if waits[:, number].any()}
    return result


def _offsets(sizes: Sequence[int]) -> list[int]:
    """What comes before each."""
    return [0, *np.cumsum(sizes).tolist()][:-1]


def _joined(arrays: Sequence[Ints], offsets: Sequence[int]) -> Ints:
    return np.concatenate([array + offset for array, offset in zip(arrays, offsets, strict=True)])


def _numbered(arrays: Sequence[Any], sizes: Sequence[int]) -> Ints:
    """Indices into lists that follow each other; NONE stays."""
    offsets = zip(arrays, _offsets(sizes), strict=True)
    return np.concatenate([np.where(array == NONE, NONE, array.astype(np.int64) + offset) for array, offset in offsets])
