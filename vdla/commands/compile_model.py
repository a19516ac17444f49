# SPDX-License-Identifier: Apache-2.0
"""`vdla compile MODEL.onnx`: a network as one file, and a table of where its operators went."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import OK, CommandError
from vdla.commands.console import listing, output, progress
from vdla.commands.files import calibration_data, require_folder
from vdla.commands.machine_options import DEFAULT_PRESET, integer, name_and_value, read_config, with_extensions
from vdla.commands.model_shapes import shapes_of
from vdla.commands.options import add_options, given, refuse
from vdla.hardware.config import PRESETS
from vdla.support.suggest import did_you_mean, one_of

if TYPE_CHECKING:
    from vdla.compiler.graph import Graph
    from vdla.hardware.config import Config
    from vdla.runtime.executor.model import Model
    from vdla.runtime.tune.best import TunedSchedules


@contextmanager
def best_known(source: str | None) -> Iterator[TunedSchedules]:
    """A context in which templates take them; without a source, none."""
    from vdla.compiler.operators.vdla.operator import chosen_options
    from vdla.runtime.tune.best import TunedSchedules
    from vdla.runtime.tune.log import TrialIndex

    schedules = TunedSchedules(TrialIndex()) if source is None else TunedSchedules.of(source)
    with chosen_options(schedules.options if source is not None else None):
        yield schedules


FOR_OPERATORS = ("schedule",)
"""Options that a model does not have, by their destination."""
FOR_MODELS = (
    "target", "cpu", "gpu", "calibration", "method", "float", "place", "extent", "expressions",
    "print_after",
)  # fmt: skip
"""Options that an operator does not have."""


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of models; none has a default, so that those given for an operator are seen."""
    options = {
        "--target NAME": f"a machine, a CPU, opencl[:NAME] or cuda[:NAME] (default {DEFAULT_PRESET})",
        "--cpu NAME": "the CPU beside the machine: board, or a name (default host)",
        "--gpu NAME": "a GPU beside the machine or CPU: opencl[:NAME] or cuda[:NAME]",
        "--calibration FILE...": "quantise a float model: .npy of one input, or .npz of inputs by name",
        "--method NAME": "auto (default), minmax, percentile, mse or entropy",
        "--float NODE...": "layers that stay float, on the CPU",
        "--place NODE=DEVICE...": "put nodes on cpu, gpu or vdla",
        "--extent NAME=N,......": "numbers for symbols in shapes: batch=1,8",
        "--expressions": "keep what the programs must compute, weights included, for vdla certify",
        "--print-after PASS": "print the graph after a pass, or after all",
    }
    add_options(parser.add_argument_group("options of models"), options, default=None)


def compile_model(arguments: argparse.Namespace) -> int:
    """Compile, write the file, say where everything runs."""
    from vdla.runtime.network.kept_models import kept_or_compiled

    refuse("compile", arguments, FOR_OPERATORS, "for a model")
    if arguments.preset and arguments.target:
        raise CommandError(f"compile: --preset must be left out with --target, got {arguments.preset}")
    arguments.target = arguments.target or arguments.preset
    _check_options(arguments)
    source = Path(arguments.operator)
    path = Path(arguments.output or source.with_suffix(".vdla").name)
    require_folder("compile", "--output", path)
    data = None if arguments.calibration is None else [calibration_data(file) for file in arguments.calibration]
    with progress(f"compile {source.name}") as show, best_known(arguments.tuned) as schedules:
        model = kept_or_compiled(
            source,
            _target(arguments),
            cpu=arguments.cpu,
            gpu=arguments.gpu,
            extents=_extents(arguments.extent or ()),
            shapes=shapes_of("compile", arguments.shape),
            place=_by_name("--place", arguments.place or ()),
            calibration=data,
            method=arguments.method,
            keep_float=arguments.float,
            observe=_printer(arguments.print_after),
            certify=False if arguments.no_certificate else None,
            progress=show,
            kernel_points=partial(schedules.kernel_point, threads=arguments.threads or 1) if arguments.tuned else None,
        )
        show("write", 1, 1)
        (model.with_expressions() if arguments.expressions else model).save(path)
    _show(model, path)
    if arguments.tuned:
        print(f"{len(schedules.used)} operators with their best schedule in {arguments.tuned}")
    _warn_of_floats(model, arguments)
    return OK


