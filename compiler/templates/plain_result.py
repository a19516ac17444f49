"""The results of a template as a plain expression: raw sums, or sums requantised."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions import requantised_by
from vdla.compiler.operators.vdla.results import Classes, Results


def plain_result(
    results: Results,
    sums: te.Tensor,
    extents: tuple[int, ...] = (),
    classes: Classes = lambda i: (),
    channels: tuple[int, ...] = (1,),
) -> te.Tensor:
    """The results of plain sums [N, C, ...].

    `channels` are the axes whose elements have lanes of their own; `extents` are the numbers of
    classes of positions that have, `classes` the class of a position.
    """
    if results.raw:
        return sums
    _, output = requantised_by(
        sums,
        (*(sums.shape[axis] for axis in channels), *extents),
        lambda i: (*(i[axis] for axis in channels), *classes(i)),
        results.config.out_dtype,
        results.zero_point,
        results.bounds,
    )
    return output
