# SPDX-License-Identifier: Apache-2.0
"""The best known schedules: what the trials of a log say about an operator, by its content hash.

    schedules = TunedSchedules.of("c5.jsonl")
    with chosen_options(schedules.options):
        operator = conv2d(config, ...)

An operator that the logs do not know keeps the choice of its template, and so does one whose choice
costs no more than the best trial.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from vdla.compiler import ir, te
from vdla.compiler.map import MappedOperator
from vdla.compiler.operators.vdla import Operator, Tiling
from vdla.compiler.target import GridLimits
from vdla.compiler.tune import Point, TuneError, VdlaTask, expression_task, template_task
from vdla.compiler.tune.cpu_task import key_for_threads
from vdla.compiler.tune.grid import MODELLED, GridTask, grid_task
from vdla.compiler.tune.vdla_forms import Form, MappedForm, TemplateForm
from vdla.compiler.tune.vdla_space import FORM, tiling_of
from vdla.hardware.config import Config
from vdla.runtime.tune.grid_measurer import MODEL_LIMITS, MODEL_LIMITS_CUDA
from vdla.runtime.tune.log import TrialIndex, read_logs
from vdla.runtime.tune.trial import Trial, TuningError, best_trial

SHIPPED = "shipped"
"""In place of a log: the one that comes with the package, of the paper's operators on presets."""

SHIPPED_FILE = Path(__file__).with_name("shipped.jsonl")

_CHOSEN = ("tiling", "virtual_threads")
_THREADS = 2  # of templates, where the call does not say


@dataclass(frozen=True, slots=True, eq=False)
class TunedSchedules:
    """Trials by task; `used` has the names of the operators for which one was taken."""

    index: TrialIndex
    used: list[str] = field(default_factory=list)

    @staticmethod
    def of(source: str | Path | TunedSchedules) -> TunedSchedules:
        """Of a log, a folder of logs, or `shipped`.

        Raises:
            TuningError: a file cannot be read, has another version or is not a log.
        """
        if isinstance(source, TunedSchedules):
            return source
        if not isinstance(source, str | Path):
            raise TuningError(f"tuned: log must be a path, {SHIPPED} or TunedSchedules, got {source!r}")
        if str(source) != SHIPPED:
            return TunedSchedules(read_logs(source))
        return TunedSchedules(read_logs(SHIPPED_FILE))

    def best(self, key: str, allowed: Callable[[Point], bool] = lambda point: True) -> Trial | None:
        """The best trial of a task among allowed points, if there is one.

        Its point is empty if no trial beats the untuned choice. Ties are broken by the values of
        the point, since the order of trials in the log is that in which they ended.
        """
        trials = [entry.trial for entry in self.index.of_key(key) if allowed(entry.trial.point)]
        return best_trial(sorted(trials, key=lambda trial: sorted((name, str(x)) for name, x in trial.point.items())))

    def options(self, template: Callable[..., Operator], config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options of the best known schedule for a call of a template; none if it has tiles.

        A call that asks for fewer virtual threads than the default gets no more than those.
        """
        if options.get("tiling") is not None or not self.index.by_key:
            return {}
        threads = options.get("virtual_threads", _THREADS)
        task = template_task(template, config, **{key: v for key, v in options.items() if key not in _CHOSEN})
        most = inf if threads >= _THREADS else threads
        trial = self.best(task.key, lambda point: not point or int(point["threads"]) <= most)
        if trial is None or not trial.point:
            return {}
        form, tiling = _choice(task, trial.point)
        assert isinstance(form, TemplateForm)  # of a template's task
        self.used.append(task.name)
        changed = {key: value for key, value in form.options.items() if options.get(key) != value}
        return {**changed, "tiling": tiling}

    def kernel_point(self, key: str, threads: int = 1) -> Point | None:
        """The point of the best known schedule of a CPU kernel, by the key of its task for one
        thread, among those that were tuned for `threads`.

        It is the last confirmed point or, without one, the point of the best trial.
        """
        key = key_for_threads(key, threads)
        result = self.index.confirmed(key) or self.best(key)
        if result is None or not result.point:
            return None
        self.used.append(key)
        return result.point

    def grid_function(self, function: ir.Function, limits: GridLimits) -> ir.Function | None:
        """A function with the best known tiles for a device of these limits; None without any.

        What was measured on the device comes before what the cost model preferred, for a GPU like
        it or for another one.
        """
        on_device = grid_task(function, limits)
        models = sorted((MODEL_LIMITS, MODEL_LIMITS_CUDA), key=lambda model: model.tensor_cores != limits.tensor_cores)
        for task in (on_device, *(grid_task(function, model, costs=MODELLED) for model in models)):
            trial = self.index.confirmed(task.key) or self.best(task.key)
            if trial is not None and not trial.point:  # the default tiles are the best
                return None
            if trial is not None and _is_legal(on_device, trial.point):
                self.used.append(task.key)
                return on_device.build(trial.point)
        return None

    def mapped(self, output: te.Tensor, config: Config, name: str = "") -> MappedOperator | None:
        """The best known mapping of a plain expression, with its tiles, or None."""
        task = expression_task(output, config, name)
        trial = self.best(task.key)
        if trial is None:
            return None
        form, tiling = _choice(task, trial.point)
        assert isinstance(form, MappedForm)  # of an expression's task
        self.used.append(task.name)
        return replace(form.operator, tiling=tiling)


def _is_legal(task: GridTask, point: Point) -> bool:
    """Whether a point, perhaps of a device with other limits, is one of a task."""
    try:
        return task.space.is_legal(point)
    except TuneError:  # it has other knobs or values
        return False


def _choice(task: VdlaTask, point: Point) -> tuple[Form, Tiling]:
    """The form and the tiles of a logged point."""
    try:
        return task.forms[str(point[FORM])], tiling_of(task.of_log(point))
    except (KeyError, TuneError):
        raise TuningError(f"tune {task.name}: a logged point must be one of its space, got {dict(point)}") from None
