"""`vdla tune OPERATOR --target opencl`: the tiles of an operator on a GPU, measured or modelled.

A device runs one trial at a time, in a process that a driver may crash.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folder
from vdla.commands.tune_search import check_search
from vdla.support.atomic import write_text

if TYPE_CHECKING:
    from vdla.compiler import ir
    from vdla.runtime.tune.grid_runs import TunedGrid

TARGETS = ("opencl", "cuda")
COSTS = ("measured", "modelled")
_UNUSED: dict[str, object] = {
    "calibration": None, "workers": "", "device": "sim", "output": None, "picture": None, "preset": None,
    "config": None, "extension": [], "dram": [], "kernels": None, "threads": None, "extent": None,
}  # fmt: skip
"""Options without a meaning for a grid by their destination, with their defaults."""


def add_grid_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of runs on a grid."""
    group = parser.add_argument_group("options of kernels on a GPU (--target opencl or cuda)")
    text = "measured seconds of the device, or modelled cycles (default measured)"
    group.add_argument("--costs", choices=COSTS, metavar="KIND", help=text)
    group.add_argument("--dtype", metavar="DTYPE", help="the element type of an operator (default float32)")


def refuse_grid_options(arguments: argparse.Namespace) -> None:
    """Refuse what has no meaning without a grid."""
    for name in ("costs", "dtype"):
        if value := getattr(arguments, name):
            got = arguments.target or "none"
            raise CommandError(f"tune: --target must be opencl or cuda with --{name} {value}, got {got}")


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
    text = json.dumps(_to_dict(tuned), indent=2) + "\n"
    if arguments.json == "-":
        print(text, end="")
        return OK
    if arguments.json:
        write_text(Path(arguments.json), text)
    _show(arguments, tuned)
    return OK


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go with the target before the work starts."""
    for name, default in _UNUSED.items():
        value = getattr(arguments, name)
        if value != default:
            shown = " ".join(map(str, value)) if isinstance(value, list) else value
            raise CommandError(f"tune: --{name} must be left out with --target {arguments.target}, got {shown}")
    check_search(arguments)
    for option in ("log", "json"):
        path = getattr(arguments, option)
        if path not in (None, "-"):
            require_folder("tune", f"--{option}", Path(path))


def _function(arguments: argparse.Namespace) -> ir.Function:
    """The function of an operator, or what a function of the user's file returns."""
    from vdla.commands.cpu_operators import named_operator
    from vdla.commands.plain_expressions import returned_by
    from vdla.compiler import ir
    from vdla.compiler.codegen.ptx.architectures import target_of
    from vdla.compiler.target import PTX_ARCHITECTURES

    name = arguments.operator
    if ".py" not in name:
        # As `vdla native` builds it, so that the log serves both.
        target = target_of(PTX_ARCHITECTURES[0]) if arguments.target.partition(":")[0] == "cuda" else None
        build = named_operator("tune", name, arguments.shape, others=" or FILE.py:NAME")
        return build(arguments.dtype or "float32", target)
    if arguments.shape:
        raise CommandError(f"tune {name}: --shape must be left out for a function, got {arguments.shape[0]}")
    if arguments.dtype:
        raise CommandError(f"tune {name}: --dtype must be left out for a function, got {arguments.dtype}")
    _, found = returned_by("tune", name)
    if not isinstance(found, ir.Function):
        rule = "the function must return that of te.create_function with --target"
        raise CommandError(f"{name}: {rule} {arguments.target}, got {type(found).__name__}")
    return found


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
