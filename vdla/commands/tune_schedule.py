# SPDX-License-Identifier: Apache-2.0
"""`vdla tune FILE.py:NAME` of a schedule function, which takes knobs: on the simulator or this CPU.

The file is imported by its name, so that the processes that measure can import it too.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import write_json
from vdla.commands.options import refuse

if TYPE_CHECKING:
    from vdla.runtime.tune.schedule_function import TunedKnobs

_UNUSED = (
    "shape", "calibration", "prior", "workers", "device", "gap", "output", "picture", "preset", "config", "extension",
    "dram",
)  # fmt: skip
"""Options without a meaning for a schedule function, by their destination."""


def schedule_of_file(operator: str) -> Callable[..., Any] | None:
    """The function that FILE.py:NAME names if it takes an argument, its knobs; None otherwise."""
    path, _, name = operator.partition(":")
    if not path.endswith(".py") or not Path(path).is_file() or not _takes_knobs(Path(path), name):
        return None
    sys.path.insert(0, str(Path(path).resolve().parent))
    try:
        module = import_module(Path(path).stem)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise CommandError(f"{operator}: the file must run without errors, got {text}") from error
    if Path(str(module.__file__)).resolve() != Path(path).resolve():
        raise CommandError(f"{path}: file must have a name that no other module has, got that of {module.__name__}")
    function: Callable[..., Any] = getattr(module, name)
    return function


def _takes_knobs(path: Path, name: str) -> bool:
    """Whether a file defines a function with an argument that must be given; it is not run."""
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError):
        return False  # said where the file is run
    functions = (node for node in body if isinstance(node, ast.FunctionDef) and node.name == name)
    return any(
        len(function.args.posonlyargs + function.args.args) > len(function.args.defaults) for function in functions
    )


def run_schedule(arguments: argparse.Namespace, schedule: Callable[..., Any]) -> int:
    """Tune, then show the best values beside the first ones."""
    from vdla.runtime.tune.schedule_function import tune_schedule

    refuse("tune", arguments, _UNUSED, "for a schedule function", default="sim")
    with progress(f"tune {arguments.operator}") as show:
        tuned = tune_schedule(
            schedule,
            arguments.log,
            trials=arguments.trials,
            search=arguments.search,
            seed=arguments.seed,
            timeout_s=float(arguments.timeout),
            progress=show,
        )
    if not write_json(arguments.json, _to_dict(tuned)):
        _show(arguments, tuned)
    return OK


def _to_dict(tuned: TunedKnobs) -> dict[str, Any]:
    return {
        "schedule": tuned.report.run.name,
        "key": tuned.report.run.key,
        "trials": len(tuned.report.trials),
        "reused": tuned.report.reused,
        "failed": tuned.report.failed,
        "unit": tuned.unit,
        "first": dict(tuned.report.trials[0].point),
        "first_cost": tuned.default_cost,
        "best": dict(tuned.point),
        "best_cost": tuned.cost,
    }


def _show(arguments: argparse.Namespace, tuned: TunedKnobs) -> None:
    report, first = tuned.report, tuned.report.trials[0].point
    failed = f", {report.failed:,} failed" * bool(report.failed)
    output().print(f"{report.run.name} on {report.run.machine}: {len(report.trials):,} trials{failed}\n")
    listing = table("", "", "first", "best")
    costs = (f"{cost:,.0f}" if tuned.unit == "cycles" else f"{cost:.3g}" for cost in (tuned.default_cost, tuned.cost))
    listing.add_row(tuned.unit, *costs)
    for knob, value in tuned.point.items():
        listing.add_row(knob, str(first[knob]), str(value))
    output().print(listing)
    use = f"vdla.tune_schedule({report.run.name}, {str(arguments.log)!r}, ...).built"
    output().print(f"\n{arguments.log}: every trial; {use} is the best", soft_wrap=True)
