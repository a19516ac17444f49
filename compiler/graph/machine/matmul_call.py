"""Products of two activations on the accelerator.

Zero points cost more terms of each sum for the second factor, and sums of the columns of the second
factor, which the host adds, for the first one (`product_layouts.py`).
"""

from __future__ import annotations

from math import prod

from vdla.compiler import templates
from vdla.compiler.graph.machine.call import MachineNode, OperatorCall, made
from vdla.compiler.graph.machine.errors import decline
from vdla.compiler.graph.machine.packing import Channels, InputLayout, PackedLayout
from vdla.compiler.graph.machine.product_layouts import FactorLayout, LanesLayout, row_terms
from vdla.compiler.operators.vdla.roles import DATA, OTHER, SCALE
from vdla.hardware.numerics import pack_scale, scale_from_float


def matmul(at: MachineNode) -> OperatorCall:
    """[..., rows, depth] times [..., depth, columns]."""
    (a, b), config = at.node.inputs[:2], at.config
    left, right = at.shape(a), at.shape(b)
    if left[:-2] != right[:-2]:
        decline(f"have factors of the same batch dimensions, got {list(left[:-2])} and {list(right[:-2])}")
    if config.wgt_dtype != config.inp_dtype:
        decline(f"be for a machine whose weights are {config.inp_dtype} like its activations, got {config.wgt_dtype}")
    *batch, rows, depth = left
    terms = row_terms(at.options["b_zero_point"], depth)
    wide = depth + (terms.count + 1 if terms else 0)
    operator = templates.batched_matmul(
        config, batch=prod(batch), rows=rows, depth=wide, columns=right[-1], **at.results
    )
    data = PackedLayout(Channels.MATRICES, (*batch, rows, wide), config.batch, config.block_in, conversion=terms)
    inputs: dict[str, tuple[str, InputLayout]] = {
        DATA: (a, data),
        OTHER: (b, FactorLayout(right, config.block_in, config.block_out, terms)),
    }
    constants = operator.pack_constants(multiplier=float(at.multiplier[0]))
    if at.options["a_zero_point"]:
        inputs[SCALE] = b, _lanes(at, right)
        del constants[SCALE]
    return made(operator, inputs, constants, at.result(Channels.MATRICES))


def _lanes(at: MachineNode, shape: tuple[int, ...]) -> LanesLayout:
    """The scale with the share of the first factor's zero point."""
    first, second = at.options["a_zero_point"], at.options["b_zero_point"]
    lane = int(pack_scale(0, *scale_from_float(float(at.multiplier[0]))))
    return LanesLayout(shape, at.config.block_out, -first, first * second * shape[-2], lane)
