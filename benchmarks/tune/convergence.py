# SPDX-License-Identifier: Apache-2.0
"""Trials that searches need to come within one percent of the best known point.

Layers count where random search needs many. `vs_random` and `vs_genetic` are the trials of the
default search over theirs, in sum over layers of medians over seeds; `vs_estimate` is the worst
layer's ratio to the order of the estimate alone. Where the estimate is right, there is nothing left
to learn: `blind_vs_random` and `blind_vs_genetic` are of the search that does not know it, and
`with_transfer` is that search with measurements of all other layers, over without.
`seeded_with_transfer` is the same of the default search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np

from vdla.benchmarks.harness import Figures, Row, Section
from vdla.benchmarks.tune.pool import Pool, PoolTask, measured_pool, median_trials, replay
from vdla.benchmarks.tune.section import SectionRequest
from vdla.charts.plots import Curve, convergence
from vdla.compiler.operators.workloads import workload
from vdla.compiler.tune import layer_task
from vdla.compiler.tune.cost_model import Group
from vdla.compiler.tune.searches import DEFAULT_SEARCH
from vdla.hardware.config import Config
from vdla.support.atomic import write_text

POINTS = 500  # of a pool
SEEDS = 10
HARD = 100  # trials of random search, the median
TRANSFERRED = 100  # points of another layer
BLIND = "blind"
MODELS = (DEFAULT_SEARCH, BLIND)
BASELINES = ("random", "genetic", "estimate")
_LAST = 200  # trial in the picture


@dataclass(frozen=True, slots=True)
class Case:
    """A layer on a machine; `slow` makes its memory take two cycles a beat and 120 to answer."""

    layer: str
    raw: bool = False
    slow: bool = False
    preset: str = "pynq_z1"

    @property
    def config(self) -> Config:
        """The machine."""
        config = Config.preset(self.preset)
        if not self.slow:
            return config
        return replace(config, name="slow memory", dram=replace(config.dram, beat_cycles=2, read_latency=120))


CASES = (
    *(Case(layer) for layer in ("C5", "C8", "C10", "C11", "C12", "D6", "D8")),
    Case("C5", raw=True),
    Case("C8", slow=True),
)

SHOWN = (
    DEFAULT_SEARCH,
    f"{DEFAULT_SEARCH} with transfer",
    BLIND,
    f"{BLIND} with transfer",
    "estimate",
    "genetic",
    "random",
)
"""The searches, as in the picture."""
_SERIES = {DEFAULT_SEARCH: 0, BLIND: 2, "estimate": 6, "genetic": 1, "random": 7}  # the colours of their curves

Runs = Mapping[str, Sequence[Sequence[float]]]
"""For each search, the costs of its trials with each seed."""


def measure_convergence(request: SectionRequest) -> Section:
    """Pools of all layers, then every search on each."""
    pools: list[Pool] = []
    for case in CASES:
        request.report(f"points of {case.layer} on {case.config.name}")
        task = layer_task(workload(case.layer), case.config, raw=case.raw)
        pools.append(measured_pool(task, POINTS, request.seed))
    rows, runs = [], []
    for pool in pools:
        request.report(f"searches on {pool.task.name}")
        runs.append(_runs(pool, _others(pool, pools), request.seed))
        rows.append(_row(pool, runs[-1]))
    hard = [number for number, row in enumerate(rows) if row["random"] >= HARD]
    if request.picture and hard:
        write_text(request.picture, picture_of([(pools[number].best, runs[number]) for number in hard]))
    return Section(_figures([rows[number] for number in hard], pools), rows)


def _others(pool: Pool, pools: Sequence[Pool]) -> list[Pool]:
    """The pools of other operators."""
    return [other for other in pools if other.task.source.definition != pool.task.source.definition]


def _runs(pool: Pool, others: Sequence[Pool], seed: int) -> Runs:
    """Every search with every seed."""
    task, prior = PoolTask(pool), [_group(other, seed) for other in others]
    seeds = range(seed, seed + SEEDS)
    result = {name: [replay(name, task, item) for item in seeds] for name in (*MODELS, *BASELINES)}
    return result | {transferred(name): [replay(name, task, item, prior) for item in seeds] for name in MODELS}


def transferred(name: str) -> str:
    """The name of a search with measurements of other layers."""
    return f"{name} with transfer"


def _group(pool: Pool, seed: int) -> Group:
    """Some measured points of another layer, as a log has them."""
    chosen = np.random.default_rng(seed).choice(len(pool.indices), min(TRANSFERRED, len(pool.indices)), replace=False)
    return pool.task.features(pool.indices[chosen]), pool.costs[chosen]


def _row(pool: Pool, runs: Runs) -> Row:
    trials = {name: median_trials(rows) for name, rows in runs.items()}
    return {
        "layer": pool.task.name,
        "machine": pool.task.config.name,
        "space": pool.task.space.size,
        "points": len(pool.indices),
        "failed": pool.failed,
        "best_cycles": round(pool.best),
        **trials,
        "hard": int(trials["random"] >= HARD),
    }


def _figures(hard: Sequence[Mapping[str, Any]], pools: Sequence[Pool]) -> Figures:
    """The ratios over the hard layers, if there are any."""
    if not hard:
        return {"hard_layers": 0, "invalid_measured": sum(pool.failed for pool in pools)}
    total = {name: sum(row[name] for row in hard) for name in SHOWN}
    return {
        "hard_layers": len(hard),
        "vs_random": round(total[DEFAULT_SEARCH] / total["random"], 4),
        "vs_genetic": round(total[DEFAULT_SEARCH] / total["genetic"], 4),
        "vs_estimate": round(max(row[DEFAULT_SEARCH] / row["estimate"] for row in hard), 4),
        "blind_vs_random": round(total[BLIND] / total["random"], 4),
        "blind_vs_genetic": round(total[BLIND] / total["genetic"], 4),
        "with_transfer": round(total[transferred(BLIND)] / total[BLIND], 4),
        "seeded_with_transfer": round(total[transferred(DEFAULT_SEARCH)] / total[DEFAULT_SEARCH], 4),
        "invalid_measured": sum(pool.failed for pool in pools),
    }


def picture_of(hard: Sequence[tuple[float, Runs]]) -> str:
    """The best known cost over the best so far, a mean over layers and seeds."""
    curves = [
        Curve(
            name=name,
            values=[100 * _reached(hard, name, trial) for trial in range(1, _LAST + 1)],
            series=_SERIES[name.partition(" ")[0]],
            dashed=" " in name,
        )
        for name in SHOWN
    ]
    title = f"Best so far over the best known, mean of {len(hard)} layers and {SEEDS} seeds"
    return convergence(title, "% of the performance of the best known", curves, hidden=0)


def _reached(hard: Sequence[tuple[float, Runs]], name: str, trial: int) -> float:
    return float(np.mean([best / min(costs[:trial]) for best, runs in hard for costs in runs[name]]))


# --- picture --------------------------------------------------------------------------------------
# Best so far against trials as SVG, after figure 12 of the TVM paper.


_WIDTH, _HEIGHT = 760, 420
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 740, 44, 372
_COLOURS = ("#2a6fb0", "#2a6fb0", "#3a8f4d", "#3a8f4d", "#7a3fa0", "#c2571a", "#777777")
_DASHES = ("", "7 3", "", "7 3", "2 3", "", "")
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #222 } .grid { stroke: #ccc; stroke-width: 0.6 }
polyline { fill: none; stroke-width: 2.2 } rect.page { fill: #fff }
"""


