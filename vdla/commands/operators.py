"""The compiler's templates as the command line sees them: by name, with options read from their signatures.

A new template appears here by being a public function of `vdla.compiler.templates` that returns an Operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.machine import integer, key_and_value

if TYPE_CHECKING:
    from vdla.benchmarks.workloads import Workload
    from vdla.compiler.templates.operator import Operator
    from vdla.hardware.config import Config

Template = Callable[..., "Operator"]


def templates() -> dict[str, Template]:
    """Every operator template by name."""
    from vdla.compiler import templates as package

    public = {name: getattr(package, name) for name in sorted(vars(package)) if not name.startswith("_")}
    return {name: item for name, item in public.items() if inspect.isfunction(item) and _returns_operator(item)}


def _returns_operator(function: Callable[..., Any]) -> bool:
    returned = inspect.signature(function).return_annotation
    return "Operator" in (returned, getattr(returned, "__name__", ""))


def options(template: Template) -> dict[str, inspect.Parameter]:
    """What a template wants to know beside the machine."""
    parameters = inspect.signature(template).parameters
    return {name: parameter for name, parameter in parameters.items() if name != "config"}


def from_settings(name: str, config: Config, settings: list[str]) -> Operator:
    """The operator of a template with options as KEY=VALUE words."""
    template = templates()[name]
    known = options(template)
    values = dict(_value(name, known, setting) for setting in settings)
    missing = [key for key, option in known.items() if option.default is option.empty and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"compile {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    return template(config, **values)


def _value(name: str, known: Mapping[str, inspect.Parameter], setting: str) -> tuple[str, int | str | bool]:
    key, text = key_and_value("--shape", setting)
    if key not in known:
        raise CommandError(f"compile {name}: key must be one of {', '.join(known)}, got {key}")
    default = known[key].default
    if isinstance(default, bool):
        return key, _boolean(f"compile {name}: {key}", text)
    return key, text if isinstance(default, str) else integer(f"compile {name}: {key}", text)


def _boolean(where: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise CommandError(f"{where} must be yes or no, got {text!r}")
    return text == "yes"


def from_workload(layer: Workload, config: Config, **others: object) -> Operator:
    """The operator of a named workload."""
    template = templates()[layer.operator]
    known = options(template)
    values = {**asdict(layer), "channels": layer.in_channels, **others}
    return template(config, **{key: value for key, value in values.items() if key in known and key != "name"})
