"""The check that a nest tensorized for the accelerator stays a step of its intrinsic under later
primitives.

A nest tensorized for a CPU may change: lowering matches it anew, and runs it as plain loops if it
is no longer a step.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.analysis.errors import ScheduleError
from vdla.compiler.analysis.tree import tree_of
from vdla.compiler.ir import Match
from vdla.compiler.tensorize import TensorizeError, match_block, perfect_nest

Step = tuple[ir.For | None, tuple[ir.Buffer | None, ...]]
"""The nest of a tensorized block (None: no loop is marked) and the buffers of its match."""
CheckedSteps = Mapping[str, Step]


def check_tensorized(fn: ir.Function, where: str, known: CheckedSteps) -> CheckedSteps:
    """Refuse `fn` if a nest tensorized for the accelerator is no longer what was matched.

    `known` has the nest and the buffers of each step checked so far; a step whose nest and buffers
    are the same objects is not checked again. The result is that of `fn`.
    """
    steps = steps_of(fn)
    for name, (match, step) in steps.items():
        if name in known and _same(known[name], step):
            continue
        if step[0] is None or not _still_matches(fn, step[0], match):
            rule = f"{name} must stay a step of {match.intrinsic.name}, as it was tensorized"
            raise ScheduleError(f"{where}: {rule}, got another nest; tensorize it last")
    return {name: step for name, (_, step) in steps.items()}


def steps_of(fn: ir.Function) -> dict[str, tuple[Match, Step]]:
    """The blocks tensorized for the accelerator, in program order."""
    tree, found = tree_of(fn.body), dict[str, tuple[Match, Step]]()
    for name, block in tree.blocks.items():
        match: Match | None = block.annotations.get("intrinsic")
        if match is not None and match.intrinsic.target == "vdla":
            around = tree.path(tree.block_at[name])
            nest = next((stmt for stmt in around if isinstance(stmt, ir.For) and "tensorize" in stmt.annotations), None)
            found[block.name] = match, (nest, tuple(fn.buffers.get(name) for name in match.buffers.values()))
    return found


def _same(old: Step, new: Step) -> bool:
    """Whether the nests and the buffers are the same objects."""
    return old[0] is new[0] is not None and all(a is b for a, b in zip(old[1], new[1], strict=True))


def _still_matches(fn: ir.Function, nest: ir.For, match: Match) -> bool:
    """Whether a nest is what was matched."""
    try:
        block, loops = perfect_nest(nest, match.intrinsic)
        now = match_block(fn, block, loops, match.intrinsic)
    except TensorizeError:
        return False
    parts = [(m.buffers, m.entries, m.immediates, m.conditions) for m in (now, match)]
    return parts[0] == parts[1]
