"""Correlation of two feature maps at every displacement, as networks for optical flow have it."""

from __future__ import annotations

from vdla.compiler import te
from vdla.compiler.operators.definitions.definition import Definition, product, require_extents, with_options


@with_options
def correlation(
    *, batch: int, channels: int, height: int, width: int, reach: int, dtype: str = "int8", weight_dtype: str = "int8"
) -> Definition:
    """The product of every pixel's channels with those of each pixel up to `reach` - 1 further down
    and to the right: [batch, reach, reach, height, width].

    The second map is larger than the first by `reach` - 1 rows and columns.
    """
    require_extents("correlation", batch=batch, channels=channels, height=height, width=width, reach=reach)
    first = te.placeholder((batch, channels, height, width), dtype, "first")
    second = te.placeholder((batch, channels, height + reach - 1, width + reach - 1), weight_dtype, "second")
    c = te.reduce_axis(channels, "c")
    sums = te.compute(
        (batch, reach, reach, height, width),
        lambda n, v, u, y, x: te.sum(product(first[n, c, y, x], second[n, c, y + v, x + u]), axis=c),
        "sums",
    )
    return Definition("correlation", (first, second), sums)
