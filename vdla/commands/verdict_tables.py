# SPDX-License-Identifier: Apache-2.0
"""Tables of an evaluation: every layer before and after, the network, where nothing applies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from vdla.commands.console import listing, output
from vdla.commands.energy_tables import show_energy, verdict_energy_notes, verdict_energy_table
from vdla.runtime.studies.measure import LayerCost
from vdla.runtime.studies.report import Point, network_point, point_of
from vdla.runtime.studies.verdict import ExtensionVerdict, LayerVerdict
from vdla.support.text_table import TextTable, text_table

_REASONS = 3  # shown, without --all
_NAME_WIDTH = 14  # of a layer, at least
if TYPE_CHECKING:
    from vdla.runtime.studies.accuracy import NetworkAccuracy

COLUMNS = ("layer", "x", "before", "after", "gain", "used %", "limited by")
"""How often a network has the layer; cycles; the share of the machine's steps that it needs."""


def tables_of(verdict: ExtensionVerdict) -> list[TextTable]:
    """The layers, their sums, the accuracy of the network; the energy, where it was estimated."""
    tables = [text_table(title_of(verdict), COLUMNS, layer_rows(verdict))]
    if any(layer.helps for layer in verdict.compared):
        which = "all layers" if len(verdict.compared) == len(verdict.layers) else "layers that both machines run"
        title = f"{which}, each with its faster program"
        tables.append(text_table(title, ("", "before", "after"), network_rows(verdict)))
    if verdict.network is not None:
        tables.append(text_table(accuracy_title(verdict.network), ACCURACY_COLUMNS, accuracy_rows(verdict.network)))
    return tables if verdict.energy is None else [*tables, verdict_energy_table(verdict.energy)]


def lines_of(verdict: ExtensionVerdict) -> list[str]:
    """All sentences: what the figures mean, where the extension is not used, where energies are
    from.
    """
    reasons = [f"{', '.join(names)}: {reason}" for reason, names in reasons_of(verdict).items()]
    energy = [] if verdict.energy is None else verdict_energy_notes(verdict.energy)
    return [*notes_of(verdict), *reasons, *energy]


def show_verdict(verdict: ExtensionVerdict, everything: bool) -> None:
    """Print all tables and sentences."""
    console = output()
    layers, *others = tables_of(verdict)
    first = listing(layers)
    first.columns[0].no_wrap = False  # numbers stay whole in a narrow terminal
    first.columns[0].min_width = _NAME_WIDTH
    console.print(first)
    energy = None if verdict.energy is None else others.pop()
    for table in others:  # their titles are longer than their rows
        console.print(f"\n{table.title}", style="bold", soft_wrap=True)
        console.print(listing(replace(table, title="")))
    console.print()
    for line in notes_of(verdict):
        console.print(line, soft_wrap=True)
    _show_reasons(verdict, everything)
    if verdict.energy is not None and energy is not None:
        show_energy(energy, verdict_energy_notes(verdict.energy))


def title_of(verdict: ExtensionVerdict) -> str:
    """What is judged, on which machine."""
    return f"{', '.join(plug_in.name for plug_in in verdict.added)} on {verdict.before.name}"


def layer_rows(verdict: ExtensionVerdict) -> Iterator[list[str]]:
    """The cells of `COLUMNS` for every layer; a dash where a machine has no program."""
    for layer in verdict.layers:
        cost = layer.after.cost
        cells = [layer.name, str(layer.count), _cycles(layer.before.cost), _cycles(cost)]
        speedup = _ratio(layer) if layer.applies else "not used"
        before = _used(layer.steps_before, layer.before.cost, verdict.steps_before)
        used = [before, _used(layer.steps, cost, verdict.steps_after)]
        shares = " > ".join(share for share in used if share) or "-"
        yield [*cells, speedup, shares, _limits(verdict, layer)]


def _cycles(cost: LayerCost | None) -> str:
    return "-" if cost is None else f"{cost.cycles:,}"