def _warn_of_floats(model: Model, arguments: argparse.Namespace) -> None:
    """Say in the last line that a machine has nothing to do, and what to do about it."""
    target = _target(arguments)
    if (isinstance(target, str) and target not in PRESETS) or model.artifact.programs or arguments.calibration:
        return
    machine = target if isinstance(target, str) else target.name
    output().print(
        f"Nothing is quantised, so nothing runs on {machine}: --calibration DATA.npy, with inputs as the model takes "
        "them, quantises it. --target host compiles for the CPU alone.",
        soft_wrap=True,
    )


def _check_options(arguments: argparse.Namespace) -> None:
    """Refuse options that need another one, or exclude it, before the work starts."""
    from vdla.runtime.network.compile_network import PASSES

    if arguments.config and arguments.target:
        raise CommandError(f"compile: --target must be left out with --config, got {arguments.target}")
    if arguments.threads and not arguments.tuned:
        raise CommandError(f"compile: --tuned must be given with --threads {arguments.threads} of a model, got none")
    for option, value in given(arguments, ("method", "float")) if arguments.calibration is None else ():
        raise CommandError(f"compile: --calibration must be given with {option} {value}, got none")
    chosen, passes = arguments.print_after, (*PASSES, "all")
    if chosen is not None and chosen not in passes:
        raise CommandError(f"compile: --print-after must be {one_of(chosen, passes)}")


def _target(arguments: argparse.Namespace) -> Config | str:
    """The target; a machine with its extensions."""
    target = read_config(arguments.config) if arguments.config else arguments.target or DEFAULT_PRESET
    if not arguments.extension:
        return target
    if isinstance(target, str) and target not in PRESETS:
        rule = f"--target must be a machine ({', '.join(PRESETS)}) with --extension {arguments.extension[0]}"
        raise CommandError(f"compile: {rule}, got {target}{did_you_mean(target, PRESETS)}")
    return with_extensions(PRESETS[target] if isinstance(target, str) else target, arguments.extension)


def _extents(settings: Sequence[str]) -> dict[str, list[int]]:
    """Numbers by symbol."""
    extents: dict[str, list[int]] = {}
    for name, text in _by_name("--extent", settings).items():
        extents[name] = [integer(f"compile: --extent: {name}", number) for number in text.split(",")]
        if min(extents[name]) < 0:
            raise CommandError(f"compile: --extent: {name} must be at least 0, got {text}")
    return extents


def _by_name(option: str, settings: Sequence[str]) -> dict[str, str]:
    """The values of NAME=VALUE words, each name once."""
    values: dict[str, str] = {}
    for setting in settings:
        name, value = name_and_value(option, setting)
        if name in values:
            raise CommandError(f"compile: {option}: {name} must be given once, got it twice")
        values[name] = value
    return values


def _printer(chosen: str | None) -> Callable[[str, Graph, Graph], None] | None:
    """An observer of the passes that prints graphs."""
    if chosen is None:
        return None

    def show(name: str, before: Graph, after: Graph) -> None:
        from vdla.compiler.graph.passes import changes

        if chosen in (name, "all"):
            print(f"--- {name}: {changes(before, after)}\n{after}\n")

    return show


def _verdict(model: Model) -> Iterator[str]:
    """What is proven of the programs, in one line, if there are any."""
    certificate = model.artifact.certificate
    if certificate is None:  # as was asked for
        return
    if certificate.holds:
        took = "" if model.certify_seconds is None else f" in {model.certify_seconds:.1f} s"
        yield f"verified, certified{took}: certificate {certificate.hash}"
    else:
        yield f"verified, {certificate.summary}"


def _show(model: Model, path: Path) -> None:
    from vdla.commands.placement_tables import device_table, sentence, why_cpu

    console: Any = output()
    console.print(listing(device_table(model.artifact)))
    console.print()
    console.print(sentence(model.artifact), soft_wrap=True)
    if not model.artifact.programs:
        for line in why_cpu(model.artifact):
            console.print(f"  {line}", soft_wrap=True)
    for line in _verdict(model):
        console.print(line, soft_wrap=True)
    size = path.stat().st_size
    console.print(f"{path}: {len(model.artifact.plan.steps)} steps, {size:,} bytes", soft_wrap=True)
