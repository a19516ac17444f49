"""Windows: entries that start anywhere along the first dimension of a buffer, such as the
neighbours of a pixel.

The index in the behaviour is a sum of axes, `o * 2 + i`. The index in the block must be the same
sum of the block's axes plus a term that is constant inside the tensorized loop: the start of the
window.
"""

from __future__ import annotations

from collections.abc import Mapping

from vdla.compiler import ir
from vdla.compiler.arith import Linear, linear, var_names


def window_start(
    pattern: ir.Expr, target: ir.Expr, axes: dict[str, str], inner: Mapping[str, int], extents: Mapping[str, int]
) -> ir.Expr | None:
    """The start of the window that `target` accesses; None if it does not match `pattern`.

    `axes` maps axes of the intrinsic to axes of the block and is extended; `inner` has the extents
    of the block's axes inside the tensorized loop, `extents` those of the intrinsic's axes.
    """
    form, rest = linear(pattern), linear(target) + Linear({}, -linear(pattern).const)
    for term, factor in form.terms.items():
        if not isinstance(term, ir.Var):
            return None
        own = axes.get(term.name) or _partner(rest, factor, extents[term.name], axes, inner)
        if own is None and extents[term.name] == 1:
            continue
        if own is None or rest.terms.get(ir.Var(own)) != factor:
            return None
        axes[term.name] = own
        rest = rest + Linear({ir.Var(own): -factor})
    moving = {name for part in rest.terms for name in var_names(part) if inner.get(name, 1) > 1}
    return None if moving else rest.expr()


def _partner(rest: Linear, factor: int, extent: int, axes: Mapping[str, str], inner: Mapping[str, int]) -> str | None:
    """A free block axis of the same extent and stride."""
    free = (name for name in inner if name not in axes.values() and inner[name] == extent)
    return next((name for name in free if rest.terms.get(ir.Var(name)) == factor), None)
