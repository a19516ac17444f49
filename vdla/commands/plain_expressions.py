"""Plain tensor expressions on the command line: definitions by name, functions of a user's file."""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vdla.commands import CommandError
from vdla.commands.machine_options import integer, key_and_value
from vdla.support.suggest import did_you_mean

if TYPE_CHECKING:
    from vdla.compiler.operators.definitions import Definition

_BATCH = {"batch": 1}  # of the command line, where the definition has no default


def definitions() -> dict[str, Callable[..., Definition]]:
    """Every definition by name."""
    from vdla.compiler.operators import definitions as room

    exported = [getattr(room, name) for name in room.__all__]
    functions = {f.__name__: inspect.signature(f) for f in exported if inspect.isfunction(f)}
    own = [name for name, signature in functions.items() if str(signature.return_annotation) == "Definition"]
    return {name: getattr(room, name) for name in own if name != room.of_workload.__name__}


def definition_of(command: str, name: str, settings: Sequence[str]) -> Definition:
    """A definition with options as KEY=VALUE words."""
    define = definitions()[name]
    options = inspect.signature(define).parameters
    known = [key for key in options if "dtype" not in key]
    values: dict[str, Any] = {}
    for setting in settings:
        key, text = key_and_value("--shape", setting)
        if key not in known:
            hint = did_you_mean(key, known)
            raise CommandError(f"{command} {name}: key must be one of {', '.join(known)}, got {key}{hint}")
        values[key] = _value(f"{command} {name}: {key}", options[key], text)
    missing = [k for k, p in options.items() if p.default is p.empty and k not in {**_BATCH, **values}]
    if missing:
        example = " ".join(f"{key}=N" for key in missing)
        raise CommandError(f"{command} {name}: shape must give {', '.join(missing)}, got none (--shape {example})")
    own = {key: value for key, value in _BATCH.items() if key in options}
    return define(**{**own, **values})


def _value(where: str, option: inspect.Parameter, text: str) -> Any:  # noqa: ANN401  of the option
    if option.annotation == "str":
        return text
    if isinstance(option.default, bool):
        if text not in ("yes", "no"):
            raise CommandError(f"{where} must be yes or no, got {text!r}")
        return text == "yes"
    if "Sequence" in str(option.annotation):
        parts = tuple(integer(where, part) for part in text.split("x"))
        return parts[0] if len(parts) == 1 and "int |" in str(option.annotation) else parts
    return integer(where, text)


def expression_of_file(command: str, where: str) -> tuple[str, Any]:
    """The tensor that a function of the user's file returns."""
    from vdla.compiler import te

    name, tensor = returned_by(command, where)
    if not isinstance(tensor, te.Tensor):
        raise CommandError(f"{where}: the function must return a tensor, got {tensor!r}")
    return name, tensor


def returned_by(command: str, where: str) -> tuple[str, Any]:
    """The name of a function of the user's file, and what it returns."""
    path, _, name = where.partition(":")
    if not name:
        raise CommandError(
            f"{command}: FILE.py must be followed by the name of a function, as {path}:NAME, got {where}"
        )
    if not Path(path).is_file():
        raise CommandError(f"{path}: file must exist, got none")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        function = getattr(module, name, None)
        returned = function() if callable(function) else None
    except Exception as error:
        raise CommandError(f"{where}: the file must run without errors, got {type(error).__name__}: {error}") from error
    if not callable(function):
        raise CommandError(f"{path}: {name} must be a function, got {'none' if function is None else repr(function)}")
    return name, returned
