# SPDX-License-Identifier: Apache-2.0
"""Programs and what they are compiled from: operators of templates, and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import fields

import numpy as np

from vdla.charts.elements import html_text
from vdla.charts.fragment import html_code, html_facts, html_folded, html_fragment, html_listing
from vdla.commands.run_page import instruction_kind
from vdla.compiler.ir.printer import function_lines
from vdla.compiler.map.mapped_operator import MappedOperator
from vdla.compiler.operators.vdla import Operator
from vdla.hardware.config import Config
from vdla.hardware.program import Program


def program_html(program: Program) -> str:
    """The machine, the instructions by kind, the tensors, the loop nest that it came from."""
    return html_fragment(f"program {program.name}", _program_parts(program))


def _program_parts(program: Program) -> Iterator[str]:
    kinds = Counter(map(instruction_kind, program.columns))
    counts = ", ".join(f"{count:,} {kind}" for kind, count in kinds.most_common())
    machine = f"{program.config.name}, fingerprint {program.config.fingerprint}"
    yield html_facts([("machine", machine), ("instructions", f"{len(program):,}: {counts}"), ("hash", program.hash)])
    rows = [
        (tensor.name, tensor.role, tensor.dtype, str(list(tensor.shape)), tensor.layout, f"{tensor.nbytes:,}")
        for tensor in program.tensors
    ]
    yield html_listing(("tensor", "role", "elements", "shape", "layout", "bytes"), rows)
    if program.source_lines:
        yield html_folded("schedule, with the number of instructions of each line", html_code(_counted(program)))


def _counted(program: Program) -> list[str]:
    """The lines of the schedule behind the count of their instructions."""
    counts = np.bincount(program.source_of[program.source_of >= 0], minlength=len(program.source_lines)).tolist()
    width = len(f"{max(counts, default=0)}")
    return [f"{count or '':>{width}}  {line}" for count, line in zip(counts, program.source_lines, strict=True)]


def operator_html(operator: Operator) -> str:
    """The tiles, the layouts, the scheduled loop nest."""
    facts = [
        ("machine", operator.config.name),
        ("tiles", operator.description or "-"),
        ("multiply-accumulates", f"{operator.macs:,}"),
    ]
    layouts = [(name, str(layout), layout.dimensions) for name, layout in operator.layouts.items()]
    nest = html_code([line.text for line in function_lines(operator.function)])
    parts = [html_facts(facts), html_listing(("tensor", "layout", "dimensions"), layouts)]
    return html_fragment(f"operator {operator.name}", [*parts, html_folded("loop nest", nest)])


def mapped_operator_html(operator: MappedOperator) -> str:
    """How the expression becomes steps of an intrinsic, and its tiles."""
    facts = [("machine", operator.config.name), ("mapping", str(operator.mapping)), ("tiles", str(operator.tiling))]
    return html_fragment(f"mapped operator {operator.name}", [html_facts(facts)])


def config_html(config: Config) -> str:
    """What the machine can do, and all fields."""
    facts = [
        ("multiply-accumulates a cycle", f"{config.macs_per_cycle:,}"),
        ("clock", f"{config.clock_mhz:g} MHz"),
        ("peak", f"{config.peak_gops:,.1f} GOPS"),
        ("memory", f"{config.peak_bytes_per_cycle:g} bytes a cycle in each direction"),
        ("extensions", ", ".join(plug_in.name for plug_in in config.extensions) or "none"),
        ("fingerprint", config.fingerprint),
    ]
    rows = [(field.name, str(getattr(config, field.name))) for field in fields(config) if field.name != "extensions"]
    every = html_folded("all fields", html_listing(("field", "value"), rows, most=len(rows)))
    return html_fragment(f"machine {config.name}", [html_facts(facts), every, _stage(config)])


def _stage(config: Config) -> str:
    return html_text("p", f"stage of the vector unit: {config.stage.name}") if config.stage else ""
