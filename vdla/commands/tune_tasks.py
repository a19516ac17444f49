"""What `vdla tune` works on: operators by name, functions of a file, the operators of a model."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.calibration import calibration_data
from vdla.commands.console import progress
from vdla.commands.machine_options import machine, with_dram
from vdla.commands.plain_expressions import definition_of, definitions, expression_of_file
from vdla.commands.templates import from_settings, from_workload, templates
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.compiler import te
    from vdla.compiler.operators.vdla import Operator
    from vdla.compiler.tune import VdlaTask
    from vdla.hardware.config import Config
    from vdla.hardware.program import Program

_THREADS = 2
_CHOSEN = ("tiling", "virtual_threads")  # by the tuner


@dataclass(frozen=True, slots=True)
class TunedOperator:
    """An operator to tune: its task, and the bound on its cycles if known.

    `untuned` gives the program without tuning, and the cycles of the host that count with it.
    `count` is how often a model has it; `use` says how to use the best, with `{log}`.
    """

    task: VdlaTask
    untuned: Callable[[], tuple[Program, float]]
    bound_cycles: int | None = None
    count: int = 1
    use: str = "vdla compile OPERATOR --tuned {log}"


def operator_to_tune(arguments: argparse.Namespace) -> TunedOperator:
    """The operator that the command line names."""
    from vdla.compiler.operators.workload_bound import bound
    from vdla.compiler.operators.workloads import workload, workloads

    name, config = arguments.operator, with_dram(machine(arguments), arguments.dram)
    if ".py" in name:
        return _of_expression(*expression_of_file("tune", name), config)
    if name in templates():
        return _of_template(from_settings("tune", name, config, arguments.shape, _THREADS))
    if name in definitions():
        return _of_expression(name, definition_of("tune", name, arguments.shape).output, config)
    if name.upper() not in workloads():
        known = operator_names()
        choices = f"{', '.join(known)}, FILE.py:NAME or MODEL.onnx"
        raise CommandError(f"tune: operator must be one of {choices}, got {name}{did_you_mean(name, known)}")
    if arguments.shape:
        raise CommandError(f"tune {name}: --shape must be left out for a named layer, got {arguments.shape[0]}")
    layer = workload(name)
    return _of_template(from_workload(layer, config, _THREADS), bound(layer, config).cycles)


def operator_names() -> list[str]:
    """The templates, the definitions that no template is named after, and the layers."""
    from vdla.compiler.operators.workloads import workloads

    return list(dict.fromkeys([*templates(), *definitions(), *workloads()]))


def _of_template(operator: Operator, bound_cycles: int | None = None) -> TunedOperator:
    from vdla.compiler.tune import template_task

    assert operator.origin is not None  # a template made it
    options = {key: value for key, value in operator.origin.options.items() if key not in _CHOSEN}
    task = template_task(operator.origin.template, operator.config, **{**options, "name": operator.name})
    return TunedOperator(task, lambda: (operator.program, 0.0), bound_cycles)


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
    if arguments.shape:
        raise CommandError(f"tune {source.name}: --shape must be left out for a model, got {arguments.shape[0]}")
    data = None if arguments.calibration is None else [calibration_data(file) for file in arguments.calibration]
    config = with_dram(machine(arguments), arguments.dram)
    with progress(f"compile {source.name}") as show, chosen_options(calls.options):
        compile_network(source, config, calibration=data, progress=show)
    if not calls.found:
        raise CommandError(f"tune {source.name}: the accelerator must run an operator, got none; vdla compile says why")
    return list(calls.found.values())


@dataclass(slots=True)
class TemplateCalls:
    """The calls of templates while a model is compiled; equal operators are one."""

    found: dict[str, TunedOperator] = field(default_factory=dict)

    def options(self, template: Callable[..., Operator], config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
        """Notes a call and changes nothing, as `chosen_options` takes it."""
        from vdla.compiler.tune import template_task

        if options.get("tiling") is None:
            given = {key: value for key, value in options.items() if key not in _CHOSEN}
            task = replace(template_task(template, config, **given), name=_label(template, options))
            known = self.found.get(task.key)
            count = 1 if known is None else known.count + 1
            self.found[task.key] = TunedOperator(task, lambda: (template(config, **options).program, 0.0), count=count)
        return {}


def _label(template: Callable[..., Operator], options: Mapping[str, Any]) -> str:
    """The template and its extents, which tell the operators of a model apart."""
    channels = [options[key] for key in ("in_channels", "channels", "out_channels") if key in options]
    extents = [options[key] for key in ("height", "width") if key in options]
    kernel = options.get("kernel", 1)
    taps = [str(kernel)] if isinstance(kernel, int) else [*map(str, kernel)]
    words = [template.__name__, "x".join(taps) if "kernel" in options else "", ">".join(map(str, channels))]
    return " ".join(filter(None, [*words, "x".join(map(str, extents))]))
