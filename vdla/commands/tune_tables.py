"""Tables of a tuning run: what won, and where its cycles went compared with the untuned choice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vdla.commands.console import output, table
from vdla.commands.run_tables import COUNTER_LABELS
from vdla.commands.tune_tasks import TunedOperator

if TYPE_CHECKING:
    from rich.table import Table

    from vdla.runtime.tune.tune import TuningReport
    from vdla.simulator.stats import RunStats

_UNIT = "compute"  # whose cycles are compared: it waits for whatever is slow


@dataclass(frozen=True, slots=True)
class TunedResult:
    """A finished run, and the untuned and the best program on the simulator.

    Both are without the work of the host that a task may add to costs.
    """

    operator: TunedOperator
    report: TuningReport
    untuned: RunStats
    best: RunStats

    @property
    def name(self) -> str:
        """The operator's."""
        return self.operator.task.name

    @property
    def gain(self) -> float:
        """Untuned cycles over the best."""
        return self.untuned.total_cycles / self.best.total_cycles

    def over_bound(self, stats: RunStats) -> float | None:
        """Cycles over the bound, where there is one."""
        limit = self.operator.bound_cycles
        return None if limit is None else stats.total_cycles / limit

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; costs before the first success are null."""
        report, best = self.report, self.report.best
        return {
            "operator": self.name,
            "key": report.run.key,
            "machine": self.best.config.name,
            "space": self.operator.task.space.size,
            "search": report.run.search,
            "seed": report.run.seed,
            "trials": len(report.trials),
            "reused": report.reused,
            "failed": report.failed,
            "unit": best.unit,
            "best": best.cost,
            "point": dict(best.point),
            "untuned_cycles": self.untuned.total_cycles,
            "bound_cycles": self.operator.bound_cycles,
            "best_so_far": [cost if cost < float("inf") else None for cost in report.best_so_far()],
        }


def show_result(result: TunedResult) -> None:
    """The winner beside the untuned choice, and why it won in a sentence."""
    report, console = result.report, output()
    done = f"{len(report.trials):,} of {result.operator.task.space.size:,} points"
    notes = [f"{report.reused:,} from the log"] * bool(report.reused) + [f"{report.failed:,} failed"] * bool(
        report.failed
    )
    console.print(f"{result.name} on {result.best.config.name}: {', '.join([done, *notes])}\n", soft_wrap=True)
    console.print(_compared(result))
    console.print(f"\n{_why(result)}", soft_wrap=True)


def _compared(result: TunedResult) -> Table:
    listing = table("", "", "untuned", "best")
    for label, untuned, best in _rows(result):
        listing.add_row(label, untuned, best)
    for knob, value in result.report.best.point.items():
        text = str(value).split(" (")[0]
        listing.add_row(knob, "", text)
    return listing


def _rows(result: TunedResult) -> Iterator[tuple[str, str, str]]:
    untuned, best = result.untuned, result.best
    yield "cycles", f"{untuned.total_cycles:,}", f"{best.total_cycles:,}"
    limits = result.over_bound(untuned), result.over_bound(best)
    if limits[0] is not None:
        yield "over the bound", f"{limits[0]:.4f}", f"{limits[1]:.4f}"
    yield "instructions", f"{len(untuned.starts):,}", f"{len(best.starts):,}"
    yield "bytes read", f"{untuned.bytes_read:,}", f"{best.bytes_read:,}"
    yield "bytes written", f"{untuned.bytes_written:,}", f"{best.bytes_written:,}"
    for counter, label in COUNTER_LABELS.items():
        cycles = untuned.counters[_UNIT][counter], best.counters[_UNIT][counter]
        if any(cycles):
            yield f"compute: {label}", f"{cycles[0]:,}", f"{cycles[1]:,}"


def _why(result: TunedResult) -> str:
    """The largest change among the cycles of the compute unit."""
    untuned, best = result.untuned, result.best
    if len(result.report.trials) == result.operator.task.space.size and best.total_cycles <= untuned.total_cycles:
        return f"{result.name}: every point was measured, so {best.total_cycles:,} cycles are the optimum of the space"
    if best.total_cycles >= untuned.total_cycles:
        return f"{result.name}: no trial has fewer cycles than the untuned choice, {untuned.total_cycles:,}"
    saved = {c: untuned.counters[_UNIT][c] - best.counters[_UNIT][c] for c in COUNTER_LABELS}
    counter = max(saved, key=saved.__getitem__)
    gain = f"{untuned.total_cycles - best.total_cycles:,} cycles fewer ({100 * (1 - 1 / result.gain):.2f} %)"
    what = f"{saved[counter]:,} fewer of '{_UNIT}: {COUNTER_LABELS[counter]}'"
    moved = best.bytes_read + best.bytes_written - untuned.bytes_read - untuned.bytes_written
    more = "more" if moved > 0 else "fewer"
    return f"{result.name}: {gain}, {what}; {abs(moved):,} bytes {more} are moved"


def show_results(results: list[TunedResult]) -> None:
    """A line for each operator of a model."""
    listing = table("operators", "operator", "times", "space", "trials", "untuned", "best", "gain %", "over bound")
    for result in results:
        limit = result.over_bound(result.best)
        listing.add_row(
            result.name,
            str(result.operator.count),
            f"{result.operator.task.space.size:,}",
            f"{len(result.report.trials):,}",
            f"{result.untuned.total_cycles:,}",
            f"{result.best.total_cycles:,}",
            f"{100 * (1 - 1 / result.gain):.2f}",
            "" if limit is None else f"{limit:.4f}",
        )
    output().print(listing)
    sums = [sum(result.operator.count * run.total_cycles for result, run in zip(results, runs, strict=True))
            for runs in ([r.untuned for r in results], [r.best for r in results])]  # fmt: skip
    output().print(f"\nin sum {sums[0]:,} cycles untuned, {sums[1]:,} with the best of each")
