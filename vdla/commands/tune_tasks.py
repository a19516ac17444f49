# SPDX-License-Identifier: Apache-2.0
"""What `vdla tune` works on: operators by name, functions of a file, the operators of a model; and
tables of what won, and where its cycles went compared with the untuned choice.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import calibration_data
from vdla.commands.machine_options import machine, with_dram
from vdla.commands.model_shapes import shapes_of
from vdla.commands.named_operators import (
    definition_of,
    definitions,
    expression_of_file,
    from_settings,
    from_workload,
    layer_names,
    refuse_shape,
    templates,
)
from vdla.commands.run_tables import COUNTER_LABELS
from vdla.support.suggest import one_of

if TYPE_CHECKING:
    from rich.table import Table

    from vdla.compiler import te
    from vdla.compiler.operators.least_cycles import LeastCycles
    from vdla.compiler.operators.vdla import Operator
    from vdla.compiler.tune import VdlaTask
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program
    from vdla.runtime.tune.tune import TuningReport
    from vdla.simulator.stats import RunStats


_THREADS = 2
_CHOSEN = ("tiling", "virtual_threads")  # by the tuner


@dataclass(frozen=True, slots=True)
class TunedOperator:
    """An operator to tune: its task, and the cycles that no program is below, if known.

    `untuned` gives the program without tuning, and the cycles of the host that count with it.
    `count` is how often a model has it; `use` says how to use the best, with `{log}`.
    """

    task: VdlaTask
    untuned: Callable[[], tuple[Program, float]]
    least: LeastCycles | None = None
    count: int = 1
    use: str = "vdla compile OPERATOR --tuned {log}"


def operator_to_tune(arguments: argparse.Namespace) -> TunedOperator:
    """The operator that the command line names."""
    from vdla.compiler.operators.least_cycles import least_cycles
    from vdla.compiler.operators.workloads import workload

    name, config = arguments.operator, with_dram(machine(arguments), arguments.dram)
    if ".py" in name:
        return _of_expression(*expression_of_file("tune", name), config)
    if name in templates():
        return _of_template(from_settings("tune", name, config, arguments.shape, _THREADS))
    if name in definitions():
        return _of_expression(name, definition_of("tune", name, arguments.shape).output, config)
    if name.upper() not in layer_names():
        others = ", FILE.py:NAME or MODEL.onnx"
        raise CommandError(f"tune: operator must be {one_of(name, operator_names(), others)}")
    refuse_shape("tune", name, arguments.shape)
    layer = workload(name)
    return _of_template(from_workload(layer, config, _THREADS), least_cycles(layer, config))


def operator_names() -> list[str]:
    """The templates, the definitions that no template is named after, and the layers."""
    return list(dict.fromkeys([*templates(), *definitions(), *layer_names()]))


def _of_template(operator: Operator, least: LeastCycles | None = None) -> TunedOperator:
    from vdla.compiler.tune import template_task

    assert operator.origin is not None  # a template made it
    options = {key: value for key, value in operator.origin.options.items() if key not in _CHOSEN}
    task = template_task(operator.origin.template, operator.config, **{**options, "name": operator.name})
    return TunedOperator(task, lambda: (operator.program, 0.0), least)


def _of_expression(name: str, tensor: te.Tensor, config: Config) -> TunedOperator:
    """A plain expression, whose mappings are part of its space."""
    from vdla.compiler.tune import expression_task
    from vdla.runtime.tune.mapping import map_expression

    task = expression_task(tensor, config, name)
    use = "vdla.map_expression(..., tuned={log!r})"

    def untuned() -> tuple[Program, float]:
        operator = map_expression(tensor, config, name=name)
        return operator.program, operator.extra_cycles

    return TunedOperator(task, untuned, use=use)


# --- models ---------------------------------------------------------------------------------------


def operators_of_model(arguments: argparse.Namespace) -> list[TunedOperator]:
    """The operators that the accelerator runs when the model is compiled, each once."""
    from vdla.compiler.operators.vdla.operator import chosen_options
    from vdla.runtime.network.compile_network import compile_network

    calls, source = TemplateCalls(), Path(arguments.operator)
    data = None if arguments.calibration is None else [calibration_data(file) for file in arguments.calibration]
    config = with_dram(machine(arguments), arguments.dram)
    with progress(f"compile {source.name}") as show, chosen_options(calls.options):
        compile_network(
            source,
            config,
            shapes=shapes_of("tune", arguments.shape),
            calibration=data,
            certify=False,
            progress=show,
        )
    if not calls.operators:
        raise CommandError(f"tune {source.name}: the accelerator must run an operator, got none; vdla compile says why")
    return list(calls.operators.values())


@dataclass(slots=True)
class TemplateCalls:
    """The calls of templates while a model is compiled; equal operators are one."""

    operators: dict[str, TunedOperator] = field(default_factory=dict)

    def options(self, template: Callable[..., Operator], config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
        """Notes a call and changes nothing, as `chosen_options` takes it."""
        from vdla.compiler.tune import template_task

        if options.get("tiling") is None:
            given = {key: value for key, value in options.items() if key not in _CHOSEN}
            task = replace(template_task(template, config, **given), name=_label(template, options))
            known = self.operators.get(task.key)
            count = 1 if known is None else known.count + 1
            self.operators[task.key] = TunedOperator(
                task, lambda: (template(config, **options).program, 0.0), count=count
            )
        return {}


def _label(template: Callable[..., Operator], options: Mapping[str, Any]) -> str:
    """The template and its extents, which tell the operators of a model apart."""
    channels = [options[key] for key in ("in_channels", "channels", "out_channels") if key in options]
    extents = [options[key] for key in ("height", "width") if key in options]
    kernel = options.get("kernel", 1)
    taps = [str(kernel)] if isinstance(kernel, int) else [*map(str, kernel)]
    words = [template.__name__, "x".join(taps) if "kernel" in options else "", ">".join(map(str, channels))]
    return " ".join(filter(None, [*words, "x".join(map(str, extents))]))


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

    def gap(self, stats: RunStats) -> float | None:
        """The percentage by which a run is above the least cycles, where these are known."""
        least = self.operator.least
        return None if least is None else 100 * least.gap(stats.total_cycles)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values; costs before the first success are null."""
        report, best, least = self.report, self.report.best, self.operator.least
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
            "least_cycles": least.cycles if least else None,
            "limited_by": least.limited_by if least else None,
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
    for line in _least(result):
        console.print(line, soft_wrap=True)


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
    gaps = result.gap(untuned), result.gap(best)
    if gaps[0] is not None:
        yield "above the least cycles", f"{gaps[0]:.2f} %", f"{gaps[1]:.2f} %"
    yield "instructions", f"{len(untuned.starts):,}", f"{len(best.starts):,}"
    yield "bytes read", f"{untuned.bytes_read:,}", f"{best.bytes_read:,}"
    yield "bytes written", f"{untuned.bytes_written:,}", f"{best.bytes_written:,}"
    for counter, label in COUNTER_LABELS.items():
        cycles = untuned.counters[_UNIT][counter], best.counters[_UNIT][counter]
        if any(cycles):
            yield f"compute: {label}", f"{cycles[0]:,}", f"{cycles[1]:,}"