def _ratio(layer: LayerVerdict) -> str:
    return "-" if layer.gain is None else f"{layer.gain:.2f}"


def _used(steps: int, cost: LayerCost | None, rate: float) -> str:
    return "" if cost is None else f"{100 * steps / (rate * cost.cycles):.1f}"


def _limits(verdict: ExtensionVerdict, layer: LayerVerdict) -> str:
    """What limits the layer before and after, once where it is the same."""
    limits = [point.limited_by(rate, verdict.before) for point, rate in _points(verdict, layer)]
    return " > ".join(dict.fromkeys(limits)) or "-"


def _points(verdict: ExtensionVerdict, layer: LayerVerdict) -> list[tuple[Point, float]]:
    """The layer before and after, each with the machine's rate."""
    before = (layer.before.cost, layer.steps_before, verdict.steps_before)
    both = (before, (layer.after.cost, layer.steps, verdict.steps_after))
    return [(point_of(steps, one), rate) for one, steps, rate in both if one is not None]


# --- the network ----------------------------------------------------------------------------------

FIGURES: dict[str, Callable[[Point], str]] = {
    "cycles": lambda point: f"{point.cycles:,.0f}",
    "bytes read": lambda point: f"{point.bytes_read:,.0f}",
    "bytes written": lambda point: f"{point.bytes_written:,.0f}",
    "bytes a cycle": lambda point: f"{point.bandwidth():.2f}",
    "operations a byte": lambda point: f"{point.intensity:,.1f}",
}


def network_rows(verdict: ExtensionVerdict) -> Iterator[tuple[str, str, str]]:
    """The figures of all layers that both machines run, before and after."""
    points = [network_point(verdict, after) for after in (False, True)]
    before, after = (point for point in points if point is not None)
    for label, show in FIGURES.items():
        yield label, show(before), show(after)
    rates = (verdict.steps_before, verdict.steps_after)
    shares = [100 * point.steps / (rate * point.cycles) for point, rate in zip((before, after), rates, strict=True)]
    yield "used %", f"{shares[0]:.1f}", f"{shares[1]:.1f}"
    config = verdict.before
    yield "GOPS", f"{before.gops(config):,.1f}", f"{after.gops(config):,.1f}"
    bounds = [point.bound(rate, config) for point, rate in zip((before, after), rates, strict=True)]
    limits = [f"{bound.cycles:,.0f} ({bound.by})" for bound in bounds]
    yield "bound, cycles", limits[0], limits[1]
    for label, what in (("instructions", _instructions), ("bytes of instructions", _stream_bytes)):
        yield label, f"{verdict.total(what, after=False):,}", f"{verdict.total(what, after=True):,}"


def _instructions(cost: LayerCost) -> float:
    return cost.instructions


def _stream_bytes(cost: LayerCost) -> float:
    return cost.stream_bytes


# --- accuracy -------------------------------------------------------------------------------------

ACCURACY_COLUMNS = ("", "before", "after")


def accuracy_title(accuracy: NetworkAccuracy) -> str:
    """What was compared."""
    narrower = f"{accuracy.narrower} of {accuracy.layers} layers with the weights of the extension"
    return f"the quantised network against the float one, {accuracy.samples} samples, {narrower}"


def accuracy_rows(accuracy: NetworkAccuracy) -> Iterator[tuple[str, str, str]]:
    """The figures of a network, before and after."""
    before, after = accuracy.before, accuracy.after
    yield "error of outputs, rms", f"{100 * before.error:.2f} %", f"{100 * after.error:.2f} %"
    yield "same largest output", f"{100 * before.agreement:.1f} %", f"{100 * after.agreement:.1f} %"


# --- sentences ------------------------------------------------------------------------------------


