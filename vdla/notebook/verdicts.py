# SPDX-License-Identifier: Apache-2.0
"""Verdicts of the verifier, and comparisons of devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vdla.charts.elements import html_text
from vdla.charts.fragment import html_code, html_facts, html_fragment, html_listing, left_out
from vdla.runtime.diagnosis.comparison import Comparison
from vdla.runtime.diagnosis.network_comparison import NetworkComparison
from vdla.simulator.verify import Finding, Verdict

_MOST_FINDINGS = 16


def verdict_html(verdict: Verdict) -> str:
    """Whether the program is safe, and each finding with its lines of the schedule."""
    said = f"safe: {verdict.instructions:,} instructions verified" if verdict.ok else "refused"
    findings = [*verdict.findings, *verdict.warnings]
    parts = [html_text("p", said), *_findings(findings[:_MOST_FINDINGS], len(verdict.findings))]
    parts.append(left_out(max(0, len(findings) - _MOST_FINDINGS) + verdict.more, "finding"))
    return html_fragment(f"verdict on program {verdict.program}", parts)


def _findings(findings: Iterable[Finding], refusing: int) -> Iterator[str]:
    for number, finding in enumerate(findings):
        kind = finding.kind.value if number < refusing else f"warning, {finding.kind.value}"
        yield html_facts([(kind, finding.message)])
        if finding.schedule:
            yield html_code([line.strip() for line in finding.schedule])


def comparison_html(comparison: Comparison) -> str:
    """Each run, and the differences."""
    one, other = comparison.runs
    rows = [
        (run.device, "failed" if run.statistics is None else f"{run.statistics.total_cycles:,}")
        for run in comparison.runs
    ]
    lines = html_code(str(comparison).splitlines())
    title = f"{comparison.program.name} on {one.device} and {other.device}"
    return html_fragment(title, [html_listing(("device", "cycles"), rows), lines])


def network_comparison_html(comparison: NetworkComparison) -> str:
    """The cycles on both devices, and the first difference."""
    rows = [(device, f"{cycles:,}") for device, cycles in zip(comparison.devices, comparison.cycles, strict=True)]
    lines = html_code(str(comparison).splitlines())
    title = f"{comparison.name} on {' and '.join(comparison.devices)}"
    return html_fragment(title, [html_listing(("device", "cycles"), rows), lines])
