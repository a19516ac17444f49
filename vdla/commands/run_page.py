"""A page of HTML about runs of one layer: figures, roofline, timelines, shares of cycles.

The page is one file without scripts or references, so it works offline; its colours follow the
reader's setting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from vdla.commands import run_charts, run_tables
from vdla.commands.run_charts import element
from vdla.hardware.program import Program
from vdla.simulator.stats import RunStats

_DETAIL = 0.06  # the share of the longest run that the second timeline shows, from its middle on

STYLE = """
:root { color-scheme: light dark;
  --text: #1c1f24; --back: #ffffff; --faint: #5c6470; --rule: #d9dde3; --track: #f1f3f6 }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e8eb; --back: #14171b; --faint: #9aa3ad; --rule: #333a42; --track: #1f242a }
}
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back); max-width: 60rem;
  margin: 2rem auto; padding: 0 1rem }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem } h3 { font-size: 1rem; margin: 1rem 0 .25rem }
p { margin: .25rem 0 .75rem } .note { color: var(--faint) }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { padding: .2rem 1rem .2rem 0; border-bottom: 1px solid var(--rule); text-align: right; font-weight: 400 }
th:first-child { text-align: left } thead th { color: var(--faint) }
svg { display: block; width: 100%; height: auto } .legend span { margin-right: 1rem; white-space: nowrap }
.legend { color: var(--faint); font-size: .85rem } .legend svg { display: inline; width: 12px; vertical-align: -1px }
text { font: 13px system-ui, sans-serif; fill: var(--text) } text.small { font-size: 11px; fill: var(--faint) }
.grid, .tick { stroke: var(--rule); stroke-width: 1 } .track { fill: var(--track) }
.roof { fill: none; stroke: var(--text); stroke-width: 2 } .run0 { fill: #d55e00 } .run1 { fill: #0072b2 }
.loadinp { fill: #0072b2 } .loadwgt { fill: #56b4e9 } .loadother { fill: #8a8f98 } .gemm { fill: #d55e00 }
.vector { fill: #cc79a7 } .store { fill: #009e73 } .sync { fill: #f0e442 } .extension { fill: #e69f00 }
.busy { fill: #009e73 } .memory_latency { fill: #e69f00 } .memory_bandwidth { fill: #d55e00 }
.wait_load_to_compute { fill: #0072b2 } .wait_compute_to_load { fill: #56b4e9 }
.wait_compute_to_store { fill: #cc79a7 } .wait_store_to_compute { fill: #7b3f8c }
.commands { fill: #8a8f98 } .idle { fill: var(--rule) }
"""

Figures = Sequence[tuple[str, Sequence[str]]]


def render(title: str, notes: Sequence[str], first: Figures, runs: Mapping[str, tuple[Program, RunStats]]) -> str:
    """The page; the rows of `first` head the table of figures, each with one cell a run."""
    stats = {label: run for label, (_, run) in runs.items()}
    longest = max(run.total_cycles for run in stats.values())
    begin = longest // 2
    parts = [
        element("h1", escape(title)),
        *(element("p", escape(note)) for note in notes),
        _figures(first, stats),
        element("h2", "Roofline"),
        _note("Attained speed below the limit that the machine has at each ratio of operations to bytes moved."),
        run_charts.roofline(stats),
        element("h2", "Timeline"),
        _note("The instructions of each unit over time; hover over one for its cycles."),
        run_charts.timeline_legend(program for program, _ in runs.values()),
        *_timelines(runs, 0, longest),
        element("h2", "Timeline in detail"),
        *_timelines(runs, begin, begin + max(1, round(longest * _DETAIL))),
        element("h2", "Where the cycles went"),
        run_charts.shares_legend(),
        *(part for label, run in stats.items() for part in (element("h3", escape(label)), run_charts.shares(run))),
    ]
    return html_document(title, "\n".join(parts))


def _timelines(runs: Mapping[str, tuple[Program, RunStats]], begin: int, end: int) -> list[str]:
    """One timeline a run, all over the same cycles."""
    charts = {label: run_charts.timeline(program, stats, begin, end) for label, (program, stats) in runs.items()}
    return [part for label, chart in charts.items() for part in (element("h3", escape(label)), chart)]


def _note(text: str) -> str:
    return element("p", escape(text), class_="note")


def _figures(first: Figures, stats: run_tables.Runs) -> str:
    rows = [*first]
    for label, show in {**run_tables.FIGURES, **run_tables.ROOFLINE}.items():
        rows.append((label, [show(run) for run in stats.values()]))
    head = element("thead", _row("", list(stats), "th"))
    return element("table", head + element("tbody", "".join(_row(label, cells, "td") for label, cells in rows)))


def _row(label: str, cells: Sequence[str], name: str) -> str:
    return element("tr", element("th", escape(label)) + "".join(element(name, escape(cell)) for cell in cells))


def html_document(title: str, body: str, style: str = STYLE) -> str:
    """A page without references to others."""
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    head = f"{meta}{element('title', escape(title))}{element('style', style)}"
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'
