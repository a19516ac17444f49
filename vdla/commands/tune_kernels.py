# SPDX-License-Identifier: Apache-2.0
"""`vdla tune MODEL.onnx --target CPU`: the kernels of a model, or an operator's, on this CPU.

Trials are CPU times, so one process measures at a time, and options of machines have no meaning.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import output, progress, table
from vdla.commands.files import require_folders, write_json
from vdla.commands.machine_options import integer, name_and_value
from vdla.commands.model_shapes import shapes_of
from vdla.commands.options import add_options, refuse
from vdla.commands.search_options import check_search, given_with_target
from vdla.support.file_kind import MODEL_SUFFIXES

if TYPE_CHECKING:
    from vdla.runtime.tune.kernel_runs import TunedKernel

_FOR_KERNELS = ("extent", "kernels", "threads")
_FOR_NETWORKS = ("extent", "kernels")
_FOR_MACHINES = (
    "calibration", "workers", "device", "gap", "output", "picture", "preset", "config", "extension", "dram",
)  # fmt: skip
"""Options of the other kind of run, by their destination."""


def add_kernel_arguments(parser: argparse.ArgumentParser) -> None:
    """--target, and the options of its runs."""
    group = parser.add_argument_group("options of kernels on a CPU")
    add_options(
        group,
        {
            "--target NAME": "tune kernels on this CPU: host, or its name; or opencl, cuda",
            "--kernels N": "the N with most multiply-adds (default all)",
            "--threads N": "threads that a kernel runs on (default 1)",
        },
    )
    group.add_argument("--extent", nargs="+", metavar="NAME=N", help="numbers for symbols in shapes: batch=1")


def refuse_kernel_options(arguments: argparse.Namespace) -> None:
    """Refuse options of kernels without --target."""
    given_with_target(arguments, _FOR_KERNELS, "be given")


def run_kernels(arguments: argparse.Namespace) -> int:
    """Tune, then show which schedules were confirmed."""
    _check(arguments)
    kernels = _tuned_model(arguments) if _is_model(arguments) else _tuned_operator(arguments)
    if not write_json(arguments.json, {"kernels": [_row(item) for item in kernels]}):
        _show(arguments, kernels)
    return OK


def _is_model(arguments: argparse.Namespace) -> bool:
    return bool(arguments.operator.lower().endswith(MODEL_SUFFIXES))


def _tuned_model(arguments: argparse.Namespace) -> list[TunedKernel]:
    """The kernels of a model, those of most multiply-adds first."""
    from vdla.runtime.tune.network_kernels import tune_kernels

    with progress(f"tune {Path(arguments.operator).name}") as show:
        return tune_kernels(
            arguments.operator,
            arguments.log,
            cpu=arguments.target,
            extents=_extents(arguments.extent or ()),
            shapes=shapes_of("tune", arguments.shape),
            trials=arguments.trials,
            most=arguments.kernels,
            search=arguments.search,
            prior=arguments.prior,
            threads=arguments.threads or 1,
            seed=arguments.seed,
            timeout_s=float(arguments.timeout),
            progress=show,
        )


def _tuned_operator(arguments: argparse.Namespace) -> list[TunedKernel]:
    """The kernel of an operator of `vdla native`."""
    from vdla.commands.named_operators import named_operator
    from vdla.compiler.target import Target
    from vdla.compiler.tune import function_task
    from vdla.runtime.tune.kernel_runs import KernelOptions, NetworkKernel, tune_into
    from vdla.runtime.tune.log import read_logs

    target, name = Target.named(arguments.target), arguments.operator
    build = named_operator("tune", name, arguments.shape, others=" or MODEL.onnx with --target")
    task = function_task(build("float32", target), target, name, arguments.threads or 1)
    options = KernelOptions(
        trials=arguments.trials,
        search=arguments.search,
        seed=arguments.seed,
        timeout_s=float(arguments.timeout),
        prior=read_logs(*arguments.prior) if arguments.prior else None,
    )
    with progress("tune") as show:
        return tune_into(arguments.log, [NetworkKernel(task, 1, task.macs)], options, show)


def _check(arguments: argparse.Namespace) -> None:
    """Refuse what does not go with --target before the work starts."""
    from vdla.hardware.config import PRESETS

    if not _is_model(arguments):
        refuse("tune", arguments, _FOR_NETWORKS, "for an operator")
    if arguments.target in PRESETS:
        raise CommandError(f"tune: --target must be a CPU, got {arguments.target}; --preset names a machine")
    refuse("tune", arguments, _FOR_MACHINES, "with --target", default="sim")
    check_search(arguments)
    require_folders("tune", arguments, "log", "json")


def _extents(settings: Sequence[str]) -> dict[str, int]:
    pairs = (name_and_value("--extent", setting) for setting in settings)
    return {name: integer(f"tune: --extent: {name}", text) for name, text in pairs}


def _row(tuned: TunedKernel) -> dict[str, Any]:
    """A kernel and the outcome of its tuning, as JSON-compatible values."""
    task, schedule = tuned.kernel.task, tuned.schedule
    return {
        "kernel": task.name,
        "key": task.key,
        "uses": tuned.kernel.uses,
        "macs": tuned.kernel.macs,
        "space": task.space.size,
        "trials": len(tuned.report.trials),
        "reused": tuned.report.reused,
        "failed": tuned.report.failed,
        "default_seconds": schedule.default_seconds,
        "seconds": schedule.seconds,
        "speedup": tuned.speedup,
        "point": dict(schedule.point),
        "changed": task.changes(schedule.point),
    }


def _show(arguments: argparse.Namespace, kernels: Sequence[TunedKernel]) -> None:
    """A line for each kernel, and the times of all uses."""
    if not kernels:
        output().print(f"{arguments.operator}: no kernel multiplies, so there is nothing to tune")
        return
    listing = table("kernels", "kernel", "times", "space", "trials", "default us", "tuned us", "speedup", "changed")
    for row in map(_row, kernels):
        changed = ", ".join(f"{name} {values}" for name, values in row["changed"].items())
        listing.add_row(
            row["kernel"],
            str(row["uses"]),
            f"{row['space']:,}",
            f"{row['trials']:,}",
            f"{1e6 * row['default_seconds']:,.1f}",
            f"{1e6 * row['seconds']:,.1f}",
            f"{row['speedup']:.3f}",
            changed or "nothing",
        )
    listing.columns[-1].justify, listing.columns[-1].no_wrap = "left", False
    output().print(listing)
    default, tuned = (
        1e3 * sum(kernel.kernel.uses * seconds for kernel, seconds in zip(kernels, times, strict=True))
        for times in ([e.schedule.default_seconds for e in kernels], [e.schedule.seconds for e in kernels])
    )
    output().print(f"\nin sum {default:,.3f} ms with default schedules, {tuned:,.3f} ms with those of the log")
    words = ["native", arguments.operator, *(["--shape", *arguments.shape] if arguments.shape else [])]
    words[0] = "compile" if _is_model(arguments) else words[0]
    threads = f" --threads {arguments.threads}" if (arguments.threads or 1) > 1 else ""
    use = f"vdla {' '.join(words)} --target {arguments.target} --tuned {arguments.log}{threads}"
    output().print(f"\n{arguments.log}: every trial; {use} uses what was confirmed", soft_wrap=True)
