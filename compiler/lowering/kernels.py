"""Kernels: what a function launches on a GPU, one after another."""

from __future__ import annotations

from vdla.compiler import ir
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, GridKernel
from vdla.compiler.lowering.grids import accessed_buffers, axis_of


def split_kernels(fn: ir.Function) -> tuple[GridKernel, ...]:
    """The launches of a lowered function: `fn` as `form_grids` leaves it.

    A parameter of a kernel that is none of `fn` is a temporary, which a launch before has written.
    """
    body = fn.body.body if isinstance(fn.body, ir.Alloc) and _is_global(fn, fn.body) else fn.body
    nests = body.stmts if isinstance(body, ir.Seq) else (body,)
    return tuple(_kernel(fn, nest, f"{fn.name}_{n}" if len(nests) > 1 else fn.name) for n, nest in enumerate(nests))


def _is_global(fn: ir.Function, held: ir.Alloc) -> bool:
    """Whether an allocation is of temporaries between kernels."""
    return all(fn.buffers[name].scope == "global" for name in held.buffers)


def _kernel(fn: ir.Function, nest: ir.Stmt, name: str) -> GridKernel:
    """A nest as a kernel."""
    used = accessed_buffers(nest)
    extents: dict[str, ir.Extent] = {}
    body = nest
    while True:
        match body:
            case ir.For() if (axis := axis_of(body)) == body.var and axis:
                extents[axis] = body.extent
            case ir.Alloc(buffers=buffers) if all(fn.buffers[b].scope == "shared" for b in buffers):
                pass
            case _:
                break
        body = body.body
    return GridKernel(
        name=name,
        grid=(extents.get(BLOCK_AXES[0], 1), extents.get(BLOCK_AXES[1], 1), extents.get(BLOCK_AXES[2], 1)),
        block=(_threads(extents, 0), _threads(extents, 1), _threads(extents, 2)),
        params=tuple(b for b in fn.buffers if b in used and fn.buffers[b].scope not in ("shared", "local")),
        buffers={b: buffer for b, buffer in fn.buffers.items() if b in used},
        body=body,
        scalars=fn.scalars,
    )


def _threads(extents: dict[str, ir.Extent], dimension: int) -> int:
    """The threads of a block along one axis."""
    axis = THREAD_AXES[dimension]
    return ir.number(extents.get(axis, 1), axis)
