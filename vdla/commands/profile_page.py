"""A page of HTML about a profile: figures, operators as bars, roofline, memory, where they run.

The page is one file without scripts or references, so it works offline; its colours follow the
reader's setting.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from vdla.commands.placement_tables import milliseconds, sentence, share
from vdla.commands.profile_charts import arena_chart, operator_bars, operator_roofline
from vdla.commands.profile_tables import operator_label, stall_text, summary
from vdla.commands.run_charts import element, legend
from vdla.commands.run_page import STYLE, html_document

if TYPE_CHECKING:
    from vdla.runtime.executor.artifact import Artifact
    from vdla.runtime.executor.profile import NetworkProfile

_STYLE = (
    STYLE
    + """
.vdla { fill: #0072b2 } .cpu { fill: #d55e00 } .numpy { fill: #cc79a7 } .gpu { fill: #009e73 } .copy { fill: #e69f00 }
.faint { opacity: .35 }
.value0 { fill: #0072b2 } .value1 { fill: #56b4e9 } .value2 { fill: #009e73 } .value3 { fill: #e69f00 }
text.name { fill: var(--text) } td, th { white-space: nowrap } .scroll { overflow-x: auto; font-size: 14px }
.scroll :is(th, td):is(:nth-child(2), :nth-child(3), :last-child) { text-align: left }
"""
)


def render(artifact: Artifact, profile: NetworkProfile) -> str:
    """The page."""
    title = f"{profile.model} on {profile.config.name if profile.config else profile.cpu}"
    parts = [
        element("h1", escape(title)),
        element("p", escape(sentence(artifact))),
        *(element("p", escape(line)) for line in summary(profile)),
        element("h2", "Operators"),
        _note("Time of each operator; the full colour is the share of its cycles in which it multiplies."),
        legend({device: _devices(artifact)[device] for device in _used(profile)}),
        operator_bars(profile),
    ]
    if profile.config is not None and any(each.cycles and each.macs for each in profile.operators):
        parts += [
            element("h2", "Roofline"),
            _note(
                "Speed of each operator below the machine's limit, by operations for each byte of the busier "
                "direction, read or written in its cycles."
            ),
            operator_roofline(profile.config, profile.operators),
        ]
    parts += [
        element("h2", "Memory"),
        _note(_memory(artifact)),
        arena_chart(artifact.plan),
        element("h2", "All figures"),
        element("div", _table(profile), class_="scroll"),
    ]
    return html_document(title, "\n".join(parts), _STYLE)


def _devices(artifact: Artifact) -> dict[str, str]:
    from vdla.commands.placement_tables import device_names

    return device_names(artifact)


def _used(profile: NetworkProfile) -> list[str]:
    return list(dict.fromkeys(each.device for each in profile.operators))


def _memory(artifact: Artifact) -> str:
    plan = artifact.plan
    whole = f"{plan.arena_bytes:,} bytes hold all values between steps"
    return f"{whole}, {share(plan.arena_bytes, plan.arena_bytes_without_reuse)} of their sum."


def _table(profile: NetworkProfile) -> str:
    titles = (
        "operator",
        "name",
        "device",
        "cycles",
        "time",
        "share",
        "utilised",
        "bytes",
        "read",
        "written",
        "waits for",
    )
    head = element("thead", _row(titles, "th"))
    return element("table", head + element("tbody", "".join(_rows(profile))))


def _rows(profile: NetworkProfile) -> Iterable[str]:
    for each in profile.operators:
        cycles = "" if each.cycles is None else f"{each.cycles:,}"
        used = "" if not each.utilisation else f"{100 * each.utilisation:.1f} %"
        figures = (cycles, milliseconds(each.seconds), share(each.seconds, profile.seconds), used)
        moved = (each.nbytes, each.bytes_read, each.bytes_written)
        nbytes = ("" if count is None else f"{count:,}" for count in moved)
        yield _row((operator_label(each), each.name, each.device, *figures, *nbytes, stall_text(each)), "td")


def _row(cells: Sequence[str], name: str) -> str:
    first, *others = cells
    return element("tr", element("th", escape(first)) + "".join(element(name, escape(cell)) for cell in others))


def _note(text: str) -> str:
    return element("p", escape(text), class_="note")
