"""The intrinsic of a declared step: its operands are those of the declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from vdla.compiler.codegen.vdla import ComputeFields, fold_compute
from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.nest import TensorizedNest
from vdla.compiler.extensions.extension import Extension
from vdla.compiler.tensorize import Intrinsic
from vdla.hardware import isa
from vdla.hardware.config import Config

Make = Callable[[Config, dict[str, Any]], isa.Instruction]
"""From a machine, and the fields of loops, micro-ops and immediates, to an instruction of it."""


def step_intrinsic(declared: Extension, config: Config, make: Make, **more: Any) -> Intrinsic:  # noqa: ANN401
    """The intrinsic of a step that computes an accumulator entry, without private state.

    `more` are further arguments of `Intrinsic`.

    Raises:
        IntrinsicError: an index of an operand is neither one axis nor depends on data.
        ExtensionError: the declaration does not fit the machine.
    """
    assert declared.output is not None, "a step without an output has no intrinsic"
    ports = declared.operands(config)
    src, wgt = (port.operand if port else "" for port in (ports.src, ports.wgt))
    operands = ComputeFields(declared.output.name, src, wgt)

    def lower(nest: TensorizedNest) -> Iterator[MacroOp]:
        own = {name: int(value) for name, value in nest.match.immediates.items()}
        return fold_compute(nest, operands, lambda fields: make(nest.config, {**fields, **own}))

    return Intrinsic(
        name=declared.name,
        output=declared.output,
        scopes={name: scope for name, scope in declared.scopes.items() if isinstance(scope, str)},
        lower=lower,
        in_place=declared.in_place,
        **more,
    )
