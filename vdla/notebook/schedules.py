# SPDX-License-Identifier: Apache-2.0
"""Schedules and functions: the loop nest, and the primitives that made it."""

from __future__ import annotations

from vdla.charts.elements import html_text
from vdla.charts.fragment import html_code, html_folded, html_fragment
from vdla.compiler import ir
from vdla.compiler.ir.printer import function_lines
from vdla.compiler.schedule import Schedule


def function_html(function: ir.Function) -> str:
    """The loop nest."""
    return html_fragment(f"function {function.name}", [_nest(function)])


def _nest(function: ir.Function) -> str:
    return html_code([line.text for line in function_lines(function)])


def schedule_html(schedule: Schedule) -> str:
    """The loop nest, and the primitives so far as Python."""
    steps = len(schedule.trace)
    said = f"{steps} primitive{'' if steps == 1 else 's'} applied" if steps else "no primitive applied yet"
    python = html_folded("primitives", html_code(schedule.python().splitlines())) if steps else ""
    return html_fragment(f"schedule of {schedule.fn.name}", [html_text("p", said), _nest(schedule.fn), python])