def notes_of(verdict: ExtensionVerdict) -> Iterator[str]:
    """What the figures mean, a sentence each."""
    applies = [layer for layer in verdict.layers if layer.applies]
    helps = [layer for layer in applies if layer.helps]
    costly = any(not layer.helps and (layer.gain or 0) > 1 for layer in applies)
    host = ", those of the host included" * costly
    yield f"applies to {len(applies)} of {len(verdict.layers)} layers, and takes fewer cycles on {len(helps)}{host}"
    if any(layer.helps for layer in verdict.compared) and verdict.speedup is not None:
        yield f"these layers in all: {verdict.speedup:.3f} times as fast as before{_most(verdict)}"
    if verdict.types_after != verdict.types_before:
        extended, plain = verdict.types_after, verdict.types_before
        yield f"weights {extended.wgt} for {plain.wgt}, activations {extended.inp} for {plain.inp}: {_errors(verdict)}"
    for layer in verdict.layers:
        if layer.baseline_error is not None:
            yield f"{layer.name}: another formulation before, whose results differ by up to {layer.baseline_error:,.6g}"
        elif layer.baseline_steps is not None:
            yield f"{layer.name}: another formulation before, of other inputs; the results are not compared"
    in_turns = [layer.name for layer in verdict.layers if _is_in_turns(verdict, layer)]
    if in_turns:
        cause = "as where virtual threads have too few tiles"
        yield f"{', '.join(in_turns)}: loads, steps and stores overlap little, {cause}"
    tuned = f"each layer with {verdict.trials} trials" if verdict.trials else "the mapper's first candidates"
    yield f"both machines alike: {tuned}"
    yield f"area: {_area(verdict)}"


def _is_in_turns(verdict: ExtensionVerdict, layer: LayerVerdict) -> bool:
    """Whether the program with the extension, or else the plain one, overlaps little."""
    *_, (point, rate) = [(None, 0.0), *_points(verdict, layer)]
    return point is not None and point.in_turns(rate, verdict.before)


def _most(verdict: ExtensionVerdict) -> str:
    """The bound of the memory, beside what was reached."""
    most = verdict.most_speedup
    return "" if most is None else f"; {most:.3f} if operands and results had to be moved only"


def _area(verdict: ExtensionVerdict) -> str:
    """What the extension adds, with the shares of the part that have a limit."""
    used, part = verdict.area.usage, verdict.part
    if used is None:
        return verdict.area.reason
    parts = [f"{used.lut:+,} LUT ({100 * used.lut / part.lut:.1f} % of {part.name})", f"{used.ff:+,} FF"]
    shown = ", ".join([*parts, f"{used.dsp:+,} DSP", f"{used.bram36:+g} BRAM"])
    excess = verdict.area.excess
    return f"{shown}; too much for {part.name}: {', '.join(excess)}" if excess else shown


def _errors(verdict: ExtensionVerdict) -> str:
    accuracies = [layer.accuracy for layer in verdict.layers if layer.accuracy is not None]
    before, after = max(item.before for item in accuracies), max(item.after for item in accuracies)
    shown = f"{100 * before:.2f} % before and {100 * after:.2f} % after"
    return f"sums of random data are off by {shown} (rms, worst layer)"


def reasons_of(verdict: ExtensionVerdict) -> dict[str, list[str]]:
    """The layers for each reason for which a machine has no program of the kind."""
    result: dict[str, list[str]] = {}
    for layer in verdict.layers:
        for outcome, what in ((layer.before, "before"), (layer.after, "not used")):
            if outcome.cost is None:
                result.setdefault(f"{what}: {outcome.reason}", []).append(layer.name)
    return result


def _show_reasons(verdict: ExtensionVerdict, everything: bool) -> None:
    reasons = list(reasons_of(verdict).items())
    shown = reasons if everything else reasons[:_REASONS]
    for reason, names in shown:
        output().print(f"{', '.join(names)}: {reason}", soft_wrap=True)
    if len(shown) < len(reasons):
        output().print(f"and {len(reasons) - len(shown)} more reasons (--all)")
