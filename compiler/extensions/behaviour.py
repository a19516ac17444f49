# SPDX-License-Identifier: Apache-2.0
"""Behaviours of steps as loop nests, and what every behaviour must be: integers in single steps."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from vdla.compiler import ir, te
from vdla.compiler.extensions.state import ExtensionError
from vdla.compiler.ir import INTEGER_BITS
from vdla.compiler.te import Stage
from vdla.hardware.config import Config, ConfigError
from vdla.hardware.generate.datapath_header import check_source
from vdla.hardware.isa import Datapath, PlugInUnit


def single_stage(where: str, what: str, tensor: te.Tensor | None) -> Stage:
    """The stage of an output; ExtensionError unless it is one `te.compute` over placeholders."""
    stage = tensor.stage if isinstance(tensor, te.Tensor) else None
    if not isinstance(stage, Stage) or len(stage.names) != 1:
        raise ExtensionError(f"{where}: {what} must be the one tensor of a te.compute, got {tensor!r}")
    computed = ", ".join(tensor.name for tensor in stage.reads if tensor.stage is not None)
    if computed:
        rule = "behaviour must be a single te.compute over placeholders"
        raise ExtensionError(f"{where}: {rule}, got {computed}; compute it inside the expression")
    return stage


def behaviour_of(outputs: Sequence[te.Tensor], name: str) -> ir.Function:
    """The function of outputs: the placeholders that they read first, then the outputs."""
    reads = {id(read): read for tensor in outputs if tensor.stage is not None for read in tensor.stage.reads}
    return te.create_function(list(reads.values()), list(outputs), name)


def check_behaviour(where: str, behaviour: ir.Function) -> None:
    """Refuse a behaviour with symbols, or with values other than integers that fit int64."""
    if behaviour.scalars:
        raise ExtensionError(f"{where}: behaviour must have numbers for extents, got {', '.join(behaviour.scalars)}")
    stores = list(ir.find(behaviour.body, ir.Store))
    for dtype in (ir.dtype_of(e, behaviour.buffers) for store in stores for e in ir.walk_expr(store.value)):
        if dtype != "bool" and (dtype not in INTEGER_BITS or dtype == "uint64"):
            raise ExtensionError(f"{where}: behaviour must compute with integers of at most int64, got {dtype}")


def vanishes(expr: ir.Expr, operand: str) -> bool:
    """Whether a value is seen to be 0 wherever all elements of an operand are."""
    match expr:
        case ir.Load(buffer=buffer):
            return buffer == operand
        case ir.Const(value=value):
            return value == 0
        case ir.Cast(value=value):
            return vanishes(value, operand)
        case ir.Call(name="abs" | "popcount", args=(value,)):
            return vanishes(value, operand)
        case ir.Binary(op="mul" | "and", a=a, b=b):
            return vanishes(a, operand) or vanishes(b, operand)
        case ir.Binary(op="shl" | "shr" | "floordiv" | "mod", a=a):
            return vanishes(a, operand)
        case ir.Binary(op="add" | "sub" | "or" | "xor" | "min" | "max", a=a, b=b) | ir.Select(a=a, b=b):
            return vanishes(a, operand) and vanishes(b, operand)
    return False


# --- datapaths ------------------------------------------------------------------------------------

_SUFFIX = ".sv"
_DATAPATH_RULE = f"datapath must be SystemVerilog text, or a readable file that ends in {_SUFFIX}"


def read_datapath(
    where: str, place: str, given: str | PathLike[str] | None, output: te.Tensor | None
) -> Datapath | None:
    """The datapath that a declaration at `place` (`file:line`) gives; None if it gives none.

    ExtensionError where it is a file that cannot be read.
    """
    if given is None:
        return None
    if not isinstance(given, str | PathLike):
        raise ExtensionError(f"{where}: {_DATAPATH_RULE}, got {given!r}")
    reducer = reducer_of(output)
    if isinstance(given, str) and not given.rstrip().endswith(_SUFFIX):
        if "module" not in given:
            raise ExtensionError(f"{where}: {_DATAPATH_RULE}, got {given!r}")
        return Datapath(given, place, reducer)
    path = Path(place.rpartition(":")[0]).parent / given
    try:
        return Datapath(path.read_text(encoding="utf-8"), str(path), reducer)
    except (OSError, UnicodeDecodeError) as error:
        raise ExtensionError(f"{where}: {_DATAPATH_RULE}, got {given} ({type(error).__name__})") from None


def check_datapath(config: Config, unit: PlugInUnit) -> None:
    """ExtensionError, with the line, where a datapath has other ports or a fault that is seen."""
    if unit.datapath is None:
        return
    try:
        check_source(config, unit)
    except ConfigError as error:
        place = f"{unit.parts[0].place}: " if str(error).startswith("extension ") else ""
        raise ExtensionError(f"{place}{error}") from None


def reducer_of(output: te.Tensor | None) -> str:
    """How a step's result is added to the accumulator; "" where it is not."""
    stage = None if output is None else output.stage
    return stage.reduction.reducer.name if isinstance(stage, Stage) and stage.reduction is not None else ""
