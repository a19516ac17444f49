"""The datapath of an extension: its SystemVerilog, read from the user's file or from one beside it.

Here the text is found; `hardware/generate/datapath_ports.py` says which ports it must have.
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from vdla.compiler import te
from vdla.compiler.extensions.errors import ExtensionError
from vdla.compiler.te import Stage
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_header import check_header
from vdla.hardware.isa import Datapath, PlugInUnit

_SUFFIX = ".sv"


def read_datapath(
    where: str, place: str, given: str | PathLike[str] | None, output: te.Tensor | None
) -> Datapath | None:
    """The datapath that a declaration at `place` (`file:line`) gives; None if it gives none.

    ExtensionError where it is a file that cannot be read.
    """
    if given is None:
        return None
    reducer = reducer_of(output)
    if isinstance(given, str) and not given.rstrip().endswith(_SUFFIX):
        return Datapath(given, place, reducer)
    path = Path(place.rpartition(":")[0]).parent / given
    try:
        return Datapath(path.read_text(encoding="utf-8"), str(path), reducer)
    except (OSError, UnicodeDecodeError) as error:
        rule = f"datapath must be SystemVerilog text, or a readable file that ends in {_SUFFIX}"
        raise ExtensionError(f"{where}: {rule}, got {given} ({type(error).__name__})") from None


def check_datapath(config: Config, unit: PlugInUnit) -> None:
    """ExtensionError, with the line, unless a datapath has the ports that it must have."""
    if unit.datapath is None:
        return
    try:
        check_header(config, unit)
    except ConfigError as error:
        raise ExtensionError(str(error)) from None


def reducer_of(output: te.Tensor | None) -> str:
    """How a step's result is added to the accumulator; "" where it is not."""
    stage = None if output is None else output.stage
    return stage.reduction.reducer.name if isinstance(stage, Stage) and stage.reduction is not None else ""