def _least(result: TunedResult) -> Iterator[str]:
    """How near the best is to what no program is below, and what it waits for, if the bound is
    known.
    """
    least, best = result.operator.least, result.best
    if least is None:
        return
    from vdla.compiler.operators.least_cycles import CAUSES

    above = best.total_cycles - least.cycles
    waits = {label: best.counters[_UNIT][counter] for counter, label in COUNTER_LABELS.items() if counter != "busy"}
    most = max(waits, key=waits.__getitem__)
    yield (
        f"{result.name}: no program has fewer than {least.cycles:,} cycles, set by its {CAUSES[least.limited_by]}; "
        f"of {above:,} cycles above, the compute unit spends at most {waits[most]:,} on '{most}'"
    )


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
    listing = table("operators", "operator", "times", "space", "trials", "untuned", "best", "gain %", "above least %")
    for result in results:
        gap = result.gap(result.best)
        listing.add_row(
            result.name,
            str(result.operator.count),
            f"{result.operator.task.space.size:,}",
            f"{len(result.report.trials):,}",
            f"{result.untuned.total_cycles:,}",
            f"{result.best.total_cycles:,}",
            f"{100 * (1 - 1 / result.gain):.2f}",
            "" if gap is None else f"{gap:.2f}",
        )
    output().print(listing)
    sums = [sum(result.operator.count * run.total_cycles for result, run in zip(results, runs, strict=True))
            for runs in ([r.untuned for r in results], [r.best for r in results])]  # fmt: skip
    output().print(f"\nin sum {sums[0]:,} cycles untuned, {sums[1]:,} with the best of each")