@dataclass(frozen=True, slots=True)
class SearchCurve:
    """A search: its name, and the share of the best known performance after each trial."""

    name: str
    shares: Sequence[float]


def convergence_picture(curves: Sequence[SearchCurve], layers: int) -> str:
    """The curves of searches, each a mean over `layers` layers."""
    low = int(min(curve.shares[0] for curve in curves) * 10) / 10
    title = f"Best so far over the best known, mean of {layers} layers and 10 seeds"
    parts = [f"<style>{_STYLE}</style>", f'<rect class="page" width="{_WIDTH}" height="{_HEIGHT}"/>']
    parts.append(_text(_LEFT, 24, title))
    parts += _grid(low, len(curves[0].shares))
    parts += [_polyline(curve, number, low) for number, curve in enumerate(curves)]
    parts += [_label(curve, number) for number, curve in enumerate(curves)]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(title)}">{"".join(parts)}</svg>\n'


def _x(trial: float, trials: int) -> float:
    return _LEFT + (_RIGHT - _LEFT) * trial / trials


def _y(share: float, low: float) -> float:
    return _BOTTOM - (_BOTTOM - _TOP) * (share - low) / (1 - low)


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="grid" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _grid(low: float, trials: int) -> list[str]:
    """Lines with their values, and the titles of the axes."""
    parts = []
    for step in range(round(low * 10), 11):
        at = _y(step / 10, low)
        parts += [_line(_LEFT, at, _RIGHT, at), _text(_LEFT - 8, at + 4, f"{10 * step} %", "end")]
    for trial in range(0, trials + 1, trials // 8):
        at = _x(trial, trials)
        parts += [_line(at, _TOP, at, _BOTTOM), _text(at, _BOTTOM + 18, str(trial), "middle")]
    return [*parts, _text((_LEFT + _RIGHT) / 2, _BOTTOM + 38, "trials", "middle")]


def _stroke(number: int) -> str:
    return f'stroke="{_COLOURS[number]}" stroke-dasharray="{_DASHES[number]}"'


def _polyline(curve: SearchCurve, number: int, low: float) -> str:
    count = len(curve.shares)
    points = " ".join(f"{_x(trial, count):.1f},{_y(share, low):.1f}" for trial, share in enumerate(curve.shares, 1))
    return f'<polyline points="{points}" {_stroke(number)}/>'


def _label(curve: SearchCurve, number: int) -> str:
    """A line of the legend, at the lower right."""
    y = _BOTTOM - 150 + 20 * number
    line = f'<line x1="{_RIGHT - 230}" y1="{y}" x2="{_RIGHT - 190}" y2="{y}" {_stroke(number)} stroke-width="2.2"/>'
    return line + _text(_RIGHT - 182, y + 4, curve.name)
