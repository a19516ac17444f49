# SPDX-License-Identifier: Apache-2.0
"""`vdla tune OPERATOR --target opencl`: the tiles of an operator on a GPU, measured or modelled.

A device runs one trial at a time, in a process that a driver may crash.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folders, write_json
from vdla.commands.options import add_options, refuse
from vdla.commands.search_options import check_search, given_with_target

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.runtime.tune.grid_runs import TunedGrid

TARGETS = ("opencl", "cuda")
COSTS = ("measured", "modelled")
_UNUSED = (
    "calibration", "workers", "device", "gap", "output", "picture", "preset", "config", "extension", "dram", "kernels",
    "threads", "extent",
)  # fmt: skip
"""Options without a meaning for a grid, by their destination."""


def add_grid_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of runs on a grid."""
    group = parser.add_argument_group("options of kernels on a GPU (--target opencl or cuda)")
    text = "measured seconds of the device, or modelled cycles (default measured)"
    add_options(group, {"--costs KIND": text}, choices=COSTS)
    add_options(group, {"--dtype DTYPE": "the element type of an operator (default float32)"})


def refuse_grid_options(arguments: argparse.Namespace) -> None:
    """Refuse what has no meaning without a grid."""
    given_with_target(arguments, ("costs", "dtype"), "be opencl or cuda")


def is_grid(target: str | None) -> bool:
    """Whether a target is a device that runs grids of threads."""
    return target is not None and target.partition(":")[0] in TARGETS


def run_grid(arguments: argparse.Namespace) -> int:
    """Tune, then show the best tiles beside the default ones."""
    from vdla.runtime.tune.grid_runs import tune_grid

    _check(arguments)
    function = _function(arguments)
    with progress(f"tune {arguments.operator}") as show:
        tuned = tune_grid(
            function,
            arguments.log,
            target=arguments.target,
            costs=arguments.costs or COSTS[0],
            trials=arguments.trials,
            search=arguments.search,
            prior=arguments.prior,
            seed=arguments.seed,
            timeout_s=float(arguments.timeout),
            progress=show,
        )
    if not write_json(arguments.json, _to_dict(tuned)):
        _show(arguments, tuned)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go with the target before the work starts."""
    refuse("tune", arguments, _UNUSED, f"with --target {arguments.target}", default="sim")
    check_search(arguments)
    require_folders("tune", arguments, "log", "json")


def _function(arguments: argparse.Namespace) -> ir.Function:
    """The function of an operator, or what a function of the user's file returns."""
    from vdla.commands.named_operators import named_operator, refuse_shape, returned_by
    from vdla.compiler import ir
    from vdla.compiler.codegen.ptx.architectures import target_of
    from vdla.compiler.target import PTX_ARCHITECTURES

    name = arguments.operator
    if ".py" not in name:
        # As `vdla native` builds it, so that the log serves both.
        target = target_of(PTX_ARCHITECTURES[0]) if arguments.target.partition(":")[0] == "cuda" else None
        build = named_operator("tune", name, arguments.shape, others=" or FILE.py:NAME")
        return build(arguments.dtype or "float32", target)
    refuse_shape("tune", name, arguments.shape, "a function")
    refuse(f"tune {name}", arguments, ["dtype"], "for a function")
    _, function = returned_by("tune", name)
    if not isinstance(function, ir.Function):
        rule = "the function must return that of te.create_function with --target"
        raise CommandError(f"{name}: {rule} {arguments.target}, got {type(function).__name__}")
    return function


def _to_dict(tuned: TunedGrid) -> dict[str, Any]:
    """What came of a run, as JSON-compatible values."""
    return {
        "function": tuned.task.name,
        "key": tuned.task.key,
        "device": tuned.task.limits.name,
        "block": tuned.task.block,
        "space": tuned.task.space.size,
        "trials": len(tuned.report.trials),
        "reused": tuned.report.reused,
        "failed": tuned.report.failed,
        "unit": tuned.unit,
        "default": dict(tuned.task.default),
        "default_cost": tuned.default_cost,
        "point": dict(tuned.point),
        "cost": tuned.cost,
        "speedup": tuned.speedup,
    }


def _show(arguments: argparse.Namespace, tuned: TunedGrid) -> None:
    """The best tiles beside the default ones, and how to use them."""
    task, report = tuned.task, tuned.report
    failed = f", {report.failed:,} failed" * bool(report.failed)
    space = f"{len(report.trials):,} of {task.space.size:,} points{failed}"
    output().print(f"{task.block} of {task.name} on {task.limits.name}: {space}\n", soft_wrap=True)
    listing = table("", "", "default", "best")
    is_time = tuned.unit == "seconds"
    costs = (f"{1e6 * c:,.1f}" if is_time else f"{c:,.0f}" for c in (tuned.default_cost, tuned.cost))
    listing.add_row("us" if is_time else f"modelled {tuned.unit}", *costs)
    for knob, value in tuned.point.items():
        listing.add_row(knob.replace("_", " "), str(task.default[knob]), str(value))
    output().print(listing)
    use = f"vdla.compile(..., {arguments.target!r}, tuned={str(arguments.log)!r})"
    output().print(f"\n{arguments.log}: every trial; {use} uses the best", soft_wrap=True)
