# SPDX-License-Identifier: Apache-2.0
"""From a scheduled, tensorized function to a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vdla.compiler import ir
from vdla.compiler.codegen.vdla.assemble import assemble
from vdla.compiler.codegen.vdla.lower import lower
from vdla.compiler.codegen.vdla.program_tensors import tensor_of
from vdla.compiler.codegen.vdla.skip_padding import skip_padding
from vdla.compiler.codegen.vdla.state_loads import skip_reloads
from vdla.compiler.codegen.vdla.strips import in_strips
from vdla.compiler.codegen.vdla.tiles import LoweringError
from vdla.compiler.ir import INTEGER_BITS, function_lines, output_names
from vdla.compiler.tensorize import GLOBAL
from vdla.hardware.config import Config
from vdla.hardware.program import Program


def compile_function(
    config: Config, fn: ir.Function, weights: tuple[str, ...] = (), layouts: Mapping[str, str] | None = None
) -> Program:
    """The program of a function whose blocks are all tensorized.

    `weights` names the inputs that stay the same from run to run; `layouts` describes the
    dimensions of parameters. A buffer in `global` scope that is not a parameter becomes a scratch
    tensor, which the device allocates.

    Raises:
        LoweringError, AllocationError, UopError, IsaError: the schedule does not fit this machine.
            The message names the block, buffer or instruction.
    """
    _check(config, fn)
    outputs = output_names(fn)
    layouts = {} if layouts is None else layouts
    if not isinstance(layouts, Mapping):
        raise LoweringError(f"compile_function: layouts must be a mapping of names, got {layouts!r}")
    _check_weights(fn, weights, [name for name in fn.params if name not in outputs])
    roles = dict.fromkeys(fn.params, "input") | dict.fromkeys(weights, "weight") | dict.fromkeys(outputs, "output")
    roles |= {name: "scratch" for name, b in fn.buffers.items() if b.scope == GLOBAL and name not in fn.params}
    for name in roles:
        _check_elements(fn.buffers[name])
    macro_ops = in_strips(config, fn, skip_reloads(lower(config, fn)))
    tensors = [tensor_of(name, fn.buffers[name], role, layouts.get(name, "")) for name, role in roles.items()]
    lines = tuple(line.text for line in function_lines(fn))
    return assemble(config, fn.name, skip_padding(config, macro_ops), tensors, lines)


def _check(config: Config, fn: ir.Function) -> None:
    if not isinstance(config, Config):
        raise LoweringError(f"compile_function: config must be a Config, got {type(config).__name__}")
    if not isinstance(fn, ir.Function):
        raise LoweringError(f"compile_function: fn must be a Function, as of schedule.fn, got {type(fn).__name__}")


def _check_weights(fn: ir.Function, weights: Sequence[str], inputs: Sequence[str]) -> None:
    """Reject names that are not inputs, and a lone string."""
    if isinstance(weights, str) or not isinstance(weights, Sequence):
        raise LoweringError(f"compile_function: weights must be a sequence of names, got {weights!r}")
    for name in weights:
        if name not in inputs:
            raise LoweringError(f"compile_function: weights of {fn.name} must be of {', '.join(inputs)}, got {name!r}")


def _check_elements(buffer: ir.Buffer) -> None:
    if buffer.dtype not in INTEGER_BITS:
        raise LoweringError(f"compile_function: elements of {buffer.name} must be integers, got {buffer.dtype}")
