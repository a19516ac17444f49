# SPDX-License-Identifier: Apache-2.0
"""The table of several extensions: every layer with each of them, and with all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from vdla.commands.console import output, table

if TYPE_CHECKING:
    from vdla.runtime.studies.joint_verdict import JointVerdict
    from vdla.runtime.studies.measure import LayerCost
    from vdla.runtime.studies.verdict import LayerVerdict


def show_joint(verdict: JointVerdict) -> None:
    """Print cycles of each layer, and how many layers each extension helps."""
    names = list(verdict.verdicts)
    listing = table(f"cycles on {verdict.alone[0].before.name}", "layer", "x", "before", *names)
    for row in verdict.layers:
        listing.add_row(*_cells(row))
    console = output()
    console.print(listing)
    console.print()
    for line in notes_of(verdict):
        console.print(line, soft_wrap=True)


def _cells(row: dict[str, LayerVerdict]) -> list[str]:
    """A layer before, and with each extension; a dash where there is no program."""
    first = next(iter(row.values()))
    return [first.name, str(first.count), _cycles(first.before.cost), *(_after(layer) for layer in row.values())]


def _after(layer: LayerVerdict) -> str:
    gain = "" if layer.gain is None else f" ({layer.gain:.2f})"
    return f"{_cycles(layer.after.cost)}{gain}" if layer.applies else "not used"


def _cycles(cost: LayerCost | None) -> str:
    return "-" if cost is None else f"{cost.cycles:,}"


def notes_of(verdict: JointVerdict) -> Iterator[str]:
    """What each extension is worth, a sentence each."""
    for name, one in verdict.verdicts.items():
        helps = sum(layer.helps for layer in one.layers)
        speed = "" if one.speedup is None or not helps else f"; these layers in all {one.speedup:.3f} times as fast"
        yield f"{name}: takes fewer cycles on {helps} of {len(one.layers)} layers{speed}"
    if verdict.together is None:
        yield f"not together: {verdict.reason}"
