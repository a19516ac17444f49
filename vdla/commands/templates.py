"""The templates as the command line sees them: by name, with options read from their signatures."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.machine_options import integer, key_and_value
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.compiler.operators.vdla import Operator
    from vdla.compiler.operators.workloads import Workload
    from vdla.hardware.config import Config

Template = Callable[..., "Operator"]

# Set by options of their own, or not of the form KEY=VALUE.
_NO_KEYS = ("config", "virtual_threads", "name", "tiling", "factors", "input_zero_points")
_DEFAULTS: Mapping[str, object] = {"batch": 1}  # of the command line, where the template has none
CHOICES = {"kind": "max|average", "activation": "none|relu", "packing": "auto|channels|patches"}


def templates() -> dict[str, Template]:
    """Every template by name."""
    from vdla.compiler import templates as room

    exported = {name: getattr(room, name) for name in room.__all__}
    return {name: item for name, item in exported.items() if inspect.isfunction(item) and _gives_operator(item)}


def _gives_operator(function: Callable[..., Any]) -> bool:
    returned = inspect.signature(function).return_annotation
    return str(getattr(returned, "__name__", returned)) == "Operator"


def keys(template: Template) -> dict[str, object]:
    """The keys of --shape that a template takes, with their defaults or `Parameter.empty`."""
    return {name: _DEFAULTS.get(name, parameter.default) for name, parameter in _parameters(template).items()}


def _parameters(template: Template) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(template).parameters
    return {name: parameter for name, parameter in parameters.items() if name not in _NO_KEYS}


def described(template: Template) -> tuple[list[str], list[str]]:
    """The keys of a template as they are written: the required ones, the others in brackets."""
    required, optional = [], []
    for key, default in keys(template).items():
        if default is inspect.Parameter.empty:
            required.append(f"{key}={CHOICES.get(key, 'N')}")
        else:
            optional.append(f"[{key}={CHOICES.get(key) or _default(default)}]")
    return required, optional


def _default(value: object) -> str:
    if isinstance(value, bool):
        return "yes|no" if value else "no|yes"
    return "N" if value is None else str(value)


def from_settings(command: str, name: str, config: Config, settings: list[str], threads: int) -> Operator:
    """The operator of a template with options as KEY=VALUE words."""
    template = templates()[name]
    values: dict[str, object] = {}
    for setting in settings:
        key, value = _setting(f"{command} {name}", _parameters(template), setting)
        if key in values:
            raise CommandError(f"{command} {name}: {key} must be given once, got it twice")
        values[key] = value
    defaults = keys(template)
    missing = [key for key, default in defaults.items() if default is inspect.Parameter.empty and key not in values]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"{command} {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    own = {key: default for key, default in _DEFAULTS.items() if key in defaults}
    return template(config, **{**own, **values}, virtual_threads=threads)


def _setting(where: str, known: Mapping[str, inspect.Parameter], setting: str) -> tuple[str, object]:
    """The key and the value of a KEY=VALUE word, converted to the type of the option."""
    key, text = key_and_value("--shape", setting)
    if key not in known:
        raise CommandError(f"{where}: key must be one of {', '.join(known)}, got {key}{did_you_mean(key, known)}")
    option = known[key]
    if isinstance(option.default, bool):
        return key, _boolean(f"{where}: {key}", text)
    if option.annotation in (str, "str"):
        return key, text
    if "Pair" in str(option.annotation) and "x" in text:
        return key, _integers(f"{where}: {key}", text)
    return key, integer(f"{where}: {key}", text)


def _integers(where: str, text: str) -> tuple[int, ...]:
    """The integers of HxW or TOPxLEFTxBOTTOMxRIGHT."""
    try:
        return tuple(int(part) for part in text.split("x"))
    except ValueError:
        raise CommandError(f"{where} must be integers joined by x, got {text!r}") from None


def _boolean(where: str, text: str) -> bool:
    if text not in ("yes", "no"):
        raise CommandError(f"{where} must be yes or no, got {text!r}")
    return text == "yes"


def from_workload(layer: Workload, config: Config, threads: int) -> Operator:
    """The operator of a named workload."""
    template = templates()[layer.operator]
    known = _parameters(template)
    values = {key: value for key, value in {**asdict(layer), "channels": layer.in_channels}.items() if key in known}
    return template(config, name=layer.name, **values, virtual_threads=threads)


def virtual_threads(operator: Operator) -> int:
    """The virtual threads that an operator runs with."""
    from vdla.compiler import ir

    loops = [stmt for stmt in ir.walk(operator.function.body) if isinstance(stmt, ir.For)]
    return max((int(loop.size) for loop in loops if loop.kind is ir.LoopKind.VTHREAD), default=1)
