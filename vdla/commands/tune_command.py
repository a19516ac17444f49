# SPDX-License-Identifier: Apache-2.0
"""`vdla tune`: the best schedules of an operator, or of all those of a model, by measurement."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING

from vdla.charts.plots import Curve, convergence
from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress
from vdla.commands.files import require_folders, write_json
from vdla.commands.machine_options import add_dram_arguments, add_machine_arguments
from vdla.commands.options import add_options
from vdla.commands.search_options import add_search_arguments, add_worker_arguments, check_search, opened_workers
from vdla.commands.tune_grid import add_grid_arguments, is_grid, refuse_grid_options, run_grid
from vdla.commands.tune_kernels import add_kernel_arguments, refuse_kernel_options, run_kernels
from vdla.commands.tune_schedule import run_schedule, schedule_of_file
from vdla.commands.tune_tasks import (
    TunedOperator,
    TunedResult,
    operator_names,
    operator_to_tune,
    operators_of_model,
    show_result,
    show_results,
)
from vdla.support.atomic import write_text
from vdla.support.file_kind import MODEL_SUFFIXES

if TYPE_CHECKING:
    from vdla.runtime.tune.log import TrialIndex, TuningLog
    from vdla.runtime.tune.tune import Search, TuningProgress
    from vdla.runtime.tune.workers import Workers

EXAMPLES = """\
  vdla tune C5                          a layer of ResNet-18, on pynq_z1
  vdla tune C5 --trials 500 --picture c5.svg --search random --seed 1
  vdla tune my.py:attention --preset ultra96    a function of yours that
                                        returns the tensor of its result
  vdla tune my.py:tiled                 a schedule function of yours, which
                                        asks its argument for values
  vdla tune model.onnx --log model.jsonl        every operator of a model
  vdla compile model.onnx --tuned model.jsonl   use what was found
  vdla tune C8 --from logs/             begin with what other runs learnt
  vdla tune C5 --workers ray://10.0.0.5:10001   on a cluster
  vdla tune model.onnx --target host    the kernels of a model on this CPU
  vdla tune C6 --target host --search genetic   an operator of vdla native
  vdla tune C6 --target opencl          its tiles on a GPU
  vdla tune C6 --target opencl --costs modelled     by a model of a GPU
