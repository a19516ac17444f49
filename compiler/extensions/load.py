"""Loading of extensions: from a file, an entry point or a function; and machines that have them.

An error in a user's file is reported with the line of that file on which it arose.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from os import PathLike
from pathlib import Path
from types import CodeType
from typing import Any, cast

from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.extensions.extension import Extension
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.extensions import loaded, register
from vdla.hardware.isa import PlugIn
from vdla.support.errors import Error

ENTRY_POINTS = "vdla.extensions"
Declaration = Callable[[Config], Extension]
Source = str | PathLike[str] | Declaration


def extend(config: Config, *sources: Source) -> Config:
    """`config` with the instructions of extensions besides those that it has; each source is a
    file, the name of an entry point, or a function `declare(config)`.

    ExtensionError where a declaration contradicts itself or does not fit the machine.
    """
    plain = replace(config, extensions=())
    made = [load_extension(source).plug_in(plain) for source in sources]
    try:
        return replace(config, extensions=(*config.extensions, *made))
    except ConfigError as error:
        place = f"{made[-1].place}: " if made else ""
        raise ExtensionError(f"{place}{error}") from None


@dataclass(frozen=True, slots=True)
class LoadedExtension:
    """An extension of this process; `declare` is a user's function."""

    declare: Declaration

    def extension(self, config: Config) -> Extension:
        """The declaration for a plain configuration; ExtensionError with the line of its fault."""
        made = _guarded(self.declare, config)
        if not isinstance(made, Extension):
            place = f"{self.declare.__code__.co_filename}:{self.declare.__code__.co_firstlineno}"
            raise ExtensionError(f"{place}: declare must return a vdla.Extension, got {made!r}")
        return made

    def plug_in(self, config: Config) -> PlugIn:
        """What a machine knows of it."""
        return self.extension(config).plug_in(config)


def load_extension(source: Source) -> LoadedExtension:
    """Make an extension known to this process, which can then read what names it: programs and
    configurations.
    """
    found = LoadedExtension(source if callable(source) else _declaration(str(source)))
    register(source if callable(source) else str(source), found.plug_in)
    return found


def extension_of(config: Config, plug_in: PlugIn) -> Extension:
    """The declaration of a plug-in of a machine; ExtensionError where it is not loaded here."""
    plain = replace(config, extensions=())
    for declare in loaded():
        owner = getattr(declare, "__self__", None)
        try:
            extension = owner.extension(plain) if isinstance(owner, LoadedExtension) else None
            if extension is not None and extension.name == plug_in.name and extension.plug_in(plain) == plug_in:
                return extension
        except ExtensionError:  # another extension, which this machine cannot have
            continue
    rule = "must be loaded, with vdla.load_extension or --extension FILE"
    raise ExtensionError(f"{plug_in.place}: extension {plug_in.label} {rule}")


def _declaration(source: str) -> Declaration:
    """The function `declare` of a file, or that of the entry point of this name."""
    for entry in entry_points(group=ENTRY_POINTS, name=source):
        return _of_entry_point(entry)
    path = Path(source)
    if path.suffix != ".py":
        names = ", ".join(sorted(entry.name for entry in entry_points(group=ENTRY_POINTS))) or "none"
        raise ExtensionError(f"extension: source must be a file that ends in .py or one of {names}, got {source}")
    if not path.is_file():
        raise ExtensionError(f"extension: source must be a readable file, got {source}")
    module = _guarded(_module, path)
    if not callable(getattr(module, "declare", None)):
        raise ExtensionError(f"{source}:1: file must have a function declare(config), got none")
    return cast("Declaration", module.declare)


def _of_entry_point(entry: EntryPoint) -> Declaration:
    """The function of an entry point, whose package is a user's."""
    where = f"extension {entry.name}: entry point {entry.value}"
    try:
        declare = entry.load()
    except Exception as error:
        raise ExtensionError(f"{where} must load, got {type(error).__name__}: {error}") from error
    if not callable(declare):
        raise ExtensionError(f"{where} must be a function declare(config), got {declare!r}")
    return cast("Declaration", declare)


def _module(path: Path) -> Any:  # noqa: ANN401  a module with names of the user's
    spec = importlib.util.spec_from_file_location(f"vdla_extension_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a path that ends in .py has a loader"
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _guarded(run: Callable[[Any], Any], argument: Any) -> Any:  # noqa: ANN401  of a file or a configuration
    """The result of a user's code; its exceptions become an ExtensionError with the line."""
    home = str(argument) if isinstance(argument, Path) else _file_of(run)
    try:
        return run(argument)
    except ExtensionError:
        raise
    except SyntaxError as error:
        raise ExtensionError(f"{error.filename}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == home]
        text = str(error) if isinstance(error, Error) else f"{type(error).__name__}: {error}"
        raise ExtensionError(f"{home}:{lines[-1] if lines else 1}: {text}") from error


def _file_of(run: Callable[[Any], Any]) -> str:
    code: CodeType | None = getattr(run, "__code__", None)
    return code.co_filename if code is not None else "extension"
