"""Kernels: what a function launches on a GPU, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vdla.compiler import ir
from vdla.compiler.arith import last_value, scalar_ranges
from vdla.compiler.ir import BLOCK_AXES, THREAD_AXES, GridKernel
from vdla.compiler.lowering.grids import accessed_buffers, axis_of, without_allocs
from vdla.compiler.lowering.scope import Scope
from vdla.compiler.lowering.simplify import simplify_stmt


def split_kernels(fn: ir.Function, warp: int = 1) -> tuple[GridKernel, ...]:
    """The launches of a lowered function, `fn` as `form_grids` leaves it, for warps of that size.

    A parameter of a kernel that is none of `fn` is a temporary, which a launch before has written.
    """
    nests = launches(fn)
    names = [f"{fn.name}_{n}" for n in range(len(nests))] if len(nests) > 1 else [fn.name]
    return tuple(kernel_of(fn, nest, name, warp) for nest, name in zip(nests, names, strict=True))


def launches(fn: ir.Function) -> tuple[ir.Stmt, ...]:
    """The launches of a function, in order."""
    body = fn.body.body if isinstance(fn.body, ir.Alloc) and _is_global(fn, fn.body) else fn.body
    return body.stmts if isinstance(body, ir.Seq) else (body,)


def with_launches(fn: ir.Function, bodies: Sequence[ir.Stmt]) -> ir.Function:
    """`fn` with what a thread does in each launch replaced."""
    body = ir.seq(*(_with_body(fn, nest, new) for nest, new in zip(launches(fn), bodies, strict=True)))
    held = isinstance(fn.body, ir.Alloc) and _is_global(fn, fn.body)
    return replace(fn, body=replace(fn.body, body=body) if held and isinstance(fn.body, ir.Alloc) else body)


def _is_global(fn: ir.Function, held: ir.Alloc) -> bool:
    """Whether an allocation is of temporaries between kernels."""
    return all(fn.buffers[name].scope == "global" for name in held.buffers)


def kernel_of(fn: ir.Function, nest: ir.Stmt, name: str, warp: int) -> GridKernel:
    """A launch as a kernel."""
    used = accessed_buffers(nest)
    extents: dict[str, ir.Extent] = {}
    body = nest
    while _is_header(fn, body):
        assert isinstance(body, ir.For | ir.Alloc)
        if isinstance(body, ir.For):
            extents[body.var] = body.extent
        body = body.body
    return GridKernel(
        name=name,
        grid=(extents.get(BLOCK_AXES[0], 1), extents.get(BLOCK_AXES[1], 1), extents.get(BLOCK_AXES[2], 1)),
        block=(_threads(extents, 0), _threads(extents, 1), _threads(extents, 2)),
        params=tuple(b for b in fn.buffers if b in used and fn.buffers[b].scope not in ("shared", "local")),
        buffers={b: buffer for b, buffer in fn.buffers.items() if b in used},
        body=body,
        scalars=fn.scalars,
        warp=warp,
    )


def simplify_launches(fn: ir.Function) -> ir.Function:
    """`fn` with what a thread does in each launch simplified, without the buffers that it no longer
    uses; the loops over the grid stay."""
    bodies = []
    for nest in launches(fn):
        kernel = kernel_of(fn, nest, fn.name, 1)
        scalars = scalar_ranges(fn)
        axes = {axis: (0, last_value(extent, scalars)) for axis, extent in kernel.extents.items()}
        body = simplify_stmt(kernel.body, Scope({**scalars, **axes}))
        bodies.append(without_allocs(body, fn.buffers.keys() - set(accessed_buffers(body))))
    return with_launches(fn, bodies)


def _with_body(fn: ir.Function, nest: ir.Stmt, body: ir.Stmt) -> ir.Stmt:
    """A launch with what a thread does replaced."""
    if not _is_header(fn, nest):
        return body
    return ir.with_children(nest, tuple(_with_body(fn, child, body) for child in ir.children(nest)))


def _is_header(fn: ir.Function, stmt: ir.Stmt) -> bool:
    """Whether a statement is a loop over an axis of the grid, or holds the shared buffers."""
    match stmt:
        case ir.For(var=var):
            return var == axis_of(stmt)
        case ir.Alloc(buffers=buffers):
            return all(fn.buffers[name].scope == "shared" for name in buffers)
    return False


def _threads(extents: dict[str, ir.Extent], dimension: int) -> int:
    """The threads of a block along one axis."""
    axis = THREAD_AXES[dimension]
    return ir.number(extents.get(axis, 1), axis)