"""

TIMEOUT_S = 60
LOG = Path("tuning.jsonl")
GAP = 0.1
"""Percent above the least cycles at which a run stops."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What is tuned, how long, by whom, and what is written."""
    text = "a layer such as C6, a template, FILE.py:NAME, MODEL.onnx, MODEL.tflite or MODEL.pt2"
    add_options(parser, {"operator OPERATOR": text}, operator_names)
    add_options(parser, {"--shape KEY=N...": "the template's options; of a model, shapes of inputs"}, action="extend")
    text = "quantise a float model, as vdla compile does"
    add_options(parser, {"--calibration FILE...": text}, default=None)
    add_search_arguments(parser)
    add_options(parser, {f"--log FILE = {LOG}": f"append every trial to FILE ({LOG})"})
    add_worker_arguments(parser, TIMEOUT_S)
    add_options(
        parser,
        {
            "--device NAME = sim": "the device that measures (default sim)",
            "--gap PERCENT": f"stop within PERCENT of the least cycles, where they are known (default {GAP})",
            "-o --output FILE": "write the best program of one operator",
            "--picture FILE.svg": "draw the best so far against trials",
            "--json": "write JSON to FILE, or to standard output in place of tables",
        },
    )
    add_machine_arguments(parser, "--preset")
    add_dram_arguments(parser)
    add_kernel_arguments(parser)
    add_grid_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    """Tune, then show, write and draw."""
    if is_grid(arguments.target):
        return run_grid(arguments)
    refuse_grid_options(arguments)
    if arguments.target:
        return run_kernels(arguments)
    refuse_kernel_options(arguments)
    _check(arguments)
    schedule = schedule_of_file(arguments.operator)
    if schedule is not None:
        return run_schedule(arguments, schedule)
    is_model = arguments.operator.lower().endswith(MODEL_SUFFIXES)
    operators = operators_of_model(arguments) if is_model else [operator_to_tune(arguments)]
    results = _tuned(arguments, operators)
    if arguments.output:
        _write_program(arguments.output, results[0])
    if arguments.picture:
        write_text(arguments.picture, picture_of(results))
    if not write_json(arguments.json, {"operators": [result.to_dict() for result in results]}):
        _show(arguments, results, is_model)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options before the work starts."""
    is_model = arguments.operator.lower().endswith(MODEL_SUFFIXES)
    require_folders("tune", arguments, "log", "picture", "output", "json")
    if is_model and arguments.output:
        raise CommandError(f"tune: --output must be left out for a model, got {arguments.output}")
    if not is_model and arguments.calibration:
        raise CommandError(f"tune: --calibration must be left out for an operator, got {arguments.calibration[0]}")
    if arguments.picture and arguments.picture.suffix != ".svg":
        raise CommandError(f"tune: --picture must end in .svg, got {arguments.picture}")
    if arguments.gap is not None and not arguments.gap >= 0:
        raise CommandError(f"tune: --gap must be a number of percent from 0, got {arguments.gap:g}")
    check_search(arguments)


# --- runs -----------------------------------------------------------------------------------------


def _tuned(arguments: argparse.Namespace, operators: Sequence[TunedOperator]) -> list[TunedResult]:
    """The results of all operators, one after the other, with the same workers and log."""
    from vdla.runtime.tune.log import TuningLog, read_logs
    from vdla.runtime.tune.measurer import DeviceMeasurer, SimMeasurer

    prior = read_logs(*arguments.prior) if arguments.prior else None
    measurer = SimMeasurer() if arguments.device == "sim" else DeviceMeasurer(arguments.device)
    with ExitStack() as stack:
        log = stack.enter_context(TuningLog(arguments.log))
        workers = stack.enter_context(opened_workers(arguments, measurer))
        return [_result(arguments, operator, log, workers, prior) for operator in operators]


def _result(
    arguments: argparse.Namespace,
    operator: TunedOperator,
    log: TuningLog,
    workers: Workers,
    prior: TrialIndex | None,
) -> TunedResult:
    from vdla.runtime.tune.log import TaskRun
    from vdla.runtime.tune.tune import tune
    from vdla.simulator.timing import time_program

    task, config = operator.task, operator.task.config
    machine = f"{config.name} {config.fingerprint}"
    run = TaskRun(task.key, task.name, machine, task.space.name, arguments.search, arguments.seed)
    with progress(f"tune {task.name}") as show:
        search = _search(arguments, operator, prior)
        shown = _Shown(operator, show)
        gap = GAP if arguments.gap is None else arguments.gap
        enough = 0.0 if operator.least is None else operator.least.cycles * (1 + gap / 100)
        report = tune(task, search, run, workers, trials=arguments.trials, log=log, show=shown, enough=enough)
        show("the untuned choice", arguments.trials, arguments.trials)
        program, overhead = operator.untuned()
        untuned, best = time_program(program), time_program(task.build(report.best.point))
    if arguments.device == "sim":
        log.append_untuned(run, untuned.total_cycles + overhead, report.best.unit)
    return TunedResult(operator, report, untuned, best)


def _search(arguments: argparse.Namespace, operator: TunedOperator, prior: TrialIndex | None) -> Search:
    from vdla.compiler.tune.searches import new_search
    from vdla.runtime.tune.kernel_runs import prior_of

    groups = () if prior is None else prior_of(operator.task, prior)
    return new_search(arguments.search, operator.task, arguments.seed, groups)


class _Shown:
    """Puts the best so far, its distance from the bound and the time left on the progress bar."""

    def __init__(self, operator: TunedOperator, show: Callable[[str, int, int], None]) -> None:
        self._operator, self._show = operator, show
        self._start: tuple[float, int] | None = None

    def __call__(self, progress: TuningProgress) -> None:
        words = [self._best(progress), self._remaining(progress)]
        self._show(", ".join(filter(None, words)), progress.done, progress.total)

    def _best(self, progress: TuningProgress) -> str:
        if progress.best is None:
            return "none has succeeded"
        least = self._operator.least
        over = "" if least is None else f", {100 * least.gap(progress.best.cost):.2f} % above the least"
        return f"best {progress.best.cost:,.0f} {progress.best.unit}{over}"

    def _remaining(self, progress: TuningProgress) -> str:
        """By the rate since the first trial, so that the log's do not count."""
        now = time.monotonic()
        if self._start is None:
            self._start = (now, progress.done)
        begun_s, before = self._start
        measured = progress.done - before
        if not measured:
            return ""
        seconds = round((now - begun_s) / measured * (progress.total - progress.done))
        return f"{seconds // 60}:{seconds % 60:02d} left"


# --- results --------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, results: list[TunedResult], is_model: bool) -> None:
    if is_model:
        show_results(results)
    else:
        show_result(results[0])
    use = results[0].operator.use.replace("OPERATOR", arguments.operator).format(log=str(arguments.log))
    output().print(f"\n{arguments.log}: every trial; {use} uses the best", soft_wrap=True)
    for option in ("output", "picture"):
        path = getattr(arguments, option)
        if path:
            output().print(f"wrote {path}")


def _write_program(path: Path, result: TunedResult) -> None:
    from vdla.simulator.verify import require_verified

    program = result.operator.task.build(result.report.best.point)
    require_verified(program)
    program.save(path)


def picture_of(results: Sequence[TunedResult]) -> str:
    """The best cost so far; a model's is the sum of its operators."""
    first = results[0]
    lines = [result.report.best_so_far() for result in results]
    longest, counts = max(map(len, lines)), [result.operator.count for result in results]
    padded = [[*line, *[line[-1]] * (longest - len(line))] for line in lines]
    costs = [sum(map(mul, counts, column)) for column in zip(*padded, strict=True)]
    untuned = sum(map(mul, counts, (result.untuned.total_cycles for result in results)))
    least = first.operator.least if len(results) == 1 else None
    name = first.name if len(results) == 1 else f"{len(results)} operators"
    title = f"{name} on {first.best.config.name}, {first.report.run.search}"
    quantity = "best cycles over the least possible" if least else "best cycles over those of the last trial"
    reference = least.cycles if least else costs[-1]
    best = Curve(name=name, values=[cost / reference for cost in costs])
    level = Curve(name="untuned", values=[untuned / reference] * longest, dashed=True)
    return convergence(title, quantity, [best, level])
