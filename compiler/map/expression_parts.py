"""The parts of a plain expression: sums, their epilogue, and a choice of its elements."""

from __future__ import annotations

from vdla.compiler import ir, te
from vdla.compiler.te import Stage


def viewed(output: te.Tensor) -> tuple[te.Tensor, te.Tensor | None]:
    """(result, view): the result that `output` has elements of, None where it is one itself."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and isinstance(stage.value.expr, ir.Load):
        source, *others = stage.reads  # others are read where an index depends on data
        if source.stage is not None and not others:
            return source, output
    return output, None


def sums_of(output: te.Tensor) -> te.Tensor:
    """The sums of a result: itself where it has 32 bits, or what its epilogue reads."""
    stage = output.stage
    if isinstance(stage, Stage) and stage.reduction is None and output.dtype != "int32":
        computed = [tensor for tensor in stage.reads if tensor.stage is not None]
        if len(computed) == 1:
            return computed[0]
    return output
