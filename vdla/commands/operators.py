"""The compiler's templates as the command line sees them: by name, with options read from their signatures.

A new template appears here by being a public function of a module of `vdla.compiler.operators.vdla` that returns an
Operator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.machine import integer, key_and_value

if TYPE_CHECKING:
    from vdla.compiler.operators.vdla.operator import Operator
    from vdla.compiler.operators.workloads import Workload
    from vdla.hardware.config import Config

Template = Callable[..., "Operator"]

# Said by options of their own, or by nothing that fits KEY=VALUE.
NOT_IN_WORDS = ("config", "virtual_threads", "name", "tiling", "factors", "input_zero_points")


def templates() -> dict[str, Template]:
    """Every operator template by name."""
    from vdla.compiler.operators import vdla as package

    modules = [import_module(f"{package.__name__}.{info.name}") for info in iter_modules(package.__path__)]
    functions = [item for module in modules for item in vars(module).values() if inspect.isfunction(item)]
    chosen = {item.__name__: item for item in functions if _is_template(item)}
    return dict(sorted(chosen.items()))


def _is_template(function: Callable[..., Any]) -> bool:
    signature = inspect.signature(function)
    returned = getattr(signature.return_annotation, "__name__", signature.return_annotation)
    public = not function.__name__.startswith("_") and "config" in signature.parameters
    return public and returned == "Operator"


def options(template: Template) -> dict[str, inspect.Parameter]:
    """What a template wants to know beside the machine."""
    parameters = inspect.signature(template).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in NOT_IN_WORDS}


def from_settings(name: str, config: Config, settings: list[str], threads: int) -> Operator:
    """The operator of a template with options as KEY=VALUE words."""
    template = templates()[name]
    known = options(template)
    values: dict[str, object] = {"batch": 1} if "batch" in known else {}
    given = [_value(name, known, setting) for setting in settings]
    for key, _ in given:
        if [other for other, _ in given].count(key) > 1:
            raise CommandError(f"compile {name}: {key} must be given once, got it twice")
    values |= dict(given)
    missing = [key for key, option in known.items() if option.default is option.empty and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"compile {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    return template(config, **values, virtual_threads=threads)


def _value(name: str, known: Mapping[str, inspect.Parameter], setting: str) -> tuple[str, object]:
    key, text = key_and_value("--shape", setting)
    if key not in known:
        raise CommandError(f"compile {name}: key must be one of {', '.join(known)}, got {key}")
    where, option = f"compile {name}: {key}", known[key]
    if isinstance(option.default, bool):
        return key, _boolean(where, text)
    if option.annotation in (str, "str"):
        return key, text
    if "Pair" in str(option.annotation) and "x" in text:
        return key, tuple(integer(where, part) for part in text.split("x"))
    return key, integer(where, text)


def _boolean(where: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise CommandError(f"{where} must be yes or no, got {text!r}")
    return text == "yes"


def from_workload(layer: Workload, config: Config, threads: int) -> Operator:
    """The operator of a named workload."""
    template = templates()[layer.operator]
    known = options(template)
    values = {key: value for key, value in {**asdict(layer), "channels": layer.in_channels}.items() if key in known}
    return template(config, name=layer.name, **values, virtual_threads=threads)
