"""The results of a template as a plain expression: raw sums, or sums requantised."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions import requantised_by
from vdla.compiler.operators.vdla.results import Classes, Results


def plain_result(
    results: Results, sums: te.Tensor, extents: tuple[int, ...] = (), classes: Classes = lambda i: ()
) -> te.Tensor:
    """The results of plain sums [N, C, ...].

    `extents` are the numbers of classes of positions with lanes of their own, `classes` the class
    of a position.
    """
    if results.raw:
        return sums
    _, output = requantised_by(
        sums,
        (sums.shape[1], *extents),
        lambda i: (i[1], *classes(i)),
        results.config.out_dtype,
        results.zero_point,
        results.bounds,
    )
    return output
