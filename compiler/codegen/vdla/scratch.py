"""Scratch tensors in one: the intermediate tensors of a chain share memory.

Live ranges are positions in program order, from the first STORE to the last LOAD. Where a tensor
takes the place of a dead one, the ordinary dependences between beats of one tensor let its STOREs
wait for the LOADs before them, and the verifier sees one tensor and checks every beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vdla.compiler.codegen.vdla.macro_op import MacroOp
from vdla.compiler.codegen.vdla.macro_ops import MacroOps
from vdla.compiler.memory_plan import ValueLife, plan_memory
from vdla.hardware.config import Config
from vdla.hardware.program import ProgramTensor
from vdla.hardware.timing import PAGE_BYTES

SCRATCH = "scratch"


def share_scratch(
    config: Config, ops: MacroOps, tensors: Sequence[ProgramTensor]
) -> tuple[MacroOps, list[ProgramTensor]]:
    """The operations on one scratch tensor in place of several, and all tensors.

    Each scratch tensor begins at a page, as tensors of their own do: bursts are cut as before.
    """
    scratch = {tensor.name: tensor for tensor in tensors if tensor.role == "scratch"}
    if len(scratch) < 2:
        return ops, list(tensors)
    lives = _lives(ops, scratch)
    plan = plan_memory((ValueLife(name, scratch[name].nbytes, *life) for name, life in lives.items()), PAGE_BYTES)
    shared = _shared_tensor([tensor.name for tensor in tensors], plan.arena_bytes)
    beats = {name: offset // config.axi_bytes for name, offset in plan.offsets.items()}
    moved = np.array([beats.get(form.tensor or "", 0) for form in ops.forms], np.int64)

    def renamed(op: MacroOp) -> MacroOp:
        return replace(op, tensor=shared.name) if op.tensor in scratch else op

    changed = replace(ops.map(renamed), dram=ops.dram + moved[ops.form])
    return changed, [*(tensor for tensor in tensors if tensor.name not in scratch), shared]


def _lives(ops: MacroOps, names: dict[str, ProgramTensor]) -> dict[str, tuple[int, int]]:
    """The first and the last operation on each tensor."""
    found: dict[str, tuple[int, int]] = {}
    for form, first, last in zip(ops.forms, ops.first.tolist(), ops.last.tolist(), strict=True):
        if form.tensor in names and last >= 0:
            low, high = found.get(form.tensor, (first, last))
            found[form.tensor] = min(low, first), max(high, last)
    return found


def _shared_tensor(names: Sequence[str], nbytes: int) -> ProgramTensor:
    name = SCRATCH
    while name in names:
        name += "_"
    return ProgramTensor(name=name, role="scratch", shape=(nbytes,), dtype="int8", layout="", nbytes=nbytes)
