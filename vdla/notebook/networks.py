# SPDX-License-Identifier: Apache-2.0
"""Compiled networks, their runs and profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from vdla.charts.elements import html_legend, html_text
from vdla.charts.fragment import html_facts, html_folded, html_fragment, html_listing, left_out
from vdla.charts.fragment import shortened as shortened_line
from vdla.commands.device_times import device_names
from vdla.commands.placement_tables import DEVICES, placed_rows, sentence, share, shortened
from vdla.commands.profile_page import operator_bars, operators_roofline
from vdla.commands.profile_tables import summary
from vdla.runtime.executor.artifact import Artifact
from vdla.runtime.executor.executor import NetworkResult
from vdla.runtime.executor.model import Model
from vdla.runtime.executor.plan import shape_text
from vdla.runtime.executor.profile import NetworkProfile
from vdla.runtime.studies.explanation import Explanation

_MOST_OPERATORS = 25


def explanation_html(explanation: Explanation) -> str:
    """As of a model, and the sentences."""
    lines = f"<ul>{html_text('li', *map(shortened_line, explanation.notes()))}</ul>"
    parts = [*_placement(explanation.artifact), html_folded("reasons, times and memory", lines)]
    return html_fragment(f"operators of {explanation.artifact.plan.name}", parts)


def model_html(model: Model) -> str:
    """What goes in and out, which device runs how much, and every operator with the reason."""
    plan = model.artifact.plan
    names = [*((name, "input") for name in plan.inputs), *((name, "output") for name in plan.outputs)]
    values = [(name, role, plan.values[name].dtype, shape_text(plan.values[name].shape)) for name, role in names]
    said, *placement = _placement(model.artifact)
    tensors = html_listing(("tensor", "role", "elements", "shape"), values)
    return html_fragment(f"model {model.name}", [said, tensors, *placement])


def _placement(artifact: Artifact) -> Iterator[str]:
    """The whole in a sentence, the devices, the operators."""
    yield html_text("p", sentence(artifact))
    yield html_listing(("device", "operators", "MACs", "share", "cycles"), _devices(artifact))
    columns = ("operator", "name", "device", "cycles", "reason")
    yield html_folded("operators", html_listing(columns, _operators(artifact)))


def _devices(artifact: Artifact) -> Iterator[tuple[str, ...]]:
    names = device_names(artifact)
    rows = placed_rows(artifact)
    total = sum(row.operator.macs for row in rows)
    for device in DEVICES:
        mine = [row for row in rows if row.device == device]
        if mine:
            macs = sum(row.operator.macs for row in mine)
            cycles = [step.placement.cycles or 0 for step in artifact.plan.steps if step.placement.device == device]
            yield (
                names[device],
                f"{len(mine):,}",
                f"{macs:,}",
                share(macs, total),
                f"{sum(cycles):,}" if any(cycles) else "-",
            )


def _operators(artifact: Artifact) -> Iterator[tuple[str, ...]]:
    for row in placed_rows(artifact):
        operator = row.operator
        cycles = "-" if operator.cycles is None else f"{operator.cycles:,}"
        yield operator.op.removeprefix("vdla."), shortened(operator.name), row.device, cycles, operator.reason or "-"


def network_result_html(result: NetworkResult) -> str:
    """The outputs, and the cycles of every program."""
    outputs = [(name, str(array.dtype), str(list(array.shape))) for name, array in result.outputs.items()]
    runs = [run for run in result.steps if run.statistics is not None]
    programs = [
        (run.step.name, f"{run.statistics.total_cycles:,}", f"{100 * run.statistics.utilisation:.1f} %")
        for run in runs
        if run.statistics is not None
    ]
    parts = [
        html_listing(("output", "elements", "shape"), outputs),
        html_facts([("steps", f"{len(result.steps):,}"), ("cycles of the accelerator", f"{result.cycles:,}")]),
    ]
    if programs:
        parts.append(html_listing(("program", "cycles", "utilised"), programs))
    return html_fragment(f"result of {result.plan.name}", parts)


def profile_html(profile: NetworkProfile) -> str:
    """The operators that take longest, as bars, and the roofline."""
    slowest = sorted(profile.operators, key=lambda operator: -operator.seconds)[:_MOST_OPERATORS]
    shown = replace(profile, operators=tuple(row for row in profile.operators if row in slowest))
    parts = [
        html_text("p", *summary(profile)),
        html_legend({device: device for device in dict.fromkeys(row.device for row in shown.operators)}),
        operator_bars(shown),
        left_out(len(profile.operators) - len(shown.operators), "operator"),
    ]
    if profile.config is not None and any(operator.utilisation for operator in shown.operators):
        parts.append(html_folded("roofline", operators_roofline(profile.config, shown.operators)))
    return html_fragment(f"profile of {profile.model}", parts)
