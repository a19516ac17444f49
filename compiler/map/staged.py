"""Which expressions can send their results through the stage of a machine."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.codegen.vdla.intrinsics.stage_intrinsic import stage_intrinsic
from vdla.compiler.map.expression_parts import looked_up, sums_of, viewed
from vdla.compiler.map.table import tables_of
from vdla.compiler.te import Stage
from vdla.compiler.tensorize import IntrinsicError
from vdla.hardware.config import Config


def why_not_staged(output: te.Tensor, config: Config) -> str:
    """Why no mapping of an expression uses the stage of a machine; empty where one can."""
    assert config.stage is not None, "a machine with a stage"
    name = config.stage.name
    try:
        tables = len(stage_intrinsic(config).tables)
    except IntrinsicError as error:
        return str(error)
    if tables != 1:
        return f"stage {name} must have one table for the mapper to use it, got {tables or 'none'}"
    if not _is_looked_up(output):
        return f"results must be looked up in a table to go through stage {name}, got none that are"
    return ""


def _is_looked_up(output: te.Tensor) -> bool:
    result = looked_up(viewed(output)[0])
    return sums_of(result) is not result and isinstance(result.stage, Stage) and bool(tables_of(result.stage))
